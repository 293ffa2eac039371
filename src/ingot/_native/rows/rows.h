/* Rows of a 3-d array along its middle axis. */
#ifndef INGOT_ROWS_H
#define INGOT_ROWS_H

#include <stdint.h>

typedef struct {
    char *data;
    int64_t strides[3]; /* in bytes */
} ingot_rows;

#endif
