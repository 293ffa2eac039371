"""Thresholds that trade one cost for another: how much work justifies a thread, how long a block
is, when a graph is fused.

Each comment gives the reason, and ends with the benchmarks that show a change (`ingot bench NAME`).
"Measured" means CPU time on a 2-core Xeon with AVX-512, 48 KiB of L1 and 2 MiB of L2 per core.
Without a measurement the number is a choice, and the comment says what a smaller and a larger one
cost. Facts and contracts live elsewhere: limits of NumPy and of file formats, the summation order
(reduction_order.py), thresholds that choose a precision.

Only plain ints and floats, and no imports: the build runs this file by itself to generate
`tuning.h` from the names in `NATIVE`. After changing one of those, run `make build`.
"""

# ---- Threads -------------------------------------------------------------------------------------

# Waking the pool's threads for a loop takes about 5 us while they spin and about 30 us once they
# have parked (measured, on a busy machine: fork_join, fork_join_parked). The thresholds below are
# amounts of work that save more than that when halved.

# How long a thread spins after a loop before it parks. If shorter, consecutive loops pay for waking
# threads; if longer, idle threads take time from other programs. Spinning as long as a wake-up
# takes costs at most twice the best choice. fork_join_parked, training_step.
SPIN_MICROSECONDS = 30
# Chunks of a loop per thread, so that the others wait less for a thread that is delayed. More
# chunks cost more atomic operations and interrupt sequential reads. gelu_large.
CHUNKS_PER_THREAD = 4

# Instructions times elements of a kernel's loop that justify a thread. If smaller, short loops wait
# for threads; if larger, a core idles where two would halve the time. gelu_small, odd_gelu_7x1023.
MIN_THREAD_WORK = 1 << 14
# Multiplications of a matrix product that justify another thread: about 10 us of one core. Below
# this, NumPy is called directly, which takes less preparation. matmul_small, matmul_odd.
MIN_PRODUCT_THREAD_WORK = 1 << 18
# Multiplications of attention with few queries that justify another thread: about 20 us of one
# core. No benchmark.
MIN_PARALLEL_ATTENTION = 1 << 18
# Keys per iteration of its parallel loop. Fewer keys cost more combining; more leave threads idle
# if there are few heads. 512 keys of 64 floats, with their values, are 256 KiB. No benchmark.
ATTENTION_SPLIT = 512
# The longer side of one thread's block of a product, in elements, above which the block is split
# again, for the same reason as CHUNKS_PER_THREAD. Shorter blocks lose more of BLAS's packing.
# matmul_float32.
PRODUCT_SPLIT_SIDE = 1024

# Multiplications of a convolution that justify another Python thread: about a millisecond. With
# less, waiting for the GIL between products costs more than it gains. convolution.
MIN_CORRELATION_THREAD_WORK = 1 << 25

# ---- Interrupts ----------------------------------------------------------------------------------

# How often the main thread lets Python handle signals during native work. A person notices a delay
# of about 100 ms; taking the GIL costs microseconds and waits for other threads that hold it.
# gelu_large.
POLL_NANOSECONDS = 50_000_000
# The approximate duration of a block of a loop, between which signals are checked: two per poll.
# Each block ends with a join of all threads, which is thousands of times shorter. gelu_large.
BLOCK_NANOSECONDS = 25_000_000
# How much longer than its predecessor a block may be: the first blocks may have been fast by
# chance. A wrongly measured block is late by at most this factor. gelu_large.
MAX_LOOP_BLOCK_GROWTH = 4
# The first block of a kernel's loop, in grains (MIN_THREAD_WORK) per thread: a few milliseconds. If
# one iteration justifies a thread by itself, its duration is unknown, so the first block has only a
# few iterations. Larger blocks delay the first check for signals. gelu_large.
FIRST_BLOCK_GRAINS = 512
FIRST_BLOCK_ITERATIONS = 4

# Iterations of a native loop between two reads of the clock, if all its kernels are too small for a
# second thread (microseconds): a read takes 7 ns, as long as a short iteration. loop_recurrence.
SMALL_STEPS_PER_POLL = 16
# The same for loops that are a single function, whose iterations take nanoseconds. loop_recurrence.
REPEATED_STEPS_PER_POLL = 1024

# A BLAS call cannot be interrupted, so products are split into blocks. Multiplications per block: a
# twentieth of a second of one core for float32; matrix-vector products are memory-bound and get
# fewer. Smaller blocks pack operands more often. matmul_float32, matmul_vector.
MAX_PRODUCT_BLOCK_WORK = 1 << 31
MAX_GEMV_BLOCK_WORK = 1 << 24
# Blocks are not split below these lengths of the result and of the sums, at which BLAS is as fast
# as for whole matrices. matmul_float32.
PRODUCT_BLOCK_SIDE = 1024
PRODUCT_BLOCK_DEPTH = 1024

# Elements of an operand below which an op that may be evaluated in blocks (`Op.block_axis`) never
# is: any op on so few elements is done before anyone notices. This saves asking the op for small
# arrays. scalar_chain.
MIN_BLOCKED_ELEMENTS = 1 << 18

# ---- Fusion of uncompiled graphs (compiler/call/fusion_policy.py) --------------------------------

# Finding the program of a graph takes about 40 ns per node if C knows the graph, and 1 to 2 us if
# only Python does (measured). A graph gets a program at its second evaluation if one result has
# MIN_FUSED_ELEMENTS, and results of at least MIN_FUSED_NODE_ELEMENTS average that many elements per
# op that is not a view. Measured: multiplying 4096 numbers by a scalar takes 7 us, mostly the call
# that fusion saves; 32768 numbers take 21 us, and their exp 62 us. A training step of a small
# transformer, 5536 elements per op: 23 ms op by op, 6 ms as a program. middle_chain, gelu_eager.
MIN_FUSED_ELEMENTS = 1 << 13
MIN_FUSED_NODE_ELEMENTS = 1 << 12
# Evaluations after which a graph on fewer elements is compiled too. An op on a few elements takes
# about 2 us by itself and a tenth of that in a program; compiling takes about 4 ms per op, or a few
# in total from the disk cache. By then, a loop has lost about as much time as compiling costs. Adam
# steps of a perceptron: 0.71 ms op by op, 0.37 ms as a program. small_chain, training_tiny.
MIN_SMALL_GRAPH_RUNS = 2000
# Elements that take as long as the call of an op: a graph whose results average n times as many
# needs 1 / (1 + n) of these evaluations. A scan of 33 steps on 2160 elements: 1.2 ms op by op, 0.1
# ms as a program, which takes 0.8 s to compile. No benchmark.
ELEMENTS_PER_CALL = 1 << 10
# The same for a map or a reduction in a graph that stays without a program, such as the activation
# of a decoding step: elements that its `evaluate` rule has computed when it gets one, where a call
# counts as RECURRING_CALL_ELEMENTS. That is 2000 calls of a few elements, 500 of 1536 and two of a
# million. Measured with graph and eval, 1536 elements: sigmoid 8.5 us by NumPy and 1.2 us by a
# program, sums of bfloat16 4.5 and 1.0 us, sums of two float32 arrays 1.4 and 0.9 us. decoding.
RECURRING_CALL_ELEMENTS = 1 << 9
MIN_RECURRING_ELEMENTS = 1 << 20
# Nodes beyond which a graph is not compiled: it is unrolled Python rather than a function. Measured
# without the disk cache: chains of 90 ops compile in 0.6 s, of 300 in 3.4 s. first_step_blocks.
MAX_FUSED_NODES = 2000
# Bytes that the ops of a graph read and write, in total and per node, above which it is compiled at
# its first evaluation. Measured: an op processes 32 MB in 3 ms, and compiling takes at least 7 ms
# per node without the disk cache. So a graph that never recurs loses a little, and one that recurs
# a few times gains. gelu_eager.
MIN_BYTES_TO_FUSE_AT_ONCE = 64 << 20
MIN_BYTES_TO_FUSE_AT_ONCE_PER_NODE = 4 << 20
# Programs that graphs of the same ops may have before one more is compiled only if the existing
# ones have run MIN_RUNS_PER_PROGRAM times on average. With fewer trials, a function that is called
# with several shapes runs op by op; with more, a length that grows at each step compiles more
# programs in vain. gradient_evaluated.
MAX_TRIAL_PROGRAMS = 4
MIN_RUNS_PER_PROGRAM = 8
# Structures that differ only in numbers before they get a symbolic program: two show what varies,
# and a third confirms it. gradient_evaluated.
MIN_SYMBOLIC_EXAMPLES = 3
# Symbolic programs kept per kind of structure, the latest ones: they are tried in sequence for new
# numbers. gradient_evaluated.
MAX_SYMBOLIC_PROGRAMS = 8
# Structures, and families of them, that are remembered; each holds at most one program. More cost
# memory; with fewer, structures that alternate are compiled again. gradient_evaluated.
MAX_FUSED_STRUCTURES = 512

# Single-op programs that are kept, for ops with their own loop nests that are evaluated without
# `compile`, by op and input layouts. A program is a few kilobytes and takes about a millisecond to
# make. quantized_rows, matmul_small.
MAX_PROGRAMS_ALONE = 1024
# Shapes of products of some ranks and dtypes that are remembered, to see which lengths vary: those
# of three prompts to a model with twenty kinds of matrices. Symbolic programs that they have: a few
# for each of these matrices. language_model_prompt.
MAX_PRODUCT_EXAMPLES = 64
MAX_SYMBOLIC_PRODUCTS = 64

# Scores of attention without `compile`, of the same lengths in total, after which these get a
# program of their own. Measured, one thread, 9 heads, causal, in ms: 512 positions 12.0 op by op,
# 7.3 by the program for all lengths, 3.6 by one of their own; 2048 positions 117 in blocks, 50.
# That is 1.6 ns per score, and compiling takes 145 ms. language_model_prompt.
MIN_WORK_FOR_LENGTHS = 1 << 26

# ---- Sums in a fixed order -----------------------------------------------------------------------

# Columns that are accumulated together: times 32 lanes of 8 bytes, 16 KiB, half of the smallest L1.
# sum_columns.
ORDERED_SUM_COLUMNS = 64

# ---- Groups of steps (compiler/passes/fuse.py) ---------------------------------------------------

# Steps per kernel. LLVM's time grows faster than the code (see MAX_FUSED_NODES). training_block.
MAX_GROUP_STEPS = 256
# How many of these steps a math function counts as. LLVM takes 0.1 ms for a product or sum, 3 ms
# for an exponential and 15 to 27 ms for a sine, so a kernel of 85 sines took 2.2 s; a chain of
# 1,000, which is cut into equal groups, takes 0.06 times as long. Arrays between the groups cost
# nothing measurable next to 20 functions of each element. No benchmark.
MATH_FUNCTION_STEPS = 12
# How many of these steps a reduction of rows counts as that depends on another one of its kernel,
# and so takes another traversal of the row. LLVM takes 4 ms for each: Gram-Schmidt on 48 columns,
# 1,128 projections in kernels of up to 60, took 4.8 s to compile. In kernels of five or six, of
# which many are equal, it takes 0.93. Normalisations and their gradients have at most three. No
# benchmark.
CHAINED_REDUCTION_STEPS = 48
# Steps by which a group may compute a value from others in memory instead of reading it there, and
# the fewest bytes of such a value: what is smaller stays in L1. A source whose bytes times
# SMALL_SOURCE_RATIO are less counts as nothing. training_block.
MAX_REMATERIALISED_STEPS = 8
MIN_REMATERIALISED_BYTES = 1 << 14
SMALL_SOURCE_RATIO = 8
# Bytes of a value that a group writes and reduces along columns above which these are two kernels.
# Measured, one thread, time of one kernel relative to two: products of float32 and their sums, 256
# x 512 1.57, 1024 x 1024 1.43, 4096 x 1024 1.38, of bfloat16 2.10, 2.48 and 2.31; with exponentials
# 1.07, 1.18 and 1.24, 1.16, 1.15 and 1.27; sums of products 1.07, 1.09 and 1.17, 0.97, 0.94 and
# 1.03. training_step, training_block.
MIN_APART_BYTES = 1 << 15
# Matrix products that a fused group reads, which are all in memory at the same time. The gradient
# of a weight that 300 unrolled steps share is a sum of 300 products: LLVM took 8.3 s for a kernel
# that reads 100, and the sum 2.5 GB. compile_unrolled_lstm.
MAX_GROUP_PRODUCTS = 4
MAX_PARTS = 4  # inputs of an assembled value that its reader reads in place, or one kernel writes
# With fewer rows than this, a reduction of long rows is split among threads instead of run row by
# row; rows of at most MAX_ROW_ELEMENTS are fast enough on one thread. sum_rows,
# odd_sum_rows_7x1023.
MIN_ROWS = 16
MAX_ROW_ELEMENTS = 1 << 15

# ---- Loop nests (compiler/lower) -----------------------------------------------------------------

# The L1 size that loops assume: the smallest of recent processors. A larger operand that is read
# with non-unit stride is copied in tiles. odd_gelu_1023x4097_transposed.
L1_BYTES = 1 << 15
# Elements of a long innermost axis per iteration of the parallel loop: enough for vectors and
# prefetching, and few enough for threads to share one row. gelu_large, odd_gelu_1x4097.
MAP_TILE = 8192

# Elements of a row up to which reductions of functions such as exp are unrolled instead of run in
# masked lanes. Measured, one thread, ns per element of a softmax unrolled and masked: 9 elements
# 1.2 and 2.3, 20 1.1 and 1.5, 26 1.1 both, 30 1.1 and 1.0. The same for sums: 9 elements 0.35 and
# 0.18, 31 0.35 and 0.09. odd_softmax_1023x7.
MAX_UNROLLED_ROW = 26
# Instructions in a loop over lanes up to which it is unrolled, to hide its overhead. Longer bodies
# hide it anyway, and unrolling would only add code. sum_rows, sum_all, layer_norm_rows.
MAX_UNROLLED_INSTRUCTIONS = 16
UNROLLED_COPIES = 4
# Bytes of all lanes beyond which the loop is not unrolled, where they are combined and where they
# are read. LLVM mixes the reads of its copies, and prefetching loses track: maxima of 1023 x 4097
# float32 take 1.7 times as long if reads of 512 bytes are unrolled. The keys of argmax in 128 lanes
# are 16 vectors: 1024 x 4096 take 0.93 to 0.99 times as long and compile in 0.4 times; with 64
# lanes of keys and rows of 300, 1.15 times as long. odd_max_rows_1023x4097.
MAX_UNROLLED_BYTES = 512
MAX_UNROLLED_LOADS = 256
# Bytes of strided elements that are packed on the stack before they are reduced: the size of L1.
# odd_sum_rows_1023x4097_strided.
MAX_PACKED_BYTES = 1 << 15
# Bytes of a row that may be kept on the stack for later passes, as a softmax keeps its
# exponentials: the size of L1. Longer rows are rematerialised. Half types are kept as float32,
# because converting them takes 1.3 cycles for a vector each time: measured, one thread, 16 rows of
# 4097, relative to keeping them in the output, layer norm of float16 0.83 and of bfloat16 0.93,
# softmax 0.88 and 0.89. softmax_rows, layer_norm_rows, odd_layer_norm_1023x4097_float16.
MAX_KEPT_ROW_BYTES = 1 << 15
# Instructions up to which a value is recomputed in later passes over a row instead of kept: fewer
# than an exponential, or rounding to a half type, has. Measured, one thread, layer norm of 16 rows
# of 4096: float16 24 us with centred values kept and 26 recomputed, bfloat16 23.9 and 25.8;
# float32, which needs no rounding, 13.3 recomputed. softmax_rows, layer_norm_rows.
MAX_RECOMPUTED_INSTRUCTIONS = 10
# The smallest capacity for kept elements of a row of symbolic length. It is doubled until the
# length fits, and each capacity is a separate program. shapeless_new_shape_softmax.
MIN_KEPT_ROW_CAPACITY = 1024

# Adjacent columns below which columns are reduced one at a time. odd_sum_columns_1023x7.
MIN_INNER_COLUMNS = 8
# Columns of a tile in a reduction along other axes. Wider tiles have longer contiguous runs, which
# prefetching favours, as long as 12 lanes stay in L1 and L2. There should be MIN_COLUMN_TILES,
# counting blocks of rows, for threads to share. Measured, sums of 4096 x 4096: tiles of 256 columns
# take 3.3 ms, 512 3.2, 1024 2.8, 4096 2.4. Of 1000 x 1000 on one thread: tiles of 256 62 us, 512
# and more 56; of 3000 x 300 62 and 52. sum_columns, max_columns.
MAX_TILE_COLUMNS = 1024
MIN_TILE_COLUMNS = 512
MIN_COLUMN_TILES = 8
# Elements above which a tile's last columns, which do not fill a vector, get their own loop if the
# reduction computes a function of each element: 1000 x 1000 exponentials take 249 instead of 303
# us, but LLVM 150 ms longer. The same holds for sums of half types (1023 x 4097 of float16: 183
# instead of 256 us). Maxima, whose code is short, always do: 82 instead of 99 us. max_columns.
MIN_SPLIT_COLUMN_ELEMENTS = 1 << 19
# The same for plain sums, whose masked loads are slow where rows come from memory and are not
# aligned with lines. On one thread of a Zen 5, masked and split: sums of 2000 x 4100 1202 and 902
# us, 1500 x 3001 326 and 299, 1023 x 4097, in L3, 263 and 271, but LLVM takes 40 to 100 ms longer.
# odd_sum_columns_1023x4097.
MIN_SPLIT_PLAIN_ELEMENTS = 1 << 21
# The same for all reductions where masked stores are slow. On one thread of a Zen 3, masked and
# split: sums of 1023 x 4097 1.64 and 0.83 ms, 300 x 301 26 and 12 us, but LLVM takes 60 ms longer;
# 100 x 101 2.7 and 2.4 us. odd_sum_columns_1023x4097.
MIN_SPLIT_SLOW_STORES = 1 << 16
# Bytes of all lanes of columns whose rows are adjacent in memory up to which rows are added as
# runs, however few columns they have, and runs per iteration, which are as many streams of reads.
# On one thread, before and after: sums of 20,000 x 7 42 and 7.6 us, of 65,536 x 33 196 and 110, of
# float16 20,000 x 33 106 and 29, variances of 20,000 x 33 315 and 76; with 2 or 8 runs 0.96 to 1.12
# times as long. odd_sum_columns_1023x7.
MAX_FLAT_LANES_BYTES = 1 << 14
RUNS_PER_LOOP = 4
# Lanes that one loop combines: LLVM's time is quadratic in the pointers of a loop. More lanes would
# save iterations of a loop that is short anyway. sum_columns, first_call_cold.
LANES_PER_LOOP = 8
# Bytes of all lanes of narrow columns up to which rows are added to them in memory order; going
# lane by lane would read short runs that are far apart. Measured on one thread, two sums of a
# product of three arrays that is also written: 65,536 x 32 0.60 ms instead of 3.6, 40,000 x 100 2.4
# ms instead of 6.3. residual_training.
MAX_LANES_BYTES = 1 << 15
# Rows that a reduction along columns combines per iteration, divided by the steps it computes
# (twice as many in wide tiles that compute none), so that sums are loaded and stored once for all
# of them. 16 rows of a lane take 0.95 times as long as 8 and 8, eight lanes of 2 rows 0.55.
# sum_columns.
ROWS_PER_LOOP = 8
# Steps of a column's code up to which it has no loop over rows. More code takes longer to compile
# than to run. odd_sum_columns_7x1023.
MAX_UNROLLED_COLUMN_STEPS = 64
# A reduction is split into partial ones, which takes a second pass, unless tiles of columns keep
# all threads busy or one thread is fast enough anyway. sum_columns, odd_sum_columns_1023x7.
MIN_UNSPLIT_TILES = 64
MAX_UNSPLIT_ELEMENTS = 1 << 16

# The shortest axis that justifies a loop along it when an operand is transposed in tiles.
# odd_gelu_1023x4097_transposed.
MIN_TRANSPOSED_AXIS = 4
# A tile of a transposed operand: elements along the last axis; bytes along the axis on which the
# operand is contiguous (a few cache lines, so that each is read once); and the most elements along
# that axis. Tiles of 4-byte elements fill half of L1_BYTES. odd_gelu_1023x4097_transposed.
TRANSPOSE_TILE_WIDTH = 64
TRANSPOSE_TILE_HEIGHT_BYTES = 256
MAX_TRANSPOSE_TILE_HEIGHT = 128
# The side of a block that is transposed in registers, in elements: 16 vectors of 16 floats are half
# of AVX-512's registers; the result takes the other half. odd_gelu_1023x4097_transposed.
MAX_REGISTER_TILE = 16

# ---- Products (compiler/lower/products) ----------------------------------------------------------

# The most rows of a register tile. More rows are more streams to read: tiles of 14 rows took 1.4
# times as long as tiles of 8 for matrices of 1024 rows and columns (measured). matmul_float32.
MAX_TILE_ROWS = 12
# Tiles get fewer rows than registers allow if that takes less than this fraction of the time,
# counted in rows plus TILE_OVERHEAD_ROWS per tile: 32 rows are three tiles of 11, not of 12.
# Smaller gains are ignored, so that products of most sizes share machine code. matmul_stack.
MIN_TILE_GAIN = 0.96
TILE_OVERHEAD_ROWS = 0.5
# Multiplications up to which BLAS computes a product: these take a few microseconds, and programs
# with no other kernels then need no compiler. matmul_small. The most matrices of a stack for which
# that is so: each is a call that takes about 30 ns. Measured, time of a nest relative to these
# calls: 33 x 4 x 4 0.6, 1000 x 3 x 3 0.1. matmul_tiny_stack.
MAX_BLAS_WORK = 1 << 15
MAX_BLAS_STACK = 32
# The most vectors of a tile with few rows: runs of 1 KiB of a matrix that is read once.
# matmul_vector.
MAX_TILE_VECTORS = 16
# The bytes of a cache line on all x86-64 and most aarch64 processors. Prefetches advance by lines,
# and strides below this do not change the loop order. linear_gelu.
CACHE_LINE = 64
# How many rows ahead a right operand that is read once is prefetched, if a tile has at most
# MAX_FETCHED_VECTORS vectors of each row. Measured with 1024 rows and columns, time relative to no
# prefetching: 0.8 for 8 vectors (3 rows of results), 0.88 for 4 (6 rows), 1.0 for 3, and 1.56 for
# 12. matmul_few_rows.
ROWS_AHEAD = 16
MAX_FETCHED_VECTORS = 8
# The alignment of operands in scratch memory: a cache line. matmul_float32.
SCRATCH_ALIGNMENT = 64
# Rows of results up to which operands of half types are converted as they are read; with more rows,
# each element would be converted too often. matmul_bfloat16.
MAX_CONVERTED_ROWS = 16
# Tasks of a product from which on each computes all columns of some rows. matmul_stack_odd.
MIN_PRODUCT_TASKS = 16
# Rows of results up to which these columns of tiles run one after the other. Otherwise blocks of
# rows do, the last of which has fewer rows, so that its thread ends early. Measured, time by
# columns relative to by rows, (rows, products per sum, columns): two threads (256, 784, 512) 0.78,
# (256, 512, 512) 0.78, (784, 256, 512) 0.89, (32, 256, 1024) 0.98, (1024, 256, 256) 1.01; one
# thread (300, 1000, 300) 0.98, (256, 4096, 512) 1.00, (512, 2048, 512) 1.01, (777, 777, 777)
# 1.02, (1000, 2000, 300) 1.02, (1024, 1024, 1024) 1.00, (4096, 64, 512) 1.04. training_step.
MAX_ROWS_BY_COLUMNS = 1024
# Products that are accumulated sequentially. Longer sums consist of such partial sums, so that
# rounding errors grow more slowly; after each, the tile is added to a buffer on the stack.
# matmul_float32.
SUM_BLOCK = 512
# Rows of a panel that one iteration of the packing loop copies: enough to justify a thread, and few
# enough for threads to share a narrow matrix. matmul_float32.
PACKED_ROWS = 256

# Keys per block of attention: the scores of 32 queries are then 16 KiB of float32, half of L1. With
# fewer keys, sums are loaded and stored more often; with more, values leave L1 between two tiles.
# Measured: 64, 128 and 256 are within 3% of each other. attention_777, attention_4096.
ATTENTION_KEY_BLOCK = 128
# Bytes of the input's windows that a block of a convolution copies to the stack: a quarter of a 1
# MiB L2; the filters need the rest. convolution.
MAX_WINDOW_BYTES = 256 << 10
# The most pixels of results per block of a convolution: more read filters from L3 less often, but
# leave threads less to share. convolution.
MAX_CONVOLUTION_PIXELS = 1024
# The fewest blocks of a convolution, for threads to share. convolution.
MIN_CONVOLUTION_TASKS = 16
# The most bytes that all groups of a block read and write: groups share cache lines, which should
# stay in L2 from one group to the next (8 outputs each: 3.0 ms instead of 4.0).
# convolution_grouped.
MAX_GROUPED_BLOCK_BYTES = 512 << 10
# Bytes of the transformed windows of a block of Winograd's convolution: half of a 1 MiB L2.
# convolution.
MAX_WINOGRAD_BYTES = 512 << 10
# The fewest tiles of such a block: with fewer, filters are read from L3 too often, and transforming
# them takes longer than it saves (16 tiles of 512 channels: 1.13 times direct sums). convolution.
MIN_WINOGRAD_TILES = 24
# The fewest channels and outputs for which Winograd's convolution is faster: 16 take 0.63 times as
# long as direct sums, 64 take 0.53. convolution.
MIN_WINOGRAD_CHANNELS = 16
# Pixels per block of a gradient with respect to filters: with their windows, about what L1 holds.
# convolution.
MAX_GRADIENT_PIXELS = 256
# The most bytes of partial gradients with respect to filters: with less, fewer threads have pixels
# of their own, and share outputs instead. convolution.
MAX_PARTIAL_FILTER_BYTES = 4 << 20
# The most vectors of channels per block of a depthwise convolution. convolution.
DEPTHWISE_VECTORS = 2
# Queries per block of keys in the gradients of attention. With fewer, the sums of keys and values
# are loaded and stored more often; with more, scores leave L2. attention_gradients_777,
# attention_gradients_4096.
ATTENTION_QUERY_BLOCK = 128
# The fewest tasks of the gradients of attention, if there are enough blocks of keys: one per head
# of keys, and ranges of keys if there are few heads. Each range has its own sums for all queries.
# attention_gradients_777.
MIN_ATTENTION_TASKS = 8

# ---- Programs (compiler/run, compiler/call) ------------------------------------------------------

# Input layouts that a program is compiled for; inputs of any other layout are made contiguous
# first. More layouts cost memory and compile time. A layout gets its program when it recurs, or
# immediately if copying the non-contiguous inputs would take about as long as compiling.
# odd_gelu_1023x4097_strided.
MAX_LAYOUTS = 16
MIN_BYTES_FOR_A_LAYOUT = 64 << 20
# Elements per call of a math function outside fused graphs, by a kernel for the next power of two:
# at most 16 kernels per function, and 4 MB of float32. No benchmark.
MIN_MATH_KERNEL = 16
MAX_MATH_KERNEL = 1 << 20

# ---- Ops (ops/) ----------------------------------------------------------------------------------

# Scores above which attention that is not compiled, or has symbolic lengths, is computed in blocks:
# 16 MB of float32. With fewer, a composition of ops is faster: it fuses, and its matrices stay in
# cache. A block has 4 MB. training_block.
MIN_BLOCKED_SCORES = 1 << 22
# Queries up to which attention is composed of products with few rows instead of a loop nest, whose
# vectors have a lane per query. Measured, compiled: 1 query of 8 heads to 1024 keys takes 80 us
# composed and 341 as a nest, 16 to 16 take 18 and 16, 512 to 512 7.8 and 6.0 ms. Without compile it
# is then a single node for all heads: a decoding step, whose keys grow by one each time. Op by op
# it takes 25 nodes; measured with 9 heads and 80 keys: 20 us instead of 150. attention_decode,
# decoding.
MAX_QUERIES_AT_ONCE = 8
SCORE_BLOCK = 1 << 20
# Rows up to which a product with a quantised matrix unpacks codes in registers, again for each
# block of rows; with more, the matrix is unpacked to panels once. Measured, one thread, (1536,
# 576), (576, 1536) and (4096, 4096) with 4 bits, time of registers relative to panels: 16 rows
# 0.86, 0.89, 0.65; 32 rows 1.04, 1.08, 0.98; 48 rows 1.22, 1.16, 1.17; 128 rows 1.46, 1.23, 1.23.
# quantized_rows, quantized_many_rows.
MAX_QUANTIZED_ROWS = 32
# Bytes of rows, as float32, that stay in L2 while all columns are computed from them: half of the
# smallest L2. quantized_many_rows.
QUANTIZED_ROWS_BYTES = 1 << 17
# Codes per column that are unpacked at a time when a matrix is unpacked to panels: for the 64
# columns of a panel, 32 KB of float32, which stay in cache. quantized_many_rows.
MAX_UNPACKED_CODES = 128
# Bytes that a quantised matrix may take as float32 panels: larger ones are multiplied in chunks, so
# that the scratch memory of a product is bounded. quantized_many_rows.
MAX_QUANTIZED_PANELS = 1 << 26
# Rows that are multiplied by codes while these are in registers: each has its own sums for every
# column. Measured, one thread, codes times rows per nanosecond of 8 rows, of at most 58 that fused
# multiply-adds allow: (576, 1536) 47, (2048, 2048) 48; 24 sums are spilled: 40 and 44.
# quantized_rows.
QUANTIZED_TILE_ROWS = 8
# Rows up to which sums of codes are scaled instead of each code: fewer instructions per code, but
# two sums for each row and column. Measured, one thread, one row, 4 bits in groups of 64, (4096,
# 4096): 29 instead of 16 codes per nanosecond; 4 rows: 1.67 instead of 1.88 ms; 8 rows no faster.
# quantized_row, quantized_rows.
MAX_FACTORED_ROWS = 4
# Rows of int8 that are multiplied by the codes of two columns while these are in registers: each
# has an int32 and a float32 sum. Measured, one thread, 4 bits, 8 rows, (1536, 576), (576, 1536) and
# (4096, 4096), in ms: 4 rows at a time 0.090, 0.066, 1.13; 6 rows 0.094, 0.066, 1.26; 4 rows of
# three columns 0.096, 0.070, 1.12. As float32: 0.19, 0.17, 3.2. 512 rows of (4096, 4096): 72 as
# int8, 168 as float32 from panels. quantized_row_int8, decoding_requests_int8.
BYTES_TILE_ROWS = 4
# The least distance, in bytes, at which a quantised matrix is prefetched into L2. Measured, one
# thread, a row of bytes and 75 MB: 4 KB 22 GB/s, 8 KB 22, 16 KB 26, 32 KB 25; into L1 12 to 17;
# reading alone 29. quantized_row, quantized_row_int8.
PREFETCH_BYTES = 1 << 14
# Elements of a matrix of windows that a convolution multiplies at a time: 4 MB of float32. Smaller
# blocks pack filters more often; larger ones leave the cache. convolution.
WINDOW_BLOCK = 1 << 20
# A matrix times a stack of matrices with at most this many columns is one product with all columns:
# BLAS would otherwise read the matrix again for each. Wider ones lose more by being copied.
# matmul_vector.
MAX_FOLDED_COLUMNS = 8
# The largest side of the factors of a Hadamard transform: a larger matrix costs more than another
# product. No benchmark.
MAX_HADAMARD_FACTOR = 64
# Functions of random numbers, computed this many at a time without compile: 32768 floats, and what
# is computed from them, stay in L2. random_uniform.
RANDOM_SLAB = 1 << 15

# Items, including nested ones, of a container that a compiled function reads from a variable and
# compares on each call, at 20 to 50 ns each. Larger containers are constants. No benchmark.
MAX_GUARDED_ITEMS = 256

# Lengths of an axis that are compiled separately before the length becomes a symbol: the last batch
# of an epoch keeps its own program. A decoder of 4 layers takes 0.5 s to compile, for one length as
# for all. Then: failed attempts, and traces and programs of each. decoding_growing_cache.
MAX_FIXED_LENGTHS = 3
MAX_REFUSED_TRACES = 2
MAX_LENGTH_CLASSES = 16

# What C reads, through the header that build_support/tuning_header.py generates.
NATIVE = (
    "SPIN_MICROSECONDS", "CHUNKS_PER_THREAD", "MIN_PRODUCT_THREAD_WORK", "PRODUCT_SPLIT_SIDE",
    "POLL_NANOSECONDS", "BLOCK_NANOSECONDS", "MAX_LOOP_BLOCK_GROWTH", "FIRST_BLOCK_GRAINS",
    "FIRST_BLOCK_ITERATIONS", "SMALL_STEPS_PER_POLL", "REPEATED_STEPS_PER_POLL",
    "MAX_PRODUCT_BLOCK_WORK",
    "MAX_GEMV_BLOCK_WORK",
    "PRODUCT_BLOCK_SIDE", "PRODUCT_BLOCK_DEPTH", "MIN_BLOCKED_ELEMENTS", "MIN_FUSED_ELEMENTS",
    "MIN_FUSED_NODE_ELEMENTS",
    "MIN_SMALL_GRAPH_RUNS", "RECURRING_CALL_ELEMENTS", "MIN_RECURRING_ELEMENTS",
    "ELEMENTS_PER_CALL", "MAX_FUSED_NODES", "ORDERED_SUM_COLUMNS",
    "MIN_PARALLEL_ATTENTION", "ATTENTION_SPLIT",
)  # fmt: skip
