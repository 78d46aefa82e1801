/*
 * evaluate.h - the quality of graphs: recall@10 of a beam search, by the distances that it takes.
 */
#ifndef GRN_EVALUATE_H
#define GRN_EVALUATE_H

#include "builder/cli_files.h"

#define GRN_MAX_BEAMS 16		/* widths of searches that one call evaluates */
#define GRN_MAX_GRAPHS 64		/* graphs of one call */

typedef struct GrnEvaluation
{
	const char *vectors;
	const GrnMetricInfo *metric;
	size_t		rows;			/* of vectors; 0: all */
	uint32_t	threads;
	const char *graphs[GRN_MAX_GRAPHS];
	uint32_t	ngraphs;
	const char *query;
	const char *truth;
	uint32_t	beams[GRN_MAX_BEAMS];
	uint32_t	nbeams;
	uint32_t	queries;		/* the first ones of the file; at most */
} GrnEvaluation;

/* Prints what it finds of each graph; false once a message has said what is wrong. */
extern bool grn_evaluate(const GrnEvaluation *evaluation);

#endif							/* GRN_EVALUATE_H */
