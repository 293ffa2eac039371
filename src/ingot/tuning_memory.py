"""Thresholds of memory: what `tuning` is for others."""

# Bytes from which on a block is mapped for huge pages, of 2 MiB each, of its own: at least one lies
# within it wherever it begins. gelu_memory.
MIN_HUGE_PAGE_BYTES = 4 << 20
# Smaller blocks share huge pages, in slots of 256 KiB, if what the last slot leaves unused is at
# most this part of them: it is in memory too. Measured, one thread of a Zen 4, sums of 60 matrices
# of 1536 x 576 bfloat16, GB/s: 17.8 with pages of 4 KiB, 29.4 with huge ones; of 240 matrices of
# 192 x 576 14 and 29. decoding_bfloat16.
MIN_USE_PER_WASTE = 4
# Bytes in such blocks before the first that does so: a process with little memory takes no huge
# page, which takes longer to clear than what it needs. first_call_warm.
MAX_BYTES_WITHOUT_HUGE_PAGES = 8 << 20
# Classes of sizes, a sixteenth of a power of two each, by which a kept block may be larger than
# what is asked for. None, and memory that was seen before is passed over for fresh pages, which are
# written at half the speed; many, and memory is wasted. gelu_eager, gelu_memory.
MAX_CLASSES_ABOVE = 2
# Bytes of an operand whose memory a result may take: copying less takes no longer than finding out
# whether anybody else holds it. gradient_evaluated, scalar_chain.
MIN_DONATED_BYTES = 1 << 14
# Bytes of a file whose arrays are mapped instead of read. Measured, 64 MB in 64 arrays that are in
# the page cache: reading takes 10 to 94 ms, mapping 0.7 ms, and summing all of it after that 1.3 ms
# longer, once. Small files are read, so that they need no file handle and may be written over. No
# benchmark.
MIN_MAPPED_BYTES = 1 << 20

# What C reads, through the header that build_support/tuning_header.py makes.
NATIVE = (
    "MIN_HUGE_PAGE_BYTES", "MIN_USE_PER_WASTE", "MAX_BYTES_WITHOUT_HUGE_PAGES", "MAX_CLASSES_ABOVE",
    "MIN_DONATED_BYTES",
)  # fmt: skip
