/*
 * parallel.h - parallel workers of CREATE INDEX: how many, and their start and end.
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
/* Workers that may write pages beside it; build->index NULL: of an index still to be. */
extern int	grnnd_write_workers(const GrnndBuild *build, uint64 index_pages);

/*
 * Enters parallel mode and makes shared memory for at most nworkers running
 * function, with *shared pointing to shared_bytes of it, zeroed.  NULL where
 * there is none to be had.
 */
extern GrnndWorkers *grnnd_workers_prepare(const char *function, int nworkers,
										   Size shared_bytes, void **shared);
extern void grnnd_workers_launch(GrnndWorkers *workers);
/* Waits for the workers' exit, passes their errors on, and leaves parallel mode. */
extern void grnnd_workers_finish(GrnndWorkers *workers);

/* In a worker: the shared memory of grnnd_workers_prepare(). */
extern void *grnnd_worker_begin(shm_toc *toc);
extern void grnnd_worker_end(shm_toc *toc);

#endif							/* GRNND_PARALLEL_H */
