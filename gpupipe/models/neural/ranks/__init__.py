"""Ranks of distributed training: start, rendezvous and collectives."""
