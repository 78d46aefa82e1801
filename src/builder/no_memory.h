/*
 * no_memory.h - reports a page of shared memory that the machine cannot supply.
 */
#ifndef GRN_NO_MEMORY_H
#define GRN_NO_MEMORY_H

/* Installs a handler of SIGBUS that sends FAILED (53200) to `fd` and stops the thread. */
extern void grn_report_no_memory(int fd);

#endif							/* GRN_NO_MEMORY_H */
