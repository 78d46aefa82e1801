/*
 * search_mates.c - whole pages: while the store holds a page for one record, a search judges
 * the others on it as well, its mates.
 *
 * The order of pages follows the graph, so records near the query often lie together.  A mate
 * is judged by its own code, which is the same bytes in every edge to it, so its key is the one
 * that edges give it.  Mates that come onto the list become candidates, and their
 * records are copied.  Their expansion then takes the copy and leaves the page alone.
 *
 * Copies are kept in slots by a hash of the id.  One copy may take another's slot; the page of
 * the other is then read again.
 */
#include "graph/stored/search_impl.h"

#define MOST_MATES 64
#define LEAST_SLOTS 16			/* power of two */

/*
 * That all slots take at most, if they are more than the least: as much as the smallest work_mem.
 * 20,000 sentences, layout compact, ef 60 / 120 / 240: 47 / 89 / 175 pages of the index a query, 53
 * / 103 / 211 with the fewest slots, 44 / 82 / 157 with four times the bytes, all in the same time.
 */
#define COPY_BYTES (64 * 1024)

struct GrnMates
{
	uint32_t	nslots;			/* power of two */
	size_t		stride;			/* bytes of a slot */
	uint32_t   *ids;			/* [nslots] of the copies; GRN_INVALID_ID: none */
	uint8_t    *records;		/* [nslots][stride] */
	uint32_t	nkeys;			/* candidates of the page that was visited last */
	Key			keys[MOST_MATES];
	/* those of a page that are judged */
	const GrnRecord *recs[MOST_MATES];
	uint32_t	rec_ids[MOST_MATES];
	GrnFactor	factors[MOST_MATES];
	float		estimates[MOST_MATES];
	uint8_t		codes[MOST_MATES * GRN_MAX_CODE_BYTES];
};

void
grn_mates_begin(GrnSearch *s)
{
	const GrnLayout *l = s->p.layout;
	GrnMates   *m;

	if (s->store->mate == NULL || !s->codes || l->per_page < 2 || l->per_page > MOST_MATES)
		return;
	m = s->mates = s->store->alloc(s->store, sizeof(GrnMates));
	m->nkeys = 0;
	m->stride = (l->record_bytes + 7) & ~(size_t) 7;
	for (m->nslots = LEAST_SLOTS; m->nslots * m->stride * 2 <= COPY_BYTES;)
		m->nslots *= 2;
	m->ids = s->store->alloc(s->store, m->nslots * sizeof(uint32_t));
	memset(m->ids, 0xFF, m->nslots * sizeof(uint32_t));
	m->records = s->store->alloc(s->store, m->nslots * m->stride);
}

void
grn_mates_end(GrnSearch *s)
{
	if (s->mates == NULL)
		return;
	s->store->free(s->store, s->mates->records);
	s->store->free(s->store, s->mates->ids);
	s->store->free(s->store, s->mates);
}

bool
grn_has_copy(const GrnSearch *s, uint32_t id)
{
	return s->mates != NULL && s->mates->ids[hash_slot(id, s->mates->nslots)] == id;
}

const GrnRecord *
grn_copy_of(GrnSearch *s, uint32_t id)
{
	const GrnRecord *rec;

	if (!grn_has_copy(s, id))
		return NULL;
	rec = (const GrnRecord *) (s->mates->records + hash_slot(id, s->mates->nslots) * s->mates->stride);
	s->store->check(s->store, id, rec);
	return rec;
}

void
grn_judge_mates(GrnSearch *s)
{
	const GrnLayout *l = s->p.layout;
	GrnMates   *m = s->mates;
	uint32_t	first = s->id - s->id % l->per_page;
	Key			bound = s->listed == s->p.ef ? s->list[s->listed - 1] : UINT64_MAX;
	uint32_t	n = 0;

	m->nkeys = 0;
	for (uint32_t id = first; id < first + l->per_page; id++)
	{
		const GrnRecord *rec;

		if (id == s->id || set_has(&s->set, id))
			continue;
		rec = s->store->mate(s->store, id);
		if (rec->state != GRN_NODE)
			continue;
		m->recs[n] = rec;
		m->rec_ids[n] = id;
		m->factors[n] = rec->factor;
		memcpy(m->codes + n * l->code_bytes, GRN_REC_PTR(rec, l->off_code), l->code_bytes);
		n++;
	}
	if (n == 0)
		return;
	grn_estimate(&s->code_query, m->codes, m->factors, n, m->estimates);
	for (uint32_t i = 0; i < n; i++)
	{
		Key			key = make_key(m->estimates[i], m->rec_ids[i]);
		uint32_t	slot = hash_slot(m->rec_ids[i], m->nslots);

		if (key > bound)
			continue;
		m->keys[m->nkeys++] = key;
		m->ids[slot] = m->rec_ids[i];
		memcpy(m->records + slot * m->stride, m->recs[i], l->record_bytes);
	}
}

void
grn_offer_mates(GrnSearch *s)
{
	if (s->mates == NULL)
		return;
	for (uint32_t i = 0; i < s->mates->nkeys; i++)
		grn_offer(s, s->mates->keys[i]);
	s->mates->nkeys = 0;
}
