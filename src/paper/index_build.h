/*
 * index_build.h - builds the graph of a file of vectors as CREATE INDEX builds graphs.
 */
#ifndef GRN_INDEX_BUILD_H
#define GRN_INDEX_BUILD_H

#include "builder/gpus.h"
#include "paper/files.h"

typedef struct GrnIndexBuild
{
	const char *vectors;
	const char *graph;
	const GrnMetricInfo *metric;
	uint64_t	rows;			/* 0: all rows of the file */
	uint32_t	threads;
	GrnDeviceChoice choice;
	uint32_t	degree;			/* 0: by dimensions */
	uint32_t	repeat;
	bool		times;
	bool		fill;
} GrnIndexBuild;

/* False: a message tells the failure. */
extern bool grn_build_as_index(const GrnIndexBuild *build);

#endif							/* GRN_INDEX_BUILD_H */
