/*
 * group_refine.c - rows of a list's groups move to the nearest middle that has room, and most are
 * copied into a second group.
 *
 * Middles lie in panels of near ones, which a tree of cuts finds anew in each round.  The rows of
 * a group look at the middles of the panels that are nearest to the group.  Those to which the
 * second nearest matters most choose first.
 *
 * In the end a row gets a copy in a group that is near in another direction than its own is,
 * because a query for which that one is far is likely to be near to the other.  (Sun, Simcha,
 * Dopson, Guo and Kumar, "SOAR: Improved Indexing for Approximate Nearest Neighbor Search",
 * NeurIPS 2023, with lambda = 1.)
 *
 * Long lists are refined in stretches of groups, which are whole branches of the tree or nearly.
 */
#include "graph/stored/group_impl.h"

#include <string.h>

#include "graph/arena.h"

#define ROUNDS 4
#define STRETCH 16384			/* groups that are refined together */
#define PANEL 16				/* middles, a multiple of 4 */
#define NEAR 6					/* panels that the rows of a group look at, */
#define MOST_NEAR 24			/* and in the last round */
#define CHOICES GRN_SEEN		/* middles that a row remembers */
#define REGRETS 4096			/* classes of rows by how much a choice matters */
#define ROWS_AHEAD 8
#define MOST_DIMS 128			/* numbers of a row that are looked at: those of the most variance */

typedef struct Choice
{
	float		distance;		/* squared */
	uint32_t	group;			/* of the stretch; GRN_INVALID_ID: none */
} Choice;

typedef struct Refining
{
	const GrnGrouping *g;
	uint32_t	dims;
	uint32_t	near;			/* panels that rows look at in this round */
	GrnGrouped *rows;			/* [n] of the stretch */
	uint32_t	n;
	uint32_t	groups;
	uint32_t	panels;
	uint32_t   *start;			/* [groups + 1] */
	uint32_t   *count;			/* [groups] of rows that have moved there */
	float	   *means;			/* [groups][dims] */
	const GrnGroupTree *tree;
	GrnGrouped *in_panels;		/* [groups] in the order of panels */
	uint32_t   *panel_ends;		/* [panels] */
	uint8_t    *codes;			/* [groups] of means */
	GrnFactor  *factors;		/* [groups] */
	uint32_t   *place;			/* [groups] where a group's middle is in panels */
	uint32_t   *group_at;		/* [panels][PANEL] */
	float	   *middles;		/* [panels][PANEL][dims] */
	float	   *norms;			/* [panels][PANEL] squared; infinite where there is no middle */
	float	   *centres;		/* [panels][dims] of a panel's middles */
	float	   *centre_norms;	/* [panels] */
	float	   *along;			/* [panels] products of a middle with centres */
	float	   *x;				/* [GRN_COLUMNS][dims] rows, and what load_row() has behind */
	float	   *columns;		/* [dims][GRN_COLUMNS] the same */
	float		column_norms[GRN_COLUMNS];	/* theirs, squared */
	Choice	   *choices;		/* [n][CHOICES], nearest first */
	uint32_t   *chosen;			/* [n] group */
	uint32_t   *copied;			/* [n] a second one, or GRN_INVALID_ID */
	uint32_t   *order;			/* [n] in which rows choose */
	GrnGrouped *moved;			/* [n] */
} Refining;

/* How many numbers of a row are looked at: of bits all. */
static uint32_t
refining_dims(const GrnCodec *codec)
{
	uint32_t	dims = grn_group_dims(codec, grn_group_blocks(codec));

	return dims < MOST_DIMS || grn_codes_exact(codec) ? dims : MOST_DIMS;
}

static size_t
lay_out(Refining *r, const GrnCodec *codec, uint32_t n, uint32_t room, void *workspace)
{
	GrnArena	a = grn_arena(workspace);
	uint32_t	groups = grn_groups(codec, n, room);
	uint32_t	panels;

	groups = groups < STRETCH ? groups : STRETCH;
	panels = (groups + PANEL - 1) / PANEL;
	/* a group of the tree has some more rows or fewer than others */
	n = groups < STRETCH || n < STRETCH * room ? n : STRETCH * room;
	r->dims = refining_dims(codec);
	r->start = grn_take(&a, groups + 1, sizeof(uint32_t));
	r->count = grn_take(&a, groups, sizeof(uint32_t));
	r->means = grn_take(&a, (size_t) groups * r->dims, sizeof(float));
	r->in_panels = grn_take(&a, groups, sizeof(GrnGrouped));
	r->panel_ends = grn_take(&a, panels, sizeof(uint32_t));
	r->codes = grn_take(&a, groups, grn_code_bytes(codec->shape));
	r->factors = grn_take(&a, groups, sizeof(GrnFactor));
	r->place = grn_take(&a, groups, sizeof(uint32_t));
	r->group_at = grn_take(&a, (size_t) panels * PANEL, sizeof(uint32_t));
	r->middles = grn_take(&a, (size_t) panels * PANEL * r->dims, sizeof(float));
	r->norms = grn_take(&a, (size_t) panels * PANEL, sizeof(float));
	r->centres = grn_take(&a, (size_t) panels * r->dims, sizeof(float));
	r->centre_norms = grn_take(&a, panels, sizeof(float));
	r->along = grn_take(&a, panels, sizeof(float));
	r->x = grn_take(&a, GRN_COLUMNS * r->dims + GRN_GROUP_DIMS, sizeof(float));
	r->columns = grn_take(&a, GRN_COLUMNS * r->dims, sizeof(float));
	r->choices = grn_take(&a, (size_t) n * CHOICES, sizeof(Choice));
	r->chosen = grn_take(&a, n, sizeof(uint32_t));
	r->copied = grn_take(&a, n, sizeof(uint32_t));
	r->order = grn_take(&a, n, sizeof(uint32_t));
	r->moved = grn_take(&a, n, sizeof(GrnGrouped));
	return grn_arena_bytes(&a);
}

bool
grn_group_may_refine(const GrnCodec *codec)
{
	return codec->kind == GRN_CODES_ROWS && (!grn_codes_exact(codec) || codec->own == GRN_EXACT_L2);
}

uint32_t
grn_group_refined_dims(const GrnCodec *codec)
{
	return grn_group_may_refine(codec) && !grn_codes_exact(codec) ? refining_dims(codec) : 0;
}

size_t
grn_group_refine_bytes(const GrnCodec *codec, uint32_t n, uint32_t room)
{
	Refining	r;

	return grn_group_may_refine(codec) ? lay_out(&r, codec, n, room, NULL) : 0;
}

/* ---- choices ---- */

/*
 * Decodes row i of the stretch into x [dims], and what more the first blocks have behind.  Codes
 * lie anywhere in memory, so that of a later row is asked for meanwhile.
 */
static void
load_row(const Refining *r, uint32_t i, float *x)
{
	if (i + ROWS_AHEAD < r->n)
	{
		uint32_t	node = r->rows[i + ROWS_AHEAD].node;
		size_t		bytes = grn_code_bytes(r->g->codec->shape);
		const uint8_t *code = r->g->codes + node * bytes;

		__builtin_prefetch(code);
		__builtin_prefetch(code + bytes - 1);
		__builtin_prefetch(r->g->factors + node);
	}
	grn_group_decode(r->g, grn_group_blocks(r->g->codec), r->rows[i].node, x);
}

static inline void
look(const Refining *r, uint32_t group)
{
	if (r->g->look != NULL && group % GRN_GROUPS_A_LOOK == 0)
		r->g->look(r->g->arg);
}

/* Finds the mean of each group's rows. */
static void
find_means(Refining *r)
{
	size_t		dims = r->dims;

	memset(r->means, 0, r->groups * dims * sizeof(float));
	for (uint32_t i = 0; i < r->groups; i++)
	{
		look(r, i);
		for (uint32_t row = r->start[i]; row < r->start[i + 1]; row++)
		{
			load_row(r, row, r->x);
			grn_dist->add_scaled(r->means + i * dims, 1.0f / (float) (r->start[i + 1] - r->start[i]), r->x, dims);
		}
	}
}

/* Puts the groups into panels of near ones, by codes of their means. */
static void
find_panels(Refining *r)
{
	GrnGrouping by_means = *r->g;
	size_t		bytes = grn_code_bytes(r->g->codec->shape);

	for (uint32_t i = 0; i < r->groups; i++)
	{
		float		mean[GRN_GROUP_DIMS] = {0};

		memcpy(mean, r->means + (size_t) i * r->dims, r->dims * sizeof(float));
		grn_group_encode(r->g->codec, mean, 0, 0, r->codes + i * bytes, &r->factors[i]);
		r->in_panels[i] = (GrnGrouped) {i, 0};
	}
	by_means.codes = r->codes;
	by_means.factors = r->factors;
	grn_group_cut(&by_means, r->tree, r->in_panels, r->groups, r->panel_ends, r->panels, 0);
}

/* Lays the middles out in panels, and finds the centres of these. */
static void
find_middles(Refining *r)
{
	size_t		dims = r->dims;

	find_means(r);
	find_panels(r);
	memset(r->middles, 0, (size_t) r->panels * PANEL * dims * sizeof(float));
	memset(r->centres, 0, (size_t) r->panels * dims * sizeof(float));
	for (uint32_t p = 0, i = 0; p < r->panels; p++)
	{
		uint32_t	first = i;

		for (uint32_t place = p * PANEL; place < (p + 1) * PANEL; place++)
		{
			uint32_t	group;

			r->norms[place] = INFINITY;
			r->group_at[place] = GRN_INVALID_ID;
			if (i == r->panel_ends[p])
				continue;
			group = r->in_panels[i++].node;
			r->group_at[place] = group;
			r->place[group] = place;
			memcpy(r->middles + place * dims, r->means + group * dims, dims * sizeof(float));
			r->norms[place] = grn_dist->ip_f32(r->means + group * dims, r->means + group * dims, dims);
			grn_dist->add_scaled(r->centres + p * dims, 1.0f / (float) (r->panel_ends[p] - first),
								 r->means + group * dims, dims);
		}
		r->centre_norms[p] = grn_dist->ip_f32(r->centres + p * dims, r->centres + p * dims, dims);
	}
}

/* Puts a panel in its place among those [n], nearest first, the last of which goes. */
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

/* Finds the panels nearest to a group, of which its own is the first: [r->near]. */
static void
find_near_panels(const Refining *r, uint32_t group, Choice *near)
{
	uint32_t	own = r->place[group] / PANEL;

	memset(r->along, 0, r->panels * sizeof(float));
	grn_dist->ip_rows(r->means + (size_t) group * r->dims, r->centres, r->dims, r->dims, r->panels, r->along);
	for (uint32_t i = 0; i < r->near; i++)
		near[i] = (Choice) {INFINITY, GRN_INVALID_ID};
	for (uint32_t p = 0; p < r->panels; p++)
		keep_panel(near, r->near, (Choice) {p == own ? -INFINITY : r->centre_norms[p] - 2 * r->along[p], p});
}

/* Lays n rows of the stretch out in columns, those that are left being the first of them again. */
static void
load_columns(Refining *r, uint32_t first, uint32_t n)
{
	/* what lies behind a row's numbers goes when the next one comes */
	for (uint32_t i = 0; i < n; i++)
		load_row(r, first + i, r->x + (size_t) i * r->dims);
	for (uint32_t i = n; i < GRN_COLUMNS; i++)
		memcpy(r->x + (size_t) i * r->dims, r->x, r->dims * sizeof(float));
	for (uint32_t i = 0; i < GRN_COLUMNS; i++)
	{
		const float *x = r->x + (size_t) i * r->dims;

		r->column_norms[i] = grn_dist->ip_f32(x, x, r->dims);
	}
	/* four numbers to a store, for it is stores that take the time */
	for (uint32_t i = 0; i < GRN_COLUMNS; i += 4)
		for (uint32_t j = 0; j < r->dims; j++)
		{
			const float *x = r->x + (size_t) i * r->dims + j;
			float		four[4] = {x[0], x[r->dims], x[2 * r->dims], x[3 * r->dims]};

			memcpy(r->columns + j * GRN_COLUMNS + i, four, sizeof(four));
		}
}

/* Has n rows of a group, GRN_COLUMNS at most, look at the middles of the panels near to it. */
static void
show_middles(Refining *r, uint32_t first, uint32_t n, const Choice *near)
{
	GrnSeen		seen;

	load_columns(r, first, n);
	for (uint32_t c = 0; c < CHOICES; c++)
		for (uint32_t i = 0; i < GRN_COLUMNS; i++)
		{
			seen.distances[c][i] = INFINITY;
			seen.rows[c][i] = GRN_INVALID_ID;
		}
	for (uint32_t p = 0; p < r->near && near[p].group != GRN_INVALID_ID; p++)
		for (uint32_t place = near[p].group * PANEL; place < (near[p].group + 1) * PANEL; place += 4)
			grn_dist->show_rows(r->middles + (size_t) place * r->dims, r->dims, r->norms + place, r->columns,
								r->column_norms, r->dims, place, &seen);
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t c = 0; c < CHOICES; c++)
		{
			Choice	   *choice = r->choices + (size_t) (first + i) * CHOICES + c;
			uint32_t	place = seen.rows[c][i];

			choice->distance = seen.distances[c][i];
			choice->group = place != GRN_INVALID_ID ? r->group_at[place] : GRN_INVALID_ID;
		}
}

/* Has all rows of a group look at the middles of the nearest panels. */
static void
look_at_middles(Refining *r, uint32_t group)
{
	uint32_t	end = r->start[group + 1];
	Choice		near[MOST_NEAR];

	find_near_panels(r, group, near);
	for (uint32_t row = r->start[group]; row < end; row += GRN_COLUMNS)
		show_middles(r, row, end - row < GRN_COLUMNS ? end - row : GRN_COLUMNS, near);
}

/* ---- moves ---- */

/* The class of a number from 0 to infinity, below REGRETS and in their order: by its first bits. */
static uint32_t
class_of(float x)
{
	uint32_t	bits;

	if (x == 0)
		return 0;
	/* it is none */
	if (!(x > 0))
		x = INFINITY;
	memcpy(&bits, &x, sizeof(bits));
	return bits >> 19;
}

/* How little it matters to a row whether it gets its first choice: less is more. */
static float
indifference(const Refining *r, uint32_t row)
{
	const Choice *choices = r->choices + (size_t) row * CHOICES;

	return 1 / (choices[1].distance - choices[0].distance);
}

/*
 * How little a row is helped by a copy in the group of its choice c: the squared distance of that
 * middle, and the square of what of it lies along the direction of the own one, whose squared
 * distance is d1.
 */
static float
copy_loss(const Refining *r, uint32_t row, uint32_t c, float d1)
{
	Choice		choice = r->choices[(size_t) row * CHOICES + c];
	const float *own = r->means + (size_t) r->chosen[row] * r->dims;
	float		between;
	float		along;

	if (choice.group == GRN_INVALID_ID || choice.group == r->chosen[row])
		return INFINITY;
	between = grn_dist->l2_f32(own, r->means + (size_t) choice.group * r->dims, r->dims);
	along = (d1 + choice.distance - between) / 2;
	return choice.distance + along * along / (d1 > 0 ? d1 : 1);
}

/* The distance of a row to the middle that it has chosen. */
static float
own_distance(const Refining *r, uint32_t row)
{
	for (uint32_t c = 0; c < CHOICES; c++)
		if (r->choices[(size_t) row * CHOICES + c].group == r->chosen[row])
			return r->choices[(size_t) row * CHOICES + c].distance;
	return INFINITY;
}

/* The least loss by a copy, in units of the own distance. */
static float
least_loss(const Refining *r, uint32_t row)
{
	float		d1 = own_distance(r, row);
	float		least = INFINITY;

	for (uint32_t c = 0; c < CHOICES; c++)
		least = fminf(least, copy_loss(r, row, c, d1));
	return least / d1;
}

/* Puts rows into the order of a measure, about. */
static void
sort_by(Refining *r, float (*measure) (const Refining *r, uint32_t row))
{
	uint32_t	starts[REGRETS + 1] = {0};
	uint32_t   *classes = r->copied;

	for (uint32_t i = 0; i < r->n; i++)
		starts[(classes[i] = class_of(measure(r, i))) + 1]++;
	for (uint32_t c = 0; c < REGRETS; c++)
		starts[c + 1] += starts[c];
	for (uint32_t i = 0; i < r->n; i++)
		r->order[starts[classes[i]]++] = i;
}

/*
 * Row i of those in the order in which they choose.  What rows remember lies anywhere in memory
 * then, so that of a later one is asked for meanwhile.
 */
static inline uint32_t
next_to_choose(const Refining *r, uint32_t i)
{
	if (i + ROWS_AHEAD < r->n)
	{
		const Choice *choices = r->choices + (size_t) r->order[i + ROWS_AHEAD] * CHOICES;

		__builtin_prefetch(choices);
		__builtin_prefetch(choices + CHOICES - 1);
	}
	return r->order[i];
}

/* The nearest group with room that a row remembers, or GRN_INVALID_ID. */
static uint32_t
nearest_with_room(const Refining *r, uint32_t row)
{
	for (uint32_t c = 0; c < CHOICES; c++)
	{
		uint32_t	group = r->choices[(size_t) row * CHOICES + c].group;

		if (group == GRN_INVALID_ID || r->count[group] < r->g->room)
			return group;
	}
	return GRN_INVALID_ID;
}

/* A group with room, of those next to a group in the tree. */
static uint32_t
next_with_room(const Refining *r, uint32_t group)
{
	for (uint32_t away = 0;; away++)
	{
		if (away <= group && r->count[group - away] < r->g->room)
			return group - away;
		if (group + away < r->groups && r->count[group + away] < r->g->room)
			return group + away;
	}
}

static void
choose_groups(Refining *r)
{
	sort_by(r, indifference);
	memset(r->count, 0, r->groups * sizeof(uint32_t));
	for (uint32_t i = 0; i < r->n; i++)
	{
		uint32_t	row = next_to_choose(r, i);

		r->chosen[row] = nearest_with_room(r, row);
		if (r->chosen[row] != GRN_INVALID_ID)
			r->count[r->chosen[row]]++;
	}
	/* a few have found no room */
	for (uint32_t i = 0, group = 0; i < r->n; i++)
	{
		while (i >= r->start[group + 1])
			group++;
		if (r->chosen[i] != GRN_INVALID_ID)
			continue;
		r->chosen[i] = next_with_room(r, group);
		r->count[r->chosen[i]]++;
	}
	/* and no group stays empty */
	for (uint32_t group = 0, i = 0; group < r->groups; group++)
		for (; r->count[group] == 0; i++)
			if (r->count[r->chosen[i]] > 1)
			{
				r->count[r->chosen[i]]--;
				r->chosen[i] = group;
				r->count[group]++;
			}
}

/* Turns the counts of rows into where groups begin, in r->start and r->count alike. */
static void
begin_groups(Refining *r)
{
	uint32_t	at = 0;

	for (uint32_t group = 0; group < r->groups; group++)
	{
		r->start[group] = at;
		at += r->count[group];
		r->count[group] = r->start[group];
	}
	r->start[r->groups] = at;
}

/* Brings the rows into the order of their groups. */
static void
move_rows(Refining *r)
{
	begin_groups(r);
	for (uint32_t i = 0; i < r->n; i++)
		r->moved[r->count[r->chosen[i]]++] = r->rows[i];
	memcpy(r->rows, r->moved, r->n * sizeof(GrnGrouped));
}

/* ---- copies ---- */

/* Chooses copies, while there is room for them.  r->count are rows of groups without. */
static void
choose_copies(Refining *r)
{
	sort_by(r, least_loss);
	for (uint32_t i = 0; i < r->n; i++)
	{
		uint32_t	row = next_to_choose(r, i);
		float		d1 = own_distance(r, row);
		float		least = INFINITY;

		if (i % 1024 == 0)
			look(r, 0);
		r->copied[row] = GRN_INVALID_ID;
		for (uint32_t c = 0; c < CHOICES; c++)
		{
			float		loss = copy_loss(r, row, c, d1);
			uint32_t	group = r->choices[(size_t) row * CHOICES + c].group;

			if (loss < least && r->count[group] < r->g->room)
			{
				least = loss;
				r->copied[row] = group;
			}
		}
		if (r->copied[row] != GRN_INVALID_ID)
			r->count[r->copied[row]]++;
	}
}

/*
 * Writes the rows of all groups, each group's own ones before copies: to [.], which may begin as
 * many rows before r->rows as there are copies.  Returns how many.
 */
static uint32_t
write_rows(Refining *r, uint32_t *own, GrnGrouped *to)
{
	memcpy(r->moved, r->rows, r->n * sizeof(GrnGrouped));
	begin_groups(r);
	for (uint32_t i = 0; i < r->n; i++)
		to[r->count[r->chosen[i]]++] = r->moved[i];
	for (uint32_t group = 0; group < r->groups; group++)
		own[group] = r->count[group] - r->start[group];
	for (uint32_t i = 0; i < r->n; i++)
		if (r->copied[i] != GRN_INVALID_ID)
			to[r->count[r->copied[i]]++] = r->moved[i];
	return r->start[r->groups];
}

void
grn_group_refine(const GrnGrouping *g, const GrnGroupTree *tree, GrnGrouped *rows, uint32_t n,
				 uint32_t *ends, uint32_t *own, uint32_t groups, void *workspace)
{
	Refining	r;
	GrnGrouped *from = rows + grn_group_entries(g->codec, n, g->room) - n;
	uint32_t	done = 0;
	uint32_t	written = 0;

	(void) lay_out(&r, g->codec, n, g->room, workspace);
	r.g = g;
	r.tree = tree;
	/* what is written stays behind what is yet to be read */
	memmove(from, rows, n * sizeof(GrnGrouped));
	for (uint32_t first = 0; first < groups; first += STRETCH)
	{
		uint32_t	begin = done;

		r.groups = groups - first < STRETCH ? groups - first : STRETCH;
		r.panels = (r.groups + PANEL - 1) / PANEL;
		r.rows = from + begin;
		done = ends[first + r.groups - 1];
		r.n = done - begin;
		r.start[0] = 0;
		for (uint32_t i = 0; i < r.groups; i++)
			r.start[i + 1] = ends[first + i] - begin;
		for (int round = 0; round < ROUNDS; round++)
		{
			r.near = round < ROUNDS - 1 ? NEAR : MOST_NEAR;
			find_middles(&r);
			for (uint32_t i = 0; i < r.groups; i++)
			{
				look(&r, i);
				look_at_middles(&r, i);
			}
			choose_groups(&r);
			if (round < ROUNDS - 1)
				move_rows(&r);
		}
		choose_copies(&r);
		written += write_rows(&r, own + first, rows + written);
		for (uint32_t i = 0; i < r.groups; i++)
			ends[first + i] = written - r.start[r.groups] + r.start[i + 1];
	}
}
