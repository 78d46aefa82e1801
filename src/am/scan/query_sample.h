/*
 * query_sample.h - a sample of the queries of scans, for measurements of recall (fit_recall.c).
 * The sample is in shared memory, if the library is preloaded, and nowhere else.
 */
#ifndef GRNND_QUERY_SAMPLE_H
#define GRNND_QUERY_SAMPLE_H

#include "am/grnnd.h"

#include "access/relscan.h"

#define GRNND_SAMPLED_QUERIES 64	/* at most, for each index */
/* Fewer queries measure recall too roughly, and would tell too much of each. */
#define GRNND_LEAST_SAMPLE 24

/* Requests the shared memory, in _PG_init(). */
extern void grnnd_request_query_sample(void);
/*
 * Offers a scan's query.  Most queries of a busy index cost a draw of a random number; no query
 * waits.  Queries of tables with row security are left out, and of temporary tables.  Returns true
 * if the query is in the sample now and recall should be measured with the sample.
 */
extern bool grnnd_offer_query(IndexScanDesc scan, const GrnndIndex *ix);
/*
 * Copies the sampled queries of an index, values of the column's type, to palloc'd memory.  Returns
 * their number: 0 if row security applies to the table.
 */
extern int	grnnd_sampled_queries(Relation heap, const GrnndIndex *ix, Datum *queries);
/* Has the sample of the index with this metapage changed much since it last measured recall? */
extern bool grnnd_query_sample_due(const GrnndMeta *meta);
/* The sample has measured recall, or recall cannot be measured now. */
extern void grnnd_query_sample_done(const GrnndMeta *meta);

#endif							/* GRNND_QUERY_SAMPLE_H */
