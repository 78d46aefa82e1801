/*
 * search_visit.c - the query of a search, and visits: copies a record while the store holds it.
 */
#include "store/search_impl.h"

#include <math.h>

#include "store/record.h"

#define CACHE_LINE 64

/* ---- the query ---- */

/*
 * By inner product the error of an estimate is in proportion to the row's length.  Rows that are
 * far longer than others would be missed whenever their estimates are too low.  So a row counts
 * with the inner product that is DOUBT standard deviations above its estimate: the longer the row,
 * the earlier its visit.  Rows of equal length keep their order.  With 0, 1, 2 and 3 recall at ef
 * 40 is .979, .995, 1.000 and 1.000 (Pareto lengths), .928, .944, .945 and .946 (log-normal
 * lengths), .784, .798, .794 and .793 (Gaussian rows).
 */
#define DOUBT 2

void
grn_query_begin(GrnSearch *s, const float *q)
{
	const GrnSearchParams *p = &s->p;
	const GrnLayout *l = p->layout;
	const GrnCodec *codec = p->codec;
	Query	   *to = &s->query;
	bool		sparse = grn_form(l->form)->sparse;
	size_t		bytes;

	to->q = q;
	to->comparison = p->by_row && !sparse ? GRN_BETWEEN_PLACES : p->metric->comparison;
	/* the form of stored vectors may have a preparation of queries */
	bytes = grn_query_bytes(to->comparison, l->form, l->dim);
	if (bytes > 0)
	{
		to->packed = s->store->alloc(s->store, bytes);
		if (!grn_own_query(l, q, to->packed))
		{
			s->store->free(s->store, to->packed);
			to->packed = NULL;
		}
	}
	if (s->codes)
	{
		float		scratch[GRN_MAX_CODE_DIMS];

		if (p->by_row)
			grn_code_query_row(codec, q, &to->code, scratch);
		else
			grn_code_query(codec, q, &to->code, scratch);
		/* by inner product, base counts once for each unit of a row's length */
		if (to->code.what == GRN_ESTIMATE_IP)
			to->code.base += DOUBT * codec->error * (float) sqrt(grn_norm2(q, l->dim));
	}
	if (p->by_row && grn_is_scaled(p->metric->embedding) && !sparse)
	{
		to->work = s->store->alloc(s->store, 2 * (size_t) l->dim * sizeof(float));
		memset(to->work, 0, l->dim * sizeof(float));
		to->scale = grn_scale(grn_norm2(q, l->dim), codec->norm_unit, codec->power);
	}
}

/*
 * Squared distance of the query's place and the place of a row in a rotated form with a rounding
 * error.  The computation works on the rotated row, because rotating the row back takes far
 * longer.
 */
static float
placed_distance(const GrnSearch *s, const void *vec, float error)
{
	const GrnLayout *l = s->p.layout;
	double		norm2 = grn_own_norm2(l, vec) - (double) error * error;
	GrnScale	row = grn_scale(norm2 > 0 ? norm2 : 0, s->p.codec->norm_unit,
								s->p.codec->power);
	float		ip = -grn_query_compare(s->p.metric->comparison, l->form, s->query.packed, vec, l->dim);
	float		l2 = s->query.scale.norm2 + row.norm2 - 2 * s->query.scale.scale * (row.scale * ip);

	return l2 > 0 ? l2 : 0;
}

float
grn_stored_distance(const GrnSearch *s, const void *vec, float error)
{
	const GrnLayout *l = s->p.layout;

	if (s->query.work != NULL && grn_form(l->form)->rotated)
		return placed_distance(s, vec, error);
	if (s->query.work != NULL && s->query.packed != NULL)
	{
		/* Counts of ones compare bits: an insert of 1,024 bits takes .86 ms, as numbers 3.84 ms. */
		float		norm2 = grn_form_apart(l->form, vec, 1, vec, 0, l->dim);
		GrnScale	row = grn_scale(norm2, s->p.codec->norm_unit, s->p.codec->power);

		return grn_form_apart(l->form, s->query.packed, s->query.scale.scale, vec, row.scale, l->dim);
	}
	if (s->query.work != NULL)
	{
		/* |a q - b x| is b |(a / b) q - x|, which the form's kernels compute of the stored row. */
		const float *origin = s->query.work;
		float	   *scaled = s->query.work + l->dim;
		GrnScale	row = grn_scale(grn_form_l2(l->form, origin, vec, l->dim), s->p.codec->norm_unit,
									s->p.codec->power);

		if (row.scale == 0)
			return s->query.scale.norm2;
		memset(scaled, 0, l->dim * sizeof(float));
		grn_dist->add_scaled(scaled, s->query.scale.scale / row.scale, s->query.q, l->dim);
		return row.scale * (row.scale * grn_form_l2(l->form, scaled, vec, l->dim));
	}
	if (s->query.packed != NULL)
		return grn_query_compare(s->query.comparison, l->form, s->query.packed, vec, l->dim);
	return grn_compare(s->query.comparison, l->form, s->query.q, vec, l->dim);
}

/* ---- visits ---- */

/*
 * Copies a record except its edges while the store holds the record.  The arrays must have room.
 */
static void
take_record(GrnSearch *s, const GrnRecord *rec, const void *vec)
{
	const GrnLayout *l = s->p.layout;
	GrnFound   *now = &s->visit.now;
	Copies	   *c = &s->copies;

	now->error = rec->error;
	now->version = rec->version;
	now->state = rec->state;
	now->ntids = rec->ntids;
	now->next = rec->next;
	now->tids = (uint32_t) c->ntids;
	now->kept = (uint32_t) c->nvectors;
	if (s->p.filter != NULL)
		grn_filter_record(s, rec);
	else
		memcpy(c->tids + c->ntids * GRN_TID_BYTES, GRN_REC_PTR(rec, l->off_tids),
			   now->ntids * GRN_TID_BYTES);
	c->ntids += now->ntids;
	/* with codes, results use no distance of a row that fails */
	if (s->p.filter == NULL || !s->codes || has_rows(now))
		now->distance = grn_stored_distance(s, vec, rec->error);

	now->norm2 = s->p.norms ? grn_own_norm2(l, vec) : 0;

	if (s->p.keep_vectors)
	{
		uint8_t    *to = c->vectors + kept_bytes(s) * c->nvectors++;
		uint32_t   *list = (uint32_t *) (to + kept_list_at(s));

		memcpy(to, vec, l->vec_bytes);
		memcpy(to + l->vec_bytes, &rec->factor, sizeof(GrnFactor));
		memcpy(to + l->vec_bytes + sizeof(GrnFactor),
			   GRN_REC_PTR(rec, l->off_code), l->code_bytes);
		memcpy(to + l->vec_bytes + sizeof(GrnFactor) + l->code_bytes,
			   GRN_REC_PTR(rec, l->off_sig), l->sig_bytes);
		*list = rec->count;
		memcpy(list + 1, grn_rec_ids(l, rec), rec->count * sizeof(uint32_t));
	}
}

/* The callback of a visit.  The store holds the record, so the function only copies. */
static void
on_visit(void *arg, const GrnRecord *rec, const void *vec)
{
	GrnSearch  *s = arg;
	const GrnLayout *l = s->p.layout;
	bool		closed = s->p.closed;

	/* The record is probably not in the cache: prefetch all parts before reading one. */
	for (uint32_t at = 0; at < (closed ? l->off_ids : l->hot_bytes); at += CACHE_LINE)
		__builtin_prefetch(GRN_REC_PTR(rec, at));
	for (uint32_t at = 0; at < l->vec_bytes && (closed || s->p.filter == NULL); at += CACHE_LINE)
		__builtin_prefetch((const uint8_t *) vec + at);

	s->visit.count = closed ? 0 : rec->count;
	memcpy(s->visit.neighbors, grn_rec_ids(l, rec), s->visit.count * sizeof(uint32_t));
	if (s->codes && !closed)
		grn_estimate(&s->query.code, grn_rec_codes(l, rec), grn_rec_factors(l, rec),
					 rec->count, s->visit.estimates);
	/* the own vector, behind the codes, arrives last */
	take_record(s, rec, vec);
}

bool
grn_visit(GrnSearch *s, uint32_t id)
{
	Copies	   *c = &s->copies;
	bool		visited;

	/* on_visit() must not allocate, because the store holds a lock. */
	reserve(s, &c->tids, GRN_TID_BYTES, c->ntids, c->ntids + UINT8_MAX, &c->tids_room);
	if (s->p.keep_vectors)
		reserve(s, &c->vectors, kept_bytes(s), c->nvectors, c->nvectors + 1, &c->vectors_room);
	s->visit.now.id = id;
	s->visits++;
	visited = s->store->visit(s->store, id, on_visit, s);
	s->wasted += !visited || s->visit.now.state != GRN_NODE;
	return visited;
}

void
grn_forget_visit(GrnSearch *s)
{
	s->copies.ntids = s->visit.now.tids;
	s->copies.nvectors = s->visit.now.kept;
}

const uint8_t *
grn_search_tids(const GrnSearch *s)
{
	return s->copies.tids;
}

const void *
grn_search_vector(const GrnSearch *s, uint32_t found_index)
{
	return s->copies.vectors + kept_bytes(s) * s->results.found[found_index].kept;
}

const uint8_t *
grn_search_code(const GrnSearch *s, uint32_t found_index, GrnFactor *factor)
{
	const uint8_t *at = (const uint8_t *) grn_search_vector(s, found_index) +
		s->p.layout->vec_bytes;

	memcpy(factor, at, sizeof(GrnFactor));
	return at + sizeof(GrnFactor);
}

const uint32_t *
grn_search_list(const GrnSearch *s, uint32_t found_index, uint32_t *count)
{
	const uint32_t *list = (const uint32_t *) ((const uint8_t *) grn_search_vector(s, found_index) +
											   kept_list_at(s));

	*count = *list;
	return list + 1;
}

/* ---- reading without a search ---- */

typedef struct Reading
{
	const GrnLayout *layout;
	GrnRecord  *rec;
	size_t		bytes;
	float	   *x;
} Reading;

static void
copy_record(void *arg, const GrnRecord *rec, const void *vec)
{
	const Reading *r = arg;

	memcpy(r->rec, rec, r->bytes);
	if (r->x != NULL)
		grn_own_load(r->layout, vec, r->x);
}

bool
grn_read_record(GrnStore *store, const GrnLayout *l, uint32_t id, GrnRecord *rec, size_t bytes, float *x)
{
	Reading		r = {l, rec, bytes, x};

	return store->visit(store, id, copy_record, &r);
}
