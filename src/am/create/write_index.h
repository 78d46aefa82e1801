/*
 * write_index.h - writes the pages of the index from the builder's result.
 */
#ifndef GRNND_WRITE_INDEX_H
#define GRNND_WRITE_INDEX_H

#include "am/create/build_state.h"

/*
 * Checks the builder's result and writes all pages of the index.  Returns the number of blocks.
 * Errors: XX000 if the result is invalid, 54000 if the index would be too large.
 */
extern BlockNumber grnnd_write_index(GrnndBuild *build, const GrnBuildResult *result);
/* Writes an index without rows. */
extern void grnnd_write_empty_index(GrnndBuild *build, ForkNumber fork);
/*
 * The geometry of records whose own vectors have the form `form`, before rows are known: with codes
 * of the usual shape.
 */
extern PGDLLEXPORT GrnLayoutSpec grnnd_usual_layout(const GrnndBuild *build, GrnForm form);
/*
 * Number of blocks of an index with `records` records, and a center if centered, as
 * grnnd_write_index() lays them out, without filters.
 */
extern PGDLLEXPORT uint64 grnnd_index_blocks(const GrnLayout *layout, bool centered, uint64 records);

#endif							/* GRNND_WRITE_INDEX_H */
