/* Calls of routines that copy, convert and check the elements of matrices. */
#include "routines/routine.h"

#include <math.h>
#include <string.h>

enum { WHOLE, LOWER, UPPER };
enum { BLOCK = 16 }; /* rows and columns that are transposed at a time: both fit into L1 */

typedef struct {
    const char *from;
    char *to;
    int64_t from_row, from_column, to_row, to_column; /* strides in bytes */
    int64_t part;
} Copy;

#define COPY_BLOCK(TYPE)                                                                               \
    for (int64_t r = top; r < bottom; r++)                                                             \
        for (int64_t c = left; c < right; c++) {                                                       \
            bool is_kept = copy->part == WHOLE || (copy->part == LOWER ? c <= r : c >= r);             \
            TYPE value = 0;                                                                            \
            if (is_kept)                                                                               \
                memcpy(&value, copy->from + r * copy->from_row + c * copy->from_column, sizeof value); \
            memcpy(copy->to + r * copy->to_row + c * copy->to_column, &value, sizeof value);           \
        }

static void copy_block(const Copy *copy, int64_t item, int64_t top, int64_t bottom, int64_t left, int64_t right) {
    if (item == 4) {
        COPY_BLOCK(uint32_t)
    } else {
        COPY_BLOCK(uint64_t)
    }
}

static void copy_matrix(const Copy *copy, int64_t item, int64_t rows, int64_t columns) {
    for (int64_t r = 0; r < rows; r += BLOCK)
        for (int64_t c = 0; c < columns; c += BLOCK)
            copy_block(copy, item, r, r + BLOCK < rows ? r + BLOCK : rows, c, c + BLOCK < columns ? c + BLOCK : columns);
}

/* numbers: bytes of an element, matrices, rows, columns, strides of rows and columns of both, and which part is copied: the
 * rest becomes zero. */
int ingot_call_copy(const RoutineCall *call, const RoutineMemory *memory) {
    const int64_t *n = call->numbers;
    int64_t item = n[0], count = n[1], rows = n[2], columns = n[3];
    bool is_contiguous =
        n[8] == WHOLE && n[5] == item && n[7] == item && (rows == 1 || (n[4] == columns * item && n[6] == n[4]));
    for (int64_t i = 0; i < count; i++) {
        Copy copy = {.from = ingot_operand_of(call, memory, 0, i, 0),
                     .to = ingot_operand_of(call, memory, 1, i, 0),
                     .from_row = n[4],
                     .from_column = n[5],
                     .to_row = n[6],
                     .to_column = n[7],
                     .part = n[8]};
        if (is_contiguous)
            memcpy(copy.to, copy.from, (size_t)(rows * columns * item));
        else
            copy_matrix(&copy, item, rows, columns);
    }
    return ROUTINE_DONE;
}

/* Makes unit matrices. numbers: bytes of an element, matrices, rows */
int ingot_call_unit(const RoutineCall *call, const RoutineMemory *memory) {
    int64_t item = call->numbers[0], rows = call->numbers[2];
    for (int64_t i = 0; i < call->numbers[1]; i++) {
        char *to = ingot_operand_of(call, memory, 0, i, 0);
        memset(to, 0, (size_t)(rows * rows * item));
        for (int64_t r = 0; r < rows; r++, to += (rows + 1) * item) {
            if (item == 4)
                *(float *)(void *)to = 1;
            else
                *(double *)(void *)to = 1;
        }
    }
    return ROUTINE_DONE;
}

/* numbers: whether float32 becomes float64 or the opposite, elements */
int ingot_call_convert(const RoutineCall *call, const RoutineMemory *memory) {
    const char *from = ingot_operand(call, memory, 0);
    char *to = ingot_operand(call, memory, 1);
    for (int64_t i = 0; i < call->numbers[1]; i++) {
        if (call->numbers[0])
            ((double *)(void *)to)[i] = (double)((const float *)(const void *)from)[i];
        else
            ((float *)(void *)to)[i] = (float)((const double *)(const void *)from)[i];
    }
    return ROUTINE_DONE;
}

/* numbers: bytes of an element, elements. Fails if one is NaN or infinite. */
int ingot_call_finite(const RoutineCall *call, const RoutineMemory *memory) {
    const char *from = ingot_operand(call, memory, 0);
    bool is_finite = true;
    for (int64_t i = 0; i < call->numbers[1]; i++) {
        if (call->numbers[0] == 4) /* the difference is NaN for both */
            is_finite &= (((const float *)(const void *)from)[i] - ((const float *)(const void *)from)[i]) == 0;
        else
            is_finite &= (((const double *)(const void *)from)[i] - ((const double *)(const void *)from)[i]) == 0;
    }
    return is_finite ? ROUTINE_DONE : ROUTINE_FAILED;
}

/* numbers: bytes of an element, matrices, rows. Fails if an element of a diagonal is zero. */
int ingot_call_nonsingular(const RoutineCall *call, const RoutineMemory *memory) {
    int64_t item = call->numbers[0], count = call->numbers[1], rows = call->numbers[2];
    bool is_nonsingular = true;
    for (int64_t i = 0; i < count; i++) {
        const char *matrix = ingot_operand_of(call, memory, 0, i, 0);
        for (int64_t r = 0; r < rows; r++) {
            const char *element = matrix + r * (rows + 1) * item;
            is_nonsingular &=
                item == 4 ? *(const float *)(const void *)element != 0 : *(const double *)(const void *)element != 0;
        }
    }
    return is_nonsingular ? ROUTINE_DONE : ROUTINE_FAILED;
}
