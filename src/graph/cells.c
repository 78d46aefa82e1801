/*
 * cells.c - divides the space into the cells of a build in parts, each with about the same
 * number of rows, and finds the borders of the cells.
 *
 * The cells come from k-means on a sample.  Each cell has a weight, which is added to the
 * squared distances from the cell's center (a power diagram): a cell with too many rows gets a
 * larger weight.  Each cell has its own unit of weights and its own unit of distances from the
 * border, because clusters differ in density.
 */
#include "graph/cut_impl.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * 20,000 sentences and image patches in parts of a build with 8 MB, recall at ef 40 (.97 and .98)
 * with half and twice of a constant differs by at most .01, in either direction; MOST_STEPS and
 * EVEN change nothing there.  20,000 rows in tight clusters of 20 need the second round and the
 * further steps: .87 instead of .975 with a single round of MEMBER_STEPS.
 */
#define LLOYD_STEPS 5			/* steps of k-means */
#define WEIGHT_STEPS 5			/* changes of the weights after each step of k-means */
#define MEMBER_ROUNDS 2			/* at the end: searches for the borders, each followed by changes
								 * of the weights */
#define MEMBER_STEPS 10			/* changes of the weights in each such round, with guests counted */
#define MOST_STEPS 40			/* the most changes of the weights in a round, if parts remain
								 * uneven */
#define EVEN 0.05f				/* parts are even if none exceeds the mean by more than this share */
#define WEIGHT_STEP 0.85f		/* units that a weight gains if the part has twice the mean size */
#define SMALLER_STEP 0.7f		/* factor of the unit after a weight has changed too far */

/* Returns a if mask is all ones, b if mask is 0. */
static inline uint32_t
choose(uint32_t mask, uint32_t a, uint32_t b)
{
	return (a & mask) | (b & ~mask);
}

/*
 * Finds the two nearest parts of ROWS rows.  distances: [nparts][ROWS].  The loops have no
 * branches, so that the compiler vectorizes over rows.
 */
void
grn_cut_find_nearest(const Split *s, const float *distances, NearestParts *out)
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

/* Computes the squared distances of count rows from the centers, [nparts][ROWS]. */
void
grn_cut_to_centers(const Split *s, const GrnRows *rows, size_t first, size_t count,
				   float *distances)
{
	uint32_t	dim = rows->dim;
	float		norms[GRN_MAX_PARTS] = {0};

	for (uint32_t c = 0; c < s->nparts && grn_is_scaled(rows->embedding); c++)
		norms[c] = grn_dist->ip_f32(s->centers + (size_t) c * dim, s->centers + (size_t) c * dim,
									dim);
	for (size_t i = 0; i < count; i++)
	{
		const void *x = grn_row(rows, first + i);

		for (uint32_t c = 0; c < s->nparts; c++)
		{
			const float *center = s->centers + (size_t) c * dim;

			distances[c * ROWS + i] = grn_row_to_point(rows, x, center, norms[c]);
		}
	}
}

/* Returns a row's distance from the plane between its nearest parts, in its home's unit. */
static float
to_border(const Split *s, const NearestParts *nearest, size_t i)
{
	if (nearest->second[i] == GRN_INVALID_ID)
		return INFINITY;
	return s->across[nearest->home[i] * s->nparts + nearest->second[i]] * nearest->gap[i];
}

/* Returns the part that a row is a guest of, or GRN_INVALID_ID. */
uint32_t
grn_cut_guest_of(const Split *s, const NearestParts *nearest, size_t i)
{
	/* Without borders there are no guests. */
	if (!(s->border > -INFINITY) || nearest->second[i] == GRN_INVALID_ID ||
		!(to_border(s, nearest, i) <= s->border))
		return GRN_INVALID_ID;
	return nearest->second[i];
}

/*
 * Computes the factors 1 / (2 |a - b|), which turn differences of squared distances into
 * distances from the plane between two centers.
 */
static void
find_across(Split *s)
{
	uint32_t	dim = s->rows->dim;

	for (uint32_t a = 0; a < s->nparts; a++)
		for (uint32_t b = 0; b < s->nparts; b++)
		{
			float		apart = grn_dist->l2_f32(s->centers + (size_t) a * dim,
												 s->centers + (size_t) b * dim, dim);

			s->across[a * s->nparts + b] = apart > 0 ? 1 / (2 * sqrtf(apart)) : 0;
		}
}

/* ---- centers ---- */

/* Returns the number of the sample's rows in a block. */
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
			grn_prefetch_rows(s->sample, block * ROWS, block * ROWS + block_rows(s, block));
		grn_cut_to_centers(s, s->sample, block * ROWS, block_rows(s, block),
						   s->distances + block * ROWS * s->nparts);
	}
}

/* Counts the sample's rows by part, with guests if there is a border.  Keeps homes and gaps. */
static void
count_range(void *arg, int worker, size_t begin, size_t end)
{
	Split	   *s = arg;
	uint32_t	sizes[GRN_MAX_PARTS] = {0};
	NearestParts nearest;

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

/* Runs fn over the blocks of the sample. */
static void
run_sample(Split *s, GrnRangeFn fn, GrnParallel *parallel)
{
	parallel->run(parallel, (s->sample->n + ROWS - 1) / ROWS, GRN_GRAIN / ROWS, fn, s);
}

static void
count(Split *s, GrnParallel *parallel)
{
	memset(s->sizes, 0, sizeof(s->sizes));
	run_sample(s, count_range, parallel);
}

/*
 * Computes the unit of each part's weight: the geometric mean of the gap between the two nearest
 * centers of the part's rows.  One unit for all parts would move whole dense clusters back and
 * forth.  So would an arithmetic mean, which a few rows far from a dense cluster dominate.
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

/* excess [nparts]: the share by which a part exceeds the mean size.  Returns the largest. */
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
 * Changes the weights until the sample's parts have similar sizes, guests counted: a part that is
 * too large gets a larger weight.  Makes `steps` changes, and up to `most` if parts are still
 * uneven.  A change that is too large moves a whole cluster to another part, so the result is the
 * weights with the smallest largest part.  s->sizes are the sizes for these weights.
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
			/* the last change was too large */
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

/* Moves each center to the mean of its part's rows.  A center without rows keeps its place. */
static void
move_range(void *arg, int worker, size_t begin, size_t end)
{
	Split	   *s = arg;
	uint32_t	dim = s->rows->dim;
	float		x[GRN_MOST_DIMS];
	float		one[GRN_MOST_DIMS]; /* a row of the part; sums of differences from it keep more
									 * digits */

	(void) worker;
	for (size_t c = begin; c < end; c++)
	{
		float	   *center = s->centers + c * dim;
		uint32_t	size = 0;

		for (size_t i = 0; i < s->sample->n; i++)
		{
			if (s->homes[i] != c)
				continue;
			grn_row_place(s->rows, grn_row(s->sample, i), 0, dim, x);
			if (size++ == 0)
			{
				memcpy(one, x, dim * sizeof(float));
				memset(center, 0, dim * sizeof(float));
			}
			for (uint32_t j = 0; j < dim; j++)
				center[j] += x[j] - one[j];
		}
		for (uint32_t j = 0; size > 0 && j < dim; j++)
			center[j] = one[j] + center[j] / (float) size;
	}
}

static void
set_center(Split *s, uint32_t c, const void *x)
{
	uint32_t	dim = s->rows->dim;

	grn_row_place(s->rows, x, 0, dim, s->centers + (size_t) c * dim);
}

/*
 * Moves the centers of the smallest parts to rows of parts that are much too large.  Weights
 * alone only move the borders between adjacent parts.
 */
static void
move_smallest(Split *s)
{
	uint32_t	next[GRN_MAX_PARTS] = {0};	/* next row of the sample to examine, for each part */
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
		set_center(s, small, grn_row(s->sample, next[large]++));
		s->weights[small] = s->weights[large];
		s->sizes[large] -= mean;
		s->sizes[small] = mean;
	}
}

static void
border_range(void *arg, int worker, size_t begin, size_t end)
{
	Split	   *s = arg;
	NearestParts nearest;

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

static int
by_value(const void *a, const void *b)
{
	float		x = *(const float *) a;
	float		y = *(const float *) b;

	return (x > y) - (x < y);
}

/* Sorts the sample's rows, and their distances from borders, by part. */
void
grn_cut_sort_by_part(Split *s)
{
	memset(s->ends, 0, sizeof(s->ends));
	for (size_t i = 0; i < s->sample->n; i++)
		if (s->homes[i] + 1 < s->nparts)
			s->ends[s->homes[i] + 1]++;
	for (uint32_t c = 1; c < s->nparts; c++)
		s->ends[c] += s->ends[c - 1];
	/* Each part's start becomes the part's end. */
	for (size_t i = 0; i < s->sample->n; i++)
	{
		s->by_part[s->ends[s->homes[i]]] = s->borders[i];
		s->rows_by_part[s->ends[s->homes[i]]++] = (uint32_t) i;
	}
}

/*
 * Sets the unit of distances from each part's border, so that a share `overlap` of the part's
 * rows in the sample is within one unit.  With one unit for all parts, a dense cluster would
 * have all the guests.
 */
static float
find_border(Split *s, float overlap, GrnParallel *parallel)
{
	if (overlap <= 0 || overlap >= 1)
		return overlap <= 0 ? -INFINITY : INFINITY;
	run_sample(s, border_range, parallel);
	grn_cut_sort_by_part(s);
	for (uint32_t c = 0; c < s->nparts; c++)
	{
		size_t		start = c > 0 ? s->ends[c - 1] : 0;
		size_t		n = s->ends[c] - start;
		float		unit = 0;

		qsort(s->by_part + start, n, sizeof(float), by_value);
		if (n > 0)
			unit = s->by_part[start + (size_t) ((double) overlap * (double) (n - 1))];
		for (uint32_t other = 0; unit > 0 && other < s->nparts; other++)
			s->across[c * s->nparts + other] /= unit;
	}
	return 1;
}

/*
 * Returns the rows of the sample that k-means uses, which reads each row a dozen times.  Rows
 * on a disk are copied to memory, because a page has several rows of which the sample has one.
 */
static GrnRows
rows_for_centers(const Split *s)
{
	GrnRows		rows = *s->sample;

	rows.n = (rows.n + CENTERS_SHARE - 1) / CENTERS_SHARE;
	if (!rows.on_disk)
		return rows;
	grn_prefetch_rows(&rows, 0, rows.n);
	for (size_t i = 0; i < rows.n; i++)
		memcpy(s->copies + i * rows.row_bytes, grn_row(&rows, i), rows.row_bytes);
	rows.base = s->copies;
	rows.order = NULL;
	rows.on_disk = false;
	return rows;
}

/* Finds centers and weights from the sample, for parts of similar sizes with their guests. */
static void
find_centers(Split *s, float overlap, GrnParallel *parallel)
{
	GrnRows		all = *s->sample;

	s->border = -INFINITY;
	*s->sample = rows_for_centers(s);
	for (uint32_t c = 0; c < s->nparts; c++)
	{
		set_center(s, c, grn_row(s->sample, s->sample->n * c / s->nparts));
		s->weights[c] = 0;
	}
	for (int step = 0; step <= LLOYD_STEPS; step++)
	{
		if (step > 0)
		{
			parallel->run(parallel, s->nparts, 1, move_range, s);
			move_smallest(s);
		}
		run_sample(s, sample_range, parallel);
		balance(s, WEIGHT_STEPS, WEIGHT_STEPS, parallel);
	}
	*s->sample = all;
	run_sample(s, sample_range, parallel);
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

	grn_cut_place_arrays(&s, workspace, n, rows->dim, nparts, overlap);
	sample.n = grn_cut_sample_size(n, nparts);
	/*
	 * Draw one row from each of sample.n equal ranges, so that no row is drawn twice.  The
	 * ranges are interleaved: the first rows of the sample, which k-means uses, are also
	 * spread over all rows.
	 */
	for (size_t first = 0, at = 0; first < CENTERS_SHARE; first++)
		for (size_t i = first; i < sample.n; i += CENTERS_SHARE, at++)
		{
			size_t		begin = n * i / sample.n;
			size_t		width = n * (i + 1) / sample.n - begin;
			size_t		v = begin + grn_random(seed, UINT64_C(0x73616D70), i) % width;

			s.numbers[at] = (uint32_t) v;
			s.order[at] = rows->order ? rows->order[v] : (uint32_t) v;
		}
	sample.order = s.order;
	find_centers(&s, overlap, parallel);
	*cells = (GrnCells) {nparts, rows->dim, s.centers, s.weights, s.across, s.border};
}
