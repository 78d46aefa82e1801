/*
 * finish.h - what is done with a finished graph: every vertex reachable, and an order of the
 * vertices on pages.
 */
#ifndef GRN_FINISH_H
#define GRN_FINISH_H

#include <pthread.h>

#include "cuda/gpu.h"
#include "graph/construct/graph.h"
#include "graph/construct/workspace.h"
#include "graph/rows.h"
#include "graph/stored/group.h"

typedef struct GrnFinish
{
	const GrnRows *rows;
	GrnGrouping codes;			/* of the vertices, to order by where no GPU does; without a codec
								 * edges are */
	bool		in_memory;		/* rows are, so that they serve beside codes */
	GrnGraph   *graph;
	GrnParallel *parallel;
	GrnGpu	   *gpu;			/* has the graph, as it was before it is connected; NULL: none has */
	uint32_t	entry;
	uint32_t	per_page;
	uint32_t   *position;		/* [n] */
	void	   *scratch;		/* grn_finish_bytes(n) */
	/* finish.c's own */
	pthread_t	thread;
	pthread_mutex_t mutex;
	pthread_cond_t searched;	/* reachability is known, or the GPU has failed */
	bool		started;
	bool		has_searched;
	uint64_t	nreached;		/* by the GPU; 0: it has failed */
	bool		ordered;		/* position[] is complete */
} GrnFinish;

/* Lets the GPU begin, if one has the graph: it searches, and orders while cores connect. */
extern void grn_finish_begin(GrnFinish *f);
/* Makes every vertex reachable from the entry; returns how many had to be connected. */
extern size_t grn_finish_connect(GrnFinish *f);
/* Completes position[], and leaves the GPU without the graph.  Codes must be there. */
extern void grn_finish_order(GrnFinish *f);
/* Instead of that, where a build fails after grn_finish_begin(). */
extern void grn_finish_abandon(GrnFinish *f);

#endif							/* GRN_FINISH_H */
