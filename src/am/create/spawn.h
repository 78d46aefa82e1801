/*
 * spawn.h - the builder's program, and its start.
 */
#ifndef GRNND_SPAWN_H
#define GRNND_SPAWN_H

#include "postgres.h"

/*
 * Path of the builder program.  Errors: 58P01 where there is no such file, 42501 where it cannot be
 * executed.
 */
extern char *grnnd_builder_program(void);
/*
 * Has no program that this process starts inherit a descriptor of ours but those of standard input
 * and output and stderr.  Error: that of the file system where there is no /proc.
 */
extern void grnnd_guard_descriptors(void);
/*
 * Starts path with one end of a socket as GRN_BUILDER_FD, default signals, and no
 * other descriptor of ours but stderr, the server log.  Returns 0 or an errno.
 */
extern int	grnnd_spawn_builder(const char *path, int sock, pid_t *pid);

#endif							/* GRNND_SPAWN_H */
