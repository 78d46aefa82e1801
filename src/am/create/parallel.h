/*
 * parallel.h - parallel workers of CREATE INDEX: their number, their start and their end.
 */
#ifndef GRNND_PARALLEL_H
#define GRNND_PARALLEL_H

#include "am/create/build_state.h"

#include "access/parallel.h"
#include "executor/instrument.h"
#include "storage/shm_toc.h"

typedef struct GrnndWorkers
{
	ParallelContext *pcxt;
	int			launched;
	BufferUsage *buffer_usage;	/* [workers] */
	WalUsage   *wal_usage;		/* [workers] */
} GrnndWorkers;

extern int	grnnd_collect_workers(Relation heap, Relation index);
/* Number of workers that may write pages.  build->index NULL: the index does not exist yet. */
extern int	grnnd_write_workers(const GrnndBuild *build, uint64 index_pages);

/*
 * Enters parallel mode and allocates shared memory for at most nworkers workers, which will run
 * `function`.  *shared receives shared_bytes zeroed bytes.  Returns NULL if no shared memory is
 * left.
 */
extern GrnndWorkers *grnnd_workers_prepare(const char *function, int nworkers,
										   Size shared_bytes, void **shared);
extern void grnnd_workers_launch(GrnndWorkers *workers);
/* Waits for the workers' exit, rethrows their errors, and leaves parallel mode. */
extern void grnnd_workers_finish(GrnndWorkers *workers);

/* In a worker: returns the shared memory of grnnd_workers_prepare(). */
extern void *grnnd_worker_begin(shm_toc *toc);
extern void grnnd_worker_end(shm_toc *toc);

#endif							/* GRNND_PARALLEL_H */
