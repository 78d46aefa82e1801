/*
 * repair.c - takes dead nodes out of the graph.
 *
 * First every live node is made reachable over live nodes alone, by edges that are
 * only added (connect_all).  Then a pass over all pages drops the edges to dead
 * nodes and fills their places from the dead nodes' own neighbours (fix_page).
 * In this order an interruption leaves every row reachable.
 */
#include "write.h"

#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/rel.h"

/* Nodes asked for an edge to one that cannot be reached. */
#define MAX_FROM 4

<<<<<<< HEAD
/* The live neighbours of the dead nodes, in memory. */
typedef struct Remembered
{
	uint32		ndead;
	uint32		width;			/* neighbours a dead node, 0: not in memory */
	uint32	   *dead;			/* [ndead] sorted */
	uint8	   *counts;			/* [ndead] */
	uint32	   *ids;			/* [ndead][width] */
	GrnFactor  *factors;		/* [ndead][width] */
	uint8_t    *codes;			/* [ndead][width][code_bytes] */
} Remembered;

/* Candidates for one node's list; the first `fixed` are what it keeps. */
typedef struct Candidates
{
	uint32		count;
	uint32		fixed;
	uint32		ids[GRN_MAX_DEGREE + MAX_CANDIDATES];
	GrnFactor	factors[GRN_MAX_DEGREE + MAX_CANDIDATES];
	uint8_t    *codes;			/* [.][code_bytes] */
	float	   *rows;			/* [.][dim] places, only without codes */
	float		dist[GRN_MAX_DEGREE + MAX_CANDIDATES];
} Candidates;

=======
>>>>>>> origin/main
typedef struct Repair
{
	GrnndVacuum *v;
	const GrnndIndex *ix;
	GrnndStore	store;
	GrnndRefill *refill;
	GrnRecord  *rec;			/* for records read on the way */
	uint32	   *late;			/* nodes inserted since pass 1 */
	Size		nlate;
	Size		late_room;
} Repair;

/* ---- connecting ---- */

<<<<<<< HEAD
/* A node's vector, for searches and links from it. */
typedef struct Fetch
{
	const GrnndIndex *ix;
	float	   *x;
	GrnState	state;
	uint16		version;
} Fetch;

static void
fetch_vector(void *arg, const GrnRecord *rec, const void *vec)
{
	Fetch	   *f = arg;

	grn_vec_load(f->ix->layout.vec_format, vec, f->ix->meta.dim, f->x);
	f->state = (GrnState) rec->state;
	f->version = rec->version;
}

=======
>>>>>>> origin/main
/*
 * Takes an edge of a full node that nobody can reach, to make room for edges that
 * linking it needs: to a node that is reached without it, else one that vacuum
 * is to drop anyway, or that has its own turn to be connected.
 */
static void
make_room(Repair *r, uint32 id)
{
	const GrnLayout *l = &r->ix->layout;
	GrnndEdit	e;

	grnnd_edit_begin(&e, r->v->index, r->ix, id);
	if (e.rec->state == GRN_NODE && e.rec->count == l->degree)
	{
		GrnRecord  *rec = grnnd_edit_change(&e);
		uint32	   *ids = grn_rec_ids(l, rec);
		uint32		last = rec->count - 1;
		int			place = -1;

		for (uint32 i = 0; i < rec->count; i++)
			if (grnnd_set_has(&r->v->reach.reached, ids[i]))
				place = (int) i;
		for (uint32 i = 0; i < rec->count && place < 0; i++)
			if (grnnd_set_has(&r->v->dead, ids[i]) || grnnd_set_has(&r->v->live, ids[i]))
				place = (int) i;
		if (place >= 0)
		{
			grnnd_set_edge(l, rec, place, ids[last],
						   grn_rec_codes(l, rec) + last * l->code_bytes,
						   grn_rec_factors(l, rec)[last]);
			rec->count--;
		}
	}
	grnnd_edit_end(&e);
}

/* Reached nodes among id's own neighbours; the list is nearest first as a rule. */
static uint32
reached_neighbours(Repair *r, uint32 id, uint32 *from)
{
	uint32		n = 0;

	grnnd_copy_record(r->v->index, r->ix, id, r->rec, r->v->strategy);
	for (uint32 i = 0; i < r->rec->count && n < MAX_FROM; i++)
	{
		uint32		y = grn_rec_ids(&r->ix->layout, r->rec)[i];

		if (grnnd_set_has(&r->v->reach.reached, y))
			from[n++] = y;
	}
	return n;
}

/* Reached nodes near p, by a search. */
static uint32
reached_nearby(Repair *r, const GrnndPoint *p, uint32 id, uint32 *from)
{
	GrnndEntries *entries = grnnd_get_entries(r->v->index, r->ix);
	uint32		nfound;
	uint32		nlive;
	uint32		n = 0;
	GrnSearch  *search = grnnd_find_near(&r->store, p, 2 * r->ix->layout.degree,
										 entries, &nfound, &nlive);

	for (uint32 i = 0; i < nfound && n < MAX_FROM; i++)
	{
		const GrnFound *f = &grn_search_found(search)[i];

		if (f->state == GRN_NODE && f->id != id &&
			grnnd_set_has(&r->v->reach.reached, f->id))
			from[n++] = f->id;
	}
	grn_search_end(search);
	return n;
}

/*
 * Gives a node that cannot be reached over live nodes an edge from one that can.
 * False: it is no node any more, for its insert has taken it back (withdraw()).
 */
static bool
connect_node(Repair *r, uint32 id, uint32 root)
{
	GrnndVacuum *v = r->v;
	uint32		from[MAX_FROM];
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "grnnd connect",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
<<<<<<< HEAD
	Fetch		f = {.ix = r->ix, .x = palloc(r->ix->meta.dim * sizeof(float))};
=======
	float	   *x = palloc(r->ix->space_dim * sizeof(float));
	GrnState	state;
	uint16		version;
>>>>>>> origin/main
	bool		is_node;
	bool		linked = false;

	is_node = grnnd_store_fetch(&r->store, id, x, &state, &version) && state == GRN_NODE;
	if (is_node)
	{
		GrnndPoint	p;
		GrnndLinkPlan plan = {.p = &p, .from = from, .dead_allowed = true};

		grnnd_make_point(r->ix, x, &p);
		make_room(r, id);
		plan.nfrom = reached_neighbours(r, id, from);
		linked = plan.nfrom > 0 && grnnd_link_node(v->index, r->ix, &plan, id, version);
		if (!linked)
		{
			plan.nfrom = reached_nearby(r, &p, id, from);
			linked = plan.nfrom > 0 && grnnd_link_node(v->index, r->ix, &plan, id, version);
		}
		if (!linked)
		{
			from[0] = root;
			plan.nfrom = 1;
			linked = grnnd_link_node(v->index, r->ix, &plan, id, version);
		}
		if (!linked)
			ereport(WARNING,
					(errmsg("a node of index \"%s\" could not be connected to the others",
							RelationGetRelationName(v->index)),
					 errhint("REINDEX the index.")));
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	if (!is_node)
		return false;
	/* whatever it leads to is reached now */
	grnnd_reach_mark(&v->reach, id);
	grnnd_reach_run(&v->reach);
	return true;
}

<<<<<<< HEAD
/* ---- entry points ---- */

typedef struct EntryUpdate
{
	Repair	   *r;
	uint32		expected;		/* entries[0] as it was read */
	uint32		root;
	uint8_t    *code;
	GrnFactor	factor;
} EntryUpdate;

/* Nearer to the centre of the data is better; without codes any will do. */
static bool
is_better_root(const GrnndIndex *ix, GrnFactor a, GrnFactor b)
{
	float		x = grn_f16_to_f32(a.norm2);
	float		y = grn_f16_to_f32(b.norm2);

	/* with inner product's codes these are lengths, and long rows lie in the middle */
	return ix->layout.code_dims > 0 && (ix->codec.directions ? x > y : x < y);
}

/* Has id a node alive?  Then its code, as it stands in its own record, goes to u. */
static bool
take_root(Repair *r, uint32 id, EntryUpdate *u)
{
	const GrnLayout *l = &r->ix->layout;

	if (grnnd_copy_record(r->v->index, r->ix, id, r->rec, r->v->strategy) != GRN_NODE)
		return false;
	u->root = id;
	u->factor = r->rec->factor;
	memcpy(u->code, GRN_REC_PTR(r->rec, l->off_code), l->code_bytes);
	return true;
}

/*
 * Chooses entries[0]: itself while it lives, else among the other entry points
 * and the dead one's neighbours, else any live node.  GRN_INVALID_ID: none.
 */
static uint32
choose_root(Repair *r, EntryUpdate *u)
{
	GrnndVacuum *v = r->v;
	const GrnLayout *l = &r->ix->layout;
	GrnndEntries *entries = grnnd_get_entries(v->index, r->ix);
	uint32		best = GRN_INVALID_ID;

	u->expected = entries->count > 0 ? entries->ids[0] : GRN_INVALID_ID;
	if (entries->count > 0 && !grnnd_set_has(&v->dead, entries->ids[0]))
		return entries->ids[0];

	for (uint32 i = 1; i < entries->count; i++)
		if (!grnnd_set_has(&v->dead, entries->ids[i]) &&
			(best == GRN_INVALID_ID || is_better_root(r->ix, entries->factors[i], u->factor)))
		{
			best = entries->ids[i];
			u->factor = entries->factors[i];
		}
	if (entries->count > 0)
	{
		grnnd_copy_record(v->index, r->ix, entries->ids[0], r->rec, v->strategy);
		for (uint32 i = 0; i < r->rec->count; i++)
		{
			uint32		id = grn_rec_ids(l, r->rec)[i];
			GrnFactor	factor = {0, 0};

			if (l->code_dims > 0)
				factor = grn_rec_factors(l, r->rec)[i];
			if (!grnnd_set_has(&v->dead, id) &&
				(best == GRN_INVALID_ID || is_better_root(r->ix, factor, u->factor)))
			{
				best = id;
				u->factor = factor;
			}
		}
	}
	if (best != GRN_INVALID_ID)
	{
		if (!take_root(r, best, u))
			grnnd_corrupt(v->index, grnnd_node_block(r->ix, best),
						  "a link to a record that is no node");
		return best;
	}
	for (uint32 id = grnnd_set_next(&v->live, 0); id != GRN_INVALID_ID;
		 id = grnnd_set_next(&v->live, id + 1))
	{
		if (grnnd_set_has(&v->dead, id))
			continue;
		if (take_root(r, id, u))
			return id;
		/* its insert found no place and took it back: nothing leads to it */
		grnnd_set_add(&v->dead, id);
	}
	return GRN_INVALID_ID;
}

static bool
publish_root(GrnndEntries *entries, void *arg)
{
	EntryUpdate *u = arg;

	if (entries->count == 0 || entries->ids[0] != u->expected || u->root == u->expected)
		return false;
	/* the place where it may stand already is dropped later with the dead */
	grnnd_set_entry(u->r->ix, entries, 0, u->root, u->code, u->factor);
	return true;
}

/* Drops dead and repeated entry points. */
static bool
drop_dead_entries(GrnndEntries *entries, void *arg)
{
	EntryUpdate *u = arg;
	const GrnndIndex *ix = u->r->ix;
	uint32		n = 0;

	for (uint32 i = 0; i < entries->count; i++)
		if (!grnnd_set_has(&u->r->v->dead, entries->ids[i]) &&
			grn_find_id(entries->ids, n, entries->ids[i]) < 0)
		{
			grnnd_set_entry(ix, entries, n, entries->ids[i],
							entries->codes + i * ix->layout.code_bytes,
							entries->factors[i]);
			n++;
		}
	if (n == entries->count)
		return false;
	entries->count = n;
	return true;
}

=======
>>>>>>> origin/main
/* ---- making every live node reachable ---- */

static void
connect_all(Repair *r)
{
	GrnndVacuum *v = r->v;
	GrnndRoot	root;

	for (;;)
	{
		uint32		now;
		GrnndEntries *entries;

		grnnd_choose_root(v, &root);
		if (root.id == GRN_INVALID_ID)
			return;				/* no row is left */
		grnnd_reach_mark(&v->reach, root.id);
		grnnd_reach_run(&v->reach);
		for (uint32 id = grnnd_set_next(&v->live, 0); id != GRN_INVALID_ID;
			 id = grnnd_set_next(&v->live, id + 1))
		{
			if (grnnd_set_has(&v->dead, id) || grnnd_set_has(&v->reach.reached, id))
				continue;
			grnnd_delay_point();
			if (!connect_node(r, id, root.id))
				grnnd_set_add(&v->dead, id);
		}
		grnnd_publish_root(v, &root);

		/* an insert that found no live node may have put itself there */
		entries = grnnd_get_entries(v->index, r->ix);
		now = entries->count > 0 ? entries->ids[0] : GRN_INVALID_ID;
		if (now == root.id)
			return;
		/* what the old root leads to is yet to be reached from the new one */
		grnnd_set_clear(&v->reach.reached);
	}
}

<<<<<<< HEAD
/* ---- dead nodes' neighbours ---- */

static void
remember_dead(Repair *r)
{
	GrnndVacuum *v = r->v;
	const GrnLayout *l = &r->ix->layout;
	Remembered *d = &r->dead;
	Size		memory = grnnd_maintenance_memory() / 2;
	Size		each = sizeof(uint32) + (l->code_dims > 0 ? sizeof(GrnFactor) + l->code_bytes : 0);
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
	if (l->code_dims > 0)
	{
		d->factors = palloc_extended((Size) v->dead.count * d->width * sizeof(GrnFactor),
									 MCXT_ALLOC_HUGE);
		d->codes = palloc_extended((Size) v->dead.count * d->width * l->code_bytes,
								   MCXT_ALLOC_HUGE);
	}
	for (uint32 id = grnnd_set_next(&v->dead, 0); id != GRN_INVALID_ID;
		 id = grnnd_set_next(&v->dead, id + 1))
	{
		Size		base = (Size) at * d->width;

		grnnd_delay_point();
		grnnd_copy_record(v->index, r->ix, id, r->rec, v->strategy);
		d->dead[at] = id;
		for (uint32 i = 0; i < r->rec->count && d->counts[at] < d->width; i++)
		{
			uint32		y = grn_rec_ids(l, r->rec)[i];
			Size		to = base + d->counts[at];

			if (grnnd_set_has(&v->dead, y))
				continue;
			d->ids[to] = y;
			if (l->code_dims > 0)
			{
				d->factors[to] = grn_rec_factors(l, r->rec)[i];
				memcpy(d->codes + to * l->code_bytes,
					   grn_rec_codes(l, r->rec) + i * l->code_bytes, l->code_bytes);
			}
			d->counts[at]++;
		}
		at++;
	}
	d->ndead = at;
}

/* ---- filling one list ---- */

static void
add_candidate(Repair *r, uint32 id, const GrnFactor *factor, const uint8_t *code)
{
	Candidates *c = &r->c;
	uint32		bytes = r->ix->layout.code_bytes;
	uint32		most = c->fixed + (bytes > 0 ? MAX_CANDIDATES : MAX_CANDIDATES_BY_VECTOR);

	if (c->count >= most || grn_find_id(c->ids, c->count, id) >= 0)
		return;
	c->ids[c->count] = id;
	if (bytes > 0)
	{
		c->factors[c->count] = *factor;
		memcpy(c->codes + c->count * bytes, code, bytes);
	}
	c->count++;
}

/* Adds the live neighbours of dead node d, self aside. */
static void
add_neighbours_of(Repair *r, uint32 d, uint32 self)
{
	const GrnLayout *l = &r->ix->layout;
	const Remembered *dead = &r->dead;
	const uint32 *ids;
	const GrnFactor *factors;
	const uint8_t *codes;
	uint32		count;

	if (dead->width > 0)
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
		if (low == dead->ndead || dead->dead[low] != d)
			return;
		count = dead->counts[low];
		ids = dead->ids + (Size) low * dead->width;
		factors = dead->factors + (Size) low * dead->width;
		codes = dead->codes + (Size) low * dead->width * l->code_bytes;
	}
	else
	{
		if (grnnd_copy_record(r->v->index, r->ix, d, r->rec, r->v->strategy) != GRN_DEAD)
			return;
		count = r->rec->count;
		ids = grn_rec_ids(l, r->rec);
		factors = grn_rec_factors(l, r->rec);
		codes = grn_rec_codes(l, r->rec);
	}
	for (uint32 i = 0; i < count; i++)
		if (ids[i] != self && !grnnd_set_has(&r->v->dead, ids[i]))
			add_candidate(r, ids[i], factors + i, codes + i * l->code_bytes);
}

/* Without codes: vectors instead.  Drops candidates that are gone. */
static void
load_candidates(Repair *r, uint32 self)
{
	Candidates *c = &r->c;
	uint32		dim = r->ix->meta.dim;
	Fetch		f = {.ix = r->ix, .x = palloc(dim * sizeof(float))};
	float	   *own = f.x;
	uint32		n = 0;

	if (!r->store.base.visit(&r->store.base, self, fetch_vector, &f))
	{
		c->count = c->fixed;
		return;
	}
	grnnd_place(r->ix, own);
	for (uint32 i = 0; i < c->count; i++)
	{
		f.x = c->rows + (Size) n * dim;
		if (!r->store.base.visit(&r->store.base, c->ids[i], fetch_vector, &f))
			continue;
		grnnd_place(r->ix, f.x);
		c->dist[n] = grn_dist->l2_f32(own, f.x, dim);
		c->ids[n++] = c->ids[i];
	}
	c->count = n;
	c->fixed = Min(c->fixed, n);
	pfree(own);
}

/* Writes into `fixed` (a copy of rec's hot part) the list that rec is to have. */
static void
fill_list(Repair *r, const GrnRecord *rec, uint32 id, GrnRecord *fixed)
{
	const GrnLayout *l = &r->ix->layout;
	Candidates *c = &r->c;
	const uint32 *ids = grn_rec_ids(l, rec);
	uint32		keep[GRN_MAX_DEGREE];
	uint32		nkeep;
	GrnPrune	prune = {.most = l->degree, .fill = REPAIR_FILL(l->degree)};

	c->count = 0;
	c->fixed = GRN_MAX_DEGREE;
	for (uint32 i = 0; i < rec->count; i++)
		if (!grnnd_set_has(&r->v->dead, ids[i]))
			add_candidate(r, ids[i], grn_rec_factors(l, rec) + i,
						  grn_rec_codes(l, rec) + i * l->code_bytes);
	c->fixed = c->count;
	for (uint32 i = 0; i < rec->count; i++)
		if (grnnd_set_has(&r->v->dead, ids[i]))
			add_neighbours_of(r, ids[i], id);

	if (l->code_dims > 0)
	{
		GrnCodeQuery query;

		grn_code_query_from_code(&r->ix->codec, GRN_REC_PTR(rec, l->off_code),
								 rec->factor, &query);
		grn_estimate(&query, c->codes, c->factors, c->count, c->dist);
		prune.codec = &r->ix->codec;
		prune.codes = c->codes;
		prune.factors = c->factors;
	}
	else
	{
		load_candidates(r, id);
		prune.rows = c->rows;
		prune.stride = prune.dim = r->ix->meta.dim;
	}
	prune.dist = c->dist;
	prune.n = c->count;
	prune.nfixed = c->fixed;
	nkeep = grn_prune(&prune, keep, r->workspace);

	memcpy(fixed, rec, l->hot_bytes);
	fixed->count = 0;
	for (uint32 i = 0; i < c->fixed + nkeep; i++)
	{
		uint32		from = i < c->fixed ? i : keep[i - c->fixed];

		grnnd_add_edge(l, fixed, c->ids[from], c->codes + from * l->code_bytes,
					   c->factors[from]);
	}
}

=======
>>>>>>> origin/main
/* ---- pass 2 ---- */

static bool
has_dead_edge(const GrnndVacuum *v, const GrnRecord *rec)
{
	const uint32 *ids = grn_rec_ids(&v->ix->layout, rec);

	for (uint32 i = 0; i < rec->count; i++)
		if (grnnd_set_has(&v->dead, ids[i]))
			return true;
	return false;
}

static bool
same_list(const GrnLayout *l, const GrnRecord *a, const GrnRecord *b)
{
	return a->state == b->state && a->version == b->version && a->count == b->count &&
		memcmp(grn_rec_ids(l, a), grn_rec_ids(l, b), a->count * sizeof(uint32)) == 0;
}

/* Puts the fixed lists of a page in place.  False: some list has changed since. */
static bool
write_fixes(Repair *r, BlockNumber block, const char *copy, char *fixes,
			const bool *fix)
{
	const GrnLayout *l = &r->ix->layout;
	Buffer		buffer = grnnd_read(r->v->index, block, BUFFER_LOCK_EXCLUSIVE,
									GRNND_NODES, r->v->strategy);
	GenericXLogState *xlog = GenericXLogStart(r->v->index);
	Page		page = GenericXLogRegisterBuffer(xlog, buffer, 0);
	bool		all = true;

	for (uint32 i = 0; i < l->per_page; i++)
	{
		GrnRecord  *rec = grnnd_page_record(page, r->ix, i);
		GrnRecord  *fixed = (GrnRecord *) (fixes + (Size) i * l->hot_bytes);

		if (!fix[i])
			continue;
		if (!same_list(l, rec, (const GrnRecord *) (copy + (Size) i * l->record_bytes)))
		{
			all = false;
			continue;
		}
		rec->count = fixed->count;
		memcpy(GRN_REC_PTR(rec, l->off_ids), GRN_REC_PTR(fixed, l->off_ids),
			   l->hot_bytes - l->off_ids);
	}
	GenericXLogFinish(xlog);
	UnlockReleaseBuffer(buffer);
	return all;
}

/* What the second pass learns of nodes that came after the first. */
static void
note_late(Repair *r, const GrnRecord *rec, uint32 id)
{
	GrnndReach *reach = &r->v->reach;
	const uint32 *ids = grn_rec_ids(&r->ix->layout, rec);

	if (grnnd_set_has(&r->v->live, id))
	{
		/* every node of pass 1 is reached by now, so its neighbours are, too */
		for (uint32 i = 0; i < rec->count; i++)
			grnnd_reach_mark(reach, ids[i]);
		return;
	}
	if (r->nlate == r->late_room)
	{
		r->late_room = Max(1024, 2 * r->late_room);
		r->late = r->late == NULL ? palloc(r->late_room * sizeof(uint32))
			: repalloc_huge(r->late, r->late_room * sizeof(uint32));
	}
	r->late[r->nlate++] = id;
}

static void
fix_page(Repair *r, BlockNumber block, uint32 first, char *copy, char *fixes)
{
	GrnndVacuum *v = r->v;
	const GrnLayout *l = &r->ix->layout;
	Size		late = r->nlate;
	bool		done;

	do
	{
		bool		fix[GRNND_PAYLOAD / sizeof(GrnRecord)];
		bool		any = false;
		uint32		limit = 0;
		Buffer		buffer = ReadBufferExtended(v->index, MAIN_FORKNUM, block,
												RBM_NORMAL, v->strategy);
		bool		is_new;

		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		grnnd_check_page(v->index, buffer, GRNND_NODES);
		is_new = PageIsNew(BufferGetPage(buffer));
		if (!is_new)
			memcpy(copy, GrnndPagePayload(BufferGetPage(buffer)),
				   l->per_page * grnnd_copy_bytes(r->ix));
		UnlockReleaseBuffer(buffer);
		if (is_new)
			return;

		r->nlate = late;
		for (uint32 i = 0; i < l->per_page; i++)
		{
			GrnRecord  *rec = (GrnRecord *) (copy + (Size) i * l->record_bytes);

			grnnd_check_record(v->index, r->ix, first + i, rec, &limit);
			fix[i] = rec->state == GRN_NODE && has_dead_edge(v, rec);
			if (fix[i])
			{
				grnnd_refill_list(r->refill, rec, first + i, (GrnRecord *) (fixes + (Size) i * l->hot_bytes));
				any = true;
			}
			if (rec->state == GRN_NODE)
				note_late(r, rec, first + i);
		}
		if (any)
			grnnd_test_point("repair-fix");
		done = !any || write_fixes(r, block, copy, fixes, fix);
	} while (!done);
}

static bool
is_cut_off(const Repair *r, uint32 id)
{
	const GrnndSet *reached = &r->v->reach.reached;

	return id < reached->limit && !grnnd_set_has(reached, id);
}

/*
 * entries[0] for what came late: itself while it lives, else one of the late, for
 * pass 1 has left no other node alive.  GRN_INVALID_ID: nothing is left.
 */
static uint32
late_root(Repair *r)
{
	GrnndRoot	root;

	for (;;)
	{
		bool		found = false;

		grnnd_read_root(r->v, &root);
		if (root.id == GRN_INVALID_ID || !grnnd_set_has(&r->v->dead, root.id))
			return root.id;
		for (Size i = 0; i < r->nlate && !found; i++)
			found = is_cut_off(r, r->late[i]) && grnnd_take_root(r->v, r->late[i], &root);
		if (!found)
			return GRN_INVALID_ID;
		if (grnnd_publish_root(r->v, &root))
			return root.id;
	}
}

/*
 * Rows that came during pass 1 may hang on nodes alone that it killed
 * afterwards.
 */
static void
connect_late(Repair *r)
{
	GrnndVacuum *v = r->v;
	bool		any = false;
	uint32		root;

	grnnd_reach_run(&v->reach);
	for (Size i = 0; i < r->nlate && !any; i++)
		any = is_cut_off(r, r->late[i]);
	if (!any)
		return;

	/*
	 * Some may not be linked yet, and their inserts may take them back still.
	 * Nothing may hang on such a node, so it gets no edge before that is settled.
	 */
	grnnd_wait_for_inserts(v->index);
	root = late_root(r);
	if (root == GRN_INVALID_ID)
		return;
	grnnd_reach_mark(&v->reach, root);
	grnnd_reach_run(&v->reach);
	for (Size i = 0; i < r->nlate; i++)
		if (is_cut_off(r, r->late[i]))
			(void) connect_node(r, r->late[i], root);
}

void
grnnd_repair(GrnndVacuum *v)
{
	const GrnLayout *l = &v->ix->layout;
	Repair	   *r = palloc0(sizeof(Repair));
	char	   *copy = palloc(GRNND_PAYLOAD);
	char	   *fixes = palloc((Size) l->per_page * l->hot_bytes);
	uint32		limit;

	r->v = v;
	r->ix = v->ix;
	r->rec = palloc(grnnd_copy_bytes(v->ix));
<<<<<<< HEAD
	r->workspace = palloc(grn_prune_bytes(most));
	r->c.codes = palloc((Size) most * l->code_bytes + 1);
	if (l->code_dims == 0)
		r->c.rows = palloc_extended((Size) (GRN_MAX_DEGREE + MAX_CANDIDATES_BY_VECTOR) *
									v->ix->meta.dim * sizeof(float), MCXT_ALLOC_HUGE);
=======
>>>>>>> origin/main
	grnnd_store_init(&r->store, v->index, v->ix, CurrentMemoryContext);
	r->store.strategy = v->strategy;

	/* what came during pass 1; rows that come from now on make no edge to dead nodes */
	limit = grnnd_id_limit(v->index, v->ix);
	grnnd_set_grow(&v->reach.reached, limit);
	grnnd_set_grow(&v->reach.pending, limit);
	connect_all(r);
	grnnd_test_point("repair-connected");
	r->refill = grnnd_refill_begin(v, &r->store);
	limit = grnnd_id_limit(v->index, v->ix);
	for (uint32 first = 0; first < limit; first += l->per_page)
	{
		grnnd_delay_point();
		fix_page(r, grnnd_node_block(v->ix, first), first, copy, fixes);
	}

	connect_late(r);
	grnnd_renew_entries(v);
}
