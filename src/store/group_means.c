/*
 * group_means.c - groups of a list by balanced k-means.
 *
 * A tree of cuts begins the groups.  In each round all rows move to the nearest mean that has room.
 * Rows to which the second nearest mean matters most choose first.
 *
 * Means lie in panels of near means, which a tree of cuts finds anew in each round.  The rows of a
 * group are compared with the means of the panels that are nearest to the group.
 */
#include "store/group_impl.h"

#include <string.h>

#include "memory/memory.h"

/* 2: 15.2 and 22.7 of the groups below in .8 of the time, 8: 14.0 and 16.0 in 1.7 times. */
#define ROUNDS 4
/*
 * Means of a panel, a multiple of 4, of which lists with more than MOST_PANELS panels have more.
 * Lists of 10,000 sentences and 20,000 image patches, .95 of the ten nearest rows: 19.5 and 8.5
 * groups; with half of PANEL 20.0 and 8.4 in .76 of the time, with twice 21.2 and 8.0 in 1.3 times.
 */
#define PANEL 16
#define MOST_PANELS 1024
/*
 * Panels with whose means the rows of a group are compared, and the same in the last round.  Groups
 * that hold .95 of the ten nearest rows, of 60,000 SIFT descriptors and of 20,000 sentences: 14.5
 * and 19.3.  NEAR 2: 14.9 and 20.2, 6: 14.5 and 17.9 in 1.2 times the time.  MOST_NEAR 8: 15.1 and
 * 21.7, 32: 14.3 and 19.2 in 1.2 times the time.
 */
#define NEAR 3
#define MOST_NEAR 16
#define CHOICES GRN_NEAREST_ROWS	/* means that a row remembers */
#define CLASSES 4096			/* of rows by how much a choice matters: the values of 12 bits */
#define ROWS_A_POLL 1024		/* a multiple of GRN_COLUMNS */
/*
 * Numbers of a row that count: those of the largest variance.  10,000 sentences in codes of 256
 * directions: 29.4 groups; with half 44.5 in .77 of the time, with twice 27.0 in 1.5 times.
 */
#define MOST_DIMS 128

typedef struct Choice
{
	float		distance;		/* squared */
	uint32_t	group;			/* GRN_INVALID_ID: none */
} Choice;

typedef struct Means
{
	const GrnGrouping *g;
	const GrnGroupTree *tree;
	uint32_t	dims;
	uint32_t	groups;
	uint32_t	panels;
	uint32_t	panel_room;		/* means of a panel at most, a multiple of 4 */
	uint32_t	n;
	float	   *means;			/* [groups][dims] */
	uint32_t   *count;			/* [groups] rows that have chosen the group */
	uint32_t   *sorted;			/* [n] rows by groups, or groups by panels */
	uint32_t   *panel_ends;		/* [panels] of these groups */
	uint8_t    *codes;			/* [groups] of means */
	GrnFactor  *factors;		/* [groups] */
	uint32_t   *panel_of;		/* [groups] */
	uint32_t   *group_at;		/* [panels][panel_room] */
	float	   *middles;		/* [panels][panel_room][dims] means in the order of panels */
	float	   *norms;			/* [panels][panel_room] squared; infinite where there is no mean */
	float	   *centers;		/* [panels][dims] means of these */
	float	   *center_norms;	/* [panels] squared */
	float	   *along;			/* [panels] products of a mean with centers */
	float	   *x;				/* [GRN_COLUMNS][dims] rows, and what decoding writes behind */
	float	   *columns;		/* [dims][GRN_COLUMNS] the same */
	float		column_norms[GRN_COLUMNS];
	uint32_t   *starts;			/* [groups + 1] */
	uint32_t   *sorted_rows;	/* [n] in the order of groups */
	Choice	   *choices;		/* [n][CHOICES], nearest first */
	uint32_t   *chosen;			/* [n] group */
	uint32_t   *classes;		/* [n] how much the choice matters */
	uint32_t   *sequence;		/* [n] rows in the order in which they choose */
} Means;

static size_t
plan(Means *m, const GrnCodec *codec, uint32_t n, uint32_t room, void *workspace)
{
	GrnArena	a = grn_arena(workspace);
	uint32_t	dims = grn_group_dims(codec);
	uint32_t	places;

	/* of bits all numbers count */
	m->dims = dims < MOST_DIMS || grn_codes_exact(codec) ? dims : MOST_DIMS;
	m->groups = grn_groups(n, room);
	m->panel_room = PANEL * ((m->groups - 1) / (PANEL * MOST_PANELS) + 1);
	m->panels = (m->groups - 1) / m->panel_room + 1;
	places = m->panels * m->panel_room;
	m->means = grn_take(&a, (size_t) m->groups * m->dims, sizeof(float));
	m->count = grn_take(&a, m->groups, sizeof(uint32_t));
	m->sorted = grn_take(&a, n, sizeof(uint32_t));
	m->panel_ends = grn_take(&a, m->panels, sizeof(uint32_t));
	m->codes = grn_take(&a, m->groups, grn_code_bytes(codec->shape));
	m->factors = grn_take(&a, m->groups, sizeof(GrnFactor));
	m->group_at = grn_take(&a, places, sizeof(uint32_t));
	m->middles = grn_take(&a, (size_t) places * m->dims, sizeof(float));
	m->norms = grn_take(&a, places, sizeof(float));
	m->centers = grn_take(&a, (size_t) m->panels * m->dims, sizeof(float));
	m->center_norms = grn_take(&a, m->panels, sizeof(float));
	m->along = grn_take(&a, m->panels, sizeof(float));
	m->x = grn_take(&a, GRN_COLUMNS * m->dims + GRN_GROUP_DIMS, sizeof(float));
	m->columns = grn_take(&a, GRN_COLUMNS * m->dims, sizeof(float));
	m->panel_of = grn_take(&a, m->groups, sizeof(uint32_t));
	m->starts = grn_take(&a, m->groups + 1, sizeof(uint32_t));
	m->sorted_rows = grn_take(&a, n, sizeof(uint32_t));
	m->choices = grn_take(&a, (size_t) n * CHOICES, sizeof(Choice));
	m->chosen = grn_take(&a, n, sizeof(uint32_t));
	m->classes = grn_take(&a, n, sizeof(uint32_t));
	m->sequence = grn_take(&a, n, sizeof(uint32_t));
	m->n = n;
	return grn_arena_bytes(&a);
}

bool
grn_group_has_means(const GrnCodec *codec)
{
	return codec->kind == GRN_CODES_ROWS && (!grn_codes_exact(codec) || codec->own == GRN_EXACT_L2);
}

size_t
grn_group_means_bytes(const GrnCodec *codec, uint32_t n, uint32_t room)
{
	Means		m;

	return grn_group_has_means(codec) ? plan(&m, codec, n, room, NULL) : 0;
}

/* ---- rows and means ---- */

/* i: rows that a loop has dealt with. */
static inline void
poll(const Means *m, uint32_t i)
{
	if (m->g->poll != NULL && i % ROWS_A_POLL == 0)
		m->g->poll(m->g->arg);
}

/* Decodes a row into x [dims], and what more a code has behind. */
static inline void
load_row(const Means *m, uint32_t row, float *x)
{
	grn_group_decode(m->g, row, x);
}

/* The mean of each group's rows, of which each group has one at least. */
static void
find_means(Means *m)
{
	size_t		dims = m->dims;

	memset(m->means, 0, m->groups * dims * sizeof(float));
	for (uint32_t i = 0; i < m->n; i++)
	{
		poll(m, i);
		load_row(m, i, m->x);
		grn_dist->add_scaled(m->means + m->chosen[i] * dims, 1.0f / (float) m->count[m->chosen[i]], m->x, dims);
	}
}

/* Puts the groups into panels of near groups, by codes of their means. */
static void
sort_into_panels(Means *m)
{
	GrnGrouping by_means = *m->g;
	size_t		bytes = grn_code_bytes(m->g->codec->shape);

	for (uint32_t i = 0; i < m->groups; i++)
	{
		float		mean[GRN_GROUP_DIMS] = {0};

		memcpy(mean, m->means + (size_t) i * m->dims, m->dims * sizeof(float));
		grn_group_encode(m->g->codec, mean, 0, m->codes + i * bytes, &m->factors[i]);
		m->sorted[i] = i;
	}
	by_means.codes = m->codes;
	by_means.factors = m->factors;
	grn_group_cut(&by_means, m->tree, m->sorted, m->groups, m->panel_ends, m->panels);
}

/* Lays the means out in panels, and finds the centers of panels. */
static void
find_panels(Means *m)
{
	size_t		dims = m->dims;

	sort_into_panels(m);
	memset(m->middles, 0, (size_t) m->panels * m->panel_room * dims * sizeof(float));
	memset(m->centers, 0, m->panels * dims * sizeof(float));
	for (uint32_t p = 0, i = 0; p < m->panels; p++)
	{
		uint32_t	first = i;
		uint32_t	end = (p + 1) * m->panel_room;

		for (uint32_t place = p * m->panel_room; place < end; place++)
		{
			const float *mean;

			m->norms[place] = INFINITY;
			m->group_at[place] = GRN_INVALID_ID;
			if (i == m->panel_ends[p])
				continue;
			m->group_at[place] = m->sorted[i++];
			m->panel_of[m->group_at[place]] = p;
			mean = m->means + m->group_at[place] * dims;
			memcpy(m->middles + place * dims, mean, dims * sizeof(float));
			m->norms[place] = grn_dist->ip_f32(mean, mean, dims);
			grn_dist->add_scaled(m->centers + p * dims, 1.0f / (float) (m->panel_ends[p] - first), mean, dims);
		}
		m->center_norms[p] = grn_dist->ip_f32(m->centers + p * dims, m->centers + p * dims, dims);
	}
}

/* ---- comparisons ---- */

/* Lays rows [n] out in columns; columns that are left repeat the first row. */
static void
load_columns(Means *m, const uint32_t *rows, uint32_t n)
{
	/* what lies behind a row's numbers goes when the next row comes */
	for (uint32_t i = 0; i < n; i++)
		load_row(m, rows[i], m->x + (size_t) i * m->dims);
	for (uint32_t i = n; i < GRN_COLUMNS; i++)
		memcpy(m->x + (size_t) i * m->dims, m->x, m->dims * sizeof(float));
	for (uint32_t i = 0; i < GRN_COLUMNS; i++)
	{
		const float *x = m->x + (size_t) i * m->dims;

		m->column_norms[i] = grn_dist->ip_f32(x, x, m->dims);
	}
	/* four numbers to a store, because stores take the time */
	for (uint32_t i = 0; i < GRN_COLUMNS; i += 4)
		for (uint32_t j = 0; j < m->dims; j++)
		{
			const float *x = m->x + (size_t) i * m->dims + j;
			float		four[4] = {x[0], x[m->dims], x[2 * m->dims], x[3 * m->dims]};

			memcpy(m->columns + j * GRN_COLUMNS + i, four, sizeof(four));
		}
}

/* Sorts rows by the groups that they have chosen. */
static void
sort_rows(Means *m)
{
	uint32_t   *starts = m->starts;

	memset(starts, 0, (m->groups + 1) * sizeof(uint32_t));
	for (uint32_t i = 0; i < m->n; i++)
		starts[m->chosen[i] + 1]++;
	for (uint32_t h = 1; h <= m->groups; h++)
		starts[h] += starts[h - 1];
	/* starts[h + 1] is the next place of group h, and the group's end when all rows have places */
	memmove(starts + 1, starts, m->groups * sizeof(uint32_t));
	for (uint32_t i = 0; i < m->n; i++)
		m->sorted_rows[starts[m->chosen[i] + 1]++] = i;
}

/* Puts a panel in its place among panels [n], nearest first; the last of these goes. */
static inline void
keep_panel(Choice *panels, uint32_t n, Choice panel)
{
	uint32_t	i = n - 1;

	if (!(panel.distance < panels[i].distance))
		return;
	for (; i > 0 && panels[i - 1].distance > panel.distance; i--)
		panels[i] = panels[i - 1];
	panels[i] = panel;
}

/* Finds the panels nearest to a group, of which the group's own is the first: [n]. */
static void
find_near_panels(const Means *m, uint32_t group, uint32_t n, Choice *near)
{
	memset(m->along, 0, m->panels * sizeof(float));
	grn_dist->ip_rows(m->means + (size_t) group * m->dims, m->centers, m->dims, m->dims, m->panels, m->along);
	for (uint32_t i = 0; i < n; i++)
		near[i] = (Choice) {INFINITY, GRN_INVALID_ID};
	for (uint32_t p = 0; p < m->panels; p++)
		keep_panel(near, n,
				   (Choice) {p == m->panel_of[group] ? -INFINITY : m->center_norms[p] - 2 * m->along[p], p});
}

/* Compares rows [n], GRN_COLUMNS at most, with the means of so many panels. */
static void
compare_rows(Means *m, const uint32_t *rows, uint32_t n, const Choice *near, uint32_t panels)
{
	GrnNearestRows seen;

	load_columns(m, rows, n);
	for (uint32_t c = 0; c < CHOICES; c++)
		for (uint32_t i = 0; i < GRN_COLUMNS; i++)
		{
			seen.distances[c][i] = INFINITY;
			seen.rows[c][i] = GRN_INVALID_ID;
		}
	for (uint32_t p = 0; p < panels && near[p].group != GRN_INVALID_ID; p++)
	{
		uint32_t	end = (near[p].group + 1) * m->panel_room;

		for (uint32_t place = near[p].group * m->panel_room; place < end; place += 4)
			grn_dist->keep_nearest(m->middles + (size_t) place * m->dims, m->dims, m->norms + place, m->columns,
								   m->column_norms, m->dims, place, &seen);
	}
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t c = 0; c < CHOICES; c++)
		{
			uint32_t	place = seen.rows[c][i];

			m->choices[(size_t) rows[i] * CHOICES + c] =
				(Choice) {seen.distances[c][i], place != GRN_INVALID_ID ? m->group_at[place] : GRN_INVALID_ID};
		}
}

/* Finds the choices of all rows, among the means of panels near to the groups that they are in. */
static void
find_choices(Means *m, uint32_t panels)
{
	find_panels(m);
	sort_rows(m);
	for (uint32_t group = 0; group < m->groups; group++)
	{
		Choice		near[MOST_NEAR];

		poll(m, group);
		find_near_panels(m, group, panels, near);
		for (uint32_t row = m->starts[group]; row < m->starts[group + 1]; row += GRN_COLUMNS)
		{
			uint32_t	left = m->starts[group + 1] - row;

			compare_rows(m, m->sorted_rows + row, left < GRN_COLUMNS ? left : GRN_COLUMNS, near, panels);
		}
	}
}

/* ---- choices ---- */

/* The class of a number from 0 to infinity, below CLASSES and in the order of numbers. */
static uint32_t
class_of(float x)
{
	uint32_t	bits;

	if (x == 0)
		return 0;
	/* no number */
	if (!(x > 0))
		x = INFINITY;
	memcpy(&bits, &x, sizeof(bits));
	return bits >> 19;
}

/* How little a row loses without the first choice: rows with less choose earlier. */
static float
indifference(const Means *m, uint32_t row)
{
	const Choice *choices = m->choices + (size_t) row * CHOICES;

	return 1 / (choices[1].distance - choices[0].distance);
}

/* Puts rows into the order in which they choose, about. */
static void
sort_by_indifference(Means *m)
{
	uint32_t	starts[CLASSES + 1] = {0};

	for (uint32_t i = 0; i < m->n; i++)
		starts[(m->classes[i] = class_of(indifference(m, i))) + 1]++;
	for (uint32_t c = 0; c < CLASSES; c++)
		starts[c + 1] += starts[c];
	for (uint32_t i = 0; i < m->n; i++)
		m->sequence[starts[m->classes[i]]++] = i;
}

/* The nearest group with room that a row remembers, or GRN_INVALID_ID. */
static uint32_t
nearest_with_room(const Means *m, uint32_t row)
{
	for (uint32_t c = 0; c < CHOICES; c++)
	{
		uint32_t	group = m->choices[(size_t) row * CHOICES + c].group;

		if (group == GRN_INVALID_ID || m->count[group] < m->g->room)
			return group;
	}
	return GRN_INVALID_ID;
}

/* A group with room, of those next to a group in the tree. */
static uint32_t
next_with_room(const Means *m, uint32_t group)
{
	for (uint32_t away = 0;; away++)
	{
		if (away <= group && m->count[group - away] < m->g->room)
			return group - away;
		if (group + away < m->groups && m->count[group + away] < m->g->room)
			return group + away;
	}
}

static void
choose_groups(Means *m)
{
	sort_by_indifference(m);
	memset(m->count, 0, m->groups * sizeof(uint32_t));
	for (uint32_t i = 0; i < m->n; i++)
	{
		uint32_t	row = m->sequence[i];

		m->chosen[row] = nearest_with_room(m, row);
		if (m->chosen[row] != GRN_INVALID_ID)
			m->count[m->chosen[row]]++;
	}
	/* a few have found no room */
	for (uint32_t i = 0; i < m->n; i++)
	{
		uint32_t	first = m->choices[(size_t) i * CHOICES].group;

		if (m->chosen[i] != GRN_INVALID_ID)
			continue;
		m->chosen[i] = next_with_room(m, first != GRN_INVALID_ID ? first : 0);
		m->count[m->chosen[i]]++;
	}
	/* and no group stays empty */
	for (uint32_t group = 0, i = 0; group < m->groups; group++)
		for (; m->count[group] == 0; i++)
			if (m->count[m->chosen[i]] > 1)
			{
				m->count[m->chosen[i]]--;
				m->chosen[i] = group;
				m->count[group]++;
			}
}

/* ---- all together ---- */

void
grn_group_by_means(const GrnGrouping *g, const GrnGroupTree *tree, uint32_t n, uint32_t *order,
				   uint32_t *ends, void *workspace)
{
	Means		m;

	(void) plan(&m, g->codec, n, g->room, workspace);
	m.g = g;
	m.tree = tree;
	for (uint32_t group = 0, i = 0; group < m.groups; group++)
	{
		m.count[group] = ends[group] - i;
		for (; i < ends[group]; i++)
			m.chosen[order[i]] = group;
	}
	for (int round = 1; round < ROUNDS; round++)
	{
		find_means(&m);
		find_choices(&m, NEAR);
		choose_groups(&m);
	}
	find_means(&m);
	find_choices(&m, MOST_NEAR);
	choose_groups(&m);
	sort_rows(&m);
	memcpy(order, m.sorted_rows, n * sizeof(uint32_t));
	memcpy(ends, m.starts + 1, m.groups * sizeof(uint32_t));
}
