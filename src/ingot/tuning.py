"""Numbers that trade one cost for another: how much work is worth a thread, how long a block is,
when a graph is fused.

Each has its reason, and the benchmark that shows a change of it (`ingot bench NAME`). "Measured" is
processor time on a Xeon of 2 cores with AVX-512, 48 KiB of L1 and 2 MiB of L2 a core. Where no
measurement is given the number is a choice, and the comment says what a smaller and a larger one
cost. Facts and contracts are elsewhere: limits of NumPy and of file formats, the order of sums
(reduction_order.py), thresholds that choose a precision.

Plain ints and floats, and no imports: the build runs this file by itself to make `tuning.h` of the
names in `NATIVE`. After a change of one of these, `make build`.
"""

# ---- Threads -------------------------------------------------------------------------------------

# Calling the pool's threads for a loop takes about 5 us while they spin and about 30 us once they
# have parked (measured, on a busy machine: fork_join, fork_join_parked). Thresholds below are so
# much work that halving it saves more than that.

# Microseconds for which a thread spins after a loop before it parks. Shorter, and loops that follow
# each other pay for waking threads; longer, and idle threads take time from other programs. As long
# as waking takes, the cost is at most twice the best choice. fork_join_parked, training_step.
SPIN_MICROSECONDS = 30
# Chunks of a loop for each thread, so that one that is held up has less left for the others to wait
# for. More of them cost more atomic operations and cut what is read in sequence. gelu_large.
CHUNKS_PER_THREAD = 4

# Instructions times elements of a kernel's loop that are worth a thread. Smaller, and short loops
# wait for threads; larger, and a core idles where two would halve the time. gelu_small,
# odd_gelu_7x1023.
MIN_THREAD_WORK = 1 << 14
# Multiplications of a product of matrices that are worth another thread: some 10 us of one core.
# Below it, NumPy's own call is made too, which takes less time to prepare. matmul_small,
# matmul_odd.
MIN_PRODUCT_THREAD_WORK = 1 << 18
# Multiplications of attention of few queries that are worth another thread: as many take some 20 us
# of one core. No benchmark.
MIN_PARALLEL_ATTENTION = 1 << 18
# Keys that one iteration of its parallel loop goes through. Fewer cost more to combine, more leave
# threads without work where there are few heads: 512 keys of 64 floats, with their values, are
# 256 KiB. No benchmark.
ATTENTION_SPLIT = 512
# Elements of the longer side of one thread's block of a result from which on it is cut once more,
# for the reason of CHUNKS_PER_THREAD; shorter ones lose more of what BLAS packs. matmul_float32.
PRODUCT_SPLIT_SIDE = 1024

# Multiplications of a convolution that are worth another of Python's threads: about a millisecond.
# Less would be lost to waiting for the GIL between products. convolution.
MIN_CORRELATION_THREAD_WORK = 1 << 25

# ---- Interrupts ----------------------------------------------------------------------------------

# How often the main thread lets Python handle signals during native work. A person notices a delay
# of about 100 ms; taking the GIL costs microseconds and waits for other threads that hold it.
# gelu_large.
POLL_NANOSECONDS = 50_000_000
# Loops are run in blocks of about this long, between which signals are looked for: two for each
# poll. Each block ends with a join of all threads, which is thousands of times shorter. gelu_large.
BLOCK_NANOSECONDS = 25_000_000
# How much longer than the one before a block may be: the first ones may have been quick by chance.
# A block that was measured wrongly is late by this factor at the most. gelu_large.
MAX_LOOP_BLOCK_GROWTH = 4
# The first block of a kernel's loop, in grains (MIN_THREAD_WORK) for each thread: some
# milliseconds. Where an iteration is worth a thread by itself, nothing is known of how long it
# takes, and the first block is small. Larger ones put off the first look for signals. gelu_large.
FIRST_BLOCK_GRAINS = 512
FIRST_BLOCK_ITERATIONS = 4

# Iterations of a native loop between two looks at the clock, if all its kernels are too small for a
# second thread (microseconds): reading it takes 7 ns, as long as a short iteration.
# loop_recurrence.
SMALL_STEPS_PER_POLL = 16
# The same for loops that are functions of their own, whose iterations take nanoseconds.
# loop_recurrence.
REPEATED_STEPS_PER_POLL = 1024

# One call of BLAS cannot be interrupted. Multiplications of one block of a product: a twentieth of
# a second of one core for float32. Matrix-vector products wait for memory and take longer for each.
# Smaller blocks pack operands more often. matmul_float32, matmul_vector.
MAX_PRODUCT_BLOCK_WORK = 1 << 31
MAX_GEMV_BLOCK_WORK = 1 << 24
# Blocks are not cut below these lengths of the result and of the sums, from which on BLAS is as
# quick as for whole matrices. matmul_float32.
PRODUCT_BLOCK_SIDE = 1024
PRODUCT_BLOCK_DEPTH = 1024

# Elements of an operand below which an op that may be cut (`Op.block_axis`) never is: whatever the
# op, it is done before anybody waits for it. It saves the question for small arrays. scalar_chain.
MIN_BLOCKED_ELEMENTS = 1 << 18

# ---- Fusion of uncompiled graphs (compiler/call/fusion_policy.py) --------------------------------

# Finding the program of a graph takes about 40 ns for each node where C knows the graph, and 1 to 2
# us where only Python does (measured). One result must have MIN_FUSED_ELEMENTS, and results of at
# least MIN_FUSED_NODE_ELEMENTS must have as many for each op, for a graph to have a program from
# its second evaluation on. Measured: a product of 4096 numbers with a scalar takes 7 us, mostly the
# call that fusion saves; of 32768 numbers 21 us, and exp of them 62 us. middle_chain, gelu_eager.
MIN_FUSED_ELEMENTS = 1 << 13
MIN_FUSED_NODE_ELEMENTS = 1 << 12
# Evaluations after which a smaller graph is compiled too. An op of a few elements takes about 2 us
# by itself and a tenth of that in a program; compiling takes 7 ms for each node, or 1 ms for all if
# the disk cache has it. So what a loop lost before it had a program is about what that costs.
# small_chain.
MIN_SMALL_GRAPH_RUNS = 2000
# Nodes of such a graph at most. Larger ones are seldom the same again, and asking takes time.
# decoding.
MAX_SMALL_GRAPH_NODES = 128
# Nodes beyond which a graph is not compiled: it is unrolled Python rather than a function. Measured
# without the disk cache: chains of 90 ops compile in 0.6 s, of 300 in 3.4 s. first_step_blocks.
MAX_FUSED_NODES = 2000
# Bytes that the ops of a graph read and write, in all and for each node, from which on it is
# compiled when it is first seen. Measured: an op goes through 32 MB in 3 ms, and compiling takes 7
# ms or more for each node if the disk cache does not have it. So a graph that never comes again
# loses some, and one that comes a few times wins. gelu_eager.
MIN_BYTES_TO_FUSE_AT_ONCE = 64 << 20
MIN_BYTES_TO_FUSE_AT_ONCE_PER_NODE = 4 << 20
# Programs that graphs of the same ops may have before each must have been run so often, on average,
# for one more to be compiled. Fewer trials, and a function that is called with several shapes runs
# op by op; more, and a length that grows with each step compiles more programs for nothing.
# gradient_evaluated.
MAX_TRIAL_PROGRAMS = 4
MIN_RUNS_PER_PROGRAM = 8
# Structures that differ in numbers alone before a symbolic program is made of them: two tell what
# varies, and a third that it goes on. gradient_evaluated.
MIN_SYMBOLIC_EXAMPLES = 3
# Symbolic programs that structures of one kind have, the latest: each is asked, one after the
# other, whether it serves new numbers. gradient_evaluated.
MAX_SYMBOLIC_PROGRAMS = 8
# Structures, and families of them, that are remembered; each holds a program at most. More cost
# memory, fewer compile again what comes in turns. gradient_evaluated.
MAX_FUSED_STRUCTURES = 512

# Ops that have loop nests of their own and are evaluated without `compile`: programs of one op that
# are kept, by the op and the layouts of its inputs. A program is a few kilobytes, and takes about a
# millisecond to make. quantized_rows, matmul_small.
MAX_PROGRAMS_ALONE = 1024
# Shapes of products of some ranks and dtypes that are remembered, to see which lengths vary: those
# of three prompts to a model with twenty kinds of matrices. Symbolic programs that they have: a few
# for each of these matrices. language_model_prompt.
MAX_PRODUCT_EXAMPLES = 64
MAX_SYMBOLIC_PRODUCTS = 64

# Elements up to which rms_norm, rope and the like are one node that runs as a program of its own,
# without `compile`: some rows of a model that decodes. Measured on a row of 576: 8 us for each
# instead of 60 to 100 op by op. More elements stay graphs of ops, which fuse with others. decoding.
MAX_COMPOSITE_ELEMENTS = 1 << 13

# ---- Sums in a fixed order -----------------------------------------------------------------------

# Columns that are accumulated at once: times 32 lanes of 8 bytes, 16 KiB, half of the smallest L1.
# sum_columns.
ORDERED_SUM_COLUMNS = 64

# ---- Groups of steps (compiler/passes/fuse.py) ---------------------------------------------------

# Steps of one kernel. LLVM's time grows faster than the code (see MAX_FUSED_NODES). training_block.
MAX_GROUP_STEPS = 256
# Products of matrices that a fused group reads, all of which are in memory at once. The gradient of
# a weight that 300 unrolled steps use is a sum of 300: LLVM took 8.3 s for a kernel that reads 100,
# and the sum 2.5 GB. compile_unrolled_lstm.
MAX_GROUP_PRODUCTS = 4
MAX_PARTS = 4  # of a joined value, which its reader reads in place or one kernel writes
# With fewer rows, a reduction of long rows is better split among threads than run row by row; rows
# of so few elements one thread reduces at once. sum_rows, odd_sum_rows_7x1023.
MIN_ROWS = 16
MAX_ROW_ELEMENTS = 1 << 15

# ---- Loop nests (compiler/lower) -----------------------------------------------------------------

# Bytes of L1 that a loop counts on: the smallest that processors of the last years have. An operand
# read with non-unit stride is copied in tiles if it is larger. odd_gelu_1023x4097_transposed.
L1_BYTES = 1 << 15
# Elements of a long innermost axis that one iteration of the parallel loop takes: long enough for
# vectors and prefetching, short enough for threads to share one row. gelu_large, odd_gelu_1x4097.
MAP_TILE = 8192

# Elements of a row up to which reductions of functions such as exp are unrolled, where they do not
# fill vectors. Measured, one thread, ns for an element of a softmax unrolled and in masked lanes: 9
# elements 1.2 and 2.3, 20 1.1 and 1.5, 26 1.1 both, 30 1.1 and 1.0. Sums, in the same way: 9
# elements 0.35 and 0.18, 31 0.35 and 0.09. odd_softmax_1023x7.
MAX_UNROLLED_ROW = 26
# A loop over lanes of at most so many instructions is unrolled, because of its overhead; longer
# code has enough to do meanwhile, and would only grow. sum_rows, sum_all, layer_norm_rows.
MAX_UNROLLED_INSTRUCTIONS = 16
UNROLLED_COPIES = 4
# Bytes of all lanes beyond which it is not: positions of maxima in 128 lanes are 16 vectors of
# keys. Measured, one thread, 1024 x 4096 and 100 x 777: argmax takes 0.93 to 0.99 of the time and
# is compiled in 0.4; 64 lanes of keys and rows of 300, 1.15 times as long. odd_max_rows_1023x4097.
MAX_UNROLLED_BYTES = 512
# Bytes of a block of strided elements that is packed on the stack before it is reduced: what L1
# holds. odd_sum_rows_1023x4097_strided.
MAX_PACKED_BYTES = 1 << 15
# Lanes of maxima and minima, whose order is free: 1024 rows of 4096 on a busy core take 521 us with
# 32 lanes, 343 with 64, 306 with 128. max_rows, max_all.
ORDERLESS_LANES = 128
# Bytes of a row that may be kept on the stack for later passes, as a softmax keeps exponentials:
# what L1 holds. Longer rows are computed again. softmax_rows, layer_norm_rows.
MAX_KEPT_ROW_BYTES = 1 << 15
# Instructions up to which a value is recomputed in later passes over a row instead of kept: fewer
# than an exponential has, or than rounding to a half type counts. Measured, one thread, layer norm
# of 16 rows of 4096: of float16 24 us with centred values kept and 26 with them computed again, of
# bfloat16 23.9 and 25.8; of float32, which is not rounded, 13.3 computed again. softmax_rows,
# layer_norm_rows.
MAX_RECOMPUTED_INSTRUCTIONS = 10
# Elements that are kept at least of a row whose length is a symbol; the capacity is doubled until
# the length fits, and each capacity is a program. shapeless_new_shape_softmax.
MIN_KEPT_ROW_CAPACITY = 1024

# Columns side by side below which they are reduced one after the other. odd_sum_columns_1023x7.
MIN_INNER_COLUMNS = 8
# Columns of a tile in a reduction along other axes: the wider, the longer the runs of memory that
# prefetching sees, as long as 12 lanes stay in the caches next to the processor. There should be
# MIN_COLUMN_TILES, with blocks of rows, for threads to share. Measured, sums of 4096 x 4096: tiles
# of 256 columns take 3.3 ms, 512 3.2, 1024 2.8, 4096 2.4. Of 1000 x 1000 on one thread: tiles of
# 256 62 us, 512 and more 56; of 3000 x 300 62 and 52. sum_columns, max_columns.
MAX_TILE_COLUMNS = 1024
MIN_TILE_COLUMNS = 512
MIN_COLUMN_TILES = 8
# Elements from which a tile's last columns, which do not fill a vector, have a loop of their own
# if something is computed of each element: 1000 x 1000 exponentials take 249 instead of 303 us, but
# LLVM 150 ms longer. So do sums of half types (1023 x 4097 of float16: 183 instead of 256 us).
# Maxima, whose code is short, always do: 82 instead of 99 us. max_columns.
MIN_SPLIT_COLUMN_ELEMENTS = 1 << 19
# Lanes that one loop combines: LLVM's time grows with the square of the pointers in a loop. More
# would save iterations of a loop that is short anyway. sum_columns, first_call_cold.
LANES_PER_LOOP = 8
# Bytes of all lanes of narrow columns, up to which rows are added to them in the order of memory:
# rows of one lane after the other are short runs that are far apart. Measured on one thread, two
# sums of a product of three arrays, which is written too: 65,536 x 32 0.60 ms instead of 3.6,
# 40,000 x 100 2.4 ms instead of 6.3. residual_training.
MAX_LANES_BYTES = 1 << 15
# Rows that a reduction along columns combines at once, divided by the steps it computes, twice as
# many in wide tiles that compute none: sums are then loaded and stored once for all of them. 16
# rows of a lane take 0.95 of the time of 8 and 8, eight lanes of 2 rows 0.55. sum_columns.
ROWS_PER_LOOP = 8
# Steps of a column's code up to which it has no loop over rows. More is code that takes longer to
# compile than to run. odd_sum_columns_7x1023.
MAX_UNROLLED_COLUMN_STEPS = 64
# A reduction is split into partial ones, which takes another pass, unless tiles of columns keep all
# threads busy or one thread is done at once anyway. sum_columns, odd_sum_columns_4097x7.
MIN_UNSPLIT_TILES = 64
MAX_UNSPLIT_ELEMENTS = 1 << 16

# Ranges of rows that threads scatter into: each goes through all indices, so more of them cost
# reading, and fewer leave threads without work. training_block.
MAX_SCATTER_RANGES = 16

# Elements of an axis that are worth a loop along it when an operand is transposed in tiles.
# odd_gelu_1023x4097_transposed.
MIN_TRANSPOSED_AXIS = 4
# A tile of a transposed operand: elements along the last axis, bytes along the axis on which the
# operand's elements are adjacent (some cache lines, so that each is read once), and at most so many
# elements of that. Such tiles of 4 bytes an element fill half of L1_BYTES.
# odd_gelu_1023x4097_transposed.
TRANSPOSE_TILE_WIDTH = 64
TRANSPOSE_TILE_HEIGHT_BYTES = 256
MAX_TRANSPOSE_TILE_HEIGHT = 128
# Elements of the side of a block that is transposed in registers: 16 vectors of 16 floats are half
# of the registers of AVX-512, the other half holds the result. odd_gelu_1023x4097_transposed.
MAX_REGISTER_TILE = 16

# ---- Products (compiler/lower/products) ----------------------------------------------------------

# Rows of a register tile at most. More are more streams that are read at once: tiles of 14 rows
# took 1.4 times as long as tiles of 8 for matrices of 1024 rows and columns (measured).
# matmul_float32.
MAX_TILE_ROWS = 12
# Tiles have fewer rows than registers allow if that takes less than this part of the time, counted
# in rows and in this many more for each tile: 32 rows are three tiles of 11, not of 12. Small
# gains are left, so that products of most sizes share machine code. matmul_stack.
MIN_TILE_GAIN = 0.96
TILE_OVERHEAD_ROWS = 0.5
# Multiplications up to which BLAS computes a product: they take a few microseconds, and programs
# that have no others need no compiler for them. matmul_small.
MAX_BLAS_WORK = 1 << 15
# Vectors of a tile with few rows, at most: runs of 1 KiB of a matrix that is read once.
# matmul_vector.
MAX_TILE_VECTORS = 16
# A right operand whose rows are contiguous is copied into panels if there are more rows of results
# and it has more bytes than L2 holds. Measured with 1024 columns, in times of OpenBLAS: 32 rows
# 0.83 as it lies and 1.22 from panels, 128 rows 0.94 and 0.99, 1024 rows 0.96 and 0.93.
# matmul_skinny, matmul_float32.
MAX_UNPACKED_ROWS = 128
MAX_UNPACKED_BYTES = 1 << 20
# A left operand whose rows are not contiguous is packed if it has more bytes than stay in L1 beside
# the right operand, and if more columns of tiles than this read it. Measured, 256 rows and columns
# of float32 with the left operand transposed, in times of OpenBLAS: 1.31 as it lies, 0.99 packed.
# matmul_left_transposed.
MAX_UNPACKED_LEFT_BYTES = 1 << 14
MIN_PACKED_LEFT_PANELS = 1
# Bytes of the elements that a sum takes from such an operand up to which it is read in place if its
# columns are contiguous: any, and one of MAX_UNPACKED_BYTES. Measured, times in place over those
# with packing, (rows, products of a sum, columns): (2000, 200, 100) 0.86, (5000, 128, 129) 0.93,
# (10000, 100, 40) 0.75, (784, 256, 512) 0.92, (256, 256, 256) 0.94, (2048, 256, 100) 1.07, (4001,
# 256, 100) 1.47, (777, 384, 300) 1.23. matmul_left_transposed.
MAX_LEFT_LENGTH = 200 * 4
MAX_NEAR_LEFT_LENGTH = 256 * 4
# Bytes that the processor fetches at once: 64 on all x86-64 and most aarch64 processors. Prefetches
# go from line to line, and strides below it leave the order of loops alone. linear_gelu.
CACHE_LINE = 64
# How many rows ahead a right operand is fetched that is read once, if it is so many vectors of each
# row or fewer. Measured with 1024 rows and columns, times with over times without: 0.8 for 8
# vectors (3 rows of results), 0.88 for 4 (6 rows), 1.0 for 3, and 1.56 for 12. matmul_few_rows.
ROWS_AHEAD = 16
MAX_FETCHED_VECTORS = 8
# Operands in scratch memory begin at multiples of this: a cache line. matmul_float32.
SCRATCH_ALIGNMENT = 64
# Rows of results up to which operands of half types are converted as they are read; with more rows,
# each would be converted often. matmul_bfloat16.
MAX_CONVERTED_ROWS = 16
# Tiles of a column of tiles that one task computes, where there are as many tasks for each: their
# part of the left operand stays in L2. matmul_float32.
TILES_PER_TASK = 16
MIN_PRODUCT_TASKS = 16
# Products that are added one after the other: longer sums are made of sums of so many, so that
# errors do not grow with their lengths as much. After each, a tile is added to what is on the
# stack. matmul_float32.
SUM_BLOCK = 512
# Rows of a panel that one iteration of the loop that packs it copies: enough to be worth a thread,
# and few enough for threads to share a narrow matrix. matmul_float32.
PACKED_ROWS = 256
# Columns of several narrow panels that are filled row by row, because they share cache lines.
# Measured, 1024 x 1024 in panels of 6 columns: one by one 746 us, 48 columns 446, 96 646 (panels
# are multiples of 4 KiB apart then, and L1 has 8 ways). matmul_left_transposed.
PACKED_COLUMNS = 48

# Keys of a block of attention: scores of 32 queries are 16 KiB of float32 then, half of L1. With
# fewer, sums are loaded and stored more often; with more, values leave L1 between two tiles.
# Measured: 64, 128 and 256 are within 3% of each other. attention_777, attention_4096.
ATTENTION_KEY_BLOCK = 128
# Bytes of the input's windows that a block of a convolution copies to the stack: a quarter of an L2
# of a megabyte, whose rest the filters need. convolution.
MAX_WINDOW_BYTES = 256 << 10
# Pixels of the results that a block of a convolution has at most: more read filters from
# L3 less often, and leave threads less to share. convolution.
MAX_CONVOLUTION_PIXELS = 1024
# Blocks of a convolution at least, for threads to share. convolution.
MIN_CONVOLUTION_TASKS = 16
# Bytes that all groups of a block read and write at most: they share cache lines, which are to stay
# in L2 from one group to the next (8 outputs each: 3.0 ms instead of 4.0). convolution_grouped.
MAX_GROUPED_BLOCK_BYTES = 512 << 10
# Bytes of the windows that a block of a grouped convolution copies to the lanes that they are
# multiplied in: what leaves L1 is read again for each row of taps. convolution_grouped.
MAX_GROUPED_WINDOW_BYTES = 128 << 10
# Bytes of the transformed windows of a block of Winograd's convolution, half of an L2 of a
# megabyte. convolution.
MAX_WINOGRAD_BYTES = 512 << 10
# Tiles of such a block at least: with fewer, filters are read from L3 too often, and transforming
# them takes longer than is saved (16 tiles of 512 channels: 1.13 of direct sums). convolution.
MIN_WINOGRAD_TILES = 24
# Channels and outputs at least for Winograd's convolution to win: 16 take 0.63 of the time of
# direct sums, 64 take 0.53. convolution.
MIN_WINOGRAD_CHANNELS = 16
# Products of numbers from which a convolution is worth machine code of its own where nothing is
# compiled: a millisecond of BLAS, against half a second of LLVM for the first one of a shape.
# convolution_uncompiled.
MIN_CONVOLUTION_ALONE = 1 << 24
# Pixels of a block of a derivative by filters: with its windows, about what L1 holds. convolution.
MAX_GRADIENT_PIXELS = 256
# Bytes of partial derivatives by filters at most: with less, fewer threads have pixels of their
# own, and share outputs instead. convolution.
MAX_PARTIAL_FILTER_BYTES = 4 << 20
# Vectors of channels that a block of a depthwise convolution has at most. convolution.
DEPTHWISE_VECTORS = 2
# Queries that the gradients of attention take together for a block of keys. With fewer, the sums of
# keys and values are loaded and stored more often; with more, scores leave L2.
# attention_gradients_777, attention_gradients_4096.
ATTENTION_QUERY_BLOCK = 128
# Tasks of the gradients of attention at least, where there are blocks of keys for them: one for
# each head of keys, and ranges of keys if heads are few. Each range has sums of its own for all
# queries. attention_gradients_777.
MIN_ATTENTION_TASKS = 8

# ---- Programs (compiler/run, compiler/call) ------------------------------------------------------

# Layouts of inputs that a program is made for; inputs of any other are made contiguous first. More
# cost memory and time to compile. A layout gets its program when it comes again, or at once if the
# inputs that are not contiguous have so many bytes that copying takes about as long as compiling.
# odd_gelu_1023x4097_strided.
MAX_LAYOUTS = 16
MIN_BYTES_FOR_A_LAYOUT = 64 << 20
# Elements that a math function outside fused graphs is computed for at a time, by a kernel for
# the next power of two: at most 16 kernels a function, and 4 MB of float32. No benchmark.
MIN_MATH_KERNEL = 16
MAX_MATH_KERNEL = 1 << 20

# ---- Ops (ops/) ----------------------------------------------------------------------------------

# Scores from which on attention is computed in blocks without compile, or where its lengths are
# symbols: 16 MB of float32. With fewer, a composition is faster: it fuses, and its matrices stay in
# the cache. A block has 4 MB. training_block.
MIN_BLOCKED_SCORES = 1 << 22
# Queries up to which attention is composed of products with few rows rather than a loop nest, whose
# vectors have a lane for each query. Measured, compiled: 1 query of 8 heads to 1024 keys takes 80
# us composed and 341 as a nest, 16 to 16 take 18 and 16, 512 to 512 7.8 and 6.0 ms. Without
# compile it is one node then, computed for all heads at once: a step of a model that decodes, whose
# keys are one more each time. Op by op it takes 25 nodes; measured with 9 heads and 80 keys: 20 us
# instead of 150. attention_decode, decoding.
MAX_QUERIES_AT_ONCE = 8
SCORE_BLOCK = 1 << 20
# Rows up to which their product with a quantised matrix unpacks codes in registers, again for each
# block of rows; with more, the matrix is unpacked to panels once. Measured, one thread, of (1536,
# 576), (576, 1536) and (4096, 4096) with 4 bits, time of registers over that of panels: 16 rows
# 0.86, 0.89, 0.65; 32 rows 1.04, 1.08, 0.98; 48 rows 1.22, 1.16, 1.17; 128 rows 1.46, 1.23, 1.23.
# quantized_rows, quantized_many_rows.
MAX_QUANTIZED_ROWS = 32
# Bytes of rows, as float32, that stay in L2 while all columns are computed from them: half of the
# smallest L2 that processors have. quantized_many_rows.
QUANTIZED_ROWS_BYTES = 1 << 17
# Codes of a column that are unpacked at a time where a matrix becomes panels: those of the 64
# columns of a panel take 32 KB as float32, which stay near. quantized_many_rows.
MAX_UNPACKED_CODES = 128
# Bytes that a quantised matrix may take as float32 panels: larger ones are multiplied in parts, so
# that what a product takes beside its operands and result is bounded. quantized_many_rows.
MAX_QUANTIZED_PANELS = 1 << 26
# Of these, rows that are multiplied by codes while they are in registers: each has sums of its own
# for every column. quantized_rows.
QUANTIZED_TILE_ROWS = 8
# Rows up to which sums of codes are scaled instead of each code: fewer instructions for a code, but
# two sums for each row and column. Measured, one thread, one row, 4 bits in groups of 64, (4096,
# 4096): 29 instead of 16 codes a nanosecond; 4 rows: 1.67 instead of 1.88 ms; 8 rows no faster.
# quantized_row, quantized_rows.
MAX_FACTORED_ROWS = 4
# Rows of int8 that are multiplied by codes while they are in registers, of two columns: each has an
# int32 sum and a float32 sum. Measured, one thread, 4 bits, 8 rows, (1536, 576), (576, 1536) and
# (4096, 4096), in ms: 4 rows at a time 0.090, 0.066, 1.13; 6 rows 0.094, 0.066, 1.26; 4 rows of
# three columns 0.096, 0.070, 1.12. As float32: 0.19, 0.17, 3.2. 512 rows of (4096, 4096): 72 as
# int8, 168 as float32 from panels. quantized_row_int8, decoding_requests_int8.
BYTES_TILE_ROWS = 4
# How far ahead of what is read a quantised matrix is fetched into L2, at least, in bytes. Measured,
# one thread, a row of bytes and 75 MB: 4 KB 22 GB/s, 8 KB 22, 16 KB 26, 32 KB 25; into L1 12 to 17;
# reading alone 29. quantized_row, quantized_row_int8.
PREFETCH_BYTES = 1 << 14
# Elements of a matrix of windows that a convolution multiplies at a time: 4 MB of float32. Smaller
# ones pack filters more often; larger ones leave the cache. convolution.
WINDOW_BLOCK = 1 << 20
# A matrix times a stack of matrices of at most so many columns is one product with all columns:
# BLAS would otherwise read the matrix again for each. Wider ones lose more by being copied.
# matmul_vector.
MAX_FOLDED_COLUMNS = 8
# Sides of the factors of a Hadamard transform: a larger matrix costs more than another product. No
# benchmark.
MAX_HADAMARD_FACTOR = 64
# Random numbers that are made at a time without compile: 32768 words of 4 bytes and what is
# computed of them stay in L2. random_uniform.
RANDOM_SLAB = 1 << 15
# Applications of the cipher that are quicker one by one, in Python's ints, than by NumPy, whose
# every call costs about a microsecond. random_uniform.
MAX_SCALAR_BITS = 8
# Values and sorted numbers from which on values are looked up in ascending order: sorting them
# first costs less than the cache misses of looking them up as they come. No benchmark.
MIN_SORTED_LOOKUPS = 10_000
# Elements of updates, and of the table they are combined into, that are worth a thread: about 15 us
# of work. scatter_bins.
SCATTER_GRAIN = 1 << 15
# Elements of updates from which on a compiled scatter is one call of native code, which sorts out
# the updates of each thread once, rather than a loop nest, whose ranges of rows each go through all
# indices; as long as the table has fewer elements than the updates, since the call copies it, or is
# one number repeated. Rows of a few elements take no longer than finding out whose they are.
# scatter_add, scatter_bins, embedding_gradient.
MIN_NATIVE_SCATTER = 1 << 14
MIN_NATIVE_SCATTER_ROW = 8
# Elements among which ranks are found that are worth a thread: about 15 us of work. top_k.
SELECTION_GRAIN = 1 << 14
# Elements of rows that are sorted faster as they are than packed with their positions. No
# benchmark.
MAX_UNPACKED_ROW = 64
# Elements of a chunk of a scan, from which on a long row is shared among threads: eight of them in
# step are 256 KiB of float32, which L2 holds for the second pass. It is part of the order of sums.
# cumsum_long.
SCAN_CHUNK = 1 << 13
# Elements of scans that are worth a thread. cumsum_rows.
SCAN_GRAIN = 1 << 14
# Rows side by side from which on a scan goes along them in vectors. cumsum_columns.
MIN_SCANNED_COLUMNS = 8

# Items, with those of containers inside, of the containers that compiled functions read from
# variables and compare on each call, at 20 to 50 ns each; longer ones are constants. No benchmark.
MAX_GUARDED_ITEMS = 256

# Lengths of an axis that are compiled one by one before a symbol takes their place: a last batch
# keeps a program of its own. A decoder of 4 layers takes 0.5 s to compile, for one length as for
# all of them. Then: failed attempts, and traces and programs of each. decoding_growing_cache.
MAX_FIXED_LENGTHS = 3
MAX_REFUSED_TRACES = 2
MAX_LENGTH_CLASSES = 16

# What C reads, through the header that build_support/tuning_header.py makes.
NATIVE = (
    "SPIN_MICROSECONDS", "CHUNKS_PER_THREAD", "MIN_PRODUCT_THREAD_WORK", "PRODUCT_SPLIT_SIDE",
    "POLL_NANOSECONDS", "BLOCK_NANOSECONDS", "MAX_LOOP_BLOCK_GROWTH", "FIRST_BLOCK_GRAINS",
    "FIRST_BLOCK_ITERATIONS", "SMALL_STEPS_PER_POLL", "REPEATED_STEPS_PER_POLL",
    "MAX_PRODUCT_BLOCK_WORK",
    "MAX_GEMV_BLOCK_WORK",
    "PRODUCT_BLOCK_SIDE", "PRODUCT_BLOCK_DEPTH", "MIN_BLOCKED_ELEMENTS", "MIN_FUSED_ELEMENTS",
    "MIN_FUSED_NODE_ELEMENTS",
    "MIN_SMALL_GRAPH_RUNS", "MAX_SMALL_GRAPH_NODES", "MAX_FUSED_NODES", "ORDERED_SUM_COLUMNS",
    "SCAN_CHUNK", "SCAN_GRAIN", "MIN_SCANNED_COLUMNS", "SCATTER_GRAIN", "SELECTION_GRAIN",
    "MIN_PARALLEL_ATTENTION", "ATTENTION_SPLIT",
)  # fmt: skip
