/*
 * serve.h - the builder process of a leader.
 */
#ifndef GRN_SERVE_H
#define GRN_SERVE_H

#include "builder/pipeline.h"

/* Has another host build; src/build_server/client.c. */
typedef struct GrnElsewhere
{
	/*
	 * As grn_build(), except that the rows are still being collected (GrnHost.rows()).  connection:
	 * a connection string of libpq.
	 */
	bool		(*build) (GrnBuild *build, const char *connection, GrnBuildResult *result,
						  GrnFailure *failure);
	/* Ends the connection of a successful build, after DONE. */
	void		(*end) (void);
} GrnElsewhere;

/*
 * Serves the leader at the socket `fd` until the leader closes the socket.  Never returns.
 * elsewhere: NULL if this process builds.
 */
extern int	grn_serve(int fd, const GrnElsewhere *elsewhere);
/*
 * The same for the main() of a program, at GRN_BUILDER_FD.  Returns the exit status if no leader is
 * there.
 */
extern int	grn_builder_process(const char *program, const GrnElsewhere *elsewhere);

#endif							/* GRN_SERVE_H */
