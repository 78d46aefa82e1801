/*
 * search_closed.c - candidates of a closed search: rows from lists, and groups of such rows.
 *
 * All candidates wait unsorted with their estimates.  A bound from a sample of the estimates
 * separates the few nearest candidates from the rest, and only the nearest are sorted.
 */
#include "graph/stored/search_impl.h"

#include <math.h>

#include "graph/kernels/dist.h"

/* ---- waiting candidates ---- */

#define LEAST_WAITING 1024		/* rows */
#define CHOICE_KEYS 128			/* sample size for the bound of the nearest */
#define BLOCK 512				/* estimates compared with the bound in one call */

static void
reserve_waiting(GrnSearch *s, Waiting *w, size_t need)
{
	size_t		room = w->room;

	if (need <= room)
		return;
	grn_grow(s, &w->ids, sizeof(uint32_t), w->n, need, &room);
	grn_grow(s, &w->estimates, sizeof(float), w->n, need, &w->room);
}

/* Adds `count` coded rows or middles.  The array must have room. */
static void
add_waiting(GrnSearch *s, Waiting *w, const uint32_t *ids, const uint8_t *codes, const GrnFactor *factors,
			uint32_t count)
{
	grn_estimate(&s->code_query, codes, factors, count, w->estimates + w->n);
	memcpy(w->ids + w->n, ids, count * sizeof(uint32_t));
	w->n += count;
}

/* Removes the candidate with index i and returns its key.  The last candidate fills the gap. */
static Key
remove_waiting(Waiting *w, size_t i)
{
	Key			key = make_key(w->estimates[i], w->ids[i]);

	w->estimates[i] = w->estimates[--w->n];
	w->ids[i] = w->ids[w->n];
	return key;
}

/*
 * Moves the nearest waiting candidates, about `wanted` or more, into a heap.  A bound separates
 * near candidates from far ones, so few are ever sorted.  Returns the bound.
 */
static float
take_nearest(GrnSearch *s, Waiting *w, size_t wanted, Key **heap, size_t *n, size_t *room)
{
	float		bound = INFINITY;

	if (w->n > 4 * wanted && w->n > 4 * CHOICE_KEYS)
	{
		Key			sample[CHOICE_KEYS];
		Key			scratch[CHOICE_KEYS];

		for (size_t i = 0; i < CHOICE_KEYS; i++)
			sample[i] = make_key(w->estimates[i * w->n / CHOICE_KEYS], 0);
		grn_sort_keys(sample, scratch, CHOICE_KEYS);
		bound = key_distance(sample[wanted * CHOICE_KEYS / w->n + 2]);
	}
	/* from the end, because the candidate that fills a gap was compared already */
	for (size_t end = w->n; end > 0;)
	{
		uint32_t	near[BLOCK];
		size_t		first = end > BLOCK ? end - BLOCK : 0;
		uint32_t	found = (uint32_t) (end - first);

		if (bound < INFINITY)
			found = grn_dist->at_most(w->estimates + first, found, bound, near);
		else
			for (uint32_t i = 0; i < found; i++)
				near[i] = i;
		reserve(s, heap, sizeof(Key), *n, *n + found, room);
		while (found > 0)
			(*heap)[(*n)++] = remove_waiting(w, first + near[--found]);
		end = first;
	}
	heap_make(*heap, *n);
	return bound;
}

/* ---- rows ---- */

/*
 * Number of lists (of ef) that one choice fills, about.  Lists of 6,000 rows take the same time
 * with 1, 2 and 4, at LIMIT 10 and 100.
 */
#define CHOSEN 2

/*
 * Counts the waiting rows from index `from` as offered, and adds the near ones to `nearest`.  A
 * row may come with two groups; the set `noted` makes the row count once.
 */
static void
note_offered(GrnSearch *s, size_t from)
{
	size_t		count = s->rows.n - from;
	float		before = s->nnearest < s->p.nearest ? INFINITY : s->nearest[0];
	uint32_t	near[BLOCK];
	uint32_t	n = 0;

	for (size_t i = 0; i < count; i += BLOCK)
	{
		const float *estimates = s->rows.estimates + from + i;
		uint32_t	found = grn_dist->at_most(estimates, (uint32_t) (count - i < BLOCK ? count - i : BLOCK),
											  before, near);

		for (uint32_t j = 0; j < found; j++)
			if ((s->nnearest < s->p.nearest || estimates[near[j]] < s->nearest[0]) &&
				grn_set_add(s, &s->noted, s->rows.ids[from + i + near[j]], 0))
			{
				keep_least(s->nearest, s->p.nearest, s->nnearest, estimates[near[j]]);
				s->nnearest += s->nnearest < s->p.nearest;
				n++;
			}
	}
	s->offered += count;
	s->idle = n > 0 ? 0 : s->idle + count;
}

/* Adds rows to the waiting rows.  The array must have room. */
static void
add_listed(GrnSearch *s, const uint32_t *ids, const uint8_t *codes, const GrnFactor *factors,
		   uint32_t count)
{
	size_t		from = s->rows.n;

	add_waiting(s, &s->rows, ids, codes, factors, count);
	if (s->nearest != NULL)
		note_offered(s, from);
	/* rows within the bound of the last choice belong into its heap */
	for (size_t i = s->rows.n; s->resumed && i > from; i--)
		if (s->rows.estimates[i - 1] <= s->chosen)
		{
			reserve(s, &s->rejected_keys, sizeof(Key), s->rejected, s->rejected + 1, &s->rejected_room);
			heap_push(s->rejected_keys, &s->rejected, remove_waiting(&s->rows, i - 1));
		}
}

void
grn_end_listed(GrnSearch *s)
{
	if (s->ngathered == 0)
		return;
	reserve_waiting(s, &s->rows, s->rows.n + s->ngathered);
	add_listed(s, s->gathered_ids, s->gathered, s->gathered_factors, s->ngathered);
	s->ngathered = 0;
}

void
grn_search_listed(GrnSearch *s, const uint32_t *ids, const uint8_t *codes,
				  const GrnFactor *factors, const bool *wanted, uint32_t count)
{
	size_t		bytes = s->p.layout->code_bytes;
	size_t		room = s->rows.room;
	uint32_t	whole = wanted == NULL ? count - count % GRN_GATHER : 0;

	if (s->rows.n + count + GRN_GATHER > room)
	{
		if (s->truncated || (s->p.memory_limit > 0 &&
							 grn_search_bytes(s) + room * sizeof(Key) > s->p.memory_limit))
		{
			s->truncated = true;
			return;
		}
		reserve_waiting(s, &s->rows, 2 * room + count + LEAST_WAITING);
	}
	if (whole > 0)
		add_listed(s, ids, codes, factors, whole);
	/* estimate the remaining rows in batches of GRN_GATHER, together with rows of other records */
	for (uint32_t i = whole; i < count; i++)
	{
		if (wanted != NULL && !wanted[i])
			continue;
		if (s->ngathered == GRN_GATHER)
			grn_end_listed(s);
		s->gathered_ids[s->ngathered] = ids[i];
		s->gathered_factors[s->ngathered] = factors[i];
		memcpy(s->gathered + s->ngathered++ * bytes, codes + i * bytes, bytes);
	}
}

void
grn_choose_waiting(GrnSearch *s)
{
	s->chosen = take_nearest(s, &s->rows, (size_t) CHOSEN * s->p.ef, &s->rejected_keys, &s->rejected,
							 &s->rejected_room);
}

/* ---- groups ---- */

/* Number of groups sorted at once: about as many as a search reads. */
#define CHOSEN_GROUPS 128
#define MIN_NOTED 1024			/* slots of the first set of noted ids; power of two */

void
grn_search_groups(GrnSearch *s, const uint32_t *ids, const uint8_t *codes, const GrnFactor *factors,
				  uint32_t count)
{
	/* searches without groups need no record of the nearest rows */
	if (s->nearest == NULL && s->p.nearest > 0)
	{
		s->nearest = s->store->alloc(s->store, s->p.nearest * sizeof(float));
		grn_set_resize(s, &s->noted, MIN_NOTED);
		grn_end_listed(s);
		note_offered(s, 0);
	}
	if (s->groups.n + count > s->groups.room)
		reserve_waiting(s, &s->groups, 2 * s->groups.room + count + LEAST_WAITING);
	add_waiting(s, &s->groups, ids, codes, factors, count);
}

uint32_t
grn_search_next_group(GrnSearch *s)
{
	if (!s->groups_begun)
		s->idle = s->offered = 0;
	s->groups_begun = true;
	if (s->nnear_groups == 0)
		take_nearest(s, &s->groups, CHOSEN_GROUPS, &s->near_groups, &s->nnear_groups, &s->near_groups_room);
	return s->nnear_groups > 0 ? KEY_ID(heap_pop(s->near_groups, &s->nnear_groups)) : GRN_INVALID_ID;
}

/*
 * If middles say little about their rows, near rows appear rarely but for long.  The required idle
 * time therefore grows with the rows offered: one part in IDLE_PART.  A list of 4,600 of 20,000
 * sentences has recall .997, .995 and .995 at ef 40 with 2.5, 5 and 10, in the same time.
 */
#define IDLE_PART 5

bool
grn_search_settled(const GrnSearch *s)
{
	return s->p.nearest > 0 && s->nnearest == s->p.nearest && s->idle >= s->p.patience && IDLE_PART * s->idle >= s->offered;
}

bool
grn_search_has_groups(const GrnSearch *s)
{
	return s->groups.n + s->nnear_groups > 0;
}

uint32_t
grn_search_patience(const GrnSearch *s)
{
	return s->p.patience;
}
