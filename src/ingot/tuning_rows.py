"""Thresholds of sorts, selections, scans and scatters: what `tuning` is for others."""

# Values and sorted numbers above which values are looked up in ascending order: sorting them first
# costs less than the cache misses of looking them up in the given order. No benchmark.
MIN_SORTED_LOOKUPS = 10_000
# Elements of updates, and of the table they are combined into, that justify a thread: about 15 us
# of work. scatter_bins.
SCATTER_GRAIN = 1 << 15
# Elements of updates above which a compiled scatter is one call of native code, which assigns
# updates to threads once, rather than a loop nest, whose ranges of rows each read all indices. The
# call copies the table, so this holds only if the table has fewer elements than the updates, or is
# a broadcast scalar. Rows of fewer than MIN_NATIVE_SCATTER_ROW elements take no longer than
# assigning them. scatter_add, scatter_bins, embedding_gradient.
MIN_NATIVE_SCATTER = 1 << 14
MIN_NATIVE_SCATTER_ROW = 8
# Elements to select from that justify a thread: about 15 us of work. top_k.
SELECTION_GRAIN = 1 << 14
# Elements of long rows to sort that justify a thread: about 100 us of work. sort_rows.
SORT_GRAIN = 1 << 14
# Elements of a row above which native code sorts it by radix: elements of 4 or 8 bytes, those of 1
# or 2, and positions. Measured on one thread, relative to NumPy's sort: elements of 4 bytes 1.2 at
# 1024, 0.85 at 2048, 0.2 at a million, of 2 bytes 0.8 at 256; positions by 4 bytes 0.9 to 3.6 at
# 256, 0.4 to 0.8 at 512, 0.15 at a million, by 8 bytes 0.86 at 256, by 1 byte 1.06. sort_rows.
MIN_RADIX_ROW = 2048
MIN_NARROW_RADIX_ROW = 256
MIN_RADIX_ORDER = 512
# Elements of a shorter row up to which it is sorted faster directly than packed with its
# positions. No benchmark.
MAX_UNPACKED_ROW = 64
# Elements per chunk when threads share the scan of a long row: eight chunks in step are 256 KiB of
# float32, which L2 holds for the second pass. This is part of the summation order. cumsum_long.
SCAN_CHUNK = 1 << 13
# Elements of scans that justify a thread. cumsum_rows.
SCAN_GRAIN = 1 << 14
# Adjacent columns above which a scan processes them as vectors. cumsum_columns.
MIN_SCANNED_COLUMNS = 8

# What C reads, through the header that build_support/tuning_header.py makes.
NATIVE = (
    "SCAN_CHUNK", "SCAN_GRAIN", "MIN_SCANNED_COLUMNS", "SCATTER_GRAIN", "SELECTION_GRAIN",
    "SORT_GRAIN",
)  # fmt: skip
