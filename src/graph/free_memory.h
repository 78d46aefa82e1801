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
/* The limit that is set, or that where it is 0, if it is no less than some MB. */
extern uint64_t grn_memory_limit(uint64_t set);

#endif							/* GRN_FREE_MEMORY_H */
