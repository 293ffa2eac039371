/* Progress of collectives that are in flight while programs run (progress.c). */
#ifndef INGOT_PROGRESS_H
#define INGOT_PROGRESS_H

#include "native.h"

/* Lets MPI move data of requests that are in flight; next to nothing if there are none. With or without the GIL. */
void ingot_make_progress(void);

#endif
