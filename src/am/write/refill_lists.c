/*
 * refill_lists.c - new lists for nodes that lose dead neighbors: the live neighbors, and
 * neighbors of the dead nodes in place of the dead nodes.
 */
#include "am/write/vacuum.h"

#include <float.h>

#include "miscadmin.h"
#include "utils/memutils.h"

#include "am/index/index.h"
#include "am/write/write.h"
#include "store/prune.h"

/*
 * Live neighbors remembered of each dead node: as memory allows, or none below this number.  Recall
 * and visits are the same with half and twice (12,000 sentences and image patches, a third
 * inserted, three quarters deleted).
 */
#define MIN_REMEMBERED 4
/*
 * The most candidates for the room in one list.  Measured on 12,000 sentences in layout compact
 * of which three quarters were deleted, as recall at ef 40 and time of vacuum for each deleted
 * row: .973 and 57 us with 32, .978 and 81 us with 64, .980 and 88 us with 128 and 256.
 */
#define MAX_CANDIDATES 256
/* The live neighbors of the dead nodes, in memory. */
typedef struct Remembered
{
	uint32		ndead;
	uint32		width;			/* neighbors of each dead node; 0: not in memory */
	uint32	   *dead;			/* [ndead] sorted */
	uint8	   *counts;			/* [ndead] */
	uint32	   *ids;			/* [ndead][width] */
	GrnFactor  *factors;		/* [ndead][width] */
	uint8_t    *codes;			/* [ndead][width][code_bytes] */
	uint8_t    *sigs;			/* [ndead][width][sig_bytes] */
} Remembered;

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
	Remembered	dead;
	Candidates	c;
	GrnRecord  *rec;			/* a record read temporarily */
	void	   *workspace;		/* for grn_prune() */
};

/* ---- dead nodes' neighbors ---- */

static void
remember_dead(GrnndRefill *f)
{
	GrnndVacuum *v = f->v;
	const GrnLayout *l = &f->v->ix->layout;
	Remembered *d = &f->dead;
	Size		memory = v->memory.limit;
	Size		each = sizeof(uint32) + l->sig_bytes +
		(l->code_bytes > 0 ? sizeof(GrnFactor) + l->code_bytes : 0);
	Size		fixed = (Size) v->dead.count * (sizeof(uint32) + 1);
	uint32		at = 0;

	if (memory > fixed)
		d->width = Min((memory - fixed) / (each * v->dead.count), l->degree);
	if (d->width < MIN_REMEMBERED)
	{
		d->width = 0;
		return;
	}
	d->dead = palloc_extended((Size) v->dead.count * sizeof(uint32), MCXT_ALLOC_HUGE);
	d->counts = palloc_extended(v->dead.count, MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	d->ids = palloc_extended((Size) v->dead.count * d->width * sizeof(uint32),
							 MCXT_ALLOC_HUGE);
	if (l->code_bytes > 0)
	{
		d->factors = palloc_extended((Size) v->dead.count * d->width * sizeof(GrnFactor),
									 MCXT_ALLOC_HUGE);
		d->codes = palloc_extended((Size) v->dead.count * d->width * l->code_bytes,
								   MCXT_ALLOC_HUGE);
	}
	d->sigs = palloc_extended((Size) v->dead.count * d->width * l->sig_bytes + 1,
							  MCXT_ALLOC_HUGE);
	for (uint32 id = grnnd_set_next(&v->dead, 0); id != GRN_INVALID_ID;
		 id = grnnd_set_next(&v->dead, id + 1))
	{
		Size		base = (Size) at * d->width;

		grnnd_delay_point();
		grnnd_copy_record(v->index, f->v->ix, id, f->rec, v->strategy);
		d->dead[at] = id;
		for (uint32 i = 0; i < f->rec->count && d->counts[at] < d->width; i++)
		{
			GrnEdge		edge = grn_get_edge(l, f->rec, i);
			Size		to = base + d->counts[at];

			if (grnnd_set_has(&v->dead, edge.id))
				continue;
			d->ids[to] = edge.id;
			if (l->code_bytes > 0)
			{
				d->factors[to] = edge.factor;
				memcpy(d->codes + to * l->code_bytes, edge.code, l->code_bytes);
			}
			memcpy(d->sigs + to * l->sig_bytes, edge.sig, l->sig_bytes);
			d->counts[at]++;
		}
		at++;
	}
	d->ndead = at;
}

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
	remember_dead(f);
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

/* The number of a dead node among those remembered; their count if the node is not among them. */
static uint32
dead_number(const Remembered *dead, uint32 d)
{
	uint32		low = 0;
	uint32		high = dead->ndead;

	while (low < high)
	{
		uint32		mid = (low + high) / 2;

		if (dead->dead[mid] < d)
			low = mid + 1;
		else
			high = mid;
	}
	return low < dead->ndead && dead->dead[low] == d ? low : dead->ndead;
}

static GrnEdge
remembered_edge(const GrnndRefill *f, uint32 at, uint32 i)
{
	const GrnLayout *l = &f->v->ix->layout;
	const Remembered *dead = &f->dead;
	Size		number = (Size) at * dead->width + i;
	GrnEdge		edge = {.id = dead->ids[number], .sig = dead->sigs + number * l->sig_bytes};

	if (l->code_bytes > 0)
	{
		edge.factor = dead->factors[number];
		edge.code = dead->codes + number * l->code_bytes;
	}
	return edge;
}

/* Adds the live neighbors of dead node d, except self. */
static void
add_neighbors_of(GrnndRefill *f, uint32 d, uint32 self)
{
	const GrnLayout *l = &f->v->ix->layout;
	const Remembered *dead = &f->dead;
	uint32		at = 0;
	uint32		count;

	if (dead->width > 0)
	{
		at = dead_number(dead, d);
		if (at == dead->ndead)
			return;
		count = dead->counts[at];
	}
	else
	{
		if (grnnd_copy_record(f->v->index, f->v->ix, d, f->rec, f->v->strategy) != GRN_DEAD)
			return;
		count = f->rec->count;
	}
	for (uint32 i = 0; i < count; i++)
	{
		GrnEdge		edge = dead->width > 0 ? remembered_edge(f, at, i) : grn_get_edge(l, f->rec, i);

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
grnnd_refill_list(GrnndRefill *f, const GrnRecord *rec, uint32 id, GrnRecord *fixed)
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
	for (uint32 i = 0; i < rec->count; i++)
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
