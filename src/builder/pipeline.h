/*
 * pipeline.h - all steps of a build, from the leader's BUILD to the builder's DONE.
 */
#ifndef GRN_PIPELINE_H
#define GRN_PIPELINE_H

#include "builder/host.h"
#include "builder/protocol.h"

typedef struct GrnBuild
{
	const GrnBuildSpec *spec;
	GrnParallel *threads;
	const GrnHost *host;
	void	   *vectors;
	const uint32_t *order;
	uint64_t	n;
	uint64_t	on_disk;		/* largest number of bytes of vectors that memory may not hold */
} GrnBuild;

/*
 * Builds an index, or lists of nearest rows, and fills *result.  Calls the functions of
 * build->host.  Returns false with *failure filled if the build fails.
 */
extern bool grn_build(GrnBuild *build, GrnBuildResult *result, GrnFailure *failure);

/* serve.c: the builder process of a leader. */

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

#endif							/* GRN_PIPELINE_H */
