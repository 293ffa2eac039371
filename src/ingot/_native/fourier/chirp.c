/* Products of the rows of Fourier transforms with a table, which also convert between real and complex numbers, for lengths
 * whose transforms are computed as convolutions (Bluestein's algorithm), and for real rows of odd length. */
#include "routines/routine.h"

#include "integers.h"
#include "search/vectors.h"
#include "threads/interrupt.h"
#include "tuning.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=fast") /* FMA where available */
#endif

typedef enum { COMPLEX, REAL, HALF } Form; /* of the numbers of a row; HALF: the first half of a symmetric spectrum */

typedef struct {
    const float *from, *table; /* table: NULL: ones */
    float *to;
    int64_t behind, stored, length, result; /* numbers in a row of input, as stored and as meant, and in a row of results */
    Form form;
    bool to_real;
} Chirp;

/* The numbers at index `i` of a row; `sign` is that of their imaginary parts. */
INLINE const float *numbers_at(const Chirp *c, int64_t row, int64_t i, float *sign) {
    bool is_mirrored = c->form == HALF && i >= c->stored;
    *sign = is_mirrored ? -1 : 1;
    int64_t at = (row * c->stored + (is_mirrored ? c->length - i : i)) * c->behind;
    return c->from + at * (c->form == REAL ? 1 : 2);
}

/* The numbers at one index of adjacent rows. */
FOR_EACH_MACHINE static void multiply_columns(const Chirp *c, int64_t row, int64_t i) {
    int width = c->to_real ? 1 : 2;
    float *to = c->to + (row * c->result + i) * c->behind * width, sign;
    if (i >= c->length) {
        memset(to, 0, (size_t)(c->behind * width) * sizeof *to);
        return;
    }
    const float *from = numbers_at(c, row, i, &sign);
    float re = c->table == NULL ? 1 : c->table[2 * i], im = c->table == NULL ? 0 : c->table[2 * i + 1];
    for (int64_t k = 0; k < c->behind; k++) {
        float a = c->form == REAL ? from[k] : from[2 * k], b = c->form == REAL ? 0 : sign * from[2 * k + 1];
        to[width * k] = a * re - b * im;
        if (width == 2)
            to[2 * k + 1] = a * im + b * re;
    }
}

/* Numbers of one contiguous row, not mirrored; `width` and `to_width`, floats in a number, are compile-time constants. */
INLINE void multiply_numbers(const float *from, const float *table, float *to, int64_t count, const int width,
                             const int to_width) {
    for (int64_t i = 0; i < count; i++) {
        float a = from[width * i], b = width == 1 ? 0 : from[2 * i + 1];
        float re = table == NULL ? 1 : table[2 * i], im = table == NULL ? 0 : table[2 * i + 1];
        to[to_width * i] = width == 1 ? a * re : a * re - b * im;
        if (to_width == 2)
            to[2 * i + 1] = width == 1 ? a * im : a * im + b * re;
    }
}

FOR_EACH_MACHINE static void multiply_row(const Chirp *c, const float *from, const float *table, float *to, int64_t count) {
    if (c->form == REAL && table == NULL)
        multiply_numbers(from, NULL, to, count, 1, 2);
    else if (c->form == REAL)
        multiply_numbers(from, table, to, count, 1, 2);
    else if (c->to_real && table == NULL)
        multiply_numbers(from, NULL, to, count, 2, 1);
    else if (c->to_real)
        multiply_numbers(from, table, to, count, 2, 1);
    else if (table == NULL)
        memcpy(to, from, (size_t)count * 2 * sizeof *to);
    else
        multiply_numbers(from, table, to, count, 2, 2);
}

static void multiply_some(void *context, int64_t begin, int64_t end, int Py_UNUSED(thread)) {
    const Chirp *c = context;
    int64_t plain = c->behind == 1 ? smaller(c->stored, c->length) : 0; /* numbers of a row that are not mirrored */
    for (int64_t position = begin; position < end;) {
        int64_t row = position / c->result, i = position % c->result, last = smaller(c->result, i + end - position);
        position += last - i;
        if (i < plain) {
            int64_t known = smaller(last, plain), from = row * c->stored + i, to = row * c->result + i;
            multiply_row(c, c->from + from * (c->form == REAL ? 1 : 2), c->table == NULL ? NULL : c->table + 2 * i,
                         c->to + to * (c->to_real ? 1 : 2), known - i);
            i = known;
        }
        for (; i < last; i++)
            multiply_columns(c, row, i);
    }
}

/* numbers: the lengths of the axes around the rows; numbers in a row of input, as stored and as meant, and in a row of results,
 * zeros if there are more; the form of the input; whether results are real; operands: input, results, the table */
int ingot_call_chirp(const RoutineCall *call, const RoutineMemory *memory) {
    const int64_t *n = call->numbers;
    Chirp chirp = {
        .from = (const float *)(void *)ingot_operand(call, memory, 0),
        .to = (float *)(void *)ingot_operand(call, memory, 1),
        .table = (const float *)(void *)ingot_operand(call, memory, 2),
        .behind = n[1],
        .stored = n[2],
        .length = n[3],
        .result = n[4],
        .form = (Form)n[5],
        .to_real = n[6] != 0,
    };
    int64_t all = n[0] * n[4], grain = 1 + MIN_FOURIER_THREAD_WORK / (1 + n[1]);
    return ingot_interruptible_for(multiply_some, &chirp, 0, all, grain, grain * FIRST_BLOCK_GRAINS) == all
               ? ROUTINE_DONE
               : ROUTINE_INTERRUPTED;
}
