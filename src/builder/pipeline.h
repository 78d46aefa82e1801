/*
 * pipeline.h - everything between the leader's BUILD and the builder's DONE.
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
	uint64_t	on_disk;		/* bytes of vectors, at most, that memory does not hold for certain */
} GrnBuild;
extern bool grn_build(GrnBuild *build, GrnBuildResult *result, GrnFailure *failure);

#endif							/* GRN_PIPELINE_H */
