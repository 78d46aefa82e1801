/*
 * search_visit.c - visits of a search: copies a record while the store holds it, and prefetches
 * records of coming candidates.
 */
#include "graph/stored/search_impl.h"

#include "graph/stored/own.h"

#define CACHE_LINE 64

/*
 * Number of candidates at the front of the list to prefetch, while records are in memory.  On SIFT
 * a window of 8 prefetches 2.2 times the records that get visited, 4 prefetches 1.4 times and 2
 * prefetches 1.1 times.
 */
#define PREFETCH_WINDOW 4

/*
 * The prefetch window while visits wait for a disk.  On its way to the query a search finds nearer
 * candidates at each visit, so most prefetched records are not visited.  Near the query most
 * candidates on the list are visited.  The window therefore starts narrow, grows by WIDEN for each
 * prefetched candidate that reaches the front of the list, and halves for each front candidate
 * that was not prefetched.  A search then takes 55 reads in 3.4 ms.  Without prefetching it takes
 * 51 reads in 8.0 ms, and with a fixed window of 16 it takes 100 reads in 2.8 ms
 * (test/bench/decisions.md).
 */
#define LEAST_WINDOW 2
#define WIDEN 2
/*
 * The largest window behind the first ef candidates: test_search prefetches 2.0 records a visit,
 * 1.9 with 4 and 2.2 without this limit.
 */
#define LAST_WINDOW 8

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
								s->p.metric->power);
	float		ip = -grn_query_compare(s->p.metric->comparison, l->form, s->packed, vec, l->dim);
	float		l2 = s->q_scale.norm2 + row.norm2 - 2 * s->q_scale.scale * (row.scale * ip);

	return l2 > 0 ? l2 : 0;
}

/*
 * The exact distance of the query to a stored vector.  error: the stored vector's rounding error.
 */
static float
stored_distance(const GrnSearch *s, const void *vec, float error)
{
	const GrnLayout *l = s->p.layout;

	if (s->place != NULL && grn_form(l->form)->rotated)
		return placed_distance(s, vec, error);
	if (s->place != NULL)
	{
		float	   *row = s->place + l->dim;

		grn_own_load(l, vec, row);
		grn_place(row, l->dim, s->p.codec->norm_unit,
				  s->p.metric->power);
		return grn_dist->l2_f32(s->place, row, l->dim);
	}
	if (s->packed != NULL)
		return grn_query_compare(s->comparison, l->form, s->packed, vec, l->dim);
	return grn_compare(s->comparison, l->form, s->q, vec, l->dim);
}

/*
 * Copies a record except its edges into s->now while the store holds the record.  The arrays must
 * have room.
 */
static void
take_record(GrnSearch *s, uint32_t id, const GrnRecord *rec, const void *vec)
{
	const GrnLayout *l = s->p.layout;

	s->now.error = rec->error;
	s->now.id = id;
	s->now.version = rec->version;
	s->now.state = rec->state;
	s->now.ntids = rec->ntids;
	s->now.next = rec->next;
	s->now.tids = (uint32_t) s->ntids;
	if (s->p.skip_killed && (rec->flags & GRN_KILLED) != 0)
		s->now.ntids = 0;
	if (s->p.filter != NULL)
		grn_filter_record(s, rec);
	else
		memcpy(s->tids + s->ntids * GRN_TID_BYTES, GRN_REC_PTR(rec, l->off_tids),
			   s->now.ntids * GRN_TID_BYTES);
	s->ntids += s->now.ntids;
	/* with codes, results use no distance of a row that fails */
	if (s->p.filter == NULL || !s->codes || has_rows(&s->now))
		s->now.distance = stored_distance(s, vec, rec->error);

	if (s->p.keep_vectors)
	{
		uint8_t    *to = s->vectors + kept_bytes(s) * s->nkept;
		uint32_t   *list = (uint32_t *) (to + kept_list_at(s));

		memcpy(to, vec, l->vec_bytes);
		memcpy(to + l->vec_bytes, &rec->factor, sizeof(GrnFactor));
		memcpy(to + l->vec_bytes + sizeof(GrnFactor),
			   GRN_REC_PTR(rec, l->off_code), l->code_bytes);
		memcpy(to + l->vec_bytes + sizeof(GrnFactor) + l->code_bytes,
			   GRN_REC_PTR(rec, l->off_sig), l->sig_bytes);
		*list = rec->count;
		memcpy(list + 1, grn_rec_ids(l, rec), rec->count * sizeof(uint32_t));
		s->now_kept = s->nkept++;
	}
}

/* The callback of a visit.  The store holds the record, so the function only copies. */
static void
on_visit(void *arg, const GrnRecord *rec, const void *vec)
{
	GrnSearch  *s = arg;
	const GrnLayout *l = s->p.layout;
	bool		closed = s->codes && s->p.closed;

	/* The record is probably not in the cache: prefetch all parts before reading one. */
	for (uint32_t at = 0; at < (closed ? l->off_ids : l->hot_bytes); at += CACHE_LINE)
		__builtin_prefetch(GRN_REC_PTR(rec, at));
	for (uint32_t at = 0; at < l->vec_bytes && (closed || s->p.filter == NULL); at += CACHE_LINE)
		__builtin_prefetch((const uint8_t *) vec + at);

	s->count = closed ? 0 : rec->count;
	take_record(s, s->id, rec, vec);
	if (closed)
		return;
	memcpy(s->neighbors, grn_rec_ids(l, rec), rec->count * sizeof(uint32_t));
	if (s->codes)
		grn_estimate(&s->code_query, grn_rec_codes(l, rec), grn_rec_factors(l, rec),
					 rec->count, s->estimates);
}

bool
grn_visit(GrnSearch *s, uint32_t id)
{
	bool		visited;

	/* on_visit() must not allocate, because the store holds a lock. */
	reserve(s, &s->tids, GRN_TID_BYTES, s->ntids, s->ntids + UINT8_MAX, &s->tids_room);
	if (s->p.keep_vectors)
		reserve32(s, &s->vectors, kept_bytes(s), s->nkept, s->nkept + 1, &s->kept_room);
	s->id = id;
	s->visits++;
	s->tids_before = s->ntids;
	s->kept_before = s->nkept;
	visited = s->store->visit(s->store, id, on_visit, s);
	s->wasted += !visited || s->now.state != GRN_NODE;
	return visited;
}

void
grn_forget_visit(GrnSearch *s)
{
	s->ntids = s->tids_before;
	s->nkept = s->kept_before;
}

/* Adapts the window. prefetched: the candidate at the front of the list was prefetched. */
static void
set_window(GrnSearch *s, bool prefetched)
{
	s->window = prefetched ? s->window + WIDEN : s->window / 2;
	if (s->window < LEAST_WINDOW)
		s->window = LEAST_WINDOW;
	if (s->window > s->store->ahead)
		s->window = s->store->ahead;
}

void
grn_prefetch_ahead(GrnSearch *s)
{
	uint32_t	ids[GRN_MAX_AHEAD];
	uint32_t	window = PREFETCH_WINDOW;
	bool		disk = s->store->ahead > 0;
	uint32_t	n = 0;
	uint32_t	seen = 0;

	if (disk != s->prefetched_disk)
	{
		memset(s->prefetched, 0xFF, sizeof(s->prefetched));
		s->prefetched_disk = disk;
		s->window = 0;
	}
	for (uint32_t i = s->cursor; i < s->listed && seen < window; i++)
	{
		uint32_t	id = KEY_ID(s->list[i]);
		uint32_t   *prefetched = &s->prefetched[id & (PREFETCH_MEMORY - 1)];

		if (s->list[i] & KEY_EXPANDED)
			continue;
		/* candidates behind the first ef get a visit only if results turn out to be farther */
		if (s->farthest != NULL && i >= s->first &&
			(s->nfound < s->p.ef_exact || seen >= LAST_WINDOW || is_beyond(s, s->list[i])))
			break;
		if (disk && seen == 0)
		{
			set_window(s, *prefetched == id);
			window = s->window;
		}
		seen++;
		if (*prefetched == id)
			continue;
		*prefetched = id;
		ids[n++] = id;
	}
	if (n > 0)
		s->store->prefetch(s->store, ids, n);
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
