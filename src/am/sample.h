/*
 * sample.h - rows of the index drawn at random, with what an edge to each would keep.  They say
 * how many rows a filter lets pass, and a filtered search begins at those of them that do.
 */
#ifndef GRNND_SAMPLE_H
#define GRNND_SAMPLE_H

#include "am/grnnd.h"
#include "am/page_store.h"
#include "am/write/edit.h"

#define GRNND_SAMPLE_ROWS 1000

/*
 * A sample page's payload begins with this; the rows follow, each an id (uint32), a GrnFactor,
 * a code and a signature, in a multiple of 4 bytes.
 */
typedef struct GrnndSampleHeader
{
	uint32		count;			/* 0: rows on this page */
	uint32		unused;			/* 4: 0 */
} GrnndSampleHeader;

StaticAssertDecl(sizeof(GrnndSampleHeader) == 8, "GrnndSampleHeader is on disk");

/* A copy of the sample, or of some of its rows. */
typedef struct GrnndSample
{
	uint32		count;
	uint32		nfailing;		/* of a filter: rows that fail, at the arrays' ends */
	uint32		ids[GRNND_SAMPLE_ROWS];
	GrnFactor	factors[GRNND_SAMPLE_ROWS];
	uint8	   *codes;			/* [count][code_bytes] */
	uint8	   *sigs;			/* [count][sig_bytes] */
} GrnndSample;

/* Pages of a sample; 0 where there are no signatures, for it serves filters alone. */
extern uint32 grnnd_sample_pages(const GrnLayout *l);
/* Puts a row where there is room on a page under construction; false where there is none. */
extern bool grnnd_sample_append(const GrnLayout *l, Page page, const GrnndEdge *row);
/*
 * Copies rows of the sample that pass a filter by their signatures, page by page until there are
 * GRNND_ENOUGH_ROWS; palloc'd, without signatures.  whole: all, and behind them those that fail.
 * Stale ids may be among them, as among a search's candidates.  *share: of all rows that pass, a
 * guess that is never 0.
 */
#define GRNND_ENOUGH_ROWS 64
extern GrnndSample *grnnd_pick_sample(GrnndStore *store, const GrnFilter *filter, bool whole,
									  double *share);

/* A new node may become one of the sample. */
extern void grnnd_offer_sample(Relation index, const GrnndIndex *ix, uint32 id,
							   const GrnRecord *rec);

/* ---- a new sample, drawn while all nodes are read in turn ---- */

typedef struct GrnndDraw
{
	const GrnLayout *layout;
	uint64		seen;			/* nodes */
	GrnndSample *sample;		/* with room for all rows; NULL: none is drawn */
} GrnndDraw;

extern void grnnd_draw_begin(GrnndDraw *d, const GrnLayout *layout);
/* Takes a node into account. */
extern void grnnd_draw(GrnndDraw *d, uint32 id, const GrnRecord *rec);
/* Writes the new sample in the place of the old one. */
extern void grnnd_draw_end(GrnndDraw *d, Relation index, const GrnndIndex *ix);

/* Copies codes from the records of the sample's nodes: an index has got its codes. */
extern void grnnd_encode_sample(Relation index, const GrnndIndex *ix);

#endif							/* GRNND_SAMPLE_H */
