/*
 * absent.c - see absent.h.
 */
#include "graph/stored/absent.h"

#include <float.h>
#include <string.h>

#include "graph/kernels/dist.h"
#include "graph/space.h"
#include "graph/stored/own.h"
#include "graph/stored/prune.h"

struct GrnAbsent
{
	const GrnLayout *layout;
	const GrnMetricInfo *metric;
	double		norm_unit;
	uint32_t	id;
	GrnRecord  *node;			/* its hot part; state 0 until it has been read */
	uint32_t	reading;		/* whose place is being read; below the count of node */
	bool		known[GRN_MAX_DEGREE];
	float	   *places;			/* [degree][dim] of its neighbours, where known */
	float	   *place;			/* [dim] of the list's node */
	size_t		copy_bytes;
	uint8_t    *copies;			/* [per_page][copy_bytes], by slot; without mates [1] */
};

static void
read_place(const GrnAbsent *a, const void *vec, float *place)
{
	uint32_t	dim = a->layout->dim;

	grn_own_load(a->layout, vec, place);
	if (grn_is_scaled(a->metric->embedding))
		grn_place(place, dim, a->norm_unit, a->metric->power);
}

/* A GrnVisitFn, arg a GrnAbsent. */
static void
take_node(void *arg, const GrnRecord *rec, const void *vec)
{
	GrnAbsent  *a = arg;

	(void) vec;
	memcpy(a->node, rec, a->layout->hot_bytes);
}

/* A GrnVisitFn, arg a GrnAbsent. */
static void
take_neighbour(void *arg, const GrnRecord *rec, const void *vec)
{
	GrnAbsent  *a = arg;

	if (rec->state != GRN_NODE)
		return;
	read_place(a, vec, a->places + (size_t) a->reading * a->layout->dim);
	a->known[a->reading] = true;
}

GrnAbsent *
grn_absent_begin(GrnStore *store, const GrnLayout *l, const GrnMetricInfo *metric, double norm_unit,
				 uint32_t id)
{
	GrnAbsent  *a = store->alloc(store, sizeof(*a));
	const uint32_t *ids;

	memset(a, 0, sizeof(*a));
	a->layout = l;
	a->metric = metric;
	a->norm_unit = norm_unit;
	a->id = id;
	/* beyond the first page of a spanning record nothing but its vector lies, which no copy needs */
	a->copy_bytes = l->span > 1 ? l->hot_bytes : l->record_bytes;
	a->node = store->alloc(store, l->hot_bytes);
	a->places = store->alloc(store, (size_t) l->degree * l->dim * sizeof(float));
	a->place = store->alloc(store, l->dim * sizeof(float));
	a->copies = store->alloc(store, (grn_judges_pages(l) ? l->per_page : 1) * a->copy_bytes);
	a->node->state = GRN_FREE;
	if (!store->visit(store, id, take_node, a) || a->node->state != GRN_NODE)
	{
		grn_absent_end(store, a);
		return NULL;
	}
	ids = grn_rec_ids(l, a->node);
	for (; a->reading < a->node->count; a->reading++)
		(void) store->visit(store, ids[a->reading], take_neighbour, a);
	return a;
}

void
grn_absent_end(GrnStore *store, GrnAbsent *a)
{
	if (a == NULL)
		return;
	store->free(store, a->node);
	store->free(store, a->places);
	store->free(store, a->place);
	store->free(store, a->copies);
	store->free(store, a);
}

/* The neighbour that a node which lists the absent one would have instead; -1: there is none. */
static int
successor(GrnAbsent *a, uint32_t id, const GrnRecord *rec, const void *vec)
{
	const GrnLayout *l = a->layout;
	const uint32_t *candidates = grn_rec_ids(l, a->node);
	const uint32_t *ids = grn_rec_ids(l, rec);
	float		least = FLT_MAX;
	int			best = -1;

	read_place(a, vec, a->place);
	for (uint32_t i = 0; i < a->node->count; i++)
	{
		float		d;

		if (!a->known[i] || candidates[i] == id || grn_find_id(ids, rec->count, candidates[i]) >= 0)
			continue;
		d = grn_dist->l2_f32(a->place, a->places + (size_t) i * l->dim, l->dim);
		if (d < least)
		{
			least = d;
			best = (int) i;
		}
	}
	return best;
}

const GrnRecord *
grn_absent_view(GrnAbsent *a, uint32_t id, const GrnRecord *rec, const void *vec)
{
	const GrnLayout *l;
	uint8_t    *copy;
	int			at;
	int			from;

	if (a == NULL)
		return rec;
	if (id == a->id)
		return NULL;
	l = a->layout;
	/* (a mate has not been checked yet) */
	if (rec->state != GRN_NODE || rec->count > l->degree ||
		(at = grn_find_id(grn_rec_ids(l, rec), rec->count, a->id)) < 0 ||
		(from = successor(a, id, rec, vec)) < 0)
		return rec;
	copy = a->copies + (grn_judges_pages(l) ? grn_node_slot(l, id) * a->copy_bytes : 0);
	memcpy(copy, rec, a->copy_bytes);
	grn_rec_ids(l, copy)[at] = grn_rec_ids(l, a->node)[from];
	grn_rec_set_factor(l, copy, (uint32_t) at, grn_rec_factor(l, a->node, (uint32_t) from));
	memcpy(grn_rec_codes(l, copy) + (size_t) at * l->code_bytes,
		   grn_rec_codes(l, a->node) + (size_t) from * l->code_bytes, l->code_bytes);
	memcpy(grn_rec_sigs(l, copy) + (size_t) at * l->sig_bytes,
		   grn_rec_sigs(l, a->node) + (size_t) from * l->sig_bytes, l->sig_bytes);
	return (const GrnRecord *) copy;
}
