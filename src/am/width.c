/*
 * width.c - how wide a search is.
 *
 * The more specific wish counts: what the session has set, then the index's storage parameters,
 * then the default, which is a recall too where there are many rows.  Of an ef and a recall that
 * were set in the same way the ef counts.
 *
 * The width for a recall follows from the curve that the build has measured.  Between its widths
 * the logarithm of what is missed is taken to fall in proportion to the logarithm of the width, as
 * it does about.
 */
#include "am/width.h"

#include <math.h>

#include "utils/rel.h"

#include "am/options.h"
#include "am/page.h"

/*
 * An index of g times the rows that its build had needs a width larger by g to this power, as
 * graphs do that are built of more rows.  Rows that were inserted one by one are linked less well:
 * an index all of whose rows were needs a width larger by the factor INSERTED.
 */
#define GROWTH_POWER 0.2
#define INSERTED 1.8

/*
 * The nearest row is found by narrower searches than the nearest ten are: by those of .6 of
 * the width, about, of the data sets in test/bench/recall/results.md.
 */
#define FEW_POWER 0.22

static const double widths[GRN_CURVE_POINTS] = GRN_CURVE_WIDTHS;
static const double ks[GRN_CURVE_KS] = GRN_CURVE_K;

/* The width at which one curve has a recall; no search has more rows than its width. */
static double
width_at(const GrnRecallCurve *curve, int c, double recall)
{
	/* nothing missed among so many rows is no proof that nothing ever is */
	double		least = 0.5 / ((double) curve->queries * ks[c]);
	double		wanted = log(Max(1 - recall, least));
	double		before = 0;
	double		missed = 0;

	for (int i = 0; i < GRN_CURVE_POINTS; i++)
	{
		double		now = log(Max(1 - (double) curve->recall[c][i], least));

		before = missed;
		/* chance aside, a wider search misses no more */
		missed = Min(now, before);
		if (missed <= wanted)
		{
			double		share = i == 0 ? 1 : (before - wanted) / (before - missed);

			return Max(widths[i] * (i == 0 ? 1 : pow(widths[i - 1] / widths[i], 1 - share)), ks[c]);
		}
	}
	/* beyond the last, at the slope of the last two, but never without end */
	return widths[GRN_CURVE_POINTS - 1] *
		exp(log(2) * (missed - wanted) / Max(before - missed, 0.1));
}

uint32
grnnd_width_for(const GrnRecallCurve *curve, double recall, double k, double growth,
				double inserted)
{
	double		few;
	double		many;
	double		width;

	if (curve->queries == 0)
		return 0;
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
	width *= pow(Max(growth, 1), GROWTH_POWER) * pow(INSERTED, inserted);
	return (uint32) Min(Max(ceil(width), 1), GRNND_MAX_EF);
}

/*
 * Slots that vacuum has freed are taken to hold new rows, as they are going to: so after many
 * deletes a search is somewhat wide until then.
 */
static uint32
width_of_target(Relation index, const GrnndIndex *ix, double recall, double wanted)
{
	double		ids = Max(grnnd_id_limit(index, ix), 1);
	double		built = ix->report.ids;
	uint32		width = grnnd_width_for(&ix->report.curve, recall, wanted, ids / Max(built, 1),
										1 - Min((built - Min(ix->gone, built)) / ids, 1));

	return width > 0 ? width : GRNND_DEFAULT_EF;
}

/*
 * Chance has its part in a curve, so the recall wanted is a standard deviation of what the build
 * has measured there above the least that will do.
 */
static uint32
default_width(Relation index, const GrnndIndex *ix, double wanted)
{
	double		found = ix->report.curve.queries * ks[0];
	double		chance = sqrt(GRNND_DEFAULT_RECALL * (1 - GRNND_DEFAULT_RECALL) / Max(found, 1));
	uint32		width;

	if (found == 0 || grnnd_id_limit(index, ix) < GRNND_DEFAULT_ROWS)
		return GRNND_DEFAULT_EF;
	width = width_of_target(index, ix, GRNND_DEFAULT_RECALL + chance, wanted);
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
