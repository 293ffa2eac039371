"""Numbers of programs of several processes that trade one cost for another; see `tuning.py`."""

# Bytes of gradients from which on their sum over processes overlaps with the backward pass. Begun
# and awaited, a sum takes 30 us of Python more than a blocking one, and MPICH's non-blocking one of
# 4 MiB 1.1 times as long (measured, busy). No benchmark.
MIN_OVERLAPPED_BYTES = 1 << 16
# Bytes of gradients that are summed at once: smaller buckets begin earlier and leave less to wait
# for at the end of a step, larger ones have fewer headers and round trips. A large model has
# BUCKETS of them, or more if `all_reduce_size` asks for it. No benchmark.
MIN_BUCKET_BYTES = 1 << 20
BUCKETS = 8
