/*
 * scan_width.c - how wide a scan searches, and whether reading all records in turn costs less.
 */
#include "am/scan/scan_impl.h"

#include <math.h>

#include "utils/rel.h"

#include "am/scan/scan.h"

/*
 * How far the search stays ahead of the returned rows.  After the first search a share of ef is
 * returned.  Each further row waits for a number of expansions.
 *
 * The share is half of ef, so that one search serves a LIMIT up to half of ef.  With a quarter,
 * LIMIT 10 at ef 32 took twice the time (97 -> 195 ms for 2,000 queries of 60,000 SIFT
 * descriptors).  Strict order needs more expansions, because rows found late are useless there.
 * Scans without codes, and with codes that are rows, expand nodes in the order of distances and
 * need fewer.  With 3.5 expansions (strict) and 3 (relaxed) recall is .983 and .993 where 10% of
 * the rows pass a filter; 2 and 1.5 give .951 and .964 (test/bench/decisions.md).
 */
#define FIRST_SHARE GRNND_FIRST_SHARE

/*
 * Factor for FIRST_SHARE if a filter drops rows, because rows found late then matter even for LIMIT
 * 1.  Recall at ef 40 with 1, .5 and .2, strict and relaxed: 20,000 sentences with a filter that
 * 10% pass, LIMIT 1 .970 .975, .975 .990, .980 .990 (80, 91 and 113 buffers), LIMIT 10 .978 .994,
 * .989 .998, .992 .998; 60,000 SIFT descriptors with a filter that 1% pass, LIMIT 1 .960 .990,
 * .985 1.000, .990 1.000 (400, 430 and 450 buffers).
 */
#define FILTERED_FIRST 0.2

/*
 * With such a filter a scan looks for at least this number of rows: the nearest passing row may be
 * any of the nearest ten, or farther.
 */
#define LEAST_FILTERED GRNND_LEAST_FILTERED

/*
 * Memory of a scan for each unit of ef, about.  A search that LIMIT has widened may use half of
 * work_mem, because the scan may have to go on.  A scan of 20,000 rows uses 530 bytes at ef 8,000
 * and 570 at ef 800.
 */
#define CANDIDATE_BYTES 560

void
grnnd_set_width(GrnndScan *so)
{
	bool		filtered;
	double		rows;
	uint64		limit = grnnd_limit(so->keys, &filtered, &rows);
	GrnndWidth	width;
	double		wanted = (double) limit / FIRST_SHARE;
	double		share = Min(rows / Max(so->store.id_limit, 1), 1);
	double		filtered_width;

	/* without codes there are no signatures, and the search finds failing nodes too */
	filtered |= so->set.filtered || (so->filter != NULL && !grn_has_codes(&so->ix->codec));
	width = grnnd_width(so->store.index, so->ix,
						(double) (filtered ? Max(limit, LEAST_FILTERED) : limit));
	so->width.first = FIRST_SHARE * (filtered ? FILTERED_FIRST : 1);
	so->width.wanted = filtered ? 0 : limit;
	so->width.ef = so->width.ef_exact = width.ef;
	so->width.ef_all = 0;
	/*
	 * a greatest distance leaves out the farthest rows, and the planner does not know how many; a
	 * bitmap has more rows than planned
	 */
	if (filtered && so->filter == NULL && !so->set.filtered && !grnnd_has_threshold(so) &&
		(filtered_width = grnnd_filtered_width(width.ef, (double) limit, share)) > 0)
	{
		wanted = filtered_width;
		so->width.first = FIRST_SHARE;
	}
	if (so->asked.iterative == GRNND_ITERATIVE_OFF)
		return;
	if (so->filter == NULL && so->set.rows == NULL)
		so->width.ef_all = width.all;
	if (grnnd_has_threshold(so))
		wanted = Min(wanted, GRNND_LEAST_WITHIN);
	if (so->asked.max_visits > 0)
		wanted = Min(wanted, (double) so->asked.max_visits / grnnd_beam(so->ix));
	wanted = Min(ceil(wanted), (double) so->asked.memory_limit / 2 / CANDIDATE_BYTES);
	so->width.ef = Max(so->width.ef, (uint32) Min(wanted, GRNND_MAX_EF));
}

bool
grnnd_reads_all(const GrnndScan *so)
{
	return so->width.ef_all > 0 && so->asked.max_visits == 0 && so->width.ef_exact >= so->width.ef_all;
}

void
grnnd_widen(GrnndScan *so, const GrnFound *found, uint32 n)
{
	uint32		width = so->width.ef;
	double		nodes = (double) n / grnnd_beam(so->ix);
	double		factor;

	if (so->width.ef_all == 0 || n < width || width < 2 * GRN_CONTRAST_PART)
		return;
	factor = grnnd_widening(&so->ix->notes, width,
							grn_contrast(found[width / GRN_CONTRAST_PART - 1].distance,
										 found[width - 1].distance));
	so->width.ef_exact = (uint32) Min(ceil(so->width.ef_exact * factor), GRNND_MAX_EF);
	/* a run finds more than ef nodes if estimates are rough, and so would a wider one */
	if (so->width.ef_exact > width)
		so->width.ef = (uint32) ceil(so->width.ef_exact * Max(nodes / width, 1));
}
