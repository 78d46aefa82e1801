/*
 * width.c - how wide a search is.
 *
 * The first of these counts that is set: the session's ef, the session's target of recall, the
 * index's ef, the index's target.  The default is a target too where there are many rows.
 *
 * The width for a recall follows from the curve that the build has measured, or a fit or a vacuum
 * since (fit_recall.c).  Between its widths the logarithm of what is missed is interpolated over
 * the logarithm of the width, in which it falls about evenly.
 */
#include "am/width.h"

#include <math.h>

#include "utils/rel.h"

#include "am/options.h"
#include "am/page.h"

/*
 * An index of g times the rows that its curve was measured with needs a width larger by g to this
 * power, as graphs do that are built of more rows.  Rows that were inserted one by one are linked
 * less well: an index all of whose rows were needs a width larger by the factor INSERTED.
 */
#define GROWTH_POWER 0.2
#define INSERTED 1.8

/*
 * Searches miss the nearest row 0 to .7 times as often as one of the ten nearest in most data, but
 * 1 to 1.4 times where near rows are no neighbours of each other (test/bench/recall/results.md).
 * What queries have missed tells which, where it is much.  So it counts beside MISSES_BEFORE
 * misses, of which chance makes as much difference, as of data with FIRST_BEFORE times as many.  A
 * query misses a row at several widths: the variance of such counts is MISSED_TOGETHER times that
 * of single misses (.9 to 1.7).
 */
#define FIRST_BEFORE 0.75
#define MISSES_BEFORE 10
#define MISSED_TOGETHER 1.5

static const double widths[GRN_CURVE_POINTS] = GRN_CURVE_WIDTHS;
static const double ks[GRN_CURVE_KS] = GRN_CURVE_K;

#define DEFAULT_BEYOND 2		/* times the curve's last width: the widest that nobody has set */
#define BISECTIONS 20			/* a millionth of the way from one width to the next */

/*
 * How far from width i to the next, 0 to 1, the values y, which fall, are down to `wanted`.  Of
 * narrow clusters misses fall the faster the wider a search is; a straight line from .24 to .02
 * would promise half of what is missed halfway.  So a cubic begins as flat as the values before
 * fall, and ends as steep as those behind do, within what keeps it from turning.
 */
static double
share_between(const double *y, int i, double wanted)
{
	double		fall = y[i + 1] - y[i];
	double		first = i > 0 ? Max(y[i] - y[i - 1], fall) : fall;
	double		last = i + 2 < GRN_CURVE_POINTS ? Min(y[i + 2] - y[i + 1], fall) : fall;
	double		low = 0;
	double		high = 1;

	last = Max(last, 3 * fall);
	for (int n = 0; n < BISECTIONS; n++)
	{
		double		t = (low + high) / 2;
		double		now = y[i] + t * t * (3 - 2 * t) * fall +
			t * (1 - t) * ((1 - t) * first - t * last);

		if (now > wanted)
			low = t;
		else
			high = t;
	}
	return high;
}

/* The width at which one curve has a recall; no search has more rows than its width. */
static double
width_at(const GrnRecallCurve *curve, int c, double recall)
{
	/* nothing missed among so many rows is no proof that nothing ever is */
	double		least = 0.5 / ((double) curve->queries * ks[c]);
	double		wanted = log(Max(1 - recall, least));
	double		missed[GRN_CURVE_POINTS];	/* logarithms */
	double		fall;			/* from width to width */
	int			last = GRN_CURVE_POINTS - 1;

	for (int i = 0; i <= last; i++)
	{
		missed[i] = log(Max(1 - (double) curve->recall[c][i], least));
		/* chance aside, a wider search misses no more */
		if (i > 0)
			missed[i] = Min(missed[i], missed[i - 1]);
	}
	if (missed[0] <= wanted)
		return Max(widths[0], ks[c]);
	for (int i = 0; i < last; i++)
		if (missed[i + 1] <= wanted)
			return Max(widths[i] * pow(widths[i + 1] / widths[i], share_between(missed, i, wanted)),
					   ks[c]);
	/*
	 * Beyond the last, at the slope of the last two, or of all where that is steeper: where a few
	 * queries miss a row or two at the last widths, those two have no slope.
	 */
	fall = Max(missed[last - 1] - missed[last], (missed[0] - missed[last]) / last);
	return widths[last] * exp(log(2) * (missed[last] - wanted) / Max(fall, 0.1));
}

const GrnRecallCurve *
grnnd_curve(const GrnndNotes *notes)
{
	return notes->measured.curve.queries > 0 ? &notes->measured.curve : &notes->report.curve;
}

double
grnnd_inserted(const GrnndNotes *notes, double ids)
{
	double		built = notes->report.ids;

	return 1 - Min((built - Min(notes->gone, built)) / Max(ids, 1), 1);
}

double
grnnd_stretch(const GrnndNotes *notes, double ids)
{
	const GrnndMeasured *m = &notes->measured;
	double		then = m->ids > 0 ? m->ids : notes->report.ids;
	double		more = grnnd_inserted(notes, ids) - m->inserted;

	return pow(Max(ids / Max(then, 1), 1), GROWTH_POWER) * pow(INSERTED, Max(more, 0));
}

/*
 * The standard deviation of a recall of ten rows that so many queries have measured.  Rows near
 * each other are missed together: the variance from query to query is 1.7 to 2.4 times that of
 * rows missed one by one at .93 to .95, 1.3 to 1.6 times at .98 and 1.1 times at .99
 * (test/bench/recall/results.md).
 */
static double
chance_of(double recall, uint32 queries)
{
	double		together = 1 + Min(16 * (1 - recall), 0.8);

	return sqrt(together * recall * (1 - recall) / (queries * ks[0]));
}

/*
 * Chance has its part in a curve, and a promise is not to be broken half of the time.  So the
 * recall that is looked up is a standard deviation of what was measured there above the one that
 * is asked for.
 */
static double
sure_width(const GrnRecallCurve *curve, int c, double recall)
{
	return width_at(curve, c, recall + chance_of(recall, curve->queries));
}

/*
 * The nearest row has no curve of its own: one row a query has ten times the chance in it.  But it
 * is missed so many times as often as one of the ten nearest, and its width is the one at which
 * the ten are missed as much less.
 */
static double
width_of_first(const GrnndNotes *notes, double recall)
{
	const GrnRecallCurve *curve = grnnd_curve(notes);
	const GrnMisses *misses = notes->measured.curve.queries > 0
		? &notes->missed.measured : &notes->missed.built;
	double		first = misses->first + MISSES_BEFORE * FIRST_BEFORE;
	double		share = first / (misses->ten + MISSES_BEFORE);
	double		chance = sqrt(MISSED_TOGETHER * misses->first) / first; /* of itself */
	double		ten = Max(1 - (1 - recall) / share, 0); /* recall of the ten */

	return width_at(curve, 0, ten + hypot(chance_of(ten, curve->queries), (1 - ten) * chance));
}

/* The least ef, for searches as they were when the curve was measured. */
static double
width_for(const GrnndNotes *notes, double recall, double k)
{
	const GrnRecallCurve *curve = grnnd_curve(notes);
	double		few = sure_width(curve, 0, recall);
	double		many;
	double		first;

	if (k < 1)
		return few;
	if (k <= ks[0])
	{
		first = width_of_first(notes, recall);
		return first * pow(few / first, log(k) / log(ks[0]));
	}
	many = Max(sure_width(curve, 1, recall), few);
	if (k <= ks[1])
		return few * pow(many / few, log(k / ks[0]) / log(ks[1] / ks[0]));
	return many * k / ks[1];
}

/*
 * A curve is asked by rows of the index.  Queries that are less like the rows than these are like
 * each other find less at its widths, and nobody knows before they come.  So a search that nobody
 * sets has as many candidates at least as such rows take in real data, however good the curve.
 */
static uint32
least_width(double rows)
{
	return (uint32) ceil(GRNND_DEFAULT_EF * pow(Max(rows / GRNND_DEFAULT_ROWS, 1), GROWTH_POWER));
}

/* Without a curve that of a search that nobody sets. */
static uint32
width_of_target(Relation index, const GrnndIndex *ix, double recall, double wanted)
{
	double		rows = grnnd_id_limit(index, ix);
	double		width;

	if (grnnd_curve(&ix->notes)->queries == 0)
		return least_width(rows);
	width = width_for(&ix->notes, recall, wanted) * grnnd_stretch(&ix->notes, rows);
	return (uint32) Min(Max(ceil(width), 1), GRNND_MAX_EF);
}

static uint32
default_width(Relation index, const GrnndIndex *ix, double wanted)
{
	double		rows = grnnd_id_limit(index, ix);
	uint32		most = DEFAULT_BEYOND * (uint32) widths[GRN_CURVE_POINTS - 1];

	if (rows < GRNND_DEFAULT_ROWS)
		return GRNND_DEFAULT_EF;
	return Min(Max(width_of_target(index, ix, GRNND_DEFAULT_RECALL, wanted), least_width(rows)), most);
}

uint32
grnnd_width(Relation index, const GrnndIndex *ix, double wanted)
{
	const GrnndOptions *options = (const GrnndOptions *) index->rd_options;
	int			ef = grnnd_session_ef_search();

	if (ef > 0)
		return (uint32) ef;
	if (grnnd_target_recall > 0)
		return width_of_target(index, ix, grnnd_target_recall, wanted);
	if (options != NULL && options->ef_search > 0)
		return (uint32) options->ef_search;
	if (options != NULL && options->target_recall > 0)
		return width_of_target(index, ix, options->target_recall, wanted);
	return default_width(index, ix, wanted);
}
