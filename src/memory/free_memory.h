/*
 * free_memory.h - finds how much memory a build may take.
 */
#ifndef GRN_FREE_MEMORY_H
#define GRN_FREE_MEMORY_H

#include <stdint.h>

/*
 * Returns the bytes of memory available in the system, or in the cgroup if less.  Builds
 * without a memory limit use this number.
 */
extern uint64_t grn_free_memory(void);
/* Returns the limit `set`, or, if `set` is 0, the available memory, at least 32 MB. */
extern uint64_t grn_memory_limit(uint64_t set);

#endif							/* GRN_FREE_MEMORY_H */
