/*
 * group.c - groups of near rows within a list: the tree of cuts, and middles.
 */
#include "store/group_impl.h"

#include <string.h>

#include "memory/memory.h"

/*
 * About one of SLACK places in a group is free, so that rows find room in their nearest group.
 * 20,000 sentences and 40,000 image patches, the groups that hold .95 of the ten nearest rows of a
 * list of half of the rows: 19.5 and 8.5, with half 18.4 and 7.9 of 6% more, with twice 18.9 and
 * 8.2 of 4% fewer.
 */
#define SLACK 16

/*
 * Steps of 2-means.  Of the ten nearest sentences and patches .57 and .71 share a page, with half
 * .59 and .61, with twice .60 and .75; the order of all rows takes .75 and 1.2 times the time.
 */
#define MEANS_STEPS 4
#define MOST_DEPTH 64			/* parts on the stack: two halves differ by at most one group */

typedef struct Space
{
	GrnGroupTree tree;
	uint8_t    *codes;			/* [n][code_bytes] */
	GrnFactor  *factors;		/* [n] */
	void	   *means;			/* workspace of grn_group_by_means() */
} Space;

static GrnGroupTree
group_tree(GrnArena *a, const GrnCodec *codec, uint32_t n)
{
	GrnGroupTree tree;

	tree.sample = grn_take(a, (size_t) GRN_GROUP_SAMPLED * grn_group_dims(codec), sizeof(float));
	tree.along = grn_take(a, n, sizeof(float));
	return tree;
}

static size_t
plan(Space *s, const GrnCodec *codec, uint32_t n, uint32_t room, void *workspace)
{
	GrnArena	a = grn_arena(workspace);

	s->tree = group_tree(&a, codec, n);
	s->codes = grn_take(&a, n, grn_code_bytes(codec->shape));
	s->factors = grn_take(&a, n, sizeof(GrnFactor));
	s->means = grn_take(&a, grn_group_means_bytes(codec, n, room), 1);
	return grn_arena_bytes(&a);
}

size_t
grn_group_bytes(const GrnCodec *codec, uint32_t n, uint32_t room)
{
	Space		s;

	return plan(&s, codec, n, room, NULL);
}

/* Approximate number of rows of a group. */
static uint32_t
usual_rows(uint32_t room)
{
	return room - 1 - room / SLACK;
}

uint32_t
grn_groups(uint32_t n, uint32_t room)
{
	uint32_t	usual = usual_rows(room);
	uint64_t	planned = ((uint64_t) n + usual - 1) / usual;

	return planned < n ? (uint32_t) planned : n;
}

uint64_t
grn_rows_of_groups(uint64_t groups, uint32_t room)
{
	return groups * usual_rows(room);
}

/* ---- decoded rows ---- */

uint32_t
grn_group_dims(const GrnCodec *codec)
{
	return grn_codes_exact(codec) ? codec->dim : grn_code_dims(codec->shape);
}

float
grn_group_decode(const GrnGrouping *g, uint32_t node, float *x)
{
	const GrnCodec *codec = g->codec;
	const uint8_t *code = g->codes + (size_t) node * grn_code_bytes(codec->shape);
	float		length;

	if (grn_codes_exact(codec))
	{
		/* a byte's highest bit first */
		for (uint32_t j = 0; j < codec->dim; j++)
			x[j] = (float) (code[j / 8] >> (7 - j % 8) & 1);
		return 1;
	}
	length = grn_decode_head(codec, code, g->factors[node], x);
	if (codec->kind == GRN_CODES_DIRECTIONS)
		for (uint32_t j = 0; j < grn_group_dims(codec); j++)
			x[j] = length * (x[j] + codec->mean_head[j]);
	return length;
}

void
grn_group_encode(const GrnCodec *codec, float *mean, float length, uint8_t *code, GrnFactor *factor)
{
	bool		direction = codec->kind == GRN_CODES_DIRECTIONS;
	uint32_t	dims = grn_group_dims(codec);

	*factor = (GrnFactor) {0};
	if (grn_codes_exact(codec))
	{
		/* each bit of the mean is the majority's */
		for (uint32_t j = 0; j < dims; j++)
			mean[j] = mean[j] > 0.5f;
		(void) grn_pack_bits(mean, dims, code);
		return;
	}
	for (uint32_t j = 0; j < dims && direction; j++)
		mean[j] = length > 0 ? mean[j] / length - codec->mean_head[j] : 0;
	/* the part outside the codec's directions averages out */
	grn_encode_head(codec, mean, grn_dist->ip_f32(mean, mean, dims),
					direction ? length / codec->length_unit : 0, code, factor);
}

/*
 * The middle of a group of n rows, coded like a row.  An estimate from the code is about the
 * distance of the rows' mean.
 */
static void
find_middle(const GrnGrouping *g, const uint32_t *rows, uint32_t n, uint8_t *code, GrnFactor *factor)
{
	uint32_t	dims = grn_group_dims(g->codec);
	float		mean[GRN_GROUP_DIMS] = {0};
	float		x[GRN_GROUP_DIMS];
	float		length = 0;

	for (uint32_t i = 0; i < n; i++)
	{
		length += grn_group_decode(g, rows[i], x) / (float) n;
		grn_dist->add_scaled(mean, 1, x, dims);
	}
	for (uint32_t j = 0; j < dims; j++)
		mean[j] /= (float) n;
	grn_group_encode(g->codec, mean, length, code, factor);
}

/* ---- cuts ---- */

bool
grn_group_apart(const float *const *sample, uint32_t n, uint32_t dims, float *sums, float *w)
{
	const float *far = sample[0];
	const float share = 1 / (float) n;
	bool		is_above[GRN_GROUP_SAMPLED];
	float		most = 0;

	for (uint32_t i = 1; i < n; i++)
	{
		float		d = grn_dist->l2_f32(sample[0], sample[i], dims);

		if (d > most)
		{
			most = d;
			far = sample[i];
		}
	}
	if (!(most > 0 && most < INFINITY))
		return false;
	for (uint32_t j = 0; j < dims; j++)
		w[j] = far[j] - sample[0][j];
	for (int step = 0; step < MEANS_STEPS; step++)
	{
		float		along[GRN_GROUP_SAMPLED];
		float		middle = 0;
		uint32_t	above = 0;
		bool		same = step > 0;

		for (uint32_t i = 0; i < n; i++)
		{
			along[i] = grn_dist->ip_f32(w, sample[i], dims);
			/* dividing before adding avoids an overflow for long rows */
			middle += along[i] * share;
		}
		for (uint32_t i = 0; i < n; i++)
		{
			bool		is = along[i] > middle;

			same = same && is == is_above[i];
			is_above[i] = is;
			above += is;
		}
		if (above == 0 || above == n)
			return step > 0;
		if (same)
			return true;
		memset(sums, 0, 2 * (size_t) dims * sizeof(float));
		for (uint32_t i = 0; i < n; i++)
			grn_dist->add_scaled(sums + (size_t) is_above[i] * dims, 1, sample[i], dims);
		memset(w, 0, dims * sizeof(float));
		grn_dist->add_scaled(w, 1 / (float) above, sums + dims, dims);
		grn_dist->add_scaled(w, -1 / (float) (n - above), sums, dims);
	}
	return true;
}

/* Computes the positions of n rows along w [GRN_MAX_CODE_DIMS] in s->along; changes w. */
static void
project(const GrnGrouping *g, const GrnGroupTree *s, const uint32_t *rows, uint32_t n, float *w)
{
	const GrnCodec *codec = g->codec;
	uint32_t	dims = grn_group_dims(codec);
	GrnCodeQuery query;
	float		base = 0;

	if (grn_codes_exact(codec))
	{
		for (uint32_t i = 0; i < n; i++)
		{
			grn_group_decode(g, rows[i], s->sample);
			s->along[i] = grn_dist->ip_f32(w, s->sample, dims);
		}
		return;
	}
	if (codec->kind == GRN_CODES_DIRECTIONS)
		base = grn_dist->ip_f32(w, codec->mean_head, dims);
	grn_code_query_head(codec, GRN_ESTIMATE_IP, base, w, &query);
	grn_estimate_ids(&query, g->codes, grn_code_bytes(codec->shape), g->factors, rows, n, s->along);
}

static void
swap_rows(uint32_t *rows, float *along, uint32_t i, uint32_t j)
{
	uint32_t	row = rows[i];
	float		x = along[i];

	rows[i] = rows[j];
	rows[j] = row;
	along[i] = along[j];
	along[j] = x;
}

/* Hoare's selection. */
void
grn_group_select(uint32_t *rows, float *along, uint32_t n, uint32_t k)
{
	uint32_t	low = 0;
	uint32_t	high = n - 1;

	/* NaN has no order */
	for (uint32_t i = 0; i < n; i++)
		if (along[i] != along[i])
			along[i] = 0;
	while (low < high)
	{
		float		pivot = along[low + (high - low) / 2];
		uint32_t	i = low;
		uint32_t	j = high;

		for (;;)
		{
			while (along[i] < pivot)
				i++;
			while (along[j] > pivot)
				j--;
			if (i >= j)
				break;
			swap_rows(rows, along, i++, j--);
		}
		/* rows before i are at most the pivot, and rows from j + 1 on are at least the pivot */
		if (k <= j)
			high = j;
		else
			low = j + 1;
		if (k == low)
			return;
	}
}

/*
 * Computes the direction w [grn_group_dims()] in which two halves of a sample differ most.  Returns
 * false if all rows are equal.
 */
static bool
find_direction(const GrnGrouping *g, const GrnGroupTree *s, const uint32_t *rows, uint32_t n, float *w)
{
	uint32_t	dims = grn_group_dims(g->codec);
	uint32_t	sampled = n < GRN_GROUP_SAMPLED ? n : GRN_GROUP_SAMPLED;
	const float *sample[GRN_GROUP_SAMPLED];
	float		sums[2 * GRN_GROUP_DIMS];

	for (uint32_t i = 0; i < sampled; i++)
	{
		float	   *x = s->sample + (size_t) i * dims;

		grn_group_decode(g, rows[grn_random(g->seed, n, i) % n], x);
		sample[i] = x;
	}
	return grn_group_apart(sample, sampled, dims, sums, w);
}

/* Cuts n rows: moves the k rows on one side to the front. */
static void
cut(const GrnGrouping *g, const GrnGroupTree *s, uint32_t *rows, uint32_t n, uint32_t k)
{
	float		w[GRN_GROUP_DIMS];

	if (!find_direction(g, s, rows, n, w))
		return;
	project(g, s, rows, n, w);
	grn_group_select(rows, s->along, n, k);
}

/* A part of the rows, to be cut into `groups` groups. */
typedef struct Part
{
	uint32_t	first;
	uint32_t	n;
	uint32_t	first_group;
	uint32_t	groups;
} Part;

void
grn_group_cut(const GrnGrouping *g, const GrnGroupTree *tree, uint32_t *rows, uint32_t n,
			  uint32_t *ends, uint32_t groups)
{
	Part		parts[MOST_DEPTH];
	uint32_t	waiting = 0;

	parts[waiting++] = (Part) {0, n, 0, groups};
	while (waiting > 0)
	{
		Part		part = parts[--waiting];
		Part		less = {part.first, 0, part.first_group, part.groups / 2};

		if (part.groups <= 1)
		{
			ends[part.first_group] = part.first + part.n;
			continue;
		}
		if (g->poll != NULL)
			g->poll(g->arg);
		less.n = (uint32_t) ((uint64_t) part.n * less.groups / part.groups);
		cut(g, tree, rows + part.first, part.n, less.n);
		/* push the larger part first, which keeps the stack small */
		parts[waiting++] = (Part) {part.first + less.n, part.n - less.n, part.first_group + less.groups,
								   part.groups - less.groups};
		parts[waiting++] = less;
	}
}

/*
 * Copies the codes of n nodes side by side.  Each code is read a dozen times, and the codes of all
 * nodes exceed a cache by far.  Rows are indices of these copies from here on.
 */
static GrnGrouping
take_codes(const GrnGrouping *g, const Space *s, const uint32_t *nodes, uint32_t n)
{
	GrnGrouping own = *g;
	size_t		bytes = grn_code_bytes(g->codec->shape);

	for (uint32_t i = 0; i < n; i++)
	{
		memcpy(s->codes + i * bytes, g->codes + nodes[i] * bytes, bytes);
		s->factors[i] = g->factors[nodes[i]];
	}
	own.codes = s->codes;
	own.factors = s->factors;
	return own;
}

void
grn_group_rows(const GrnGrouping *given, const uint32_t *nodes, uint32_t n, const GrnGroups *groups, void *workspace)
{
	uint32_t	ngroups = grn_groups(n, given->room);
	uint32_t   *ends = groups->ends;
	GrnGrouping own;
	const GrnGrouping *g = &own;
	Space		s;

	(void) plan(&s, given->codec, n, given->room, workspace);
	own = take_codes(given, &s, nodes, n);
	for (uint32_t i = 0; i < n; i++)
		groups->order[i] = i;
	grn_group_cut(g, &s.tree, groups->order, n, ends, ngroups);
	if (grn_group_has_means(g->codec))
		grn_group_by_means(g, &s.tree, n, groups->order, ends, s.means);
	for (uint32_t i = 0; i < ngroups; i++)
	{
		uint32_t	first = i > 0 ? ends[i - 1] : 0;

		if (g->poll != NULL)
			g->poll(g->arg);
		find_middle(g, groups->order + first, ends[i] - first,
					groups->middles + i * grn_code_bytes(g->codec->shape), &groups->factors[i]);
	}
}
