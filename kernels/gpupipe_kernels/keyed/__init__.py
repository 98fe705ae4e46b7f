"""keyed"""
from gpupipe_kernels.keyed.features import aggregate, aggregate_codes, count, decayed_sum, lag, pick, sessions, time_since
from gpupipe_kernels.keyed.history import Column, History, column, gaps, order_events
from gpupipe_kernels.keyed.queries import Queries, last_rows, last_span, queries_before, queries_of_events
