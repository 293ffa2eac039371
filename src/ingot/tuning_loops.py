"""Thresholds of loops and branches: what `tuning` is for others."""

# Programs of the bodies of loops and branches that are kept: a body that is traced again is found
# by what it computes, which saves the milliseconds of compiling it. loop_lstm.
MAX_LOOP_PROGRAMS = 256

# Bytes of the values that are computed before a loop instead of in it, because they depend on its
# slices alone: at most this many, or this many times the bytes of the slices. Gated layers have
# four columns for each element of their state. Measured with two threads, before and after:
# samplers of 1000 and 99 chains 0.54 and 0.46 ms, 0.21 and 0.17; a layer of 512 with products in
# its body 123 and 109 ms; gradients of layers of 256 and 100, on one thread, 0.95 and 1.1
# times as long; those of a CTC loss, which takes elements by index, a tenth. loop_metropolis.
MAX_HOISTED_BYTES = 1 << 26
MAX_HOISTED_GROWTH = 4

# Bodies of small kernels become loops in one function, which may keep what they carry and compute
# in registers: bytes of each carried value and of all others, and lines of code, which is compiled
# twice. A scalar recurrence 7 and 1.7 ns a step. loop_recurrence.
MAX_REPEATED_CARRY_BYTES = 64
MAX_REPEATED_ARENA_BYTES = 8192
MAX_REPEATED_LINES = 600
# Inner loops are inlined if an iteration has at most so many steps of them in all, where those that
# end by a condition count as some: between looks for signals, 1024 iterations take milliseconds.
# loop_nested.
MAX_INNER_STEPS = 1024
TYPICAL_WHILE_STEPS = 16
