/*
 * serve.h - the builder process of a leader.
 */
#ifndef GRN_SERVE_H
#define GRN_SERVE_H

#include "builder/pipeline.h"

/* Has another host build; src/build_server/client.c. */
typedef struct GrnElsewhere
{
	/* As grn_build(), but rows still come (GrnHost.rows()).  connection: libpq's string. */
	bool		(*build) (GrnBuild *build, const char *connection, GrnBuildResult *result,
						  GrnFailure *failure);
	/* Ends the connection of a successful build, after DONE. */
	void		(*end) (void);
} GrnElsewhere;

/* Serves the leader at `fd` until it closes the socket.  elsewhere NULL: this process builds. */
extern int	grn_serve(int fd, const GrnElsewhere *elsewhere);
/* The same for a program's main(), at GRN_BUILDER_FD.  Returns the exit status: no leader. */
extern int	grn_builder_process(const char *program, const GrnElsewhere *elsewhere);

#endif							/* GRN_SERVE_H */
