/*
 * pagewriter.h - writes the pages of a new relation in batches, past shared buffers.  Several
 * processes may write different blocks of a relation.
 */
#ifndef GRNND_PAGEWRITER_H
#define GRNND_PAGEWRITER_H

#include "postgres.h"

#include "storage/bufpage.h"
#include "utils/relcache.h"

/* Pages in a batch: the largest number in a WAL record. */
#define GRNND_WRITER_PAGES 32

typedef struct GrnndPageWriter GrnndPageWriter;

/* Whether the pages of a fork must be logged. */
extern bool grnnd_writer_needs_wal(Relation rel, ForkNumber fork);

/* Makes a writer of the fork, whose pages are logged if use_wal. */
extern GrnndPageWriter *grnnd_writer_begin(Relation rel, ForkNumber fork, bool use_wal);
/* Extends an empty fork to nblocks blocks, before any process writes. */
extern void grnnd_writer_extend(GrnndPageWriter *w, BlockNumber nblocks);
/* Returns a zeroed page for a block; valid until the next call. */
extern Page grnnd_writer_page(GrnndPageWriter *w, BlockNumber block);
/* Writes n finished pages from a block on, n up to GRNND_WRITER_PAGES, in the caller's memory. */
extern void grnnd_writer_put(GrnndPageWriter *w, BlockNumber block, uint32 n, char *pages);
/* Flushes and frees the writer. */
extern void grnnd_writer_end(GrnndPageWriter *w);
/*
 * Makes the fork durable after all writers have ended.  w is the writer that extended the fork; the
 * function flushes and frees w.
 */
extern void grnnd_writer_finish(GrnndPageWriter *w);

#endif							/* GRNND_PAGEWRITER_H */
