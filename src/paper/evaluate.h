/*
 * evaluate.h - measures graphs: recall@10 of a beam search, and the distances computed for
 * each query.
 */
#ifndef GRN_EVALUATE_H
#define GRN_EVALUATE_H

#include "paper/files.h"

#define GRN_MAX_BEAMS 16		/* beam widths that one call evaluates */
#define GRN_MAX_GRAPHS 64		/* graphs that one call evaluates */

typedef struct GrnEvaluation
{
	const char *vectors;
	const GrnMetricInfo *metric;
	size_t		rows;			/* rows of `vectors` to read; 0: all */
	uint32_t	threads;
	const char *graphs[GRN_MAX_GRAPHS];
	uint32_t	ngraphs;
	const char *query;
	const char *truth;
	uint32_t	beams[GRN_MAX_BEAMS];
	uint32_t	nbeams;
	uint32_t	queries;		/* queries to read at most, from the start of the file */
} GrnEvaluation;

/* Prints degrees, reachability and recall of graphs.  False: a message tells the failure. */
extern bool grn_evaluate(const GrnEvaluation *evaluation);

#endif							/* GRN_EVALUATE_H */
