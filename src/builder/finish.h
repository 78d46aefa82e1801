/*
 * finish.h - the last steps on a finished graph: every vertex becomes reachable, and vertices get
 * an order on pages.
 */
#ifndef GRN_FINISH_H
#define GRN_FINISH_H

#include <pthread.h>

#include "cuda/gpu.h"
#include "graph/graph.h"
#include "graph/workspace.h"
#include "space/rows.h"

typedef struct GrnFinish
{
	const GrnRows *rows;
	GrnGraph   *graph;
	GrnParallel *parallel;
	GrnGpu	   *gpu;			/* has the graph before connection; NULL: no GPU has the graph */
	uint32_t	entry;
	uint32_t	per_page;
	uint32_t   *position;		/* [n] */
	void	   *scratch;		/* grn_finish_bytes(n) */
	/* private to finish.c */
	pthread_t	thread;
	pthread_mutex_t mutex;
	pthread_cond_t searched;	/* signals that reachability is known or the GPU has failed */
	bool		started;
	bool		has_searched;
	uint64_t	nreached;		/* vertices that the GPU has reached; 0: the GPU has failed */
	bool		ordered;		/* position[] is complete */
} GrnFinish;

/*
 * Starts the thread of the GPU, if a GPU has the graph.  The thread finds reachable vertices, and
 * then orders the pages while cores connect.
 */
extern void grn_finish_begin(GrnFinish *f);
/* Makes every vertex reachable from the entry.  Returns the number of vertices connected. */
extern size_t grn_finish_connect(GrnFinish *f);
/* Completes position[] and drops the graph from the GPU. */
extern void grn_finish_order(GrnFinish *f);
/* Ends the GPU's work if a build fails after grn_finish_begin(). */
extern void grn_finish_abandon(GrnFinish *f);

#endif							/* GRN_FINISH_H */
