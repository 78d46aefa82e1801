/*
 * refill_lists.c - new lists for nodes that lose dead neighbors: the live neighbors, and
 * neighbors of the dead nodes in place of the dead nodes.
 */
#include "am/write/vacuum.h"

#include <float.h>


#include "am/index/index.h"
#include "am/write/write.h"
#include "store/prune.h"

/*
 * The most candidates for the room in one list.  Measured on 12,000 sentences in layout compact
 * of which three quarters were deleted, as recall at ef 40 and time of vacuum for each deleted
 * row: .973 and 57 us with 32, .978 and 81 us with 64, .980 and 88 us with 128 and 256.
 */
#define MAX_CANDIDATES 256

/* Candidates for one node's list; the first `fixed` are neighbors that stay. */
typedef struct Candidates
{
	uint32		count;
	uint32		fixed;
	uint32		ids[GRN_MAX_DEGREE + MAX_CANDIDATES];
	GrnFactor	factors[GRN_MAX_DEGREE + MAX_CANDIDATES];
	uint8_t    *codes;			/* [.][code_bytes] */
	uint8_t    *sigs;			/* [.][sig_bytes] */
	float	   *rows;			/* [.][dim] places, without codes only */
	float		dist[GRN_MAX_DEGREE + MAX_CANDIDATES];
} Candidates;

struct GrnndRefill
{
	GrnndVacuum *v;
	GrnndStore *store;
	Candidates	c;
	GrnRecord  *rec;			/* a record read temporarily */
	void	   *workspace;		/* for grn_prune() */
};

GrnndRefill *
grnnd_refill_begin(GrnndVacuum *v, GrnndStore *store)
{
	GrnndRefill *f = palloc0(sizeof(GrnndRefill));
	uint32		most = GRN_MAX_DEGREE + MAX_CANDIDATES;

	f->v = v;
	f->store = store;
	f->rec = palloc(grnnd_copy_bytes(v->ix));
	f->workspace = palloc(grn_prune_bytes(most));
	f->c.codes = palloc((Size) most * v->ix->layout.code_bytes + 1);
	f->c.sigs = palloc((Size) most * v->ix->layout.sig_bytes + 1);
	if (!grn_has_codes(&v->ix->codec))
		f->c.rows = palloc_extended((Size) most * v->ix->meta.dim * sizeof(float), MCXT_ALLOC_HUGE);
	return f;
}

/* ---- filling one list ---- */

static void
add_candidate(GrnndRefill *f, const GrnEdge *edge)
{
	Candidates *c = &f->c;
	uint32		bytes = f->v->ix->layout.code_bytes;
	uint32		sig_bytes = f->v->ix->layout.sig_bytes;

	if (c->count >= c->fixed + MAX_CANDIDATES || grn_find_id(c->ids, c->count, edge->id) >= 0)
		return;
	c->ids[c->count] = edge->id;
	if (bytes > 0)
	{
		c->factors[c->count] = f->v->ix->layout.factor_bytes > 0 ? edge->factor : (GrnFactor) {0};
		memcpy(c->codes + c->count * bytes, edge->code, bytes);
	}
	memcpy(c->sigs + c->count * sig_bytes, edge->sig, sig_bytes);
	c->count++;
}

/* Adds the live neighbors of dead node d, except self. */
static void
add_neighbors_of(GrnndRefill *f, uint32 d, uint32 self)
{
	if (grnnd_copy_record(f->v->index, f->v->ix, d, f->rec, f->v->strategy) != GRN_DEAD)
		return;
	for (uint32 i = 0; i < f->rec->count; i++)
	{
		GrnEdge		edge = grn_get_edge(&f->v->ix->layout, f->rec, i);

		if (edge.id != self && !grnnd_set_has(&f->v->dead, edge.id))
			add_candidate(f, &edge);
	}
}

/* An index whose searches use no codes may still store codes. */
static void
move_candidate(GrnndRefill *f, uint32 from, uint32 to)
{
	Candidates *c = &f->c;
	uint32		bytes = f->v->ix->layout.code_bytes;
	uint32		sig_bytes = f->v->ix->layout.sig_bytes;

	c->ids[to] = c->ids[from];
	memmove(c->sigs + to * sig_bytes, c->sigs + from * sig_bytes, sig_bytes);
	if (bytes > 0)
	{
		c->factors[to] = c->factors[from];
		memmove(c->codes + to * bytes, c->codes + from * bytes, bytes);
	}
}

/* Without codes: loads vectors instead. Drops candidates that are gone. */
static void
load_candidates(GrnndRefill *f, uint32 self)
{
	Candidates *c = &f->c;
	uint32		dim = f->v->ix->meta.dim;
	float	   *own = palloc(dim * sizeof(float));
	GrnRecord	rec;
	uint32		n = 0;
	uint32		fixed = 0;

	if (!grn_read_record(&f->store->base, &f->v->ix->layout, self, &rec, sizeof(rec), own))
	{
		c->count = c->fixed;
		return;
	}
	grnnd_place(f->v->ix, own, own);
	for (uint32 i = 0; i < c->count; i++)
	{
		float	   *row = c->rows + (Size) n * dim;

		/* a freed record still has a vector */
		if (!grn_read_record(&f->store->base, &f->v->ix->layout, c->ids[i], &rec, sizeof(rec), row) ||
			rec.state != GRN_NODE)
			continue;
		grnnd_place(f->v->ix, row, row);
		grn_between(f->v->ix->layout.form, f->v->ix->key.metric->comparison, own, (const float *const *) &row, 1,
					dim, &c->dist[n]);
		move_candidate(f, i, n++);
		if (i < c->fixed)
			fixed = n;
	}
	c->count = n;
	c->fixed = fixed;
	pfree(own);
}

void
grnnd_refill_list(GrnndRefill *f, const GrnRecord *rec, uint32 id, bool fill, GrnRecord *fixed)
{
	const GrnLayout *l = &f->v->ix->layout;
	Candidates *c = &f->c;
	const uint32 *ids = grn_rec_ids(l, rec);
	uint32		keep[GRN_MAX_DEGREE];
	uint32		order[GRN_MAX_DEGREE];
	uint32		nkeep;
	GrnPrune	prune = {.most = l->degree, .fill = l->degree};
	GrnCodeQuery query;

	c->count = 0;
	c->fixed = GRN_MAX_DEGREE;
	for (uint32 i = 0; i < rec->count; i++)
		if (!grnnd_set_has(&f->v->dead, ids[i]))
		{
			GrnEdge		edge = grn_get_edge(l, rec, i);

			add_candidate(f, &edge);
		}
	if (grn_has_codes(&f->v->ix->codec))
		grn_code_query_from_code(&f->v->ix->codec, GRN_REC_PTR(rec, l->off_code), rec->factor, &query);
	c->fixed = c->count;
	for (uint32 i = 0; fill && i < rec->count; i++)
		if (grnnd_set_has(&f->v->dead, ids[i]))
			add_neighbors_of(f, ids[i], id);

	if (grn_has_codes(&f->v->ix->codec))
	{
		grn_estimate(&query, c->codes, c->factors, c->count, c->dist);
		prune.codec = &f->v->ix->codec;
		prune.codes = c->codes;
		prune.factors = c->factors;
	}
	else
	{
		load_candidates(f, id);
		prune.rows = c->rows;
		prune.stride = prune.dim = f->v->ix->meta.dim;
		prune.form = l->form;
		prune.comparison = f->v->ix->key.metric->comparison;
	}
	prune.dist = c->dist;
	prune.n = c->count;
	prune.nfixed = c->fixed;
	nkeep = grn_prune(&prune, keep, f->workspace);

	/* nearest first: readers tell near edges from far edges by position */
	for (uint32 i = 0; i < c->fixed + nkeep; i++)
	{
		uint32		from = i < c->fixed ? i : keep[i - c->fixed];
		uint32		j = i;

		for (; j > 0 && c->dist[order[j - 1]] > c->dist[from]; j--)
			order[j] = order[j - 1];
		order[j] = from;
	}

	memcpy(fixed, rec, l->hot_bytes);
	fixed->count = 0;
	for (uint32 i = 0; i < c->fixed + nkeep; i++)
	{
		uint32		from = order[i];
		GrnEdge		edge = {.id = c->ids[from], .factor = c->factors[from],
			.code = c->codes + from * l->code_bytes, .sig = c->sigs + from * l->sig_bytes};

		grn_add_edge(l, fixed, &edge);
	}
}
