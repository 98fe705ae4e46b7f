"""Ranks of a distributed training: their start, rendezvous and collectives."""
