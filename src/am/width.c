/*
 * width.c - how wide a search is.
 *
 * The more specific wish counts: what the session has set, then the index's storage parameters,
 * then the default, which is a recall too where there are many rows.  Of an ef and a recall that
 * were set in the same way the ef counts.
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
 * The nearest row is found by narrower searches than the nearest ten are: by those of .7
 * of the width, about, of the data sets in test/bench/recall/results.md.
 */
#define FEW_POWER 0.15

static const double widths[GRN_CURVE_POINTS] = GRN_CURVE_WIDTHS;
static const double ks[GRN_CURVE_KS] = GRN_CURVE_K;

#define BISECTIONS 20			/* a millionth of the way from one width to the next */

/* The slope of a monotone cubic in the middle of three values; harmonic, so it never turns. */
static double
slope(double before, double behind)
{
	return before < 0 && behind < 0 ? 2 * before * behind / (before + behind) : 0;
}

/*
 * How far from width i to the next, 0 to 1, the values y, which fall, are down to `wanted`.  Of
 * narrow clusters misses fall the faster the wider a search is; a straight line from .24 to .02
 * would promise half of what is missed halfway.
 */
static double
share_between(const double *y, int i, double wanted)
{
	double		fall = y[i + 1] - y[i];
	double		first = i > 0 ? slope(y[i] - y[i - 1], fall) : fall;
	double		last = i + 2 < GRN_CURVE_POINTS ? slope(fall, y[i + 2] - y[i + 1]) : fall;
	double		low = 0;
	double		high = 1;

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
	/* beyond the last, at the slope of the last two, but never without end */
	return widths[last] *
		exp(log(2) * (missed[last] - wanted) / Max(missed[last - 1] - missed[last], 0.1));
}

/* The least ef, for searches as they were when the curve was measured. */
static double
width_for(const GrnRecallCurve *curve, double recall, double k)
{
	double		few;
	double		many;
	double		width;

	few = width_at(curve, 0, recall);
	many = Max(width_at(curve, 1, recall), few);
	if (k < 1)
		width = few;
	else if (k <= ks[0])
		width = few * pow(k / ks[0], FEW_POWER);
	else if (k <= ks[1])
		width = few * pow(many / few, log(k / ks[0]) / log(ks[1] / ks[0]));
	else
		width = many * k / ks[1];
	return width;
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
 * Chance has its part in a curve, and a promise is not to be broken half of the time.  So the
 * recall that is looked up is a standard deviation of what was measured there above the one that
 * is asked for.
 */
static uint32
width_of_target(Relation index, const GrnndIndex *ix, double recall, double wanted)
{
	const GrnRecallCurve *curve = grnnd_curve(&ix->notes);
	double		chance;
	double		width;

	if (curve->queries == 0)
		return GRNND_DEFAULT_EF;
	chance = sqrt(recall * (1 - recall) / (curve->queries * ks[0]));
	width = width_for(curve, recall + chance, wanted) * grnnd_stretch(&ix->notes, grnnd_id_limit(index, ix));
	return (uint32) Min(Max(ceil(width), 1), GRNND_MAX_EF);
}

static uint32
default_width(Relation index, const GrnndIndex *ix, double wanted)
{
	uint32		width;

	if (grnnd_curve(&ix->notes)->queries == 0 || grnnd_id_limit(index, ix) < GRNND_DEFAULT_ROWS)
		return GRNND_DEFAULT_EF;
	width = width_of_target(index, ix, GRNND_DEFAULT_RECALL, wanted);
	return Min(Max(width, GRNND_DEFAULT_EF), (uint32) widths[GRN_CURVE_POINTS - 1]);
}

uint32
grnnd_width(Relation index, const GrnndIndex *ix, double wanted)
{
	const GrnndOptions *options = (const GrnndOptions *) index->rd_options;
	GucSource	ef_source;
	GucSource	target_source;
	int			ef = grnnd_session_ef_search(&ef_source);
	double		target = grnnd_session_target_recall(&target_source);

	if (target > 0 && (ef == 0 || target_source > ef_source))
		return width_of_target(index, ix, target, wanted);
	if (ef > 0)
		return (uint32) ef;
	if (options != NULL && options->ef_search > 0)
		return (uint32) options->ef_search;
	if (options != NULL && options->target_recall > 0)
		return width_of_target(index, ix, options->target_recall, wanted);
	return default_width(index, ix, wanted);
}
