/*
 * allocate.h - pages of shared memory that threads allocate before another process writes there.
 */
#ifndef GRN_ALLOCATE_H
#define GRN_ALLOCATE_H

#include <stdint.h>

/*
 * Allocates pages ahead of rows that come from another host: the backend that receives them is
 * one thread.  Best effort: that one allocates what is left, and says where it could not.  The
 * mapping stays until this process ends.
 */
extern void grn_allocate_ahead(char *base, uint64_t bytes, uint32_t threads);

#endif							/* GRN_ALLOCATE_H */
