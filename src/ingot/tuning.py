"""Numbers that trade one cost for another: how much work is worth a thread, how long a block is,
when a graph is fused.

Each has its reason, and the benchmark that shows a change of it (`ingot bench NAME`). "Measured" is
processor time on a Xeon of 2 cores with AVX-512, 48 KiB of L1 and 2 MiB of L2 a core. Where no
measurement is given the number is a choice, and the comment says what a smaller and a larger one
cost. Facts and contracts are elsewhere: limits of NumPy and of file formats, the order of sums
(graph/reduction_order.py), thresholds that choose a precision.

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

# Multiplications of a product of matrices that are worth another thread: some 10 us of one core.
# Below it, NumPy's own call is made, too, which takes less time to prepare. matmul_small,
# matmul_odd.
MIN_PRODUCT_THREAD_WORK = 1 << 18
# Elements of the longer side of one thread's block of a result from which on it is cut once more,
# for the reason of CHUNKS_PER_THREAD; shorter ones lose more of what BLAS packs. matmul_float32.
PRODUCT_SPLIT_SIDE = 1024

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

# ---- Memory --------------------------------------------------------------------------------------

# Bytes from which on memory is mapped for huge pages, of 2 MiB each: at least one lies within such
# a block wherever it begins. Smaller blocks would only lose memory to alignment. gelu_memory.
MIN_HUGE_PAGE_BYTES = 4 << 20
# Classes of sizes, a sixteenth of a power of two each, by which a kept block may be larger than
# what is asked for. None, and memory that was seen before is passed over for fresh pages, which are
# written at half the speed; many, and memory is wasted. gelu_eager, gelu_memory.
MAX_CLASSES_ABOVE = 2
# Bytes of an operand whose memory a result may take: copying less takes no longer than finding out
# whether anybody else holds it. gradient_evaluated, scalar_chain.
MIN_DONATED_BYTES = 1 << 14

# ---- Fusion of uncompiled graphs (compiler/call/fusion_policy.py) --------------------------------

# Looking at a graph as a whole takes about 1 us for each node (measured), before anything is won.
# One result must have MIN_FUSED_ELEMENTS, and results of at least MIN_FUSED_NODE_ELEMENTS must have
# as many for each op. Measured: a product of 4096 numbers with a scalar takes 7 us, mostly the call
# that fusion saves; of 32768 numbers 21 us, and exp of them 62 us. gelu_eager, gradient_evaluated.
MIN_FUSED_ELEMENTS = 1 << 15
MIN_FUSED_NODE_ELEMENTS = 1 << 12
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

# ---- Sums in a fixed order -----------------------------------------------------------------------

# Columns that are added side by side: times 32 lanes of 8 bytes, 16 KiB, half of the smallest L1.
# sum_columns.
ORDERED_SUM_COLUMNS = 64

# What C reads, through the header that build_support/tuning_header.py makes.
NATIVE = (
    "SPIN_MICROSECONDS",
    "CHUNKS_PER_THREAD",
    "MIN_PRODUCT_THREAD_WORK",
    "PRODUCT_SPLIT_SIDE",
    "POLL_NANOSECONDS",
    "BLOCK_NANOSECONDS",
    "MAX_LOOP_BLOCK_GROWTH",
    "FIRST_BLOCK_GRAINS",
    "FIRST_BLOCK_ITERATIONS",
    "MAX_PRODUCT_BLOCK_WORK",
    "MAX_GEMV_BLOCK_WORK",
    "PRODUCT_BLOCK_SIDE",
    "PRODUCT_BLOCK_DEPTH",
    "MIN_BLOCKED_ELEMENTS",
    "MIN_HUGE_PAGE_BYTES",
    "MAX_CLASSES_ABOVE",
    "MIN_DONATED_BYTES",
    "MIN_FUSED_ELEMENTS",
    "MIN_FUSED_NODE_ELEMENTS",
    "ORDERED_SUM_COLUMNS",
)
