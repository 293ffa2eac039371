"""Thresholds of decompositions and Fourier transforms; see `tuning.py`."""

# Elements of a stack of small matrices above which threads share it: starting them takes as long as
# about ten inverses of 32 x 32. singular_values_stack.
MIN_MATRIX_THREAD_ELEMENTS = 1 << 16
# Multiplications of matrices in a stack that justify a thread. lu_stack.
MIN_FACTORED_THREAD_WORK = 1 << 16
# Rows or columns up to which threads share a stack whose matrices LAPACK decomposes. LAPACK's own
# threads share each of the larger ones. singular_values_stack.
MAX_STACKED_LENGTH = 256
# Rows or columns up to which the extension computes single matrices, and stacks of fewer than
# MIN_LANE_MATRICES, itself, in double precision. Measured on one thread, relative to LAPACK in
# float32: solutions 0.84 at 8 rows, 0.83 at 32, 1.13 at 48; inverses 0.70, 0.79 and 0.85; LU
# factors 0.79, 0.97 and 0.96; Cholesky factors, which need the precision most, 0.94, 2.0 and 2.2.
# No benchmark.
MAX_DENSE_LENGTH = 40
# Rows up to which a stack is factorised with one matrix per vector lane: its memory, 64 bytes per
# element, is 256 KiB and stays in L2. cholesky_stack.
MAX_LANE_LENGTH = 64
# The same for LU factors, inverses, solutions and determinants: at 40 rows these take 0.6 (float32)
# and 0.95 (float64) of LAPACK's time for factors, 0.4 and 0.6 for inverses; at 64 rows up to 1.2. A
# stack of fewer matrices than that leaves lanes unused. lu_stack, inverse_stack.
MAX_LU_LANE_LENGTH = 40
MIN_LANE_MATRICES = 8

# Elements of a transform above which SciPy, which starts its own threads, may use all of them. No
# benchmark.
MIN_FFT_THREAD_ELEMENTS = 1 << 14
# Complex numbers whose transform justifies another thread: about 10 us of one core. rfft_rows.
MIN_FOURIER_THREAD_WORK = 1 << 13
# Complex numbers of a row that threads share if there are fewer rows than threads: with fewer,
# joining the threads between steps takes longer than it saves. No benchmark.
MIN_SHARED_FOURIER_LENGTH = 1 << 15
# Bytes of vectors, with their copy, that passes process in L1 and in L2, and the time of a pass
# over more than that, in percent of one over less. rfft_rows.
FOURIER_L1_BYTES = 32 << 10
FOURIER_L2_BYTES = 1 << 20
FOURIER_L2_PERCENT = 140
FOURIER_MEMORY_PERCENT = 300
# Complex numbers up to which a transform may be computed for a vector of rows at a time if no split
# of its length suits the lanes. Beyond, a single row would take too long. No benchmark.
MAX_WHOLE_FOURIER_LENGTH = 1024
# Complex numbers up to which transforms along an axis other than the last have adjacent columns in
# their lanes, for which a thread needs 256 bytes a number. Longer columns are copied and
# transformed one by one, which takes 2 to 4 times as long. fft_images.
MAX_STRIDED_FOURIER_LENGTH = 1 << 16
# The largest prime factor of a length that has a plan: the vectors of 4093 numbers and their
# convolution take 3 MB, and 0.3 of SciPy's time. fft_prime_rows.
MAX_FOURIER_PRIME = 4096
# The largest prime whose transform is computed by definition. On one thread, a number takes 2.0 ns
# in rows of 61; as convolutions, 2.05 ns in rows of 67 and 1.9 in rows of 101. No benchmark.
MAX_SUMMED_PRIME = 61
# Instructions that a pass spends on a number to load, store and multiply it by its root, for the
# choice of a convolution's length. No benchmark.
FOURIER_PASS_COST = 6
# Numbers of an axis whose tables, of 16 bytes each, are worth keeping, and how many axes' tables
# are kept. Longer axes are left to SciPy. No benchmark.
MAX_FOURIER_LENGTH = 1 << 22
MAX_FOURIER_PLANS = 16
# Numbers of an axis with large prime factors up to which a few rows are convolved with a chirp,
# with tables of about 40 bytes a number. No benchmark.
MAX_CONVOLVED_LENGTH = 1 << 16
# Rows up to which such transforms are convolutions of rows with a chirp rather than passes over
# vectors of rows. On one thread: 1009 numbers 17 us with one row, 44 with 4; 48 us for up to 16
# with passes. Also the rows up to which the extension converts real ones of odd length whose
# factors are small: relative to SciPy, 1215 numbers take 0.36 with one row, 0.97 with 8 and 1.33
# with 64. No benchmark.
MAX_ROWS_WITHOUT_PLAN = 4

# Elements from which on compiled `topk_svd` decomposes a matrix by products of matrices, which
# threads share, instead of by LAPACK, whose routines run without Python. Measured, two threads of a
# Zen 5, ms of topk_svd with this limit, with products alone and with LAPACK below 1024 rows: 200 x
# 150, 8 values 0.23, 0.36, 0.23, 64 values 1.67, 1.75, 2.05; 512 x 256, 8 values 0.43, 0.49, 0.40,
# 32 values 1.41, 1.56, 1.75; 900 x 400, 32 values 1.98, 2.04, 2.74. search_svd.
MIN_ELEMENTS_BY_PRODUCTS = 1 << 13

NATIVE = (
    "MIN_FACTORED_THREAD_WORK", "MIN_FOURIER_THREAD_WORK",
    "MIN_SHARED_FOURIER_LENGTH", "FOURIER_L1_BYTES", "FOURIER_L2_BYTES", "FOURIER_L2_PERCENT",
    "FOURIER_MEMORY_PERCENT", "MAX_FOURIER_PRIME", "MAX_SUMMED_PRIME", "FOURIER_PASS_COST",
    "MAX_WHOLE_FOURIER_LENGTH", "MAX_STRIDED_FOURIER_LENGTH",
)  # fmt: skip
