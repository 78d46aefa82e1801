/*
 * cut.c - rows cut into overlapping parts.
 *
 * Parts are the cells of a k-means clustering of a sample, with a weight added to
 * the squared distances from each centre (a power diagram), so that they come out
 * equally large.  What weights and borders go by is each cell's own: data has dense
 * clusters.  Rows near a border are members of both parts, as in DiskANN's
 * merged build (Subramanya et al., NeurIPS 2019, section 3.3), so that the parts'
 * graphs hang together.  Clusters far from each other share no border: some rows of the
 * parts are landmarks, members of all others as well, by which edges lead there.
 */
#include "graph/build/cut.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 16384				/* rows sorted into parts together */
#define SAMPLE 32768			/* most rows to find centres from */
#define SAMPLE_PER_PART 512
#define CENTRES_SHARE 4			/* of it one row of so many finds centres, all find sizes */
#define LLOYD_STEPS 5
#define WEIGHT_STEPS 5			/* after each of them */
#define MEMBER_ROUNDS 2			/* at the end, with guests counted: each finds the border, */
#define MEMBER_STEPS 10			/* then weights, */
#define MOST_STEPS 40			/* in more steps where the largest part is */
#define EVEN 0.05f				/* larger by this than the mean */
#define WEIGHT_STEP 0.85f		/* of a weight's unit for a part of twice the mean size, */
#define SMALLER_STEP 0.7f		/* times this with each change of sign */
#define ROWS 64					/* looked at together */
#define COUNT_WORK 65536		/* distances looked at that are worth another thread, */
#define FIND_WORK 2048			/* or found */
#define LANDMARKS 64			/* of a part: as good as 256 */
#define LANDMARKS_SHARE 0.05	/* of the rows: all parts' members that they are, at most */

typedef struct Split
{
	const GrnRows *rows;
	GrnRows    *sample;
	GrnParts   *parts;
	uint32_t	nparts;
	float	   *centres;		/* [nparts][dim] */
	float	   *weights;		/* [nparts] */
	float	   *across;			/* [nparts][nparts], GrnCells */
	uint32_t   *order;			/* [sample] where the rows lie */
	uint32_t   *numbers;		/* [sample] theirs */
	float	   *distances;		/* [sample / ROWS][nparts][ROWS], squared */
	uint32_t   *homes;			/* [sample] */
	float	   *borders;		/* [sample]: distances from the border, or gaps */
	float	   *by_part;		/* [sample]: the same by home; then distances from landmarks */
	uint32_t   *rows_by_part;	/* [sample] */
	size_t		ends[GRN_MAX_PARTS];	/* of each part's in these two */
	uint64_t	seed;
	uint32_t	sizes[GRN_MAX_PARTS];	/* of the sample */
	float		units[GRN_MAX_PARTS];	/* of weights */
	float		border;			/* rows as near to the border as this, by across, are guests */
	uint32_t   *counts;			/* [blocks][2 * nparts]: at home, guests; then places */
	size_t		bytes;			/* of all */
} Split;

static size_t
aligned(size_t bytes)
{
	return (bytes + 63) & ~(size_t) 63;
}

static size_t
sample_size(size_t n, uint32_t nparts)
{
	size_t		size = (size_t) SAMPLE_PER_PART * nparts;

	if (size > SAMPLE)
		size = SAMPLE;
	return size < n ? size : n;
}

static size_t
most_guests(size_t n, float overlap)
{
	/* the share is found on a sample */
	double		guests = ((double) overlap + 0.05) * (double) n;

	return overlap <= 0 ? 0 : guests < (double) n ? (size_t) guests : n;
}

static size_t
most_members(size_t n, float overlap)
{
	return n + most_guests(n, overlap) + (size_t) (LANDMARKS_SHARE * (double) n);
}

uint32_t
grn_parts_landmarks(size_t n, uint32_t nparts)
{
	size_t		most = (size_t) (LANDMARKS_SHARE * (double) n) / nparts;

	return nparts == 1 ? 0 : (uint32_t) (most < LANDMARKS * nparts ? most : LANDMARKS * nparts);
}

size_t
grn_parts_kept(size_t n, float overlap)
{
	return 64 + 2 * aligned(n * sizeof(uint32_t)) +
		aligned(most_members(n, overlap) * sizeof(uint32_t));
}

static void *
take(char **at, size_t bytes)
{
	char	   *p = *at;

	*at += aligned(bytes);
	return p;
}

/* Where everything lies in the workspace. */
static void
lay_out(Split *s, void *workspace, size_t n, uint32_t dim, uint32_t nparts, float overlap)
{
	size_t		size = sample_size(n, nparts);
	char	   *start = (char *) (((uintptr_t) workspace + 63) & ~(uintptr_t) 63);
	char	   *w = start;

	s->nparts = s->parts->nparts = nparts;
	s->parts->home = take(&w, n * sizeof(uint32_t));
	s->parts->guest = take(&w, n * sizeof(uint32_t));
	s->parts->members = take(&w, most_members(n, overlap) * sizeof(uint32_t));
	/* where it is for any number of parts: grn_parts_deal() changes that */
	s->parts->landmarks = take(&w, GRN_MAX_PARTS * LANDMARKS * sizeof(uint32_t));
	s->order = take(&w, size * sizeof(uint32_t));
	s->numbers = take(&w, size * sizeof(uint32_t));
	s->homes = take(&w, size * sizeof(uint32_t));
	s->centres = take(&w, (size_t) nparts * dim * sizeof(float));
	s->weights = take(&w, nparts * sizeof(float));
	s->across = take(&w, (size_t) nparts * nparts * sizeof(float));
	s->distances = take(&w, (size + ROWS - 1) / ROWS * ROWS * nparts * sizeof(float));
	s->borders = take(&w, size * sizeof(float));
	s->by_part = take(&w, size * sizeof(float));
	s->rows_by_part = take(&w, size * sizeof(uint32_t));
	s->counts = take(&w, (n + BLOCK - 1) / BLOCK * 2 * nparts * sizeof(uint32_t));
	s->bytes = (size_t) (w - start) + 64;
}

size_t
grn_parts_bytes(size_t n, uint32_t dim, uint32_t nparts, float overlap)
{
	GrnParts	parts;
	Split		s = {.parts = &parts};

	lay_out(&s, NULL, n, dim, nparts, overlap);
	return s.bytes;
}

/* Of some rows the nearest part, the next, and how much farther that is. */
typedef struct Nearest
{
	uint32_t	home[ROWS];
	uint32_t	second[ROWS];	/* GRN_INVALID_ID: there is none */
	float		gap[ROWS];		/* of squared distances with weights */
} Nearest;

/* a where mask is all ones, b where it is 0. */
static inline uint32_t
choose(uint32_t mask, uint32_t a, uint32_t b)
{
	return (a & mask) | (b & ~mask);
}

/* distances: [nparts][ROWS].  No branches, so that compilers make vectors of rows. */
static void
find_nearest(const Split *s, const float *distances, Nearest *out)
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
static void
to_centres(const Split *s, const GrnRows *rows, size_t first, size_t count, float *distances)
{
	uint32_t	dim = rows->dim;

	for (size_t i = 0; i < count; i++)
	{
		const float *x = grn_row(rows, first + i);
		GrnScale	y;

		if (rows->scaled)
			memcpy(&y, x + dim, sizeof(y));
		for (uint32_t c = 0; c < s->nparts; c++)
		{
			const float *centre = s->centres + (size_t) c * dim;

			distances[c * ROWS + i] = !rows->scaled ? grn_dist->l2_f32(x, centre, dim) :
				y.norm2 + grn_dist->ip_f32(centre, centre, dim) -
				2 * y.scale * grn_dist->ip_f32(x, centre, dim);
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
static uint32_t
guest_of(const Split *s, const Nearest *nearest, size_t i)
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
		to_centres(s, s->sample, block * ROWS, block_rows(s, block),
				   s->distances + block * ROWS * s->nparts);
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
		find_nearest(s, block_distances(s, block), &nearest);
		for (size_t i = 0; i < block_rows(s, block); i++)
		{
			uint32_t	guest = guest_of(s, &nearest, i);

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

	(void) worker;
	for (size_t c = begin; c < end; c++)
	{
		float	   *centre = s->centres + c * dim;
		const float *one = NULL;	/* sums are of what rows have more, for their digits */
		uint32_t	size = 0;

		for (size_t i = 0; i < s->sample->n; i++)
		{
			const float *x = grn_row(s->sample, i);
			float		scale;

			if (s->homes[i] != c)
				continue;
			scale = grn_row_scale(s->rows, x);
			if (size++ == 0)
			{
				one = x;
				memset(centre, 0, dim * sizeof(float));
			}
			for (uint32_t j = 0; j < dim; j++)
				centre[j] += scale * x[j] - grn_row_scale(s->rows, one) * one[j];
		}
		for (uint32_t j = 0; size > 0 && j < dim; j++)
			centre[j] = grn_row_scale(s->rows, one) * one[j] + centre[j] / (float) size;
	}
}

static void
set_centre(Split *s, uint32_t c, const float *x)
{
	uint32_t	dim = s->rows->dim;

	for (uint32_t j = 0; j < dim; j++)
		s->centres[(size_t) c * dim + j] = grn_row_scale(s->rows, x) * x[j];
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
		find_nearest(s, block_distances(s, block), &nearest);
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
static void
sort_by_part(Split *s)
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
	sort_by_part(s);
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

/* Centres and weights from the sample, for parts of like size with their guests. */
static void
find_centres(Split *s, float overlap, GrnParallel *parallel)
{
	size_t		all = s->sample->n;

	s->border = -INFINITY;
	s->sample->n = (all + CENTRES_SHARE - 1) / CENTRES_SHARE;
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
	s->sample->n = all;
	run_sample(s, FIND_WORK, sample_range, parallel);
	find_across(s);
	for (int round = 0; round < MEMBER_ROUNDS; round++)
	{
		s->border = find_border(s, overlap, parallel);
		balance(s, MEMBER_STEPS, MOST_STEPS, parallel);
	}
	s->border = find_border(s, overlap, parallel);
}

/* ---- landmarks ---- */

/*
 * Rows of each part's sample, one after the other, with a chance that grows with the squared
 * distance from those before (k-means++, Arthur and Vassilvitskii, SODA 2007): small clusters
 * get some, too.
 */
static void
landmark_range(void *arg, int worker, size_t begin, size_t end)
{
	Split	   *s = arg;

	(void) worker;
	for (size_t c = begin; c < end; c++)
	{
		size_t		start = c > 0 ? s->ends[c - 1] : 0;
		size_t		n = s->ends[c] - start;
		const uint32_t *rows = s->rows_by_part + start;
		float	   *distances = s->by_part + start;
		size_t		first = (size_t) s->parts->nlandmarks * c / s->nparts;
		size_t		last = (size_t) s->parts->nlandmarks * (c + 1) / s->nparts;

		for (size_t i = 0; i < n; i++)
			distances[i] = 1;
		for (size_t at = first; at < last; at++)
		{
			double		all = 0;
			double		chance;
			size_t		next = 0;

			for (size_t i = 0; i < n; i++)
				all += (double) distances[i];
			/* none is left, all are equal to one before, or too far away for a float */
			if (!(all > 0 && all < INFINITY))
			{
				s->parts->landmarks[at] = GRN_INVALID_ID;
				continue;
			}
			chance = ldexp((double) grn_random(s->seed, UINT64_C(0x6C616E64), at), -64) * all;
			for (size_t i = 0; i < n && chance >= 0; i++)
			{
				/* no row twice, whatever rounding leaves */
				next = distances[i] > 0 ? i : next;
				chance -= (double) distances[i];
			}
			s->parts->landmarks[at] = s->numbers[rows[next]];
			for (size_t i = 0; i < n; i++)
			{
				float		d = grn_row_distance(s->rows, grn_row(s->sample, rows[next]),
												 grn_row(s->sample, rows[i]));

				distances[i] = at == first || d < distances[i] ? d : distances[i];
			}
		}
	}
}

void
grn_parts_find_landmarks(const GrnRows *rows, uint32_t nparts, float overlap, uint64_t seed,
						 GrnParallel *parallel, void *workspace, GrnParts *parts)
{
	GrnRows		sample = *rows;
	GrnParts	own;			/* the caller's may be in use */
	Split		s = {.rows = rows,.sample = &sample,.parts = &own,.seed = seed};

	lay_out(&s, workspace, rows->n, rows->dim, nparts, overlap);
	sample.n = sample_size(rows->n, nparts);
	sample.order = s.order;
	sort_by_part(&s);
	own.nlandmarks = grn_parts_landmarks(rows->n, nparts);
	parallel->run(parallel, nparts, 1, landmark_range, &s);
	parts->nlandmarks = own.nlandmarks;
}

/* ---- members ---- */

static void
assign_range(void *arg, int worker, size_t begin, size_t end)
{
	Split	   *s = arg;
	float		distances[GRN_MAX_PARTS * ROWS];
	Nearest		nearest;

	(void) worker;
	for (size_t first = begin; first < end; first += ROWS)
	{
		size_t		count = end - first < ROWS ? end - first : ROWS;

		to_centres(s, s->rows, first, count, distances);
		find_nearest(s, distances, &nearest);
		for (size_t i = 0; i < count; i++)
		{
			s->parts->home[first + i] = nearest.home[i];
			s->parts->guest[first + i] = guest_of(s, &nearest, i);
		}
	}
}

static void
count_blocks(void *arg, int worker, size_t begin, size_t end)
{
	Split	   *s = arg;

	(void) worker;
	for (size_t block = begin; block < end; block++)
	{
		size_t		last = (block + 1) * BLOCK < s->rows->n ? (block + 1) * BLOCK : s->rows->n;
		uint32_t   *counts = s->counts + block * 2 * s->nparts;

		memset(counts, 0, 2 * s->nparts * sizeof(*counts));
		for (size_t i = block * BLOCK; i < last; i++)
		{
			counts[s->parts->home[i]]++;
			if (s->parts->guest[i] != GRN_INVALID_ID)
				counts[s->nparts + s->parts->guest[i]]++;
		}
	}
}

/* Appends the landmarks that are not in part c anyway; returns the place after them. */
static size_t
place_landmarks(GrnParts *parts, uint32_t c, uint32_t count, size_t place)
{
	for (uint32_t i = 0; i < count; i++)
	{
		uint32_t	v = parts->landmarks[(size_t) parts->nlandmarks * i / count];

		if (v != GRN_INVALID_ID && parts->home[v] != c && parts->guest[v] != c)
			parts->members[place++] = v;
	}
	return place;
}

/* Turns counts into each block's first places; places landmarks. */
static void
find_places(Split *s, size_t blocks)
{
	GrnParts   *parts = s->parts;
	uint32_t	landmarks = grn_parts_landmarks(s->rows->n, s->nparts);
	size_t		place = 0;

	landmarks = landmarks < parts->nlandmarks ? landmarks : parts->nlandmarks;
	for (uint32_t c = 0; c < s->nparts; c++)
	{
		parts->start[c] = place;
		for (int guests = 0; guests < 2; guests++)
		{
			if (guests)
				parts->guests[c] = place;
			for (size_t b = 0; b < blocks; b++)
			{
				uint32_t   *count = &s->counts[(b * 2 + guests) * s->nparts + c];
				uint32_t	here = *count;

				*count = (uint32_t) place;
				place += here;
			}
		}
		parts->others[c] = place;
		place = place_landmarks(parts, c, landmarks, place);
	}
	parts->start[s->nparts] = place;
}

static void
place_range(void *arg, int worker, size_t begin, size_t end)
{
	Split	   *s = arg;
	GrnParts   *parts = s->parts;

	(void) worker;
	for (size_t block = begin; block < end; block++)
	{
		size_t		last = (block + 1) * BLOCK < s->rows->n ? (block + 1) * BLOCK : s->rows->n;
		uint32_t   *places = s->counts + block * 2 * s->nparts;

		for (size_t i = block * BLOCK; i < last; i++)
		{
			parts->home[i] = places[parts->home[i]]++;
			parts->members[parts->home[i]] = (uint32_t) i;
			if (parts->guest[i] == GRN_INVALID_ID)
				continue;
			parts->guest[i] = places[s->nparts + parts->guest[i]]++;
			parts->members[parts->guest[i]] = (uint32_t) i;
		}
	}
}

/* Drops guests past those that there is room for: the last rows'. */
static void
limit_guests(Split *s, size_t blocks, size_t most)
{
	size_t		guests = 0;

	for (size_t b = 0; b < blocks; b++)
		for (uint32_t c = 0; c < s->nparts; c++)
			guests += s->counts[(2 * b + 1) * s->nparts + c];
	for (size_t i = s->rows->n; guests > most; i--)
	{
		uint32_t   *part = &s->parts->guest[i - 1];

		if (*part == GRN_INVALID_ID)
			continue;
		s->counts[((i - 1) / BLOCK * 2 + 1) * s->nparts + *part]--;
		*part = GRN_INVALID_ID;
		guests--;
	}
}

void
grn_parts_cells(const GrnRows *rows, uint32_t nparts, float overlap, uint64_t seed,
				GrnParallel *parallel, void *workspace, GrnParts *parts, GrnCells *cells)
{
	size_t		n = rows->n;
	GrnRows		sample = *rows;
	Split		s = {.rows = rows,.sample = &sample,.parts = parts};

	lay_out(&s, workspace, n, rows->dim, nparts, overlap);
	sample.n = sample_size(n, nparts);
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
	for (uint32_t c = 0; c < nparts; c++)
	{
		set_centre(&s, c, grn_row(&sample, sample.n / CENTRES_SHARE * c / nparts));
		s.weights[c] = 0;
	}
	find_centres(&s, overlap, parallel);
	*cells = (GrnCells) {nparts, rows->dim, s.centres, s.weights, s.across, s.border};
}

void
grn_parts_place(const GrnRows *rows, uint32_t nparts, float overlap, GrnParallel *parallel,
				void *workspace, GrnParts *parts)
{
	size_t		blocks = (rows->n + BLOCK - 1) / BLOCK;
	Split		s = {.rows = rows,.parts = parts};

	lay_out(&s, workspace, rows->n, rows->dim, nparts, overlap);
	parallel->run(parallel, blocks, 1, count_blocks, &s);
	limit_guests(&s, blocks, most_guests(rows->n, overlap));
	find_places(&s, blocks);
	parallel->run(parallel, blocks, 1, place_range, &s);
}

void
grn_parts_make(const GrnRows *rows, uint32_t nparts, float overlap, uint64_t seed,
			   GrnParallel *parallel, void *workspace, GrnParts *parts)
{
	Split		s = {.rows = rows,.parts = parts};
	GrnCells	cells;

	lay_out(&s, workspace, rows->n, rows->dim, nparts, overlap);
	if (nparts == 1)
	{
		parts->nlandmarks = 0;
		for (size_t i = 0; i < rows->n; i++)
		{
			parts->home[i] = 0;
			parts->guest[i] = GRN_INVALID_ID;
		}
	}
	else
	{
		grn_parts_cells(rows, nparts, overlap, seed, parallel, workspace, parts, &cells);
		grn_parts_find_landmarks(rows, nparts, overlap, seed, parallel, workspace, parts);
		s.border = cells.border;
		parallel->run(parallel, rows->n, BLOCK, assign_range, &s);
	}
	grn_parts_place(rows, nparts, overlap, parallel, workspace, parts);
}

size_t
grn_parts_largest(const GrnParts *parts)
{
	size_t		largest = 0;

	for (uint32_t c = 0; c < parts->nparts; c++)
		if (parts->start[c + 1] - parts->start[c] > largest)
			largest = parts->start[c + 1] - parts->start[c];
	return largest;
}

/* ---- parts that are too large ---- */

/* A row becomes a guest of a part if that has room. */
static void
set_guest(GrnParts *parts, uint32_t v, uint32_t part, size_t *sizes, size_t capacity)
{
	uint32_t   *guest = &parts->guest[v];

	if (sizes[part] >= capacity)
		return;
	if (*guest != GRN_INVALID_ID)
		sizes[*guest]--;
	*guest = part;
	sizes[part]++;
}

bool
grn_parts_deal(const GrnRows *rows, uint32_t most, float overlap, size_t capacity,
			   GrnParallel *parallel, void *workspace, GrnParts *parts)
{
	uint32_t	pieces[GRN_MAX_PARTS];
	uint32_t	first[GRN_MAX_PARTS + 1] = {0};
	size_t		sizes[GRN_MAX_PARTS] = {0};
	size_t		left = most;
	uint32_t	landmarks = parts->nlandmarks < capacity / 4 ? parts->nlandmarks : 0;

	capacity -= landmarks;
	for (uint32_t c = 0; c < parts->nparts; c++)
	{
		size_t		homes = parts->guests[c] - parts->start[c];
		size_t		n = (homes + capacity - 1) / capacity;

		if (n > left)
			return false;
		pieces[c] = (uint32_t) n;
		left -= n;
	}
	for (uint32_t c = 0; c < parts->nparts; c++)
	{
		/* room for guests, too, as far as there are parts for it */
		double		members = (double) (parts->others[c] - parts->start[c]) * (1 + (double) overlap);
		double		more = ceil(members / (double) capacity) - pieces[c];

		if (pieces[c] > 1 && more > 0)
		{
			more = more < (double) left ? more : (double) left;
			pieces[c] += (uint32_t) more;
			left -= (size_t) more;
		}
		first[c + 1] = first[c] + pieces[c];
	}

	/* places become parts' numbers again, those of parts' rows first */
	memset(parts->guest, 0xff, rows->n * sizeof(*parts->guest));
	for (uint32_t c = 0; c < parts->nparts; c++)
		for (size_t i = parts->start[c]; i < parts->guests[c]; i++)
		{
			uint32_t	part = first[c] + (uint32_t) ((i - parts->start[c]) % pieces[c]);

			parts->home[parts->members[i]] = part;
			sizes[part]++;
		}
	for (uint32_t c = 0; c < parts->nparts; c++)
	{
		/* a cell without rows of its own is none any more */
		for (size_t i = parts->guests[c]; i < parts->others[c] && pieces[c] > 0; i++)
			set_guest(parts, parts->members[i],
					  first[c] + (uint32_t) ((i - parts->guests[c]) % pieces[c]), sizes, capacity);
	}
	for (uint32_t c = 0; c < parts->nparts; c++)
		for (size_t i = parts->start[c]; i < parts->guests[c] && pieces[c] > 1; i++)
		{
			size_t		turn = (i - parts->start[c]) / pieces[c];
			uint32_t	next = (uint32_t) ((i - parts->start[c] + 1) % pieces[c]);

			if ((size_t) ((double) (turn + 1) * (double) overlap) >
				(size_t) ((double) turn * (double) overlap))
				set_guest(parts, parts->members[i], first[c] + next, sizes, capacity);
		}
	parts->nlandmarks = landmarks;
	grn_parts_place(rows, first[parts->nparts], overlap, parallel, workspace, parts);
	return true;
}
