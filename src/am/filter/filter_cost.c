/*
 * filter_cost.c - the costs of the ways to find the nearest rows that pass a filter.
 */
#include "am/filter/filter.h"

#include <math.h>

#include "am/index/opclass.h"
#include "store/group.h"

/*
 * A search of the graph by signatures makes START_VISITS visits on the way to the passing rows.
 * Each of the ef candidates costs NEAR_VISITS visits, and SHARE_VISITS / share visits of rows that
 * fail.  Reading the sample takes as long as SAMPLE_COST visits.  Measured at ef 40 and 200 on
 * 2,000 and 20,000 sentences and 2,000 to 100,000 rows of a mixture in 128 dimensions, of which .1%
 * to 70% pass: SHARE_VISITS is 0.14 to 0.2 there, SAMPLE_COST 20 to 25.
 */
#define START_VISITS 5
#define NEAR_VISITS 0.83
#define SHARE_VISITS 0.17
#define SAMPLE_COST 20

/*
 * Microseconds of one core: a visit of the graph, a visit by a list, which reads no neighbors, a
 * page of a list, the page of a group, which is at a random place, and a row of a list.  Measured
 * on a million SIFT descriptors (records of 1,100 bytes, codes of 20) and a million sentence
 * embeddings (2,000 and 40).
 */
#define VISIT_TIME(l) (0.75 + 0.45 * (double) (l)->record_bytes / 1100)
#define LIST_VISIT_TIME 0.75
#define LIST_PAGE_TIME 0.3
#define GROUP_TIME 1.0
#define LIST_ROW_TIME(l) (0.005 * (12 + (double) (l)->code_bytes) / 32)

/*
 * The cost of tests of rows' addresses for each candidate, times the share: of 100,000 sentences a
 * search tests 2.4 records for each visit that it would make without tests, in a quarter of a visit
 * each.
 */
#define TESTS 0.6
/*
 * A row of the table in memory, with a distance of so many numbers, and its value in a TOAST table,
 * where values of TOAST_BYTES are.  A row of 128 numbers takes 0.4 to 0.5 microseconds, one of 384
 * numbers 1.1 among 10,000 rows and 1.4 among 100,000, which no processor cache holds.  At 1.1,
 * comparisons of 2% of 100,000 sentences would take the place of searches that are twice as fast.
 * With twice 0.4, searches among a seventh of 10,000 rows of 128 numbers would take the place of
 * comparisons that are twice as fast.
 */
#define ROW_TIME 0.1
#define NUMBER_TIME 0.0033
#define TOAST_TIME 2.5
#define TOAST_BYTES 2000

/*
 * The least share of rows that pass for which a scan widens its first search.  100,000 sentences,
 * LIMIT 10: .35 instead of .52 ms at recall .98 where 15% pass, .20 instead of .32 where 28% pass.
 * 20,000 sentences, ef 40: half .990 in 1.3 ms instead of .996 in 1.7 where 4% pass; twice .994 in
 * .9 ms instead of .988 in .6 where 8% pass.  Statistics of fewer rows are less certain.
 */
#define LEAST_SHARE 0.05

/*
 * The rest of a scan reads CODED_RECORDS records in the time of a visit if the index has codes.  In
 * small indexes LEAST_VISITS visits are always allowed: with 500, 1,000 and 2,000 a query of 2,000
 * sentences with a filter that 5% pass, LIMIT 10, takes 1.7, 1.1 and 1.0 ms.
 */
#define CODED_RECORDS 4
#define LEAST_VISITS 1000

double
grnnd_graph_visits(double ef, double share)
{
	return START_VISITS + ef * (NEAR_VISITS + SHARE_VISITS / share);
}

double
grnnd_expansions_per_row(const GrnCodec *codec, bool strict)
{
	bool		by_distance = !grn_has_codes(codec) || grn_codes_exact(codec);

	return (by_distance ? 1.5 : 3) + (strict ? 0.5 : 0);
}

double
grnnd_filtered_width(double ef, double limit, double share)
{
	double		wanted = limit / GRNND_FIRST_SHARE;

	return limit < GRNND_LEAST_FILTERED || share < LEAST_SHARE ? 0 : wanted / share + Max(ef - wanted, 0);
}

double
grnnd_all_rows_cost(const GrnndIndex *ix, double rows)
{
	return Max(LEAST_VISITS, floor(rows / (grn_has_codes(&ix->codec) ? CODED_RECORDS : 1)));
}

double
grnnd_graph_cost(double ef, double share)
{
	return SAMPLE_COST + grnnd_graph_visits(ef, share);
}

double
grnnd_set_visits(const GrnndIndex *ix, double ef, double share)
{
	if (!grn_has_codes(&ix->codec))
		return START_VISITS + ef / share;
	return grnnd_graph_visits(ef, share) + ef * TESTS / share;
}

double
grnnd_set_rows_cost(const GrnndIndex *ix, double rows)
{
	double		time = ROW_TIME + NUMBER_TIME * ix->meta.dim;

	if (grn_form_bytes(ix->key.type->form, ix->meta.dim) > TOAST_BYTES)
		time += TOAST_TIME;
	return rows * time / VISIT_TIME(&ix->layout);
}

/*
 * Rows that a search reads of a list of n groups, about.  In units of the patience of searches:
 * 4.6, 5.2 and 6.6 with 73, 327 and 859 groups of sentences; 4.5, 5.2, 7.2 and 9.7 with 47, 209,
 * 695 and 2,084 groups of SIFT descriptors.
 */
static double
grouped_rows(double ef, double n)
{
	return GRNND_GROUPS_PATIENCE * ef * 1.7 * pow(Max(n, 1), 0.21);
}

GrnndListWork
grnnd_list_work(const GrnndIndex *ix, GrnndListSize size, uint32 pieces, double ef)
{
	const GrnLayout *l = &ix->layout;
	double		room = grn_list_rows(l);
	uint32		group_room = grn_group_room(l);
	double		groups = Min((double) size.groups, grouped_rows(ef, (double) size.groups) / group_room);
	double		guide = ceil((double) size.groups / room);
	double		compared = (double) size.records * room + groups * group_room + (double) size.groups;
	double		pages = ((double) size.records + guide) * l->span / l->per_page + pieces;
	GrnndListWork work = {
		.rows = (double) size.records * room +
		(double) grn_rows_of_groups(size.groups, group_room),
		.pages = pages + groups,
	};

	work.cost = (LIST_PAGE_TIME * pages + GROUP_TIME * groups + LIST_ROW_TIME(l) * compared) / VISIT_TIME(l) +
		grnnd_list_visit_cost(l) * Min(ef, work.rows);
	return work;
}

double
grnnd_list_visit_cost(const GrnLayout *l)
{
	return LIST_VISIT_TIME / VISIT_TIME(l);
}

GrnndListSize
grnnd_size_of_list(const GrnndIndex *ix, bool several, double n, double rows)
{
	const GrnLayout *l = &ix->layout;
	GrnndListSize size = {0, 0};

	if (!several && grn_has_groups(l, GRNND_LEAST_GROUPS, (uint64) n, (uint64) rows))
		size.groups = grn_groups((uint32) n, grn_group_room(l));
	else
		size.records = (uint64) ceil(n / grn_list_rows(l));
	return size;
}
