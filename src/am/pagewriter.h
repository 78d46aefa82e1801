/*
 * pagewriter.h - writes a new relation's pages in order, past shared buffers, in
 * batches.
 */
#ifndef GRNND_PAGEWRITER_H
#define GRNND_PAGEWRITER_H

#include "postgres.h"

#include "storage/bufpage.h"
#include "utils/relcache.h"

/* Pages in a batch: as many as one WAL record can hold. */
#define GRNND_WRITER_PAGES 32

typedef struct GrnndPageWriter GrnndPageWriter;

extern GrnndPageWriter *grnnd_writer_begin(Relation rel, ForkNumber fork);
/* A zeroed page to fill, of the next block; good until the next call. */
extern Page grnnd_writer_next(GrnndPageWriter *w);
/* Leaves the next block empty, to be filled by grnnd_writer_block(). */
extern void grnnd_writer_skip(GrnndPageWriter *w);
/* A zeroed page to fill, of a block that was skipped; flush first. */
extern Page grnnd_writer_block(GrnndPageWriter *w, BlockNumber block);
extern void grnnd_writer_flush(GrnndPageWriter *w);
/* Flushes, and makes the pages as durable as the relation has to be. */
extern void grnnd_writer_end(GrnndPageWriter *w);

#endif							/* GRNND_PAGEWRITER_H */
