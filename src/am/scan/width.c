/*
 * width.c - the width of a search.
 *
 * The first of these that is set applies: the session's ef, the session's recall target, the
 * index's ef, the index's recall target.  The default for many rows is a recall target too.
 *
 * The width for a recall comes from the curve measured by the build, or later by a fit or a vacuum
 * (fit_recall.c).  Between the curve's widths, the logarithm of the missed share is interpolated
 * over the logarithm of the width, because it falls nearly linearly there.
 *
 * The curve holds for queries like the measurement's.  A query that is farther from its nearest
 * rows than those queries from theirs needs a wider search.  The contrast of the first search shows
 * how far the query is, and the scan goes on to a width that grows with the ratio of both contrasts
 * (grnnd_widening()).
 */
#include "am/scan/scan.h"

#include <math.h>

#include "utils/rel.h"

#include "am/filter/filter.h"
#include "am/index/index.h"
#include "store/recall.h"

/*
 * GROWTH_POWER: an index with g times the rows of the measurement needs a width larger by g to
 * this power, as graphs built of more rows do.  INSERTED: inserts link rows less well than builds,
 * so an index with only inserted rows needs a width larger by this factor.  At twice the rows both
 * together give a width 1.5 times as large; searches of several sets need 1.1 to 2.3 times.
 */
#define GROWTH_POWER 0.2
#define INSERTED 1.8

/*
 * A query has less contrast than the curve's queries by a factor of 1.4 to 1.9 for two encoders'
 * vectors, and of up to hundreds between clusters of copies.  The widths for recalls of .9 to .99
 * then grow by this factor to a power of 1.2 to 1.5, up to 23 times (test/bench/decisions.md).
 * FAR_FROM: the contrast of a single query varies by so much without meaning.  10,000 rows of two
 * modalities, targets .9 and .95: recall .980 and .999 by 310 and 668 visits; half of FAR_POWER
 * .910 and .981 by 112 and 234, but two encoders need more, twice .999 and 1.000 by 1,190 and
 * 2,207; FAR_FROM 1 and 1.2 .984 and .971 by 355 and 264; half and twice of FAR_MOST the same.
 */
#define FAR_POWER 1.5
#define FAR_FROM 1.1
#define FAR_MOST 32

static const double widths[GRN_CURVE_POINTS] = GRN_CURVE_WIDTHS;
static const double ks[GRN_CURVE_KS] = GRN_CURVE_K;

/*
 * Limit of default widths, in units of the curve's last width.  10,000 normal rows, recall by the
 * default .979, .981 and .986 with half, this and twice, as lucky as the curve of each build is.
 */
#define DEFAULT_BEYOND 2
#define BISECTIONS 20			/* precision: a millionth of the way from one width to the next */

/* The width at which curve c has a recall, at least the number of rows that the curve is for. */
static double
width_at(const GrnRecallCurve *curve, int c, double recall)
{
	/* no miss among this number of rows does not prove that misses never happen */
	double		least = 0.5 / ((double) curve->queries * ks[c]);
	double		wanted = log(Max(1 - recall, least));
	double		missed[GRN_CURVE_POINTS];	/* logarithms of the missed share */
	double		fall;			/* fall per width */
	int			last = GRN_CURVE_POINTS - 1;

	for (int i = 0; i <= last; i++)
	{
		missed[i] = log(Max(1 - (double) curve->recall[c][i], least));
		/* apart from chance, a wider search misses no more */
		if (i > 0)
			missed[i] = Min(missed[i], missed[i - 1]);
	}
	if (missed[0] <= wanted)
		return Max(widths[0], ks[c]);
	for (int i = 0; i < last; i++)
		if (missed[i + 1] <= wanted)
			return Max(widths[i] * pow(widths[i + 1] / widths[i], (missed[i] - wanted) / (missed[i] - missed[i + 1])),
					   ks[c]);
	/*
	 * Beyond the last width: extrapolate with the slope of the last two widths, or with the mean
	 * slope if that is steeper, because the last two may have no slope if queries miss few rows
	 * there.
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
 * The width at which a recall is reached even if the measurement was lucky.  The curve contains
 * chance, and a recall target must not be missed half of the time.  So the function looks up a
 * recall larger by one standard deviation of the measurement.
 */
static double
cautious_width(const GrnRecallCurve *curve, int c, double recall)
{
	return width_at(curve, c, recall + grn_recall_chance(recall, curve->queries));
}

/* The smallest ef for k rows, for an index as it was at the measurement. */
static double
width_for(const GrnndNotes *notes, double recall, double k)
{
	const GrnRecallCurve *curve = grnnd_curve(notes);
	double		few = cautious_width(curve, 0, recall);
	double		many;

	if (k <= ks[0])
		return few;
	many = Max(cautious_width(curve, 1, recall), few);
	if (k <= ks[1])
		return few * pow(many / few, log(k / ks[0]) / log(ks[1] / ks[0]));
	return many * k / ks[1];
}

double
grnnd_curve_recall(const GrnndNotes *notes, double ids, double ef)
{
	const GrnRecallCurve *curve = grnnd_curve(notes);
	double		low = 0;
	double		high = 1;

	if (curve->queries == 0)
		return NAN;
	ef /= grnnd_stretch(notes, ids);
	for (int n = 0; n < BISECTIONS; n++)
	{
		double		middle = (low + high) / 2;

		if (width_at(curve, 0, middle) <= ef)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/*
 * Lower bound of a default width, whatever the curve.  The curve was measured with rows of the
 * index as queries.  Queries that are less similar to the rows find less at the curve's widths,
 * which cannot be known in advance.  So a default search keeps at least as many candidates as real
 * data need for such queries.
 */
static uint32
least_width(double rows)
{
	return (uint32) ceil(GRNND_DEFAULT_EF * pow(Max(rows / GRNND_DEFAULT_ROWS, 1), GROWTH_POWER));
}

/* The width at which a search makes as many visits as cost reading all records. */
static uint32
width_of_all(const GrnndIndex *ix, uint32 ids)
{
	const GrnRecallCurve *curve = grnnd_curve(&ix->notes);
	int			last = GRN_CURVE_POINTS - 1;
	double		visits = curve->queries > 0 ? Max(curve->visits[last] / widths[last], 1) : 1;

	return (uint32) ceil(Min(grnnd_all_rows_cost(ix, ids) / visits, GRNND_MAX_EF));
}

/* The contrast of the curve's queries at a width; 0: not known. */
static double
usual_contrast(const GrnndNotes *notes, double width)
{
	const GrnContrast *c = notes->measured.curve.queries > 0
		? &notes->queried.measured : &notes->queried.built;
	int			i = 0;
	double		share;

	while (i < GRN_CURVE_POINTS - 2 && widths[i + 1] < width)
		i++;
	if (c->at[i] <= 0 || c->at[i + 1] <= 0)
		return 0;
	share = Min(Max(log(width / widths[i]) / log(widths[i + 1] / widths[i]), 0), 1);
	return c->at[i] + share * (c->at[i + 1] - c->at[i]);
}

double
grnnd_widening(const GrnndNotes *notes, uint32 ef, double contrast)
{
	double		usual = usual_contrast(notes, ef);

	if (!(usual > 0) || !(contrast > 0))
		return 1;
	return Min(pow(Max(usual / (FAR_FROM * contrast), 1), FAR_POWER), FAR_MOST);
}

/* The width for a recall target.  Without a curve: least_width(). */
static uint32
width_of_target(Relation index, const GrnndIndex *ix, double recall, double wanted)
{
	uint32		rows = grnnd_id_limit(index, ix);
	double		width;

	if (grnnd_curve(&ix->notes)->queries == 0)
		return least_width(rows);
	width = width_for(&ix->notes, recall, wanted) * grnnd_stretch(&ix->notes, rows);
	return (uint32) Min(Max(ceil(width), 1), width_of_all(ix, rows));
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

GrnndWidth
grnnd_width(Relation index, const GrnndIndex *ix, double wanted)
{
	const GrnndOptions *options = (const GrnndOptions *) index->rd_options;
	int			ef = grnnd_session_ef_search();
	double		target = 0;

	if (ef == 0 && grnnd_target_recall > 0)
		target = grnnd_target_recall;
	else if (ef == 0 && options != NULL && options->ef_search > 0)
		ef = options->ef_search;
	else if (ef == 0 && options != NULL)
		target = options->target_recall;
	if (ef > 0)
		return (GrnndWidth) {.ef = (uint32) ef};
	if (target > 0)
		return (GrnndWidth) {width_of_target(index, ix, target, wanted),
							 width_of_all(ix, grnnd_id_limit(index, ix))};
	return (GrnndWidth) {.ef = default_width(index, ix, wanted)};
}
