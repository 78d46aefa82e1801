/*
 * finish.c - connects a finished graph and orders its vertices on pages.  A GPU that has built the
 * graph finds the vertices that the entry reaches, and orders the pages while cores connect the
 * rest.  Cores do all of this if no GPU has the graph or the GPU fails.  Pages are ordered by cuts:
 * of digests on a GPU, of rows on cores.
 */
#include "builder/build_graph.h"

#include "graph/graph.h"
#include "store/group.h"

static void *
gpu_main(void *arg)
{
	GrnFinish  *f = arg;
	GrnGpuError err;
	uint64_t	nreached = 0;
	bool		fine = grn_gpu_reach(f->gpu, f->entry, f->scratch, &nreached, &err) == GRN_GPU_OK;

	pthread_mutex_lock(&f->mutex);
	f->nreached = fine ? nreached : 0;
	f->has_searched = true;
	pthread_cond_signal(&f->searched);
	pthread_mutex_unlock(&f->mutex);
	f->ordered = fine && grn_gpu_cut_order(f->gpu, f->per_page, f->position, &err) == GRN_GPU_OK;
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

bool
grn_finish_connect(GrnFinish *f)
{
	if (f->started)
	{
		pthread_mutex_lock(&f->mutex);
		while (!f->has_searched)
			pthread_cond_wait(&f->searched, &f->mutex);
		pthread_mutex_unlock(&f->mutex);
	}
	if (f->nreached == 0)
		f->nreached = grn_reachable(f->graph, f->entry, f->scratch);
	return f->nreached == f->graph->n || grn_connect_graph(f);
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
		grn_drop_graph(f->gpu);
	f->gpu = NULL;
}

void
grn_finish_order(GrnFinish *f)
{
	grn_finish_abandon(f);
	/* A search starts from all of so few vertices, so pages need no order. */
	if (!f->ordered && f->graph->n > GRN_MAX_ENTRIES)
		f->ordered = grn_cut_order(f->rows, f->per_page, f->position, f->parallel, f->scratch);
	for (uint32_t v = 0; !f->ordered && v < f->graph->n; v++)
		f->position[v] = v;
}
