"""Thresholds of vectorised loops; see `tuning.py`."""

# Lines of LLVM code in a loop body above which two or four vectors are computed at a time, and
# elements above which the remainder matters little. Measured, 1023 x 4097 on one thread, relative
# to one vector at a time: gelu of float32 0.94, of float16 0.92, of bfloat16 0.81, softmax 0.97.
# LLVM itself interleaves shorter bodies up to four times, which suits them better: two at a time
# made layer norm 1.04. odd_gelu_1023x4097, odd_softmax_1023x4097. The four vectors of a row of a
# product's tile are computed at a time too: time of the product with the gradient of gelu 0.96 of
# float32, 0.83 of bfloat16, with gelu 1.00 and 0.89. training_block.
MIN_INTERLEAVED_LINES = 28
MIN_INTERLEAVED_LENGTH = 1 << 14
# Constants in a loop body above which two vectors are computed at a time, and four otherwise. With
# the 16 registers of AVX2, too. Measured on one thread of a Zen 3, 64 x 1024, in us, one, two, four
# and eight vectors at a time: gelu of float32 58, 51, 48 and 49, silu 50, 43, 38, 40, softplus 183,
# 119, 124, 138, sin, with more constants, 106, 92, 110, 113; float16 gelu 99, 89, 92, 77, silu 70,
# 58, 50, 45, mish 343, 239, 178, 208; bfloat16 gelu 98, 83, 72, 55; float64 silu 147, 121, 96, 107,
# sin 435, 318, 442, 506. odd_gelu_1023x4097.
MAX_LONG_CONSTANTS = 16

# Iterations of a parallel loop below which it has vectors of four lanes, and none below four: LLVM
# generates the same loops for the remainder of wide vectors. Measured, 1 to 7 elements of five
# functions: the first call takes 0.46 to 0.88 times the CPU time for float32 and bfloat16, about
# the same for float64 beyond two elements; later calls and recurrences take the same time.
# odd_gelu_1x1, first_call_cold.
MIN_VECTORISED_LENGTH = 8
# Roundings to half types in a loop body above which eight vectors are computed at a time: each
# rounding waits 13 cycles for two conversions. Measured, 64 x 1024 on one thread, eight against
# four: gelu of float16 35.5 and 42.3 us, of bfloat16 36.6 and 42.2; a polynomial of degree 3 26.7
# and 28.9; with two roundings silu 25.1 and 25.6, with one tanh 32.7 and 30.9. LLVM takes 4 to 16
# ms longer for gelu. odd_gelu_1023x4097_float16.
MIN_LONG_ROUNDINGS = 4
# Rows along the last of several axes above which vectors run across short rows that are written
# out, with one pass over each row and with a second. Measured on one thread, in ms, one row at a
# time and vectors across rows: squared distances of 1,000 and 1,000 points in 2 dimensions 1.10 and
# 0.08, in 3 1.79 and 0.17, in 8 3.2 and 0.88; of 50,000 and 8 points in 3 0.44 and 0.08, of 50,000
# and 10 0.75 and 0.34. Softmax of as many rows of 3 elements: 1,000 x 1,000 2.7 and 1.6, but 20,000
# x 31 1.9 and 2.8, 50,000 x 10 1.3 and 9.8. No benchmark.
MIN_ROWS_ACROSS = 8
MIN_ROWS_ACROSS_TWICE = 256
# Elements up to which rows of half types are kept as they are between passes, and beyond which as
# float32 on the stack. Loads of a short row wait for stores of other widths: logsumexp of rows of
# 31 float16 took 1.7 times as long. odd_layer_norm_1023x4097_float16.
MIN_WIDE_ROW = 256
# Rows that are computed at a time if they fit into registers: processors have room for about 130
# instructions on vectors that wait for operands, and what follows a reduction waits for it.
# Measured on one thread, ns per element one at a time and eight: layer norm of rows of 16 elements
# 0.39 and 0.28, of 32 0.27 and 0.22; softmax of 16 0.71 and 0.51, of 32 0.63 and 0.45; layer norm
# of 65 float16 0.38 and 0.24. odd_softmax_7x1023.
MAX_ROWS_TOGETHER = 8
# Calls of functions on vectors in the code of rows that are computed at a time: each is inlined,
# and LLVM takes about as long for them as for all the rest. Four functions and a softmax of rows of
# 31 elements, eight, four and two rows at a time: 170, 83 and 47 ms to compile, 1.91, 1.91 and 2.10
# ns per element; a softmax alone 42, 25 and 19 ms, 0.47, 0.46 and 0.54 ns. odd_softmax_7x1023.
MAX_FUNCTIONS_TOGETHER = 24
# Elements of a row of float32, with what fills its last vector, beyond which it is computed alone
# if there is one reduction to wait for, and up to which registers hold four without functions. RMS
# norm of rows of 96 elements takes 0.118 ns per element alone and 0.136 by fours, of 32 0.139 and
# 0.127; layer norm of rows of 80 0.198 by twos and 0.188 by fours, of 192 0.167 alone and 0.177 by
# twos. odd_softmax_7x1023.
MAX_ROW_OF_ONE_SUM = 48
MAX_ROW_OF_FOUR = 96
# Elements of a row of half types up to which functions of it are unrolled instead of computed in
# registers. ns per element of a softmax of bfloat16, unrolled and in registers: 12 elements 0.88
# and 0.98, 17 0.86 and 1.07, 22 0.87 and 0.83; float16 17 0.94 and 0.92. float32 is faster in
# registers from 9 on: 1.00 and 0.91. odd_softmax_1023x7.
MAX_UNROLLED_HALVES = 20
# Elements of the last axis of a map up to which vectors run along the axis before it. Measured on
# one thread, in ms, along the last axis and across rows, 1,000 x 500 x n of two broadcast arrays:
# products of n = 2 0.58 and 0.06, 3 0.65 and 0.13, 4 0.68 and 0.23, 6 0.93 and 0.45; exponentials
# of these 2.5 and 0.28, 3.3 and 0.48, 6.5 and 0.65, 2.2 and 1.13. LLVM takes 0.5 to 2 times as long
# for 3 elements, and 2.7 to 4 times for 6. No benchmark.
MAX_SHORT_ROW = 4
# Elements of the last of three and more axes of a map up to which the axis before it is a loop in
# the parallel iterations. Measured on one thread, exponentials and products of two broadcast
# arrays, 32 x 2048 / n x n, in us, as parallel iterations and as a loop: n = 8 153 and 27, 19 and
# 14; n = 5 54 and 28, 30 and 11; n = 20 42 and 40, 14.0 and 6.5; n = 48 6.7 and 4.5. No benchmark.
MAX_ROW_IN_LOOP = 64
# Rows of a map with functions such as exp, what remains of which after whole vectors is a masked
# vector rather than single elements: the longest, and how many single elements, also after half a
# vector, take no longer than it. Measured with tanh of 65,536 float32, rows of n, in us: n = 20 76
# and 63, 31 106 and 38, 77 59 and 29; one element, 33 44 and 54; half a vector, 40 39 and 44.
# No benchmark.
MAX_ROW_WITH_MASK = 1024
MAX_SINGLE_ELEMENTS = 2

# Tiles of rows of a transposed operand, which rows with several passes copy to the stack: bytes, a
# little more than half of a 1 MiB L2, so that 64 rows of 2048 floats and their padding fit; cache
# lines along the axis on which the operand is contiguous; and how many there should be for threads
# to share. Shorter rows are copied in memory and then stay in registers. A distance in bytes, or a
# multiple of it, at which lines share a set of L1, and the fewest lines of a tile whose operand has
# such a stride. Measured, one thread of a Zen 4, relative to a copy in memory: layer norm of
# 1023 x 4097 0.69 (without prefetching the next block 0.80), 1000 x 5000 0.66, 2048 x 2048 0.81
# (2 lines 1.0 to 1.1), 16384 x 1024 0.75 (1 line 1.26, 2 lines 0.92), 4096 x 4096 0.88 (1 line
# 1.05), 1024 x 8192, for 1 line, 1.2; softmax 0.82, 0.88, 0.94 for 4096 x 4096; float16 0.79 for
# 1023 x 4097, but 1.18 for 1024 x 1024; rows of 512 1.0 to 1.08.
# odd_layer_norm_1023x4097_transposed.
MAX_ROW_TILE_BYTES = 5 << 17
MAX_ROW_TILE_LINES = 4
MIN_ROW_TILES = 8
MIN_TILED_ROW = 513
ALIASING_BYTES = 2048
MIN_ALIASING_LINES = 2

# Vectors of a map that are computed together if its results are stored past the caches
# (`compiler/lower/streams.py`). Measured, 262 MB on one thread of a Zen 5, in ms, stored as usual
# and past the caches by 1, 2, 4 and 8 vectors: gelu 12.8, 10.2, 9.4, 9.6 and 15.5; x + 1 12.4, 9.1,
# 9.0, 9.2 and 9.6; sin 22.4, 29.1, 24.4, 22.8 and 20.6. With AVX2's registers, x + 1 13.1, and 9.1
# by 4, but sin 23.5 and 31.3. gelu_large, gelu_eager.
STREAMED_VECTORS = 4

# Columns of a tile of a map's transposed operand where operands come from memory, and the share of
# the last cache, 1 / this, that they exceed then: cores share it, and with other programs. The
# lines of the next tile's results are prefetched, too: a tile has more rows than the processor
# follows. Measured with tiles of 64 columns and these, ns per element on both cores of a Zen 5 with
# an L1 of 48 KiB: gelu of 1023 x 4097 0.20 and 0.17, x + 1 0.168 and 0.150, of float16 0.094 and
# 0.051; 2048 x 2048 0.165 and 0.125, 0.087 and 0.050; but 3000 x 1000 0.09 both, 0.041 and 0.047,
# 300 x 5000 0.070 and 0.077. odd_gelu_1023x4097_transposed.
FAR_TRANSPOSE_TILE_WIDTH = 128
CACHE_PER_FAR_OPERANDS = 2.5
