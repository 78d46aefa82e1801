/*
 * estimate_time.h - how long a build takes, by two builds over samples.  Plain C, so that it is
 * tested without a server.
 */
#ifndef GRNND_ESTIMATE_TIME_H
#define GRNND_ESTIMATE_TIME_H

#include <stdbool.h>

#include "builder/protocol.h"

/* What a build over a sample has taken, in seconds. */
typedef struct GrnndSampleTimes
{
	double		nodes;
	double		prepare;
	double		graph;
	double		finish;			/* connecting, codes beyond the graph's time, order, the result */
	double		recall;
	double		queries;		/* of recall; 0: it was not measured */
	double		rest;			/* that the leader waited beside these */
} GrnndSampleTimes;

/* The build to be estimated. */
typedef struct GrnndBuildSize
{
	double		nodes;
	double		threads;
	double		gpus;			/* 0: cores build */
	bool		parts;			/* one GPU's memory is too little */
} GrnndBuildSize;

/* The same of a whole build. */
typedef struct GrnndBuildTimes
{
	double		graph;
	double		recall;
	double		all;			/* from BUILD to DONE, without the device's start */
} GrnndBuildTimes;

/* By its result, and the seconds that the leader has waited for it without the device's start. */
extern GrnndSampleTimes grnnd_sample_times(const GrnBuildResult *result, double waited);
extern GrnndBuildTimes grnnd_build_times(const GrnndSampleTimes *small, const GrnndSampleTimes *large,
										 const GrnndBuildSize *size);

#endif							/* GRNND_ESTIMATE_TIME_H */
