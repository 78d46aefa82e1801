/*
 * allocate.h - threads that allocate pages of shared memory before another process writes there.
 */
#ifndef GRN_ALLOCATE_H
#define GRN_ALLOCATE_H

#include <stdint.h>

/*
 * Starts up to `threads` threads that allocate the pages of [base, base + bytes).  The rows in
 * these pages come from another host, and the backend that receives the rows has a single thread.
 * The function does not wait and reports no error: the backend allocates any page that is still
 * missing, and reports a lack of memory.  The mapping must stay until this process ends.
 */
extern void grn_allocate_ahead(char *base, uint64_t bytes, uint32_t threads);

#endif							/* GRN_ALLOCATE_H */
