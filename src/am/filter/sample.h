/*
 * sample.h - rows of the index drawn at random, with code and signature.  The sample gives an
 * estimate of how many rows pass a filter, and a filtered search starts from sample rows that
 * pass.
 */
#ifndef GRNND_SAMPLE_H
#define GRNND_SAMPLE_H

#include "am/grnnd.h"
#include "am/index/page_store.h"
#include "am/write/edit.h"

#define GRNND_SAMPLE_ROWS 1000

/*
 * The start of a sample page's payload.  Rows follow: id (uint32), GrnFactor, code and signature,
 * padded to a multiple of 4 bytes.
 */
typedef struct GrnndSampleHeader
{
	uint32		count;			/* 0: number of rows on the page */
	uint32		unused;			/* 4: 0 */
} GrnndSampleHeader;

StaticAssertDecl(sizeof(GrnndSampleHeader) == 8, "GrnndSampleHeader is on disk");

/* A copy of the sample, or of some of its rows. */
typedef struct GrnndSample
{
	uint32		count;
	uint32		nfailing;		/* rows that fail the filter, stored at the arrays' ends */
	uint32		ids[GRNND_SAMPLE_ROWS];
	GrnFactor	factors[GRNND_SAMPLE_ROWS];
	uint8	   *codes;			/* [count][code_bytes] */
	uint8	   *sigs;			/* [count][sig_bytes] */
} GrnndSample;

/* Number of pages of a sample.  0 without signatures, because only filters use the sample. */
extern uint32 grnnd_sample_pages(const GrnLayout *l);
/* Adds a row to a page under construction.  Returns false if the page is full. */
extern bool grnnd_sample_append(const GrnLayout *l, Page page, const GrnEdge *row);
/*
 * Copies sample rows whose signatures pass a filter, without signatures, palloc'd.  Reads page by
 * page until it has GRNND_ENOUGH_ROWS rows.  whole: reads all pages, and adds failing rows at the
 * arrays' ends.  Ids may be stale, as a search's candidates may be.  *share: estimated share of
 * rows that pass, never 0.  With half and twice of GRNND_ENOUGH_ROWS filters of 20,000 sentences
 * and image patches take 1.5% fewer and .5% more visits at most, at recall within .002.
 */
#define GRNND_ENOUGH_ROWS 64
extern GrnndSample *grnnd_pick_sample(GrnndStore *store, const GrnFilter *filter, bool whole,
									  double *share);

/* Puts a new node into the sample with the probability that keeps the sample uniform. */
extern void grnnd_offer_sample(Relation index, const GrnndIndex *ix, uint32 id,
							   const GrnRecord *rec);

/* ---- a new sample, drawn while a vacuum reads all nodes ---- */

typedef struct GrnndDraw
{
	const GrnLayout *layout;
	uint64		seen;			/* number of nodes */
	GrnndSample *sample;		/* room for all rows; NULL: the index has no sample */
} GrnndDraw;

extern void grnnd_draw_begin(GrnndDraw *d, const GrnLayout *layout);
/* Draws: a node may replace a node drawn before. */
extern void grnnd_draw(GrnndDraw *d, uint32 id, const GrnRecord *rec);
/* Replaces the old sample by the new one. */
extern void grnnd_draw_end(GrnndDraw *d, Relation index, const GrnndIndex *ix);

/* Copies codes from the records of the sample's nodes, after a fit has given the index codes. */
extern void grnnd_encode_sample(Relation index, const GrnndIndex *ix);

#endif							/* GRNND_SAMPLE_H */
