"""Thresholds of matrix products: packed operands, few rows or few results; see `tuning.py`.

"Measured" means CPU time of one thread of a Zen 4 with AVX-512, 1 MiB of L2 per core and 32 MiB of
L3.
"""

# Bytes of a right operand that justify a thread, if a product reads them before it has multiplied
# MIN_PRODUCT_THREAD_WORK times: one of few rows waits for memory. Measured on a Zen 5, GB/s of two
# threads that read blocks of memory, one parallel loop for each, where one thread reads 43: 128 KiB
# 43, 256 KiB 60, 512 KiB 72, 1 MiB 79, 4 MiB 85. decoding_bfloat16, decoding_float32.
MIN_PRODUCT_THREAD_BYTES = 128 << 10
# A right operand with contiguous rows is packed into panels if the result has more rows than this
# and the operand is larger than L2. Measured with 1024 columns, relative to OpenBLAS: 32 rows 0.83
# in place and 1.22 from panels, 128 rows 0.94 and 0.99, 1024 rows 0.96 and 0.93. matmul_skinny,
# matmul_float32.
MAX_UNPACKED_ROWS = 128
MAX_UNPACKED_BYTES = 1 << 20
# Rows of results from which a smaller operand is packed too, if it has more columns than this many
# tiles. Measured, one thread, time from panels relative to in place: sums of 256, 1024 columns, 256
# rows 1.00, 512 0.96, 1024 0.95, 2048 0.92; sums of 1024, 256 columns 1.01, 1.00, 0.95, 0.97; sums
# of 512, 128 columns 1.00, 1.01, 1.00, 0.99. training_block.
MIN_PACKED_ROWS = 512
MIN_PACKED_PANELS = 2
# The same with 16 registers, for a right operand of any size: tiles of two vectors read runs of one
# or two cache lines. Measured on a Zen 3, CPU time of one thread of a busy machine, from panels
# that are packed for each call relative to in place, (products per sum, columns): 24 rows of (300,
# 300) 1.10, (777, 300) 1.12, (512, 512) 1.00, (1024, 1024) 1.17, (256, 1024) 0.91; 32 rows 1.05,
# 0.83, 1.12, 1.13, 0.72; 64 rows 0.94, 0.96, 1.06, 0.89, 0.70; 128 rows 0.84, 0.85, 0.88, 0.87,
# 0.75; 300 rows 0.88, 0.88, 0.88, 1.01, 0.55. From panels that are kept: 0.83, 0.70, 0.75, 0.83,
# 0.53 for 32 rows, 0.78, 0.84, 0.84, 0.72, 0.69 for 64. matmul_256, training_step.
MIN_PACKED_ROWS_OF_FEW = 32
# Columns of adjacent panels that are packed row by row, rows of them per iteration of the parallel
# loop, and how many rows ahead the operand is prefetched: hardware prefetchers do not follow short
# runs that are far apart. Measured, one thread of a Zen 5, microseconds: (1000, 1000) in panels of
# 6 columns in runs of 48 columns without prefetching 1413, of 192 columns and 16 rows 294, of 256,
# 512 and 1024 columns with prefetching 179, 184 and 193; (3000, 300) of these 1257, 806, 195, 172
# and 152; (1000, 1000) in panels of 64, of one of them 246, of 256, 512 and 1024 columns 216, 166
# and 138, (3000, 400) 391, 364, 246 and 207. 4 rows ahead take 0.9 to 1.5 times as long as 8, 16
# rows 1.0 to 1.1 times. matmul_left_transposed.
PACKED_COLUMNS = 1024
COPIED_ROWS = 64
COPIED_ROWS_AHEAD = 8
# A left operand whose rows are not contiguous is packed if it is larger than what fits in L1 next
# to the right operand, and if more columns of tiles than this read it. Measured, 256 rows and
# columns of float32 with the left operand transposed, relative to OpenBLAS: 1.31 in place, 0.99
# packed. matmul_left_transposed.
MAX_UNPACKED_LEFT_BYTES = 1 << 14
MIN_PACKED_LEFT_PANELS = 1
# Bytes of a left operand with contiguous rows above which it is packed where tiles have two vectors
# (16 registers), if at least this many columns of tiles read it. Measured on a Zen 3, CPU time of
# one thread of a busy machine, packed for each call relative to in place, (rows, products per sum,
# columns): (777, 777, 777) 0.82, (1024, 1024, 1024) 0.90, (2048, 2048, 2048) 0.82, (256, 784, 512)
# 0.93, (1024, 256, 1024) 0.90, (1024, 512, 512) 0.90, (512, 512, 512) 1.02; fewer bytes (300, 300,
# 300) 1.04, (128, 1024, 1024) 0.97, (96, 96, 2000) 1.02; fewer columns (256, 1024, 128) 1.00,
# (4096, 512, 128) 1.11, (512, 2048, 64) 1.22. matmul_float32, matmul_777.
MAX_LEFT_ROWS_BYTES = 1 << 19
MIN_PACKED_LEFT_ROWS_PANELS = 32
# Bytes that one sum reads of such an operand up to which it is read in place if its columns are
# contiguous: for any operand, and for one of at most MAX_UNPACKED_BYTES. Measured, time in place
# relative to packed, (rows, products per sum, columns): (2000, 200, 100) 0.86, (5000, 128, 129)
# 0.93, (10000, 100, 40) 0.75, (784, 256, 512) 0.92, (256, 256, 256) 0.94, (2048, 256, 100) 1.07,
# (4001, 256, 100) 1.47, (777, 384, 300) 1.23. matmul_left_transposed.
MAX_LEFT_LENGTH = 200 * 4
MAX_NEAR_LEFT_LENGTH = 256 * 4
# Rows of complex results from which the right operand is packed, as real numbers. Measured, one
# thread of a Zen 5, time relative to OpenBLAS, packed for each call and kept, for (100, 100), (300,
# 300), (301, 513) and (1000, 1000) on the right: 12 rows 0.97, 1.42, 1.40, 1.40 and 0.32, 0.41,
# 0.42, 0.57; 24 rows 0.72, 1.05, 0.91, 1.13 and 0.39, 0.45, 0.43, 0.53; 40 rows 0.77, 0.87, 0.79,
# 0.93. matmul_complex64, matmul_complex64_rows.
MIN_COMPLEX_ROWS = 24
# The narrowest strip of a product of few rows: as wide as leaves a strip for each thread, while its
# sums fit in MAX_STRIP_BYTES, which stay in L2 next to the right operand. The hardware does not
# prefetch short runs of memory. Measured, one row of float32 times 4096 x 4096, GB/s: 20 for 512
# columns, 25 for 1024 and for 4096. matmul_row.
MIN_STRIP_COLUMNS = 512
MAX_STRIP_BYTES = 128 << 10
# Rows of the right operand that streams read in parallel, and rows of results that are computed
# this way. Measured as above, 1024 x 1024: 87 GB/s for 4 rows, 83 for 8, 58 for 16; 4096 x 4096 in
# strips of 1024: 19, 25 and 26. Time of streams relative to tiles: 0.5 for 2 rows of results, 0.72
# for 3, 0.62 to 1 for 4, 1.1 for 5. matmul_row, matmul_few_rows.
MAX_STREAMS = 8
MAX_STREAMED_ROWS = 4
# Columns of results from which on streams pay: narrower results fit one tile, whose rows are close
# together. matmul_tiny_stack.
MIN_STREAMED_COLUMNS = 256
# Rows of the right operand per block of a strip with more rows of results, and the most rows of
# such a strip. Measured, 8 to 64 rows times 1024 x 1024 and 768 x 3072: blocks of 32 rows take 1.0
# to 1.3 times as long, of 64 rows 1.1 to 1.4, and tiles that run through all rows 1.0 to 2.
# matmul_skinny_odd.
STRIP_DEPTH = 16
MAX_STRIP_ROWS = 64
# Rows of results up to which sums run along vectors if the columns of the right operand are
# contiguous. Measured, time of panels, packed for each call and kept, relative to these: 24 rows
# 0.9 to 1.3 and 0.66, 32 rows 0.9 to 1.1 and 0.65, 48 rows 0.9 to 1.2 and 0.67. matmul_skinny.
MAX_DOT_ROWS = 31
# Columns of results up to which these are computed as rows of the transposed product, so that sums
# run along vectors, if the left operand has contiguous rows with at least MIN_DOT_COLUMN_BYTES per
# column. Measured, time relative to tiles, whose vectors are as long as a row of results: 300 rows,
# sums of 300, two columns 0.38, four 0.65, five 0.8, seven 1.1; 1000 rows, sums of 64, two columns
# 0.49, four 0.82; 1024 rows, sums of 1024 0.17 and 0.26; bfloat16, sums of 24, two columns 1.3,
# sums of 64 0.75. matmul_few_columns.
MAX_DOT_COLUMNS = 5
MIN_DOT_COLUMN_BYTES = 64
# Products per sum, for each row of results, above which sums run along vectors if the columns of
# the right operand are contiguous (MAX_DOT_ROWS). Measured, time of sums along vectors relative to
# panels: 0.85 for 16 rows and sums of 256, 1.15 for 24 rows of these, 1.5 for 16 rows and sums of
# 100, 2.2 for stacks of 32 rows and sums of 32. matmul_stack_transposed.
MIN_DOT_LENGTH = 16
# Columns of results up to which, with both operands transposed, the transpose of the result is
# computed, which reads both in place: of bfloat16 pairs, which are packed anyway, and of others.
# Measured, time relative to transposing an operand, (rows, products per sum, columns): (500, 300,
# 12) 0.20, (500, 100, 40) 0.75, (500, 300, 100) 0.92, (200, 200, 200) 1.03, (512, 512, 512) 1.05;
# fewer rows than columns: (16, 1000, 300) 0.91, (25, 600, 300) 1.10, (40, 1000, 500) 1.22;
# bfloat16: (500, 300, 12) 0.73, (60, 300, 400) 1.24, (300, 300, 300) 1.31. No benchmark.
MAX_TRANSPOSED_COLUMNS = 128
MAX_TRANSPOSED_PAIRS = 16
# Rows and columns of tiles of dot products, preferred ones first, with 32 registers and with 16.
# Measured, 12 rows, sums of 1000, 1003 columns, us: 3 x 6 271, 4 x 6 270, 6 x 4 269, 2 x 8 291,
# 2 x 12 343; 20 rows, sums of 600, 129 columns: 4 x 6 37.9, 5 x 5 36.6, 5 x 4 38.3; 28 rows of
# these: 4 x 6 52.4, 7 x 3 52.4. matmul_skinny.
DOT_TILES = ((4, 6), (5, 5), (3, 6), (6, 4), (7, 3), (2, 6))
FEW_DOT_TILES = ((2, 4), (3, 3))
# Bytes of a column of the right operand up to which one row of results is computed from one column
# at a time instead of four, if the operand has at least MIN_ORDERED_MATRIX_BYTES: the hardware does
# not prefetch short runs in several columns. Measured, GB/s of float32 for one and for four: sums
# of 288 26 and 11, 576 25 and 15, 1152 23 and 18, 2304 28 and 22, 3500 26 and 23, 4096 24 and 25,
# 4608 21 and 24; sums of 576 from L3 64 and 72. Small matrices, sums of 576, from memory: bfloat16
# of 216 KiB 20.6 and 10.6, of 72 KiB 12.2 and 8.9, float32 of 144 KiB 13.3 and 10.8; from L2 42.7
# and 48.1, 42.6 and 48.3, 49.6 and 52.5. On a Zen 5, where all columns have the same loop, sums of
# 288 46 and 35, 3500 38 and 44, 4096 51 and 51, 8192 46 and 51; bfloat16 of 576 44, which was 31
# with a loop for each of four columns. decoding_float32, decoding_bfloat16.
MAX_ORDERED_DOT_BYTES = 15 << 10
MIN_ORDERED_MATRIX_BYTES = 64 << 10
# The same for half types that are converted as they are read: the row is converted for each column.
# Measured, one thread of a Zen 3, time of one column relative to
# four, from memory: bfloat16, sums of 576 0.65, 1024 0.53, 1536 0.75, 2048 0.96, 4096 1.04, halves
# of 8192 1.3; float16, 576 0.70, 1536 0.70, 2048 1.03; of a Zen 5, float16, 576 0.63, 1536 0.74,
# 4096 0.80, from L2 1.28, 1.29 and 1.36. decoding_bfloat16.
MAX_ORDERED_CONVERTED_BYTES = 4 << 10
# Accumulators per sum when one row of results is computed: a single one is latency-bound. Measured,
# GB/s for one, four and eight from one column at a time: float32, sums of 288 39, 67 and 58, of
# 1000 43, 72 and 63; pairs of bfloat16 35, 61 and 54; 36, 66 and 58. matmul_vector.
DOT_CHAINS = 4
# Columns of one row of results that an iteration of the parallel loop computes: finding the indices
# of an iteration takes a division. matmul_vector.
MIN_DOT_TASK_COLUMNS = 8
# Codes times rows of a product with a quantised matrix that justify a thread: about 3 us of one
# core. Measured on a Zen 5, one row of float32, 4 bits from memory, microseconds of one thread, of
# two, and of two that also shared the first iterations by themselves: (576, 192) 4.3, 4.0 (one
# thread) and 5.5, (576, 576) 9.1, 6.2 and 11.5, (576, 1536) 22, 14 and 24, (1536, 576) 14, 9.8 and
# 15. decoding, decoding_billion.
MIN_QUANTIZED_THREAD_WORK = 1 << 17
# Blocks of 32 codes per row of a quantised matrix above which a row of int8 is multiplied by one
# row of the matrix at a time instead of two. Measured, one thread, 4 bits from memory, GB/s for one
# and for two: sums of 576 18.8 and 20.2, 1536 20.4 and 20.6, 1024 23.7 and 22.2, 2048 22.4 and
# 20.2, 4096 25.1 and 22.2. quantized_row_int8, decoding_billion_int8.
MIN_ORDERED_BLOCKS = 32
# Lanes up to which words of codes are transposed within 128 bits for one row of int8, too.
# Measured, one thread of a Zen 3, 4 bits, in microseconds not transposed and transposed: (2048,
# 512) in L2 45 and 27, (2048, 2048) from memory 181 and 176. quantized_row_int8.
MAX_TRANSPOSED_LANES = 8
# The shortest rows of float32 that are multiplied by codes in three bytes each instead of as
# float32, up to MAX_FACTORED_ROWS of them. Measured, one thread, 4 bits, codes times rows per
# nanosecond as float32 and in bytes: 1 row of 576 25 and 27, of 1536 27 and 35, of 2048 29 and 40,
# of 5632 30 and 43; 4 rows 37 and 34, 45 and 54, 45 and 55, 45 and 55; 8 rows of 2048 48 and 45.
# The root mean square of errors, relative to that of results: 2.5e-7 and 3.6e-7. With 2 bits, 1 row
# of 2048 takes 0.71 of the time; with 8 bits, 1.04. quantized_row, decoding_billion.
MIN_DIGITS_LENGTH = 1024
# The same for one row. Measured, one thread, 4 bits, in L2, microseconds as float32 and in bytes:
# (576, 512) 12.5 and 9.7, (576, 576) 14.0 and 13.3, (1536, 576) 35 and 32, (576, 768) 17.3 and
# 14.4, (576, 896) 19.9 and 17.5; two rows of 576 18.7 and 19.8, four 35 and 40. With 2 bits
# (1536, 576) 38 and 32, with 1 bit 80 and 30. The root mean square of errors, relative to that of
# results, 4 bits: 2.3e-7 and 3.8e-7; if every ninth element of a row is 30 times as large, 2.3e-7
# and 5.2e-7. decoding.
MIN_ROW_DIGITS_LENGTH = 512
MAX_DIGITS_BITS = 4
# The same for up to MAX_FACTORED_ROWS rows where products are summed in pairs of bytes. Measured,
# one thread of a Zen 3, 4 bits, microseconds as float32 and in bytes, in L2, 576 columns: 1 row of
# 512 17.3 and 18.6, of 768 24.3 and 25.3, of 1024 31.7 and 31.1, of 1536 44.7 and 41.5; 2 rows of
# 1536 70 and 68, 4 rows 110 and 117; (2048, 512), 4 rows 202 and 137. From memory: 1 row (1536,
# 576) 53 and 47, (576, 1536) 60 and 65, (2048, 2048) 256 and 192, 2 rows of that 339 and 292, 4
# rows 843 and 526. quantized_row, decoding_billion.
MIN_PAIRED_DIGITS_LENGTH = 1536
# Rows, in digits or as int8, from which on tiles have a lane for each column, with VNNI. Measured,
# one thread of a Zen 5 of a busy machine, 4 bits from memory, time relative to float32 products of
# 8 rows at a time: (576, 576), 8 rows, 0.71, (576, 1536) 0.71, (1536, 576) 0.67, (2048, 2048) 0.76,
# (5632, 2048) 0.76; in L2, (576, 1536), 5 rows 0.76, 32 rows 0.61. The root mean square of errors,
# relative to that of results: 1.9e-7. decoding_requests, quantized_rows.
MIN_ROWS_BY_COLUMNS = 5
# The same for int8 rows of more than MAX_INT8_LENGTH elements, which have fewer products for each
# word that is transposed. Measured as above, time relative to lanes along rows: 8 rows of 576 0.66
# to 0.76, of 1024 0.86, of 1536 0.96, of 2048 1.25, of 4096 1.09; 16 rows of these 0.97 and 0.65;
# 32 rows 0.61 and 0.79. decoding_requests_int8.
MIN_LONG_INT8_ROWS_BY_COLUMNS = 9
MAX_INT8_LENGTH = 1536
# Rows whose sums wait on the stack while a tile is multiplied by them: the tile is transposed again
# for more. Bytes of words that are transposed at a time, a third of the smallest L1. Integer sums
# of a tile, for as many rows and vectors of columns: 24 of 32 registers. Measured as above: 4 rows
# of two vectors take 1.02 to 1.07 times as long as 8 rows of one. decoding_requests.
MAX_ROWS_BY_COLUMNS = 64
PIECE_BYTES = 16 << 10
SUMS_BY_COLUMNS = 24
# Rows of results up to which bfloat16 is converted as it is read (MAX_CONVERTED_ROWS) on processors
# with pairwise bfloat16 dot products, for which pairs must be packed first. Measured with 1024 x
# 1024, time of packed pairs relative to strips: 1.05 for 6 rows, 0.7 for 8, 0.64 for 16.
# matmul_bfloat16_rows.
MAX_UNPAIRED_ROWS = 6
# Results up to which threads share long sums (a few tiles of results), and the length of the chunks
# that sums are split into: enough work to justify a thread. This is part of the summation order.
# matmul_long_sums.
MAX_SPLIT_RESULTS = 1024
MIN_SPLIT_LENGTH = 4096
# The time of a tile per row besides its multiplications, in multiplications of whole vectors: a
# narrow tile loads more of the left operand per product. A column of tiles takes this much, divided
# by its vectors; the last one, which is narrower, takes LAST_TILE_TIME. Measured, 96 rows and sums
# of 64, relative to tiles of one vector: half a vector 0.65, three halves 1.65, two vectors 2.03,
# three 2.9, four 3.95. matmul_stack.
TILE_TIME = 0.2
LAST_TILE_TIME = 0.15
# Vectors of half a register per tile of a convolution, where processors execute two of these in the
# time of a whole one, if they leave fewer columns unused: fewer are bound by loads. Measured, one
# thread, time relative to whole vectors: 24 outputs 0.75 to 0.79, 40 outputs 0.83 to 0.86, 72
# outputs in three tiles 0.89, 120 in three 0.92; gradients of filters of 24 taps and channels 0.67
# to 0.74, of 120 0.95. convolution_four_groups.
HALF_VECTORS = (3, 5)
# Vectors of interleaved groups of a convolution, relative to those of one group after the other, up
# to which groups are interleaved: windows must then be copied. Measured, one thread of a Zen 5,
# relative to one group after the other, taps x (channels, outputs) of a group: half as many vectors
# 3 x 3 x (8, 8) 0.50, (6, 6) 0.50, (5, 5) 0.69, 5 x (8, 8) 0.52, 1 x 1 x (8, 8) 0.56; three
# quarters 5 x 5 x (24, 24) 0.74, 7 x 7 x (10, 20) 0.65. convolution_grouped.
MAX_INTERLEAVED_VECTORS = 0.9
# The time that it takes to find a pixel in the flat range of a block of a convolution, in
# multiplications of whole vectors. Where that matters, tiles do not span rows of pixels. Measured,
# one thread of a Zen 5, time of such tiles relative to tiles of a flat range: 3 x 3 taps of 3
# channels, 32 outputs, 80 pixels per row 0.83; of 1 channel, 4 outputs, 64 pixels 0.57; of 6
# channels, 25 pixels 0.83; 5 x 5 taps of 24 channels, 64 outputs, 27 pixels, in tiles of 6, 1.08.
# convolution_grouped.
FLAT_PIXEL_TIME = 12
# Multiplications of vectors that gradients of filters must save for each vector that they copy to
# gather patches. Measured, one thread of a Zen 5, time with patches relative to without, taps x
# channels, outputs: 3 x 3 x 3, 64 0.61, 32 0.68, 24 0.72; 7 x 7 x 3, 64 0.77; 5 x 5 x 1, 32 0.44;
# fewer saved, 3 x 3 x 12, 24 1.03, 3 x 3 x 8, 24 1.06, 8 1.25. residual_training.
MIN_PATCH_PRODUCTS = 7
# Bytes of a matrix on the right up to which a task computes all columns of some rows of a stack of
# products, and bytes of these results. Measured, time relative to one column of tiles after the
# other for the whole stack, matrices x (rows, products per sum, columns): 64 x (198, 256, 80) 0.79,
# 64 x (198, 256, 81) 0.75, 16 x (64, 64, 96) 0.90, 200 x (40, 40, 70) 0.98, 64 x (128, 64, 128)
# 0.98, 8 x (256, 256, 256) 1.03; a single (2048, 8, 700) 1.18. matmul_stack_odd.
MAX_BLOCK_RIGHT_BYTES = 1 << 17
MAX_BLOCK_RESULT_BYTES = 1 << 15
# Tiles of a column of tiles per task, if there are at least MIN_TASK_TILES: finding the indices of
# a task takes divisions, but the last tasks of two threads should end together. Where threads share
# rows, each task reads the right operand once, so that tasks are larger if it has more than
# MAX_L3_RIGHT_BYTES. Measured, one thread, time relative to 16 tiles, (rows, products per sum,
# columns): one tile (512, 16, 512) 1.10, (700, 64, 700) 1.02, (777, 777, 777) 1.00; four tiles
# 1.01, 1.00 and 1.00, (4096, 1024, 1024) 1.00, (2048, 2048, 4800) 1.04. Computed, two threads, the
# share of time in which both work, in the mean of 800 random lengths: 0.95 with 16 tiles, 0.98 with
# four. matmul_odd, matmul_777.
TILES_PER_TASK = 4
MAX_TILES_PER_TASK = 16
MIN_TASK_TILES = 512
MAX_L3_RIGHT_BYTES = 8 << 20
# Iterations of the loop over k in which one line of each operand of an epilogue, and of the
# results, is prefetched: those of a whole tile at once delay what the loop itself reads. Measured,
# one thread, (512, 512) times (512, 2048) and a residual, time relative to the bare product: 1.06
# without, 1.04 at once, 1.01 line by line. linear_gelu.
ITERATIONS_PER_LINE = 8
# Bytes of packed operands that all programs keep for later calls with the same arrays, and the
# fewest bytes of one: looking it up takes about 100 ns. Measured, time of a forward pass with kept
# operands relative to without: perceptron of 784, 512, 512 and 10 features 0.85 for 64 rows, 0.90
# for 128, 0.94 for 256; of 1024, 4096 and 1024 0.70 for 64 rows, 0.90 for 256. matmul_weights.
MAX_KEPT_PANEL_BYTES = 256 << 20
MIN_KEPT_PANEL_BYTES = 1 << 14
# Instructions after the last use of packed operands up to which another product that packs the same
# reads these instead: the memory is not available in between. training_lstm.
MAX_SHARED_DISTANCE = 16
# Arrays of one layout that a program keeps packed: the layers of a model share their programs if it
# is not compiled. No benchmark.
MAX_KEPT_SOURCES = 64
# Elements whose copy takes as long as one more call of a product, where `gather_mm` merges products
# that share a factor: about 8 us. experts_bfloat16.
GATHERED_CALL_ELEMENTS = 1 << 14
# Multiplications that justify machine code for a convolution that is not compiled: a millisecond of
# BLAS, against half a second of LLVM for the first one of a shape. convolution_uncompiled.
MIN_CONVOLUTION_ALONE = 1 << 24
# Evaluations after which a convolution below MIN_CONVOLUTION_ALONE gets machine code, too.
# Measured, windows of 4 in 96 and in 8192 channels, one row: 43 and 66 us by NumPy, 1.7 and 4.5 us
# by a program, which takes 20 to 80 ms to make. By then, a model has lost about as much time as
# that. No benchmark.
MIN_SMALL_RUNS_ALONE = 1000
# Taps of a window along an axis, and steps between windows, up to which overlapping windows are
# added tap by tap, with two kernels per tap; beyond, by a scatter. Measured, 8 x 33 x 33 x 48,
# gradients of means of 3 x 3: 0.39 times as long as a scatter for steps of 2, 0.17 for steps of 1.
# pooling_gradients.
MAX_FOLDED_TAPS = 8
# Elements of the images above which pooling that is not compiled runs as its own program; below, it
# is composed of a view and a reduction. Measured, windows of 3 x 3, 8192 elements: 12 us by the
# program, 59 us by NumPy. No benchmark.
MIN_POOLING_ALONE = 1 << 12
# Vectors of channels that pooling computes together, and the fewest iterations of the gradient's
# parallel loop, as far as channels can be divided. Measured, gradient of 8 x 56 x 56 x 64, windows
# of 3 x 3: 1077 us with one vector, 835 with two, 670 with four. pooling_gradients.
POOLING_VECTORS = 4
MIN_POOLING_TASKS = 8
# Unrolled iterations of the innermost loop of a product, and bytes of a tile's sums above which it
# is not unrolled: large tiles hide the loop overhead, and compile in half the time. Measured, time
# of one iteration relative to four: tiles of 1536 bytes 0.98 to 1.01, of 640 1.01 to 1.05, of 12
# rows of one vector 1.10 to 1.15. matmul_float32, first_step_block.
PRODUCT_UNROLLING = 4
MIN_ROLLED_TILE_BYTES = 1024
# Multiplications per matrix of a stack up to which its lengths are compile-time constants.
# Measured, time relative to code for all lengths: 10,000 x 3 x 3 0.31, 4 x 4 0.35, 1000 x 6 x 6
# 0.47, 8 x 8 0.50, 10 x 10 0.80; the code compiles in 0.6 to 0.9 times the time.
# matmul_tiny_stack.
MAX_TINY_PRODUCT = 1024

# What C reads, through the header that build_support/tuning_header.py generates.
NATIVE = ("MAX_KEPT_PANEL_BYTES", "MAX_KEPT_SOURCES")
