"""Thresholds of loops and branches; see `tuning.py`."""

# Programs of loop and branch bodies that are kept: a body that is traced again is found by what it
# computes, which saves the milliseconds of compiling it. loop_lstm.
MAX_LOOP_PROGRAMS = 256

# Bytes of values that are computed before a loop instead of in it because they depend only on
# slices: at most this many, or MAX_HOISTED_GROWTH times the bytes of the slices. Gated layers have
# four columns per element of their state. Measured with two threads, before and after: samplers of
# 1000 and 99 chains 0.54 and 0.46 ms, 0.21 and 0.17; a layer of 512 with products in its body 123
# and 109 ms; gradients of layers of 256 and 100, on one thread, 0.95 and 1.1 times as long; those
# of a CTC loss, which takes elements by index, a tenth. loop_metropolis.
MAX_HOISTED_BYTES = 1 << 26
MAX_HOISTED_GROWTH = 4

# Bodies of small kernels become a loop in a single function, which can keep carries and
# intermediate values in registers. The most bytes of each carry and of all other values, and the
# most lines of code, which is compiled twice. A scalar recurrence takes 1.7 instead of 7 ns per
# step. loop_recurrence.
MAX_REPEATED_CARRY_BYTES = 64
MAX_REPEATED_ARENA_BYTES = 8192
MAX_REPEATED_LINES = 600
# Inner loops are inlined if an iteration runs at most this many of their steps in total; a loop
# that ends by a condition counts as TYPICAL_WHILE_STEPS. Between checks for signals, 1024
# iterations take milliseconds. loop_nested.
MAX_INNER_STEPS = 1024
TYPICAL_WHILE_STEPS = 16
