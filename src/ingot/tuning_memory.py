"""Thresholds of memory; see `tuning.py`."""

# Bytes above which a block gets its own huge pages, of 2 MiB each: it contains at least one
# wherever it starts. gelu_memory.
MIN_HUGE_PAGE_BYTES = 4 << 20
# Smaller blocks share huge pages, in slots of 256 KiB, if the unused part of the last slot is at
# most 1 / this of the block; the unused part is in memory too. Measured, one thread of a Zen 4,
# sums of 60 matrices of 1536 x 576 bfloat16, GB/s: 17.8 with pages of 4 KiB, 29.4 with huge ones;
# of 240 matrices of 192 x 576 14 and 29. decoding_bfloat16.
MIN_USE_PER_WASTE = 4
# Bytes in such blocks before the first one shares a huge page: for a process that uses little
# memory, clearing a huge page takes longer than using small ones. first_call_warm.
MAX_BYTES_WITHOUT_HUGE_PAGES = 8 << 20
# Size classes, of a sixteenth of a power of two each, by which a cached block may exceed the
# requested size. With none, fresh pages are used instead of cached memory, and are written at half
# the speed; with many, memory is wasted. gelu_eager, gelu_memory.
MAX_CLASSES_ABOVE = 2
# Bytes of an operand from which on a result may reuse its memory: copying less takes no longer than
# checking for other references. gradient_evaluated, scalar_chain.
MIN_DONATED_BYTES = 1 << 14
# Bytes of a file above which its arrays are mapped instead of read. Measured, 64 MB in 64 arrays
# that are in the page cache: reading takes 10 to 94 ms, mapping 0.7 ms, and summing all of it
# afterwards 1.3 ms longer, once. Small files are read, so that they need no file handle and can be
# overwritten. No benchmark.
MIN_MAPPED_BYTES = 1 << 20
# Ops of slices that are kept to be shared: parts of a split, elements of an axis. As many as the
# cache of views in C has entries, or more. No benchmark.
MAX_SHARED_SLICES = 1 << 12

# Rows of a product up to which threads without work read its matrices ahead, the fewest bytes of a
# matrix, and the most of a thread's part of it: as many as L2 holds. With more rows, multiplying
# takes longer than reading. Measured on a Zen 5, two threads of a busy machine, a step of 135M
# parameters without and with it, in ms: bfloat16 7.7 and 7.1, float32 13.0 and 12.6, 4 bits 4.3 and
# 3.8. decoding, decoding_bfloat16.
MAX_READ_AHEAD_ROWS = 32
MIN_READ_AHEAD_BYTES = 1 << 16
MAX_READ_AHEAD_BYTES = 1 << 20

# What C reads, through the header that build_support/tuning_header.py generates.
NATIVE = (
    "MIN_HUGE_PAGE_BYTES", "MIN_USE_PER_WASTE", "MAX_BYTES_WITHOUT_HUGE_PAGES", "MAX_CLASSES_ABOVE",
    "MIN_DONATED_BYTES", "MAX_READ_AHEAD_ROWS", "MIN_READ_AHEAD_BYTES", "MAX_READ_AHEAD_BYTES",
)  # fmt: skip
