/*
 * no_memory.h - reports a page of shared memory that the machine cannot supply.
 */
#ifndef GRN_NO_MEMORY_H
#define GRN_NO_MEMORY_H

/*
 * Installs a handler of SIGBUS.  A thread that touches a page without memory then sends FAILED
 * (SQLSTATE 53200) to the leader at socket `fd`, and stops until the leader closes the socket.
 */
extern void grn_report_no_memory(int fd);

#endif							/* GRN_NO_MEMORY_H */
