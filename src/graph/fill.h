/*
 * fill.h - filling short lists of a finished graph.
 */
#ifndef GRN_FILL_H
#define GRN_FILL_H

#include "codec.h"
#include "rnnd.h"

/* Where distances come from: codes if codec is given, else the rows. */
typedef struct GrnFillSource
{
	const GrnRows *rows;
	const GrnCodec *codec;
	const uint8_t *codes;		/* [n] of code_bytes, vertex v's at position[v] */
	const GrnFactor *factors;	/* [n] */
	const uint32_t *position;
} GrnFillSource;

/*
 * Fills lists shorter than the degree with the nearest neighbours of neighbours and
 * sorts those lists; removes nothing.  workspace: n bytes.
 */
extern void grn_fill(const GrnFillSource *source, GrnParallel *parallel, GrnGraph *graph,
					 void *workspace);

#endif							/* GRN_FILL_H */
