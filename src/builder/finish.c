/*
 * finish.c - what is done with a finished graph.  A GPU that has just built it finds what the
 * entry reaches, and the order of pages while cores connect the rest; where there is none, or
 * it fails, cores do all.  An order is by cuts of what rows were compared by: digests on a GPU,
 * codes and rows on cores.  Where there is none of that, or it is bits, the order is by edges:
 * those of the graph before it is connected, which adds a few, if a GPU makes it.
 */
#include "builder/finish.h"

#include "builder/build_graph.h"
#include "graph/build/breadth_first.h"
#include "graph/build/connect.h"
#include "graph/build/page_order.h"
#include "graph/stored/code_order.h"

_Static_assert(GRN_GPU_MOST_SOURCES == GRN_MAX_SOURCES, "a GPU takes every source");

static void *
gpu_main(void *arg)
{
	GrnFinish  *f = arg;
	uint32_t	sources[GRN_MAX_SOURCES];
	GrnGpuError err;
	uint64_t	nreached = 0;
	bool		fine = grn_gpu_reach(f->gpu, f->entry, f->scratch, &nreached, &err) == GRN_GPU_OK;

	pthread_mutex_lock(&f->mutex);
	f->nreached = fine ? nreached : 0;
	f->has_searched = true;
	pthread_cond_signal(&f->searched);
	pthread_mutex_unlock(&f->mutex);
	f->ordered = fine &&
		(grn_gpu_cut_order(f->gpu, f->per_page, f->position, &err) == GRN_GPU_OK ||
		 grn_gpu_page_order(f->gpu, sources, grn_page_sources(f->graph->n, sources), f->per_page,
							f->position, &err) == GRN_GPU_OK);
	return NULL;
}

void
grn_finish_begin(GrnFinish *f)
{
	f->has_searched = false;
	f->nreached = 0;
	f->ordered = false;
	pthread_mutex_init(&f->mutex, NULL);
	pthread_cond_init(&f->searched, NULL);
	f->started = f->gpu && pthread_create(&f->thread, NULL, gpu_main, f) == 0;
}

size_t
grn_finish_connect(GrnFinish *f)
{
	if (!f->started)
		return grn_connect(f->rows, f->graph, f->entry, f->parallel, f->scratch);
	pthread_mutex_lock(&f->mutex);
	while (!f->has_searched)
		pthread_cond_wait(&f->searched, &f->mutex);
	pthread_mutex_unlock(&f->mutex);
	if (f->nreached == 0)
		return grn_connect(f->rows, f->graph, f->entry, f->parallel, f->scratch);
	return grn_connect_rest(f->rows, f->graph, f->entry, f->nreached, f->parallel, f->scratch);
}

void
grn_finish_abandon(GrnFinish *f)
{
	if (f->started)
		pthread_join(f->thread, NULL);
	f->started = false;
	pthread_cond_destroy(&f->searched);
	pthread_mutex_destroy(&f->mutex);
	if (f->gpu)
		grn_let_graph_go(f->gpu);
	f->gpu = NULL;
}

void
grn_finish_order(GrnFinish *f)
{
	grn_finish_abandon(f);
	if (!f->ordered && f->codes.codec != NULL)
		f->ordered = grn_code_order(&f->codes, f->in_memory ? f->rows : NULL, f->graph->n, f->per_page,
									f->position, f->parallel, f->scratch);
	if (!f->ordered)
		grn_page_order(f->graph, f->per_page, f->position, f->parallel, f->scratch);
}
