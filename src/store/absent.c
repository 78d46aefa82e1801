/*
 * absent.c - see search.h.  Distances are estimates: the neighbors' lists hold the codes of all
 * candidates, so only the neighbors must be read.
 */
#include "store/search.h"

#include <float.h>
#include <string.h>

#include "store/codec.h"
#include "store/prune.h"

/* Maximum number of candidates (lists of 32 have about 700), and the slots of their hash table. */
#define MOST_CANDIDATES 1024
#define PLACE_BITS 12
#define PLACES (1 << PLACE_BITS)
/*
 * Number of nearest candidates that are tried against the rule for one list.  VACUUM of 6,000
 * sentences takes as long with half and twice.
 */
#define MOST_TRIED 8
/*
 * Number of lists with a remembered replacement.  Searches of different widths reach the same
 * lists.  VACUUM of 6,000 sentences takes .26 s, with half .30, with twice .26.
 */
#define REMEMBERED 256

typedef struct Replacement
{
	uint32_t	list;			/* id of the list's node; GRN_INVALID_ID: none */
	int			candidate;
} Replacement;

struct GrnAbsent
{
	const GrnLayout *layout;
	const GrnCodec *codec;		/* NULL: lists stay unchanged */
	uint32_t	id;
	uint32_t	n;				/* number of candidates */
	uint32_t	ids[MOST_CANDIDATES];
	GrnFactor	factors[MOST_CANDIDATES];
	float		far[MOST_CANDIDATES];	/* distance from the node of the current list */
	uint16_t	places[PLACES]; /* hash table by id: a candidate's index + 1; 0: free */
	Replacement remembered[REMEMBERED]; /* slots by id */
	uint8_t    *codes;			/* [MOST_CANDIDATES][code_bytes] */
	uint8_t    *sigs;			/* [MOST_CANDIDATES][sig_bytes] */
	size_t		copy_bytes;
	uint8_t    *copy;			/* [copy_bytes] */
	bool		found;			/* the absent node exists */
};

/* The slot of a candidate in the hash table, or a free slot. */
static uint32_t
place_of(const GrnAbsent *a, uint32_t id)
{
	uint32_t	place = (id * 0x9E3779B9u) >> (32 - PLACE_BITS);

	while (a->places[place] != 0 && a->ids[a->places[place] - 1] != id)
		place = (place + 1) % PLACES;
	return place;
}

/* A GrnVisitFn with a GrnAbsent as arg: adds the neighbors of a node to the candidates. */
static void
take_list(void *arg, const GrnRecord *rec, const void *vec)
{
	GrnAbsent  *a = arg;
	const GrnLayout *l = a->layout;
	const uint32_t *ids = grn_rec_ids(l, rec);

	(void) vec;
	if (rec->state != GRN_NODE)
		return;
	a->found = true;
	for (uint32_t i = 0; i < rec->count && a->codec != NULL; i++)
	{
		uint32_t	place = place_of(a, ids[i]);

		if (a->n == MOST_CANDIDATES)
			break;
		if (ids[i] == a->id || a->places[place] != 0)
			continue;
		a->ids[a->n] = ids[i];
		a->factors[a->n] = grn_rec_factor(l, rec, i);
		memcpy(a->codes + (size_t) a->n * l->code_bytes,
			   grn_rec_codes(l, rec) + (size_t) i * l->code_bytes, l->code_bytes);
		memcpy(a->sigs + (size_t) a->n * l->sig_bytes,
			   grn_rec_sigs(l, rec) + (size_t) i * l->sig_bytes, l->sig_bytes);
		a->places[place] = (uint16_t) ++a->n;
	}
}

GrnAbsent *
grn_absent_begin(GrnStore *store, const GrnLayout *l, const GrnCodec *codec, uint32_t id)
{
	GrnAbsent  *a = store->alloc(store, sizeof(*a));
	uint32_t	count;			/* number of the node's neighbors, the first candidates */

	memset(a, 0, sizeof(*a));
	a->layout = l;
	a->codec = l->code_bytes > 0 && grn_has_codes(codec) ? codec : NULL;
	a->id = id;
	/* the later pages of a spanning record have only vector bytes, and a copy needs none */
	a->copy_bytes = l->span > 1 ? l->hot_bytes : l->record_bytes;
	a->codes = store->alloc(store, (size_t) MOST_CANDIDATES * l->code_bytes);
	a->sigs = store->alloc(store, (size_t) MOST_CANDIDATES * l->sig_bytes);
	a->copy = store->alloc(store, a->copy_bytes);
	for (uint32_t i = 0; i < REMEMBERED; i++)
		a->remembered[i].list = GRN_INVALID_ID;
	if (!store->visit(store, id, take_list, a) || !a->found)
	{
		grn_absent_end(store, a);
		return NULL;
	}
	count = a->n;
	for (uint32_t i = 0; i < count; i++)
		(void) store->visit(store, a->ids[i], take_list, a);
	return a;
}

void
grn_absent_end(GrnStore *store, GrnAbsent *a)
{
	if (a == NULL)
		return;
	store->free(store, a->codes);
	store->free(store, a->sigs);
	store->free(store, a->copy);
	store->free(store, a);
}

/* Does the list without position `at` keep c out?  to_list [count]: distances from its node. */
static bool
is_occluded(const GrnAbsent *a, const GrnRecord *rec, const float *to_list, int at, uint32_t c)
{
	const GrnLayout *l = a->layout;
	float		between[GRN_MAX_DEGREE];
	GrnCodeQuery query;

	grn_code_query_from_code(a->codec, a->codes + (size_t) c * l->code_bytes, a->factors[c], &query);
	grn_estimate(&query, grn_rec_codes(l, rec), grn_rec_factors(l, rec), rec->count, between);
	for (uint32_t i = 0; i < rec->count; i++)
		if ((int) i != at && to_list[i] <= a->far[c] && between[i] < a->far[c])
			return true;
	return false;
}

/*
 * The candidate that replaces the absent node at position `at` in the list of node id: the nearest
 * accepted candidate, else the nearest candidate; -1 without candidates.
 */
static int
successor(GrnAbsent *a, uint32_t id, const GrnRecord *rec, int at)
{
	const GrnLayout *l = a->layout;
	const uint32_t *ids = grn_rec_ids(l, rec);
	float		to_list[GRN_MAX_DEGREE];
	GrnCodeQuery query;
	uint16_t	known;
	int			fill = -1;

	grn_code_query_from_code(a->codec, GRN_REC_PTR(rec, l->off_code), rec->factor, &query);
	grn_estimate(&query, a->codes, a->factors, a->n, a->far);
	grn_estimate(&query, grn_rec_codes(l, rec), grn_rec_factors(l, rec), rec->count, to_list);
	for (uint32_t i = 0; i < rec->count; i++)
		if ((known = a->places[place_of(a, ids[i])]) != 0)
			a->far[known - 1] = FLT_MAX;
	if ((known = a->places[place_of(a, id)]) != 0)
		a->far[known - 1] = FLT_MAX;
	for (int tried = 0; tried < MOST_TRIED; tried++)
	{
		uint32_t	nearest = 0;

		for (uint32_t c = 1; c < a->n; c++)
			if (a->far[c] < a->far[nearest])
				nearest = c;
		if (a->n == 0 || a->far[nearest] == FLT_MAX)
			break;
		if (!is_occluded(a, rec, to_list, at, nearest))
			return (int) nearest;
		if (fill < 0)
			fill = (int) nearest;
		a->far[nearest] = FLT_MAX;
	}
	return fill;
}

const GrnRecord *
grn_absent_view(GrnAbsent *a, uint32_t id, const GrnRecord *rec)
{
	const GrnLayout *l;
	Replacement *known;
	int			at;
	uint32_t	c;

	if (a == NULL)
		return rec;
	if (id == a->id)
		return NULL;
	l = a->layout;
	if (a->codec == NULL || rec->state != GRN_NODE ||
		(at = grn_find_id(grn_rec_ids(l, rec), rec->count, a->id)) < 0)
		return rec;
	known = &a->remembered[id % REMEMBERED];
	if (known->list != id)
	{
		known->list = id;
		known->candidate = successor(a, id, rec, at);
	}
	if (known->candidate < 0)
		return rec;
	c = (uint32_t) known->candidate;
	memcpy(a->copy, rec, a->copy_bytes);
	grn_rec_ids(l, a->copy)[at] = a->ids[c];
	grn_rec_set_factor(l, a->copy, (uint32_t) at, a->factors[c]);
	memcpy(grn_rec_codes(l, a->copy) + (size_t) at * l->code_bytes,
		   a->codes + (size_t) c * l->code_bytes, l->code_bytes);
	memcpy(grn_rec_sigs(l, a->copy) + (size_t) at * l->sig_bytes,
		   a->sigs + (size_t) c * l->sig_bytes, l->sig_bytes);
	return (const GrnRecord *) a->copy;
}
