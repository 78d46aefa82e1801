/*
 * spawn.h - finds and starts the builder's program.
 */
#ifndef GRNND_SPAWN_H
#define GRNND_SPAWN_H

#include "postgres.h"

/* Returns the path of the builder's program, or client.  Errors: 58P01 missing, 42501. */
extern char *grnnd_builder_program(bool elsewhere);
/* Sets close-on-exec above stderr: no program inherits descriptors.  Errors: /proc is missing. */
extern void grnnd_guard_descriptors(void);
/* Starts `path` with a socket as GRN_BUILDER_FD, stderr and no more.  Returns 0 or an errno. */
extern int	grnnd_spawn_builder(const char *path, int sock, pid_t *pid);

#endif							/* GRNND_SPAWN_H */
