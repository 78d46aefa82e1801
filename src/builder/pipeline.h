/*
 * pipeline.h - all steps of a build, from the leader's BUILD to the builder's DONE.
 */
#ifndef GRN_PIPELINE_H
#define GRN_PIPELINE_H

#include "builder/host.h"

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

#endif							/* GRN_PIPELINE_H */
