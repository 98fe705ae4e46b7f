"""Evaluation of a model in use: metrics by period where labels are known, and estimates of them where they are not."""
