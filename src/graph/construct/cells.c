/*
 * cells.c - the cells into which a build in parts cuts the space, each with about as many
 * rows, and their borders.
 *
 * The cells come from k-means on a sample.  Each has a weight, which is added to the squared
 * distances from its centre (a power diagram): a cell with too many rows gets a larger
 * weight.  The units of weights and of distances from borders are each cell's own, because
 * data has dense clusters.
 */
#include "graph/construct/cut_impl.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define LLOYD_STEPS 5			/* of k-means */
#define WEIGHT_STEPS 5			/* changes of the weights after each step of k-means */
#define MEMBER_ROUNDS 2			/* at the end: searches for the borders, then for weights */
#define MEMBER_STEPS 10			/* changes of the weights in each of these, guests counted */
#define MOST_STEPS 40			/* the most, where parts stay uneven */
#define EVEN 0.05f				/* parts are even if none is larger than the mean by this share */
#define WEIGHT_STEP 0.85f		/* units that the weight of a part of twice the mean size gains */
#define SMALLER_STEP 0.7f		/* the unit shrinks to this share when a weight went too far */
#define COUNT_WORK 65536		/* distances to compare that are worth another thread */
#define FIND_WORK 2048			/* distances to compute that are worth another thread */

/* a where mask is all ones, b where it is 0. */
static inline uint32_t
choose(uint32_t mask, uint32_t a, uint32_t b)
{
	return (a & mask) | (b & ~mask);
}

/* distances: [nparts][ROWS].  No branches, so that compilers make vectors of rows. */
void
grn_cut_find_nearest(const Split *s, const float *distances, Nearest *out)
{
	float		best[ROWS];
	float		next[ROWS];
	uint32_t	home[ROWS] = {0};
	uint32_t	second[ROWS];

	for (int i = 0; i < ROWS; i++)
	{
		best[i] = distances[i] + s->weights[0];
		next[i] = INFINITY;
		second[i] = GRN_INVALID_ID;
	}
	for (uint32_t c = 1; c < s->nparts; c++)
	{
		const float *here = distances + (size_t) c * ROWS;
		float		weight = s->weights[c];

		for (int i = 0; i < ROWS; i++)
		{
			float		d = here[i] + weight;
			float		behind = d < best[i] ? best[i] : d;
			uint32_t	nearer = -(uint32_t) (d < best[i]);
			uint32_t	near = -(uint32_t) (behind < next[i]);

			second[i] = choose(near, choose(nearer, home[i], c), second[i]);
			home[i] = choose(nearer, c, home[i]);
			next[i] = behind < next[i] ? behind : next[i];
			best[i] = d < best[i] ? d : best[i];
		}
	}
	for (int i = 0; i < ROWS; i++)
	{
		out->home[i] = home[i];
		out->second[i] = second[i];
		out->gap[i] = next[i] - best[i];
	}
}

/* Squared distances of count rows from the centres, [nparts][ROWS]. */
void
grn_cut_to_centres(const Split *s, const GrnRows *rows, size_t first, size_t count,
				   float *distances)
{
	uint32_t	dim = rows->dim;
	float		norms[GRN_MAX_PARTS] = {0};

	for (uint32_t c = 0; c < s->nparts && grn_is_scaled(rows->embedding); c++)
		norms[c] = grn_dist->ip_f32(s->centres + (size_t) c * dim, s->centres + (size_t) c * dim,
									dim);
	for (size_t i = 0; i < count; i++)
	{
		const void *x = grn_row(rows, first + i);

		for (uint32_t c = 0; c < s->nparts; c++)
		{
			const float *centre = s->centres + (size_t) c * dim;

			distances[c * ROWS + i] = grn_row_to_point(rows, x, centre, norms[c]);
		}
	}
}

/* Distance of a row from the plane between its two parts, in the unit of its home. */
static float
to_border(const Split *s, const Nearest *nearest, size_t i)
{
	if (nearest->second[i] == GRN_INVALID_ID)
		return INFINITY;
	return s->across[nearest->home[i] * s->nparts + nearest->second[i]] * nearest->gap[i];
}

/* The part that a row is a guest of, or GRN_INVALID_ID. */
uint32_t
grn_cut_guest_of(const Split *s, const Nearest *nearest, size_t i)
{
	/* before there are borders there are no guests */
	if (!(s->border > -INFINITY) || nearest->second[i] == GRN_INVALID_ID ||
		!(to_border(s, nearest, i) <= s->border))
		return GRN_INVALID_ID;
	return nearest->second[i];
}

/* What makes a difference of squared distances one of distances: 1 / (2 |a - b|). */
static void
find_across(Split *s)
{
	uint32_t	dim = s->rows->dim;

	for (uint32_t a = 0; a < s->nparts; a++)
		for (uint32_t b = 0; b < s->nparts; b++)
		{
			float		apart = grn_dist->l2_f32(s->centres + (size_t) a * dim,
												 s->centres + (size_t) b * dim, dim);

			s->across[a * s->nparts + b] = apart > 0 ? 1 / (2 * sqrtf(apart)) : 0;
		}
}

/* ---- centres ---- */

/* The sample's rows of a block. */
static size_t
block_rows(const Split *s, size_t block)
{
	return s->sample->n - block * ROWS < ROWS ? s->sample->n - block * ROWS : ROWS;
}

static const float *
block_distances(const Split *s, size_t block)
{
	return s->distances + block * ROWS * s->nparts;
}

static void
sample_range(void *arg, int worker, size_t begin, size_t end)
{
	Split	   *s = arg;

	(void) worker;
	for (size_t block = begin; block < end; block++)
	{
		if (s->sample->on_disk)
			grn_rows_ahead(s->sample, block * ROWS, block * ROWS + block_rows(s, block));
		grn_cut_to_centres(s, s->sample, block * ROWS, block_rows(s, block),
						   s->distances + block * ROWS * s->nparts);
	}
}

/* Counts the sample's rows by part, and once there is a border the guests; keeps gaps. */
static void
count_range(void *arg, int worker, size_t begin, size_t end)
{
	Split	   *s = arg;
	uint32_t	sizes[GRN_MAX_PARTS] = {0};
	Nearest		nearest;

	(void) worker;
	for (size_t block = begin; block < end; block++)
	{
		grn_cut_find_nearest(s, block_distances(s, block), &nearest);
		for (size_t i = 0; i < block_rows(s, block); i++)
		{
			uint32_t	guest = grn_cut_guest_of(s, &nearest, i);

			s->homes[block * ROWS + i] = nearest.home[i];
			s->borders[block * ROWS + i] = nearest.gap[i];
			sizes[nearest.home[i]]++;
			if (guest != GRN_INVALID_ID)
				sizes[guest]++;
		}
	}
	for (uint32_t c = 0; c < s->nparts; c++)
		if (sizes[c] > 0)
			__atomic_fetch_add(&s->sizes[c], sizes[c], __ATOMIC_RELAXED);
}

/* Runs over the sample, in pieces that are worth a thread. */
static void
run_sample(Split *s, size_t work, GrnRangeFn fn, GrnParallel *parallel)
{
	parallel->run(parallel, (s->sample->n + ROWS - 1) / ROWS, work / (s->nparts * ROWS) + 1, fn, s);
}

static void
count(Split *s, GrnParallel *parallel)
{
	memset(s->sizes, 0, sizeof(s->sizes));
	run_sample(s, COUNT_WORK, count_range, parallel);
}

/*
 * The unit of each part's weight: what lies between its rows' two nearest centres, on
 * (geometric) average.  One unit for all would throw whole dense clusters to and fro, and so
 * would a mean that the few rows far from such a cluster make.
 */
static void
find_units(Split *s)
{
	uint32_t	sizes[GRN_MAX_PARTS] = {0};

	memset(s->units, 0, sizeof(s->units));
	for (size_t i = 0; i < s->sample->n; i++)
	{
		s->units[s->homes[i]] += logf(fmaxf(s->borders[i], FLT_MIN));
		sizes[s->homes[i]]++;
	}
	for (uint32_t c = 0; c < s->nparts; c++)
		s->units[c] = sizes[c] > 0 ? expf(s->units[c] / (float) sizes[c]) : 0;
}

/* How much larger than the mean each part is, [nparts], as a share of it; returns the most. */
static float
find_excess(const Split *s, float *excess)
{
	float		most = -1;
	uint64_t	all = 0;

	for (uint32_t c = 0; c < s->nparts; c++)
		all += s->sizes[c];
	for (uint32_t c = 0; c < s->nparts; c++)
	{
		excess[c] = (float) s->sizes[c] * (float) s->nparts / (float) all - 1;
		most = excess[c] > most ? excess[c] : most;
	}
	return most;
}

/*
 * Moves the weights until the sample falls into parts of like size, guests counted: a
 * part too large gets a larger one.  It takes `steps`, or up to `most` where parts are uneven
 * after them.  A step too far makes a whole cluster change its part: the weights with the
 * smallest largest part stay.  Leaves sizes as they then are.
 */
static void
balance(Split *s, int steps, int most, GrnParallel *parallel)
{
	float		excess[GRN_MAX_PARTS];
	float		before[GRN_MAX_PARTS] = {0};
	float		best[GRN_MAX_PARTS];
	float		least = INFINITY;
	int			best_step = 0;
	int			step = 0;

	count(s, parallel);
	find_units(s);
	for (;; step++)
	{
		float		largest = find_excess(s, excess);

		if (largest < least)
		{
			least = largest;
			best_step = step;
			memcpy(best, s->weights, s->nparts * sizeof(*best));
		}
		if (step >= steps && (step >= most || least <= EVEN))
			break;
		for (uint32_t c = 0; c < s->nparts; c++)
		{
			/* went too far */
			if (excess[c] * before[c] < 0)
				s->units[c] *= SMALLER_STEP;
			s->weights[c] += s->units[c] * WEIGHT_STEP * excess[c];
			before[c] = excess[c];
		}
		count(s, parallel);
	}
	if (best_step < step)
	{
		memcpy(s->weights, best, s->nparts * sizeof(*best));
		count(s, parallel);
	}
}

/* Centres become the means of their parts; one without rows stays. */
static void
move_range(void *arg, int worker, size_t begin, size_t end)
{
	Split	   *s = arg;
	uint32_t	dim = s->rows->dim;
	float		x[GRN_MOST_DIMS];
	float		one[GRN_MOST_DIMS]; /* sums are of what rows have more, for their digits */

	(void) worker;
	for (size_t c = begin; c < end; c++)
	{
		float	   *centre = s->centres + c * dim;
		uint32_t	size = 0;

		for (size_t i = 0; i < s->sample->n; i++)
		{
			if (s->homes[i] != c)
				continue;
			grn_row_place(s->rows, grn_row(s->sample, i), 0, dim, x);
			if (size++ == 0)
			{
				memcpy(one, x, dim * sizeof(float));
				memset(centre, 0, dim * sizeof(float));
			}
			for (uint32_t j = 0; j < dim; j++)
				centre[j] += x[j] - one[j];
		}
		for (uint32_t j = 0; size > 0 && j < dim; j++)
			centre[j] = one[j] + centre[j] / (float) size;
	}
}

static void
set_centre(Split *s, uint32_t c, const void *x)
{
	uint32_t	dim = s->rows->dim;

	grn_row_place(s->rows, x, 0, dim, s->centres + (size_t) c * dim);
}

/*
 * Weights move the borders between neighbours: for a part that stays much too large the
 * smallest ones' centres go to rows of it.
 */
static void
move_smallest(Split *s)
{
	uint32_t	next[GRN_MAX_PARTS] = {0};	/* of the sample, to look for a row from */
	uint32_t	mean = (uint32_t) (s->sample->n / s->nparts) + 1;

	for (;;)
	{
		uint32_t	large = 0;
		uint32_t	small = 0;

		for (uint32_t c = 1; c < s->nparts; c++)
		{
			large = s->sizes[c] > s->sizes[large] ? c : large;
			small = s->sizes[c] < s->sizes[small] ? c : small;
		}
		if (s->sizes[large] <= mean + mean / 2 || s->sizes[small] >= s->sizes[large] / 2)
			return;
		while (s->homes[next[large]] != large)
			next[large]++;
		set_centre(s, small, grn_row(s->sample, next[large]++));
		s->weights[small] = s->weights[large];
		s->sizes[large] -= mean;
		s->sizes[small] = mean;
	}
}

static void
border_range(void *arg, int worker, size_t begin, size_t end)
{
	Split	   *s = arg;
	Nearest		nearest;

	(void) worker;
	for (size_t block = begin; block < end; block++)
	{
		grn_cut_find_nearest(s, block_distances(s, block), &nearest);
		for (size_t i = 0; i < block_rows(s, block); i++)
		{
			s->homes[block * ROWS + i] = nearest.home[i];
			s->borders[block * ROWS + i] = to_border(s, &nearest, i);
		}
	}
}

/* The k-th least of n values, which it reorders (Hoare's quickselect). */
static float
select_float(float *values, size_t n, size_t k)
{
	ptrdiff_t	at = (ptrdiff_t) k;
	ptrdiff_t	low = 0;
	ptrdiff_t	high = (ptrdiff_t) n - 1;

	while (low < high)
	{
		float		pivot = values[low + (high - low) / 2];
		ptrdiff_t	i = low;
		ptrdiff_t	j = high;

		while (i <= j)
		{
			while (values[i] < pivot)
				i++;
			while (values[j] > pivot)
				j--;
			if (i <= j)
			{
				float		swap = values[i];

				values[i++] = values[j];
				values[j--] = swap;
			}
		}
		/* between them all are the pivot */
		low = at > j ? i : low;
		high = at > j ? high : j;
		if (at > j && at < i)
			break;
	}
	return values[at];
}

/* The sample's rows, and their distances from borders, by part. */
void
grn_cut_sort_by_part(Split *s)
{
	memset(s->ends, 0, sizeof(s->ends));
	for (size_t i = 0; i < s->sample->n; i++)
		if (s->homes[i] + 1 < s->nparts)
			s->ends[s->homes[i] + 1]++;
	for (uint32_t c = 1; c < s->nparts; c++)
		s->ends[c] += s->ends[c - 1];
	/* each part's start becomes its end */
	for (size_t i = 0; i < s->sample->n; i++)
	{
		s->by_part[s->ends[s->homes[i]]] = s->borders[i];
		s->rows_by_part[s->ends[s->homes[i]]++] = (uint32_t) i;
	}
}

/*
 * Sets the unit of distances from each part's borders to that within which a share `overlap`
 * of its rows in the sample lies: of one for all a dense cluster would have all the guests.
 */
static float
find_border(Split *s, float overlap, GrnParallel *parallel)
{
	if (overlap <= 0 || overlap >= 1)
		return overlap <= 0 ? -INFINITY : INFINITY;
	run_sample(s, COUNT_WORK, border_range, parallel);
	grn_cut_sort_by_part(s);
	for (uint32_t c = 0; c < s->nparts; c++)
	{
		size_t		start = c > 0 ? s->ends[c - 1] : 0;
		size_t		n = s->ends[c] - start;
		float		unit = n > 0 ? select_float(s->by_part + start, n,
												(size_t) ((double) overlap * (double) (n - 1))) : 0;

		for (uint32_t other = 0; unit > 0 && other < s->nparts; other++)
			s->across[c * s->nparts + other] /= unit;
	}
	return 1;
}

/*
 * The first rows of the sample, for k-means, which reads them a dozen times.  Rows on a disk are
 * copied: a page has room for several, but one of these.
 */
static GrnRows
rows_for_centres(const Split *s)
{
	GrnRows		rows = *s->sample;

	rows.n = (rows.n + CENTRES_SHARE - 1) / CENTRES_SHARE;
	if (!rows.on_disk)
		return rows;
	grn_rows_ahead(&rows, 0, rows.n);
	for (size_t i = 0; i < rows.n; i++)
		memcpy(s->copies + i * rows.row_bytes, grn_row(&rows, i), rows.row_bytes);
	rows.base = s->copies;
	rows.order = NULL;
	rows.on_disk = false;
	return rows;
}

/* Centres and weights from the sample, for parts of like size with their guests. */
static void
find_centres(Split *s, float overlap, GrnParallel *parallel)
{
	GrnRows		all = *s->sample;

	s->border = -INFINITY;
	*s->sample = rows_for_centres(s);
	for (uint32_t c = 0; c < s->nparts; c++)
	{
		set_centre(s, c, grn_row(s->sample, s->sample->n * c / s->nparts));
		s->weights[c] = 0;
	}
	for (int step = 0; step <= LLOYD_STEPS; step++)
	{
		if (step > 0)
		{
			parallel->run(parallel, s->nparts, 1, move_range, s);
			move_smallest(s);
		}
		run_sample(s, FIND_WORK, sample_range, parallel);
		balance(s, WEIGHT_STEPS, WEIGHT_STEPS, parallel);
	}
	*s->sample = all;
	run_sample(s, FIND_WORK, sample_range, parallel);
	find_across(s);
	for (int round = 0; round < MEMBER_ROUNDS; round++)
	{
		s->border = find_border(s, overlap, parallel);
		balance(s, MEMBER_STEPS, MOST_STEPS, parallel);
	}
	s->border = find_border(s, overlap, parallel);
}

void
grn_parts_cells(const GrnRows *rows, uint32_t nparts, float overlap, uint64_t seed,
				GrnParallel *parallel, void *workspace, GrnParts *parts, GrnCells *cells)
{
	size_t		n = rows->n;
	GrnRows		sample = *rows;
	Split		s = {.rows = rows, .sample = &sample, .parts = parts};

	grn_cut_lay_out(&s, workspace, n, rows->dim, nparts, overlap);
	sample.n = grn_cut_sample_size(n, nparts);
	/* one row of each piece of the whole, so that no row comes twice; any share is of all */
	for (size_t first = 0, at = 0; first < CENTRES_SHARE; first++)
		for (size_t i = first; i < sample.n; i += CENTRES_SHARE, at++)
		{
			size_t		begin = n * i / sample.n;
			size_t		width = n * (i + 1) / sample.n - begin;
			size_t		v = begin + grn_random(seed, UINT64_C(0x73616D70), i) % width;

			s.numbers[at] = (uint32_t) v;
			s.order[at] = rows->order ? rows->order[v] : (uint32_t) v;
		}
	sample.order = s.order;
	find_centres(&s, overlap, parallel);
	*cells = (GrnCells) {nparts, rows->dim, s.centres, s.weights, s.across, s.border};
}
