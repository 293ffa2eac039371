"""Thresholds of distributed programs; see `tuning.py`."""

# Bytes of gradients above which their sum over processes overlaps with the backward pass. Starting
# and awaiting a sum takes 30 us more of Python than a blocking one, and MPICH's non-blocking sum of
# 4 MiB takes 1.1 times as long (measured, busy). No benchmark.
MIN_OVERLAPPED_BYTES = 1 << 16
# Bytes of gradients that are summed together: smaller buckets start earlier and leave less to wait
# for at the end of a step, larger ones need fewer headers and round trips. A large model has
# BUCKETS of them, or more if `all_reduce_size` asks for it. No benchmark.
MIN_BUCKET_BYTES = 1 << 20
BUCKETS = 8
