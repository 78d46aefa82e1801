/*
 * group_refine.c - rows of a list's groups move to the nearest middle that has room.
 *
 * The rows of groups that are near to a middle look at it.  Those to which the second nearest
 * matters most choose first.  Long lists are refined in stretches of groups, which are whole
 * branches of the tree or nearly.
 */
#include "graph/stored/group_impl.h"

#include <string.h>

#include "graph/arena.h"

#define ROUNDS 2				/* a third one gains 3% of the groups that hold .95, a fourth
								 * nothing */
#define STRETCH 4096			/* groups: the middles of all are compared with each other */
#define NEAR 64					/* groups whose rows look at a middle */
#define CHOICES 6				/* middles that a row remembers */
#define PIECE 64				/* middles that get estimates at once */
#define REGRETS 4096			/* classes of rows by how much the second nearest matters */

typedef struct Choice
{
	float		distance;
	uint32_t	group;			/* of the stretch; GRN_INVALID_ID: none */
} Choice;

typedef struct Refining
{
	const GrnGrouping *g;
	size_t		bytes;			/* of a code */
	GrnGrouped *rows;			/* [n] of the stretch */
	uint32_t	n;
	uint32_t	groups;
	uint32_t   *start;			/* [groups + 1] */
	uint32_t   *count;			/* [groups] of rows that have moved there */
	uint8_t    *middles;		/* [groups][bytes] */
	GrnFactor  *middle_factors; /* [groups] */
	uint8_t    *codes;			/* [n][bytes] of the rows, in their order */
	GrnFactor  *factors;		/* [n] */
	Choice	   *choices;		/* [n][CHOICES], nearest first */
	uint32_t   *chosen;			/* [n] group */
	uint32_t   *order;			/* [n] in which rows choose */
	GrnGrouped *moved;			/* [n] */
} Refining;

/* Rows of a stretch at most. */
static uint32_t
most_rows(uint32_t n, uint32_t room)
{
	return n < STRETCH * room ? n : STRETCH * room;
}

static size_t
lay_out(Refining *r, const GrnCodec *codec, uint32_t n, uint32_t room, void *workspace)
{
	GrnArena	a = grn_arena(workspace);
	uint32_t	groups = grn_groups(n, room);

	groups = groups < STRETCH ? groups : STRETCH;
	n = most_rows(n, room);
	r->bytes = grn_code_bytes(codec->shape);
	r->start = grn_take(&a, groups + 1, sizeof(uint32_t));
	r->count = grn_take(&a, groups, sizeof(uint32_t));
	r->middles = grn_take(&a, groups, r->bytes);
	r->middle_factors = grn_take(&a, groups, sizeof(GrnFactor));
	r->codes = grn_take(&a, n, r->bytes);
	r->factors = grn_take(&a, n, sizeof(GrnFactor));
	r->choices = grn_take(&a, (size_t) n * CHOICES, sizeof(Choice));
	r->chosen = grn_take(&a, n, sizeof(uint32_t));
	r->order = grn_take(&a, n, sizeof(uint32_t));
	r->moved = grn_take(&a, n, sizeof(GrnGrouped));
	return grn_arena_bytes(&a);
}

bool
grn_group_may_refine(const GrnCodec *codec)
{
	return codec->kind == GRN_CODES_ROWS && (!grn_codes_exact(codec) || codec->own == GRN_EXACT_L2);
}

size_t
grn_group_refine_bytes(const GrnCodec *codec, uint32_t n, uint32_t room)
{
	Refining	r;

	return grn_group_may_refine(codec) ? lay_out(&r, codec, n, room, NULL) : 0;
}

/* ---- choices ---- */

static void
forget(Choice *choices, size_t n)
{
	for (size_t i = 0; i < n; i++)
		choices[i] = (Choice) {INFINITY, GRN_INVALID_ID};
}

/* Copies the rows' codes, so that those of a group lie side by side, and encodes the middles. */
static void
gather(Refining *r)
{
	const GrnGrouping *g = r->g;

	for (uint32_t i = 0; i < r->n; i++)
	{
		memcpy(r->codes + i * r->bytes, g->codes + r->rows[i].node * r->bytes, r->bytes);
		r->factors[i] = g->factors[r->rows[i].node];
	}
	forget(r->choices, (size_t) r->n * CHOICES);
	for (uint32_t i = 0; i < r->groups; i++)
		grn_group_middle(g, r->rows + r->start[i], r->start[i + 1] - r->start[i],
						 r->middles + i * r->bytes, &r->middle_factors[i]);
}

/* Puts a choice in its place among those [n], the last of which goes. */
static inline void
keep(Choice *choices, uint32_t n, Choice choice)
{
	uint32_t	i = n - 1;

	if (!(choice.distance < choices[i].distance))
		return;
	for (; i > 0 && choices[i - 1].distance > choice.distance; i--)
		choices[i] = choices[i - 1];
	choices[i] = choice;
}

/* Has the rows of the groups that are near to a middle look at it. */
static void
show_middle(Refining *r, uint32_t group)
{
	Choice		near[NEAR];
	GrnCodeQuery query;
	float		estimates[PIECE];

	forget(near, NEAR);
	grn_code_query_from_code(r->g->codec, r->middles + group * r->bytes, r->middle_factors[group], &query);
	for (uint32_t i = 0; i < r->groups; i += PIECE)
	{
		uint32_t	count = r->groups - i < PIECE ? r->groups - i : PIECE;

		grn_estimate(&query, r->middles + i * r->bytes, r->middle_factors + i, count, estimates);
		for (uint32_t j = 0; j < count; j++)
			keep(near, NEAR, (Choice) {i + j == group ? -INFINITY : estimates[j], i + j});
	}
	for (uint32_t i = 0; i < NEAR && near[i].group != GRN_INVALID_ID; i++)
	{
		uint32_t	end = r->start[near[i].group + 1];

		for (uint32_t first = r->start[near[i].group]; first < end; first += PIECE)
		{
			uint32_t	count = end - first < PIECE ? end - first : PIECE;

			grn_estimate(&query, r->codes + first * r->bytes, r->factors + first, count, estimates);
			for (uint32_t j = 0; j < count; j++)
				keep(r->choices + (size_t) (first + j) * CHOICES, CHOICES, (Choice) {estimates[j], group});
		}
	}
}

/* ---- moves ---- */

/* The class of a row, the lower the more the second nearest matters: by the number's first bits. */
static uint32_t
class_of(const Choice *choices)
{
	float		regret = choices[1].distance - choices[0].distance;
	uint32_t	bits;

	/* it has one choice, or none */
	if (!(regret >= 0))
		regret = INFINITY;
	memcpy(&bits, &regret, sizeof(bits));
	return REGRETS - 1 - (bits >> 19);
}

/* Puts rows into the order in which they choose. */
static void
sort_by_regret(Refining *r)
{
	uint32_t	starts[REGRETS + 1] = {0};

	for (uint32_t i = 0; i < r->n; i++)
		starts[class_of(r->choices + (size_t) i * CHOICES) + 1]++;
	for (uint32_t c = 0; c < REGRETS; c++)
		starts[c + 1] += starts[c];
	for (uint32_t i = 0; i < r->n; i++)
		r->order[starts[class_of(r->choices + (size_t) i * CHOICES)]++] = i;
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
	memset(r->count, 0, r->groups * sizeof(uint32_t));
	for (uint32_t i = 0; i < r->n; i++)
	{
		uint32_t	row = r->order[i];

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

/* Brings the rows into the order of their groups. */
static void
move_rows(Refining *r)
{
	uint32_t	at = 0;

	for (uint32_t group = 0; group < r->groups; group++)
	{
		r->start[group] = at;
		at += r->count[group];
		r->count[group] = r->start[group];
	}
	for (uint32_t i = 0; i < r->n; i++)
		r->moved[r->count[r->chosen[i]]++] = r->rows[i];
	memcpy(r->rows, r->moved, r->n * sizeof(GrnGrouped));
}

void
grn_group_refine(const GrnGrouping *g, GrnGrouped *rows, uint32_t n, uint32_t *ends, uint32_t groups,
				 void *workspace)
{
	Refining	r = {.g = g};

	(void) lay_out(&r, g->codec, n, g->room, workspace);
	for (uint32_t first = 0; first < groups; first += STRETCH)
	{
		uint32_t	before = first > 0 ? ends[first - 1] : 0;

		r.groups = groups - first < STRETCH ? groups - first : STRETCH;
		r.rows = rows + before;
		r.n = ends[first + r.groups - 1] - before;
		r.start[0] = 0;
		for (uint32_t i = 0; i < r.groups; i++)
			r.start[i + 1] = ends[first + i] - before;
		for (int round = 0; round < ROUNDS && r.groups > 1; round++)
		{
			gather(&r);
			for (uint32_t i = 0; i < r.groups; i++)
			{
				if (g->look != NULL && i % 16 == 0)
					g->look(g->arg);
				show_middle(&r, i);
			}
			sort_by_regret(&r);
			choose_groups(&r);
			move_rows(&r);
		}
		for (uint32_t i = 0; i < r.groups; i++)
			ends[first + i] = before + r.start[i + 1];
	}
}
