/*
 * partition.c - rows cut into overlapping parts, and the parts' lists merged.
 *
 * Parts are the cells of a k-means clustering of a sample, with a weight added to
 * the squared distances from each centre (a power diagram), so that they come out
 * equally large.  Rows near a border are members of both parts, as in DiskANN's
 * merged build (Subramanya et al., NeurIPS 2019, section 3.3), so that the parts'
 * graphs hang together.
 */
#include "partition.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GRAIN 256
#define BLOCK 16384				/* rows sorted into parts together */
#define SAMPLE 32768			/* most rows to find centres from */
#define SAMPLE_PER_PART 512
#define LLOYD_STEPS 5
#define WEIGHT_STEPS 5			/* after each of them */
#define MEMBER_ROUNDS 2			/* at the end, with guests counted: each finds the border, */
#define MEMBER_STEPS 10			/* then weights */
#define GAP_ROWS 1024			/* from which weights' unit is taken */
#define COUNT_WORK 16384		/* distances looked at that are worth another thread */
#define MAX_CANDIDATES (2 * GRN_MAX_DEGREE)

typedef struct Split
{
	const GrnRows *rows;
	const GrnRows *sample;
	GrnParts   *parts;
	uint32_t	nparts;
	float	   *centres;		/* [nparts][dim] */
	float	   *weights;		/* [nparts] */
	float	   *across;			/* [nparts][nparts] of to_border() */
	float	   *distances;		/* [sample][nparts], squared */
	uint32_t   *homes;			/* [sample] */
	float	   *borders;		/* [sample] */
	uint32_t	sizes[GRN_MAX_PARTS];	/* of the sample */
	float		border;			/* rows as near to the border as this are guests */
	uint32_t   *counts;			/* [blocks][2 * nparts]: at home, guests; then places */
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

size_t
grn_parts_kept(size_t n, float overlap)
{
	return 64 + 2 * aligned(n * sizeof(uint32_t)) +
		aligned((n + most_guests(n, overlap)) * sizeof(uint32_t));
}

size_t
grn_parts_bytes(size_t n, uint32_t dim, uint32_t nparts, float overlap)
{
	size_t		blocks = (n + BLOCK - 1) / BLOCK;
	size_t		size = sample_size(n, nparts);

	return grn_parts_kept(n, overlap) + 2 * aligned(size * sizeof(uint32_t)) +
		aligned((size_t) nparts * dim * sizeof(float)) + aligned(nparts * sizeof(float)) +
		aligned((size_t) nparts * nparts * sizeof(float)) +
		aligned(size * nparts * sizeof(float)) + aligned(size * sizeof(float)) +
		aligned(blocks * 2 * nparts * sizeof(uint32_t));
}

/* The two parts nearest to a row of which the distances from the centres are given. */
static void
two_nearest(const Split *s, const float *distances, uint32_t *home, uint32_t *second)
{
	float		best = distances[0] + s->weights[0];
	float		next = INFINITY;

	*home = 0;
	*second = GRN_INVALID_ID;
	for (uint32_t c = 1; c < s->nparts; c++)
	{
		float		d = distances[c] + s->weights[c];

		if (d >= next)
			continue;
		*second = d < best ? *home : c;
		next = d < best ? best : d;
		*home = d < best ? c : *home;
		best = d < best ? d : best;
	}
}

static void
to_centres(const Split *s, const float *x, float *distances)
{
	uint32_t	dim = s->rows->dim;
	GrnScale	y;

	for (uint32_t c = 0; c < s->nparts; c++)
	{
		const float *centre = s->centres + (size_t) c * dim;

		if (!s->rows->scaled)
		{
			distances[c] = grn_dist->l2_f32(x, centre, dim);
			continue;
		}
		memcpy(&y, x + dim, sizeof(y));
		distances[c] = y.norm2 + grn_dist->ip_f32(centre, centre, dim) -
			2 * y.scale * grn_dist->ip_f32(x, centre, dim);
	}
}

/* Distance of a row from the plane between two parts. */
static float
to_border(const Split *s, const float *distances, uint32_t home, uint32_t second)
{
	return s->across[home * s->nparts + second] *
		(distances[second] + s->weights[second] - distances[home] - s->weights[home]);
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

static void
sample_range(void *arg, int worker, size_t begin, size_t end)
{
	Split	   *s = arg;

	(void) worker;
	for (size_t i = begin; i < end; i++)
		to_centres(s, grn_row(s->sample, i), s->distances + i * s->nparts);
}

static void
add_sizes(Split *s, const uint32_t *sizes)
{
	for (uint32_t c = 0; c < s->nparts; c++)
		if (sizes[c] > 0)
			__atomic_fetch_add(&s->sizes[c], sizes[c], __ATOMIC_RELAXED);
}

/* Counts the sample's rows by part. */
static void
count_range(void *arg, int worker, size_t begin, size_t end)
{
	Split	   *s = arg;
	uint32_t	sizes[GRN_MAX_PARTS] = {0};

	(void) worker;
	for (size_t i = begin; i < end; i++)
	{
		const float *d = s->distances + i * s->nparts;
		float		best = INFINITY;
		uint32_t	home = 0;

		for (uint32_t c = 0; c < s->nparts; c++)
		{
			float		here = d[c] + s->weights[c];

			home = here < best ? c : home;
			best = here < best ? here : best;
		}
		s->homes[i] = home;
		sizes[home]++;
	}
	add_sizes(s, sizes);
}

/* The same with guests. */
static void
count_members_range(void *arg, int worker, size_t begin, size_t end)
{
	Split	   *s = arg;
	uint32_t	sizes[GRN_MAX_PARTS] = {0};

	(void) worker;
	for (size_t i = begin; i < end; i++)
	{
		const float *d = s->distances + i * s->nparts;
		uint32_t	home;
		uint32_t	second;

		two_nearest(s, d, &home, &second);
		sizes[home]++;
		if (second != GRN_INVALID_ID && to_border(s, d, home, second) <= s->border)
			sizes[second]++;
	}
	add_sizes(s, sizes);
}

/* Runs over the sample, in pieces that are worth a thread. */
static void
count(Split *s, GrnRangeFn fn, GrnParallel *parallel)
{
	memset(s->sizes, 0, sizeof(s->sizes));
	parallel->run(parallel, s->sample->n, COUNT_WORK / s->nparts, fn, s);
}

/* What lies between a row's two nearest centres, on average: the unit of weights. */
static float
mean_gap(const Split *s)
{
	size_t		n = s->sample->n < GAP_ROWS ? s->sample->n : GAP_ROWS;
	double		sum = 0;
	uint32_t	home;
	uint32_t	second;

	for (size_t i = 0; i < n; i++)
	{
		const float *d = s->distances + s->sample->n * i / n * s->nparts;

		two_nearest(s, d, &home, &second);
		sum += d[second] + s->weights[second] - d[home] - s->weights[home];
	}
	return (float) (sum / (double) n);
}

/*
 * Moves the weights until the sample falls into parts of like size, as fn counts
 * them: a part too large gets a larger one.  Leaves sizes as they then are.
 */
static void
balance(Split *s, int steps, GrnRangeFn fn, GrnParallel *parallel)
{
	float		unit = mean_gap(s);

	count(s, fn, parallel);
	for (int step = 0; step < steps; step++)
	{
		uint64_t	all = 0;

		for (uint32_t c = 0; c < s->nparts; c++)
			all += s->sizes[c];
		for (uint32_t c = 0; c < s->nparts; c++)
			s->weights[c] += unit / (2 + 0.25f * (float) step) *
				((float) s->sizes[c] * (float) s->nparts / (float) all - 1);
		count(s, fn, parallel);
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
		uint32_t	size = 0;

		for (size_t i = 0; i < s->sample->n; i++)
		{
			const float *x = grn_row(s->sample, i);
			float		scale;

			if (s->homes[i] != c)
				continue;
			scale = grn_row_scale(s->rows, x);
			if (size++ == 0)
				memset(centre, 0, dim * sizeof(float));
			for (uint32_t j = 0; j < dim; j++)
				centre[j] += scale * x[j];
		}
		for (uint32_t j = 0; size > 0 && j < dim; j++)
			centre[j] /= (float) size;
	}
}

static void
border_range(void *arg, int worker, size_t begin, size_t end)
{
	Split	   *s = arg;

	(void) worker;
	for (size_t i = begin; i < end; i++)
	{
		const float *d = s->distances + i * s->nparts;
		uint32_t	home;
		uint32_t	second;

		two_nearest(s, d, &home, &second);
		s->borders[i] = to_border(s, d, home, second);
	}
}

static int
compare_floats(const void *a, const void *b)
{
	float		x = *(const float *) a;
	float		y = *(const float *) b;

	return (x > y) - (x < y);
}

/* The distance from the border within which a share `overlap` of the sample lies. */
static float
find_border(Split *s, float overlap, GrnParallel *parallel)
{
	size_t		n = s->sample->n;

	if (overlap <= 0 || overlap >= 1)
		return overlap <= 0 ? -INFINITY : INFINITY;
	parallel->run(parallel, n, COUNT_WORK / s->nparts, border_range, s);
	qsort(s->borders, n, sizeof(float), compare_floats);
	return s->borders[(size_t) ((double) overlap * (double) (n - 1))];
}

/* Centres and weights from the sample, for parts of like size with their guests. */
static void
find_centres(Split *s, float overlap, GrnParallel *parallel)
{
	for (int step = 0; step <= LLOYD_STEPS; step++)
	{
		if (step > 0)
			parallel->run(parallel, s->nparts, 1, move_range, s);
		parallel->run(parallel, s->sample->n, GRAIN, sample_range, s);
		balance(s, WEIGHT_STEPS, count_range, parallel);
	}
	find_across(s);
	for (int round = 0; round < MEMBER_ROUNDS; round++)
	{
		s->border = find_border(s, overlap, parallel);
		balance(s, MEMBER_STEPS, count_members_range, parallel);
	}
	s->border = find_border(s, overlap, parallel);
}

/* ---- members ---- */

/* Until members have their places, home and guest hold numbers of parts. */
static void
assign_range(void *arg, int worker, size_t begin, size_t end)
{
	Split	   *s = arg;
	float		distances[GRN_MAX_PARTS];

	(void) worker;
	for (size_t block = begin; block < end; block++)
	{
		size_t		last = (block + 1) * BLOCK < s->rows->n ? (block + 1) * BLOCK : s->rows->n;
		uint32_t   *counts = s->counts + block * 2 * s->nparts;

		memset(counts, 0, 2 * s->nparts * sizeof(*counts));
		for (size_t i = block * BLOCK; i < last; i++)
		{
			uint32_t	home;
			uint32_t	second;

			to_centres(s, grn_row(s->rows, i), distances);
			two_nearest(s, distances, &home, &second);
			if (second != GRN_INVALID_ID && !(to_border(s, distances, home, second) <= s->border))
				second = GRN_INVALID_ID;
			s->parts->home[i] = home;
			s->parts->guest[i] = second;
			counts[home]++;
			if (second != GRN_INVALID_ID)
				counts[s->nparts + second]++;
		}
	}
}

/* Turns counts into each block's first places; returns the number of members. */
static void
find_places(Split *s, size_t blocks)
{
	GrnParts   *parts = s->parts;
	size_t		place = 0;

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
grn_parts_make(const GrnRows *rows, uint32_t nparts, float overlap, uint64_t seed,
			   GrnParallel *parallel, void *workspace, GrnParts *parts)
{
	size_t		n = rows->n;
	size_t		blocks = (n + BLOCK - 1) / BLOCK;
	GrnRows		sample = *rows;
	Split		s = {.rows = rows,.sample = &sample,.parts = parts,.nparts = nparts};
	char	   *w = (char *) (((uintptr_t) workspace + 63) & ~(uintptr_t) 63);
	uint32_t   *order;

	parts->nparts = nparts;
	parts->home = (uint32_t *) w;
	w += aligned(n * sizeof(uint32_t));
	parts->guest = (uint32_t *) w;
	w += aligned(n * sizeof(uint32_t));
	parts->members = (uint32_t *) w;
	w += aligned((n + most_guests(n, overlap)) * sizeof(uint32_t));
	if (nparts == 1)
	{
		parts->start[0] = 0;
		parts->start[1] = parts->guests[0] = n;
		for (size_t i = 0; i < n; i++)
		{
			parts->home[i] = parts->members[i] = (uint32_t) i;
			parts->guest[i] = GRN_INVALID_ID;
		}
		return;
	}
	sample.n = sample_size(n, nparts);
	order = (uint32_t *) w;
	w += aligned(sample.n * sizeof(uint32_t));
	s.homes = (uint32_t *) w;
	w += aligned(sample.n * sizeof(uint32_t));
	s.centres = (float *) w;
	w += aligned((size_t) nparts * rows->dim * sizeof(float));
	s.weights = (float *) w;
	w += aligned(nparts * sizeof(float));
	s.across = (float *) w;
	w += aligned((size_t) nparts * nparts * sizeof(float));
	s.distances = (float *) w;
	w += aligned(sample.n * nparts * sizeof(float));
	s.borders = (float *) w;
	w += aligned(sample.n * sizeof(float));
	s.counts = (uint32_t *) w;

	/* one row of each piece of the whole, so that no row comes twice */
	for (size_t i = 0; i < sample.n; i++)
	{
		size_t		first = n * i / sample.n;
		size_t		width = n * (i + 1) / sample.n - first;
		size_t		v = first + grn_random(seed, UINT64_C(0x73616D70), i) % width;

		order[i] = rows->order ? rows->order[v] : (uint32_t) v;
	}
	sample.order = order;
	for (uint32_t c = 0; c < nparts; c++)
	{
		const float *x = grn_row(&sample, sample.n * c / nparts);

		for (uint32_t j = 0; j < rows->dim; j++)
			s.centres[(size_t) c * rows->dim + j] = grn_row_scale(rows, x) * x[j];
		s.weights[c] = 0;
	}
	find_centres(&s, overlap, parallel);
	parallel->run(parallel, blocks, 1, assign_range, &s);
	limit_guests(&s, blocks, most_guests(n, overlap));
	find_places(&s, blocks);
	parallel->run(parallel, blocks, 1, place_range, &s);
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

/* ---- merging ---- */

/* A neighbour to be: distance (tile.h) above its row. */
#define KEY(distance, row) ((uint64_t) (distance) << 32 | (row))
#define KEY_ROW(key) ((uint32_t) (key))
#define KEY_DISTANCE(key) ((uint32_t) ((key) >> 32))

typedef struct Merge
{
	const GrnTile *tile;
	const GrnParts *parts;
	const uint32_t *lists;
	GrnGraph   *graph;
} Merge;

/* Appends the keys of one part's list of row v. */
static uint32_t
take_list(const Merge *m, uint32_t v, const uint32_t *list, uint64_t *keys, uint32_t count)
{
	uint32_t	distances[GRN_PANEL_ROWS + 3];
	GrnPanel	panel;

	panel.count = 0;
	while (panel.count < m->graph->degree && list[panel.count] != GRN_INVALID_ID)
		grn_panel_add(&panel, m->tile, list[panel.count]);
	if (panel.count == 0)
		return count;
	grn_tile_dists(m->tile, v, &panel, distances);
	for (uint32_t i = 0; i < panel.count; i++)
		keys[count++] = KEY(distances[i], list[i]);
	return count;
}

static void
merge_range(void *arg, int worker, size_t begin, size_t end)
{
	Merge	   *m = arg;
	uint32_t	degree = m->graph->degree;

	(void) worker;
	for (size_t v = begin; v < end; v++)
	{
		uint32_t   *ids = m->graph->ids + v * degree;
		uint64_t	keys[MAX_CANDIDATES];
		uint64_t	kept[GRN_MAX_DEGREE];
		uint32_t	distances[GRN_PANEL_ROWS + 3];
		uint32_t	count;
		uint32_t	nkept = 0;
		uint32_t	nrefused = 0;
		GrnPanel	panel;

		count = take_list(m, (uint32_t) v, m->lists + (size_t) m->parts->home[v] * degree, keys, 0);
		if (m->parts->guest[v] != GRN_INVALID_ID)
			count = take_list(m, (uint32_t) v, m->lists + (size_t) m->parts->guest[v] * degree,
							  keys, count);
		count = grn_sort_distinct(keys, count);
		panel.count = 0;
		for (uint32_t i = 0; i < count && nkept < degree; i++)
		{
			bool		refused = false;

			if (nkept > 0)
				grn_tile_dists(m->tile, KEY_ROW(keys[i]), &panel, distances);
			for (uint32_t j = 0; j < nkept && !refused; j++)
				refused = distances[j] <= KEY_DISTANCE(keys[i]);
			if (refused)
			{
				keys[nrefused++] = keys[i];
				continue;
			}
			grn_panel_add(&panel, m->tile, KEY_ROW(keys[i]));
			kept[nkept++] = keys[i];
		}
		for (uint32_t i = 0; i < nrefused && nkept < degree; i++)
			kept[nkept++] = keys[i];
		grn_sort_keys(kept, nkept);
		for (uint32_t i = 0; i < nkept; i++)
			ids[i] = KEY_ROW(kept[i]);
		m->graph->counts[v] = (uint8_t) nkept;
	}
}

void
grn_parts_merge(const GrnTile *tile, const GrnParts *parts, const uint32_t *lists,
				GrnParallel *parallel, GrnGraph *graph)
{
	Merge		m = {.tile = tile,.parts = parts,.lists = lists,.graph = graph};

	parallel->run(parallel, graph->n, GRAIN, merge_range, &m);
}
