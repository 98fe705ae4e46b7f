"""Seeded generator of churn data: customers, their events and their churn labels."""

from gpupipe.datasets.churn.generator import customer_batches, customers, events, write

__all__ = ["customer_batches", "customers", "events", "write"]
