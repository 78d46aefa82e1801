/*
 * spawn.h - finds and starts the builder's program.
 */
#ifndef GRNND_SPAWN_H
#define GRNND_SPAWN_H

#include "postgres.h"

/*
 * Returns the path of the builder's program; elsewhere: of the client for another host.  Errors:
 * 58P01 if no such file exists, 42501 if the file is not executable.
 */
extern char *grnnd_builder_program(bool elsewhere);
/*
 * Sets close-on-exec for all descriptors above stderr, so that no started program inherits them.
 * Errors: file system errors if /proc is missing.
 */
extern void grnnd_guard_descriptors(void);
/*
 * Starts the program `path`.  The program gets an end of a socket as GRN_BUILDER_FD, default
 * signals, and no other descriptor except stderr, the server log.  Returns 0 or an errno.
 */
extern int	grnnd_spawn_builder(const char *path, int sock, pid_t *pid);

#endif							/* GRNND_SPAWN_H */
