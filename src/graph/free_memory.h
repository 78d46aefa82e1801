/*
 * free_memory.h - how much memory there is to take.
 */
#ifndef GRN_FREE_MEMORY_H
#define GRN_FREE_MEMORY_H

#include <stdint.h>

/*
 * Bytes of memory that the processor's build may take where no limit is set: what is
 * available in the system, or in the cgroup where that is less.
 */
extern uint64_t grn_free_memory(void);
/* The limit that is set; where it is 0, what is available, and 32 MB at least. */
extern uint64_t grn_memory_limit(uint64_t set);

#endif							/* GRN_FREE_MEMORY_H */
