/*
 * pagewriter.h - writes the pages of a new relation, past shared buffers, in
 * batches; several processes may write different blocks of one relation.
 */
#ifndef GRNND_PAGEWRITER_H
#define GRNND_PAGEWRITER_H

#include "postgres.h"

#include "port/atomics.h"
#include "storage/bufpage.h"
#include "utils/relcache.h"

/* Pages in a batch: as many as one WAL record can hold. */
#define GRNND_WRITER_PAGES 32

typedef struct GrnndPageWriter GrnndPageWriter;

/* Whether the pages of a fork have to be logged. */
extern bool grnnd_writer_needs_wal(Relation rel, ForkNumber fork);

extern GrnndPageWriter *grnnd_writer_begin(Relation rel, ForkNumber fork, bool use_wal);
/* The kernel need not keep the pages that this one is going to write (passing.h). */
extern void grnnd_writer_pass(GrnndPageWriter *w);
/* Makes the fork, empty until now, nblocks long; before anyone writes. */
extern void grnnd_writer_extend(GrnndPageWriter *w, BlockNumber nblocks);
/* The next page to fill is that of this block. */
extern void grnnd_writer_seek(GrnndPageWriter *w, BlockNumber block);
/* A zeroed page to fill, of the next block; good until the next call. */
extern Page grnnd_writer_next(GrnndPageWriter *w);
/* Flushes and frees. */
extern void grnnd_writer_end(GrnndPageWriter *w);
/*
 * Once all have ended: makes the fork as durable as it has to be.  w is the
 * writer that extended it; flushes and frees it.
 */
extern void grnnd_writer_finish(GrnndPageWriter *w);

/*
 * WAL segments made before they are needed, by several processes.  A new segment has to be
 * filled with zeros and synced.  The first process that needs it would do that while all
 * others wait.  This lies in memory that all writers share.
 */
typedef struct GrnndWalAhead
{
	pg_atomic_uint64 next;		/* first segment that no process has taken on */
	uint64		end;			/* the last one that will be needed */
} GrnndWalAhead;

extern void grnnd_wal_ahead_init(GrnndWalAhead *ahead, BlockNumber npages);
/* Makes one segment, if one is due; call this between batches of pages. */
extern void grnnd_wal_ahead(GrnndWalAhead *ahead);

#endif							/* GRNND_PAGEWRITER_H */
