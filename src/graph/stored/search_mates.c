/*
 * search_mates.c - whole pages: while the store holds a page for one record, a search takes what
 * the others on it have to say as well, its mates.
 *
 * That costs the time of several visits and saves a fifth to half of the pages.  So it pays while
 * visits wait for a disk, and where what is found matters more than the time, as for the edges of
 * a new node: the store says when.
 *
 * Near records share pages, so those near the query often lie together.  A mate is judged by its
 * own code, which is the same bytes in every edge to it, so its key is the one that edges give
 * it.  Mates that come onto the list are expanded at once.  The edges of the others are offered,
 * too, once for each page: so a page shows all the neighbours of all its records, and few edges a
 * record do.
 *
 * A mate that does not come onto the list is no result of this run.  It is rejected as any
 * candidate is, and a further run may visit it.
 */
#include "graph/stored/search_impl.h"

#include <math.h>

#define MOST_MATES 64
/* Pages whose edges have been offered are in the set of ids, with this bit. */
#define PAGE_BIT UINT32_C(0x80000000)

struct GrnMates
{
	bool		fresh;			/* the page that is visited has not been taken before */
	uint32_t	nedges;			/* of mates */
	uint32_t	ntaken_edges;	/* the first of them: of those that come onto the list */
	uint32_t   *neighbours;		/* [per_page * degree] */
	float	   *distances;		/* estimates */
	GrnFactor  *factors;
	uint8_t    *codes;			/* with room for those of per_page records */
	uint32_t	ntaken;
	Key			keys[MOST_MATES];	/* of mates that come onto the list */
	GrnFound	taken[MOST_MATES];
	uint32_t	kept[MOST_MATES];
	uint32_t	nleft;
	Key			left[MOST_MATES];	/* of those that do not */
	/* all that are judged */
	const GrnRecord *recs[MOST_MATES];
	uint32_t	ids[MOST_MATES];
	float		estimates[MOST_MATES];
	bool		near[MOST_MATES];
};

/* Room for mates, unless this search takes none. */
static void
begin_mates(GrnSearch *s)
{
	const GrnLayout *l = s->p.layout;
	uint32_t	n;
	GrnMates   *m;

	/* (they come without signatures) */
	if (s->store->mate == NULL || !s->codes || s->p.filter != NULL || s->p.closed ||
		l->per_page < 2 || l->per_page > MOST_MATES)
		return;
	m = s->mates = s->store->alloc(s->store, sizeof(GrnMates));
	m->ntaken = m->nleft = m->nedges = m->ntaken_edges = 0;
	n = l->per_page * (l->degree > 0 ? l->degree : 1);
	m->neighbours = s->store->alloc(s->store, n * sizeof(uint32_t));
	m->distances = s->store->alloc(s->store, n * sizeof(float));
	m->factors = s->store->alloc(s->store, n * sizeof(GrnFactor));
	m->codes = s->store->alloc(s->store, (size_t) n * l->code_bytes);
}

void
grn_mates_end(GrnSearch *s)
{
	if (s->mates == NULL)
		return;
	s->store->free(s->store, s->mates->neighbours);
	s->store->free(s->store, s->mates->distances);
	s->store->free(s->store, s->mates->factors);
	s->store->free(s->store, s->mates->codes);
	s->store->free(s->store, s->mates);
}

void
grn_mates_ready(GrnSearch *s)
{
	const GrnLayout *l = s->p.layout;
	uint32_t	more = l->per_page - 1;

	if (s->mates == NULL)
		begin_mates(s);
	if (s->mates == NULL)
		return;
	grn_forget_mates(s);
	reserve(s, &s->tids, GRN_TID_BYTES, s->ntids,
			s->ntids + UINT8_MAX + (size_t) more * l->tids_max, &s->tids_room);
	if (s->p.keep_vectors)
		reserve32(s, &s->vectors, kept_bytes(s), s->nkept, s->nkept + 1 + more, &s->kept_room);
}

/* Adds a mate's edges, without estimates. */
static void
take_edges(GrnSearch *s, const GrnRecord *rec)
{
	const GrnLayout *l = s->p.layout;
	GrnMates   *m = s->mates;
	uint32_t	at = m->nedges;

	memcpy(m->neighbours + at, grn_rec_ids(l, rec), rec->count * sizeof(uint32_t));
	if (l->factor_bytes > 0)
		memcpy(m->factors + at, grn_rec_factors(l, rec), rec->count * sizeof(GrnFactor));
	memcpy(m->codes + (size_t) at * l->code_bytes, grn_rec_codes(l, rec), rec->count * l->code_bytes);
	m->nedges += rec->count;
}

/*
 * How far a mate may be for its edges to be worth their estimates: as far behind the list's end
 * as that is from its beginning.  Of 40,000 sentences (layout compact) edges of all mates make
 * recall .961 instead of .958 at ef 100, in a fifth more time; half as far, .952.
 */
static float
edges_reach(const GrnSearch *s)
{
	float		nearest;
	float		farthest;

	if (s->listed < s->p.ef)
		return INFINITY;
	nearest = key_distance(s->list[0]);
	farthest = key_distance(s->list[s->listed - 1]);
	return farthest + (farthest - nearest);
}

void
grn_take_mates(GrnSearch *s)
{
	const GrnLayout *l = s->p.layout;
	GrnMates   *m = s->mates;
	uint32_t	first = s->id - s->id % l->per_page;
	Key			bound = list_bound(s);
	GrnFound	visited = s->now;
	uint32_t	visited_kept = s->now_kept;
	float		reach = edges_reach(s);
	uint32_t	n = 0;

	s->took_mates = true;
	m->fresh = !set_has(&s->set, s->id / l->per_page | PAGE_BIT);
	for (uint32_t id = first; id < first + l->per_page; id++)
	{
		const GrnRecord *rec;

		if (id == s->id || set_has(&s->set, id))
			continue;
		rec = s->store->mate(s->store, id);
		if (rec->state != GRN_NODE)
			continue;
		s->store->check(s->store, id, rec);
		m->recs[n] = rec;
		m->ids[n] = id;
		m->factors[n] = rec->factor;
		memcpy(m->codes + n * l->code_bytes, GRN_REC_PTR(rec, l->off_code), l->code_bytes);
		n++;
	}
	grn_estimate(&s->code_query, m->codes, m->factors, n, m->estimates);
	for (uint32_t i = 0; i < n; i++)
	{
		Key			key = make_key(m->estimates[i], m->ids[i]);

		m->near[i] = key <= bound;
		if (m->near[i])
		{
			grn_take_record(s, m->ids[i], m->recs[i], GRN_REC_PTR(m->recs[i], l->off_vec));
			m->keys[m->ntaken] = key;
			m->taken[m->ntaken] = s->now;
			m->kept[m->ntaken++] = s->now_kept;
			take_edges(s, m->recs[i]);
		}
		else
			m->left[m->nleft++] = key;
	}
	m->ntaken_edges = m->nedges;
	for (uint32_t i = 0; m->fresh && i < n; i++)
		if (!m->near[i] && m->estimates[i] <= reach)
			take_edges(s, m->recs[i]);
	grn_estimate(&s->code_query, m->codes, m->factors, m->nedges, m->distances);
	s->now = visited;
	s->now_kept = visited_kept;
}

void
grn_forget_mates(GrnSearch *s)
{
	GrnMates   *m = s->mates;

	m->ntaken = m->nleft = m->nedges = m->ntaken_edges = 0;
	m->fresh = false;
}

void
grn_offer_mates(GrnSearch *s)
{
	GrnMates   *m = s->mates;

	for (uint32_t i = 0; i < m->ntaken; i++)
	{
		grn_set_add(s, &s->set, m->taken[i].id, 0);
		grn_list_expanded(s, m->keys[i]);
		grn_add_found(s, &m->taken[i], m->kept[i]);
	}
	s->visits += m->ntaken;
	if (m->fresh)
	{
		grn_set_add(s, &s->set, s->id / s->p.layout->per_page | PAGE_BIT, 0);
		for (uint32_t i = 0; i < m->nleft; i++)
			grn_offer(s, m->left[i]);
	}
	grn_offer_keys(s, m->neighbours, m->distances, m->ntaken_edges);
	/* the others' far neighbours are offered when those mates are visited themselves */
	for (uint32_t i = m->ntaken_edges; i < m->nedges; i++)
	{
		Key			key = make_key(m->distances[i], m->neighbours[i]);

		if (key <= list_bound(s))
			grn_offer(s, key);
	}
	grn_forget_mates(s);
}
