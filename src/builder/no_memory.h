/*
 * no_memory.h - where a page of shared memory is missing.
 */
#ifndef GRN_NO_MEMORY_H
#define GRN_NO_MEMORY_H

/*
 * From now on a thread that meets a missing page says FAILED (53200) to the leader at that socket,
 * and waits for its end of file.
 */
extern void grn_report_no_memory(int fd);

#endif							/* GRN_NO_MEMORY_H */
