/*
 * search_closed.c - candidates of a closed search: rows from lists, and groups of such rows.
 *
 * All candidates wait unsorted with their estimates.  A bound from a sample of the estimates
 * separates the few nearest candidates from the rest, and only the nearest are sorted.
 */
#include "store/search_impl.h"

#include <math.h>

#include "space/kernels/dist.h"

/* ---- waiting candidates ---- */

/*
 * Half and twice take the same visits and, within a tenth, the same time by filters that 1 to 30%
 * of 20,000 sentences, image patches and SIFT rows pass.  So do half and twice of CHOSEN_GROUPS.
 */
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
	grn_estimate(&s->query.code, codes, factors, count, w->estimates + w->n);
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
take_nearest(GrnSearch *s, Waiting *w, size_t wanted, Keys *heap)
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
		reserve_keys(s, heap, found);
		while (found > 0)
			heap->keys[heap->n++] = remove_waiting(w, first + near[--found]);
		end = first;
	}
	heap_make(heap);
	return bound;
}

/* ---- rows ---- */

/*
 * Counts the waiting rows from index `from` as offered, and adds the near ones to `nearest`.  A
 * row of several values may come with several lists; the set `noted` makes the row count once.
 */
static void
note_offered(GrnSearch *s, size_t from)
{
	size_t		count = s->closed.rows.n - from;
	float		before = s->groups.nnearest < s->p.nearest ? INFINITY : s->groups.nearest[0];
	uint32_t	near[BLOCK];
	uint32_t	n = 0;

	for (size_t i = 0; i < count; i += BLOCK)
	{
		const float *estimates = s->closed.rows.estimates + from + i;
		uint32_t	found = grn_dist->at_most(estimates, (uint32_t) (count - i < BLOCK ? count - i : BLOCK),
											  before, near);

		for (uint32_t j = 0; j < found; j++)
			if ((s->groups.nnearest < s->p.nearest || estimates[near[j]] < s->groups.nearest[0]) &&
				grn_set_add(s, &s->groups.noted, s->closed.rows.ids[from + i + near[j]]))
			{
				keep_least(s->groups.nearest, s->p.nearest, s->groups.nnearest, estimates[near[j]]);
				s->groups.nnearest += s->groups.nnearest < s->p.nearest;
				n++;
			}
	}
	s->groups.idle = n > 0 ? 0 : s->groups.idle + count;
}

/* Adds rows to the waiting rows.  The array must have room. */
static void
add_listed(GrnSearch *s, const uint32_t *ids, const uint8_t *codes, const GrnFactor *factors,
		   uint32_t count)
{
	size_t		from = s->closed.rows.n;

	add_waiting(s, &s->closed.rows, ids, codes, factors, count);
	if (s->groups.nearest != NULL)
		note_offered(s, from);
	/* rows within the bound of the last choice belong into its heap */
	for (size_t i = s->closed.rows.n; s->rejected.resumed && i > from; i--)
		if (s->closed.rows.estimates[i - 1] <= s->closed.bound)
			heap_add(s, &s->rejected.heap, remove_waiting(&s->closed.rows, i - 1));
}

void
grn_end_listed(GrnSearch *s)
{
	if (s->closed.ngathered == 0)
		return;
	reserve_waiting(s, &s->closed.rows, s->closed.rows.n + s->closed.ngathered);
	add_listed(s, s->closed.ids, s->closed.codes, s->closed.factors, s->closed.ngathered);
	s->closed.ngathered = 0;
}

void
grn_search_listed(GrnSearch *s, const uint32_t *ids, const uint8_t *codes,
				  const GrnFactor *factors, const bool *wanted, uint32_t count)
{
	size_t		bytes = s->p.layout->code_bytes;
	size_t		room = s->closed.rows.room;
	uint32_t	whole = wanted == NULL ? count - count % GRN_GATHER : 0;

	if (s->closed.rows.n + count + GRN_GATHER > room)
	{
		if (s->truncated || grn_exceeds_memory(s, room * sizeof(Key)))
		{
			s->truncated = true;
			return;
		}
		reserve_waiting(s, &s->closed.rows, 2 * room + count + GRN_GATHER);
	}
	if (whole > 0)
		add_listed(s, ids, codes, factors, whole);
	/* estimate the remaining rows in batches of GRN_GATHER, together with rows of other records */
	for (uint32_t i = whole; i < count; i++)
	{
		if (wanted != NULL && !wanted[i])
			continue;
		if (s->closed.ngathered == GRN_GATHER)
			grn_end_listed(s);
		s->closed.ids[s->closed.ngathered] = ids[i];
		s->closed.factors[s->closed.ngathered] = factors[i];
		memcpy(s->closed.codes + s->closed.ngathered++ * bytes, codes + i * bytes, bytes);
	}
}

void
grn_choose_waiting(GrnSearch *s, Keys *heap)
{
	s->closed.bound = take_nearest(s, &s->closed.rows, s->list.room, heap);
}

/* ---- groups ---- */

/* Number of groups sorted at once: about as many as a search reads. */
#define CHOSEN_GROUPS 128

void
grn_search_groups(GrnSearch *s, const uint32_t *ids, const uint8_t *codes, const GrnFactor *factors,
				  uint32_t count)
{
	/* searches without groups need no record of the nearest rows */
	if (s->groups.nearest == NULL && s->p.nearest > 0)
	{
		s->groups.nearest = s->store->alloc(s->store, s->p.nearest * sizeof(float));
		grn_set_resize(s, &s->groups.noted, GRN_LEAST_SLOTS);
		grn_end_listed(s);
		note_offered(s, 0);
	}
	if (s->groups.middles.n + count > s->groups.middles.room)
		reserve_waiting(s, &s->groups.middles, 2 * s->groups.middles.room + count);
	add_waiting(s, &s->groups.middles, ids, codes, factors, count);
}

uint32_t
grn_search_next_group(GrnSearch *s)
{
	Groups	   *g = &s->groups;

	if (g->near.room == 0)
		g->idle = 0;
	if (g->near.n == 0)
		take_nearest(s, &g->middles, CHOSEN_GROUPS, &g->near);
	return g->near.n > 0 ? KEY_ID(heap_pop(&g->near)) : GRN_INVALID_ID;
}

bool
grn_search_settled(const GrnSearch *s)
{
	return s->p.nearest > 0 && s->groups.nnearest == s->p.nearest && s->groups.idle >= s->p.patience;
}

bool
grn_search_has_groups(const GrnSearch *s)
{
	return s->groups.middles.n + s->groups.near.n > 0;
}

uint32_t
grn_search_patience(const GrnSearch *s)
{
	return s->p.patience;
}
