/*
 * allocate.h - threads that allocate pages of shared memory before another process writes there.
 */
#ifndef GRN_ALLOCATE_H
#define GRN_ALLOCATE_H

#include <stdint.h>

/*
 * Starts up to `threads` threads that allocate [base, base + bytes), because the backend that
 * receives these rows has one.  Reports nothing: the backend allocates what is missing.  The
 * mapping must stay.
 */
extern void grn_allocate_ahead(char *base, uint64_t bytes, uint32_t threads);

#endif							/* GRN_ALLOCATE_H */
