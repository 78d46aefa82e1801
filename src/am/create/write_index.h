/*
 * write_index.h - from the builder's result to the pages of the index.
 */
#ifndef GRNND_WRITE_INDEX_H
#define GRNND_WRITE_INDEX_H

#include "am/create/build_state.h"

/*
 * Shares of "writing pages", about, when all of this is checked or planned, and when pages are
 * written.
 */
#define GRNND_ROWS_CHECKED 0.03
#define GRNND_CHAINS_PLANNED 0.05
#define GRNND_LISTS_CHECKED 0.1
#define GRNND_PAGES_WRITTEN 0.9

/*
 * Whether the builder of such a result may choose groups of lists (write_groups.c).  If that is in
 * holds_builder, grnnd_write_index() lets it go.
 */
extern bool grnnd_may_choose_groups(const GrnndBuild *build, const GrnBuildResult *result);
/*
 * Checks the builder's result and writes all pages of the index; returns the number of
 * blocks.
 */
extern BlockNumber grnnd_write_index(GrnndBuild *build, const GrnBuildResult *result);
/* Writes an index without rows. */
extern void grnnd_write_empty_index(GrnndBuild *build, ForkNumber fork);
/*
 * The geometry of records that keep own vectors in a form, before rows are known: with codes of the
 * usual shape.
 */
extern GrnLayoutSpec grnnd_usual_layout(const GrnndBuild *build, GrnForm form);
/* Blocks of an index with so many records, and a centre, as grnnd_write_index() lays them out. */
extern uint64 grnnd_index_blocks(const GrnLayout *layout, bool centred, uint64 records);

#endif							/* GRNND_WRITE_INDEX_H */
