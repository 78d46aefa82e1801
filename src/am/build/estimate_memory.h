/*
 * estimate_memory.h - what a build that is to come takes of memory and of a temporary file.
 */
#ifndef GRNND_ESTIMATE_MEMORY_H
#define GRNND_ESTIMATE_MEMORY_H

#include "am/build/build_state.h"

/* What is known of it. */
typedef struct GrnndMemoryNeeds
{
	double		rows;
	double		nodes;			/* distinct rows */
	double		work_bytes;		/* of the builder's workspace */
	double		filter_bytes;	/* of ATTRS behind the rows' values, while pages are written */
} GrnndMemoryNeeds;

/* Bytes. */
typedef struct GrnndBuildMemory
{
	double		memory;
	double		disk;			/* of the temporary file */
} GrnndBuildMemory;

/*
 * Bytes of the workspace in which cores build the graph of so many rows and nodes, by the last
 * build over a sample.  In small samples other needs are larger, and hide what this takes.
 */
extern double grnnd_cores_work(const GrnndBuild *build, double rows, double nodes);

/*
 * By the segments that the build's mapping would have, in the order in which they grow.  build: one
 * over a sample, with the settings of the other, and a mapping.
 */
extern GrnndBuildMemory grnnd_build_memory(const GrnndBuild *build, const GrnLayout *layout,
										   const GrnndMemoryNeeds *needs);

#endif							/* GRNND_ESTIMATE_MEMORY_H */
