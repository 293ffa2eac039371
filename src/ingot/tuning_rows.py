"""Thresholds of sorts, selections, scans and scatters: what `tuning` is for others."""

# Values and sorted numbers above which NumPy looks up values, of dtypes that native code does not
# take, in ascending order: sorting them first costs less than the cache misses of looking them up
# in the given order. No benchmark.
MIN_SORTED_LOOKUPS = 10_000
# Elements of updates, and of the table they are combined into, that justify a thread: about 15 us
# of work. scatter_bins.
SCATTER_GRAIN = 1 << 15
# Ranges of rows that threads scatter into, and elements of a row for each of them. A range reads
# all indices and branches on whether they are its own, which takes about as long as an update of
# 16 elements. Measured on one thread, 100,000 updates of 16 elements: 0.19 ms with one range, 0.99
# with two, 5.8 with sixteen; of 64 elements 3.4 with four, 5.7 with eight. scatter_bins,
# training_block.
MAX_SCATTER_RANGES = 16
MIN_SCATTER_RANGE_WIDTH = 16
# Elements of updates above which a compiled scatter is one call of native code, which assigns
# updates to threads once, rather than a loop nest. The call copies the table, so this holds only if
# the table has fewer elements than the updates, or is a broadcast scalar. It takes 50 us longer to
# start, and rows of fewer than MIN_NATIVE_SCATTER_ROW elements take no longer than assigning them.
# Measured on one thread, 10,000 updates of 64 elements: 1.4 times the nest; 100,000 of them 0.4; of
# 16 elements 3.2. scatter_add, embedding_gradient.
MIN_NATIVE_SCATTER = 1 << 20
MIN_NATIVE_SCATTER_ROW = 32
# Parts of the updates of a native scatter that are combined into tables of their own, and tables'
# worth of updates in each part. Threads that share updates by their rows each read about all of
# them. Measured, 100,000 updates of 64 elements to 10,000 rows, in ms: by rows 1.79 on one thread
# and 1.94 on two, in two parts 1.6 and 1.15. scatter_add, scatter_max.
MAX_SCATTER_PARTS = 4
MIN_SCATTER_PART = 4
# Bytes of a native scatter's updates, and updates, that are prefetched ahead, and bytes of each of
# them: those and the rows that they are combined into must fit into L1. Measured on one thread, in
# ms: 10,000 updates of 1000 elements to 300 rows 3.0 with 24 updates ahead, 2.1 with 6144 bytes; to
# sorted rows, which need none, 100,000 updates of 256 elements 7.5, without 4.6. scatter_add.
PREFETCHED_SCATTER_BYTES = 6144
MAX_SCATTER_PREFETCH = 24
MAX_PREFETCHED_ROW = 512
# Rows of a table per row that a gradient selects above which only these are updated, elements of a
# row, and of the table. Measured on one thread, relative to an update of all rows, the table being
# donated: 512 of 100,000 rows of 64 elements 0.007, 4,096 of them 0.07, 25,000 0.86 (1.06 if it is
# not donated), 1,000 of 5,000 rows of 16 elements 0.61. No benchmark.
MIN_SPARSE_SHARE = 4
MIN_SPARSE_ROW = 8
MIN_SPARSE_TABLE = 1 << 16
# Elements to select from that justify a thread: about 15 us of work. top_k.
SELECTION_GRAIN = 1 << 14
# Elements of the blocks of rows whose extremes tell where the largest elements are, and blocks per
# wanted element, and elements of all rows, above which a compiled program finds them that way, if
# maps compute the elements, rather than store all of them. Measured on one thread, relative to
# that: 10 of 64 rows of 50,000 elements 0.24, 50 of 32,000 0.4, 5 of 256 rows of 5,000 0.3. No
# benchmark.
SELECTED_BLOCK = 64
MIN_BLOCK_SHARE = 8
MIN_BLOCKED_SELECTION = 1 << 18
# Elements of long rows to sort that justify a thread: about 100 us of work. sort_rows.
SORT_GRAIN = 1 << 14
# Values to look up in sorted numbers that justify a thread: 4 to 20 us of work. No benchmark.
SEARCH_GRAIN = 1 << 10
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
# Reductions without compile that do not depend on the order (maxima, sums of integers) run slice by
# slice over axes up to this long, of arrays of so many elements, unless NumPy's inner loop has so
# many elements behind the axis. Measured, in us by NumPy's reduction and by slices: 5,000 rows of 3
# elements 177 and 9, 2,000 of 8 82 and 15, 1,000 of 16 50 and 28, of 24 44 and 43; 30 of 16 2.5 and
# 17; 16 columns of 1,000 2.9 and 12. No benchmark.
MAX_SLICED_AXIS = 16
MIN_SLICED_ELEMENTS = 1 << 11
MIN_LOOP_BEHIND = 64
# Applications of the cipher behind random numbers, two words each, that justify a thread: about 15
# us of work. random_uniform.
RANDOM_GRAIN = 1 << 14
# Elements of a scan up to which a kernel computes it in a compiled program also without maps before
# or after it, and whatever its layout: calling native code takes as long. No benchmark.
MAX_SCAN_ALONE = 1 << 13
# Rows of more than SCAN_CHUNK elements above which kernels scan them, with the maps around them: of
# fewer, threads must share each. Measured on one thread, relative to separate steps: 100 rows of
# 10,000 elements 0.25 to 0.31, 1,000 of 1,000 0.90 to 1.16, 1,000 columns 0.53 to 0.84; one row of
# 4 million, split by three kernels, 1.10 to 1.48. cumsum_chain.
MIN_SCANNED_ROWS = 64
# Elements of a row that kernels scan between the maps before and after, in as many rows at a time
# as a vector has lanes of float64: what the maps leave stays in L1. No benchmark.
SCAN_TILE = 128
SCANNED_TOGETHER = 8
# Elements to convert between float32 and half precision that justify a thread: 5 us of work, and
# elements above which native code converts them. Measured on one thread, ns per element by NumPy
# and native code: from float16 1.19 and 0.06, to float16 1.43 and 0.05, to bfloat16 0.32 and 0.14.
# No benchmark.
CONVERSION_GRAIN = 1 << 16
MIN_NATIVE_CONVERSION = 1 << 10
# Elements of rows that are scanned one by one, rather than in lanes. Measured on one thread, ns per
# element in lanes and one by one, of int32: 33,333 rows of 3 elements 1.57 and 0.36, 10,000 of 10
# 0.55 and 0.31; of 50 0.23 in lanes. No benchmark.
MAX_SHORT_SCAN = 16
# Segments from which on lanes scan fewer than there are: fewer are scanned one by one. Measured on
# one thread, ns per element, two of eight lanes 2.1 and one by one 1.4. No benchmark.
MIN_SCAN_LANES = 4
# Bytes of elements and results of a scan above which the size of the last cache is asked for: there
# is none that is smaller. If they exceed it, results are stored past it: 2000 rows of 4001 elements
# took 1.76 ms on two threads of a busy Zen 5, and take 1.45; on one, 2.3 as before. cumsum_rows.
MIN_SCAN_PAST_CACHES = 1 << 21
# Adjacent columns above which a scan processes them as vectors. cumsum_columns.
MIN_SCANNED_COLUMNS = 8

# What C reads, through the header that build_support/tuning_header.py makes.
NATIVE = (
    "SCAN_CHUNK", "SCAN_GRAIN", "MIN_SCANNED_COLUMNS", "SCATTER_GRAIN", "SELECTION_GRAIN",
    "SORT_GRAIN", "SEARCH_GRAIN", "RANDOM_GRAIN", "MIN_NATIVE_SCATTER", "MIN_NATIVE_SCATTER_ROW",
    "MAX_SCATTER_PARTS", "MIN_SCATTER_PART", "PREFETCHED_SCATTER_BYTES", "MAX_SCATTER_PREFETCH",
    "MAX_PREFETCHED_ROW", "MAX_SHORT_SCAN", "MIN_SCAN_LANES", "MIN_SCAN_PAST_CACHES",
    "CONVERSION_GRAIN",
)  # fmt: skip
