/*
 * entries.c - the entry page: its changes, the points that inserts offer, and those
 * that vacuum has to replace.
 */
#include "write.h"

#include "common/pg_prng.h"
#include "utils/rel.h"

GrnndEntries *
grnnd_get_entries(Relation index, const GrnndIndex *ix)
{
	GrnndEntries *entries = palloc(sizeof(GrnndEntries));

	entries->codes = palloc(Max(GRN_MAX_ENTRIES * ix->layout.code_bytes, 1));
	entries->count = grnnd_read_entries(index, ix, entries->ids, entries->factors,
										entries->codes);
	return entries;
}

void
grnnd_set_entry(const GrnndIndex *ix, GrnndEntries *entries, uint32 i, uint32 id,
				const uint8_t *code, GrnFactor factor)
{
	uint32		bytes = ix->layout.code_bytes;

	entries->ids[i] = id;
	entries->factors[i] = factor;
	if (bytes > 0)
		memcpy(entries->codes + i * bytes, code, bytes);
}

bool
grnnd_change_entries(Relation index, const GrnndIndex *ix, GrnndEntriesFn fn, void *arg)
{
	GrnndEntries entries;
	Buffer		buffer;
	char	   *payload;
	Size		code_room = Max(GRN_MAX_ENTRIES * ix->layout.code_bytes, 1);
	bool		changed;

	entries.codes = palloc(code_room);
	buffer = grnnd_read(index, ix->meta.entry_block, BUFFER_LOCK_EXCLUSIVE,
						GRNND_ENTRIES, NULL);
	payload = GrnndPagePayload(BufferGetPage(buffer));
	entries.count = ((GrnndEntryHeader *) payload)->count;
	if (entries.count > GRN_MAX_ENTRIES)
		grnnd_corrupt(index, ix->meta.entry_block, "too many entry points");
	memcpy(entries.ids, payload + GRNND_ENTRY_OFF_IDS, sizeof(entries.ids));
	memcpy(entries.factors, payload + GRNND_ENTRY_OFF_FACTORS, sizeof(entries.factors));
	memcpy(entries.codes, payload + GRNND_ENTRY_OFF_CODES,
		   GRN_MAX_ENTRIES * ix->layout.code_bytes);

	changed = fn(&entries, arg);
	if (changed)
	{
		GenericXLogState *xlog = GenericXLogStart(index);
		Page		page = GenericXLogRegisterBuffer(xlog, buffer, 0);

		payload = GrnndPagePayload(page);
		((GrnndEntryHeader *) payload)->count = entries.count;
		memcpy(payload + GRNND_ENTRY_OFF_IDS, entries.ids, sizeof(entries.ids));
		memcpy(payload + GRNND_ENTRY_OFF_FACTORS, entries.factors,
			   sizeof(entries.factors));
		memcpy(payload + GRNND_ENTRY_OFF_CODES, entries.codes,
			   GRN_MAX_ENTRIES * ix->layout.code_bytes);
		GenericXLogFinish(xlog);
	}
	UnlockReleaseBuffer(buffer);
	pfree(entries.codes);
	return changed;
}

/* ---- inserts ---- */

typedef struct NewEntry
{
	const GrnndIndex *ix;
	uint32		id;
	const GrnndPoint *p;
	uint32		place;			/* put_offered: where */
	uint32		expected;		/* put_first: entries[0] as seen */
} NewEntry;

static bool
put_offered(GrnndEntries *entries, void *arg)
{
	NewEntry   *n = arg;
	uint32		place = n->place;

	if (entries->count == 0)
		return false;			/* vacuum has emptied the index meanwhile */
	if (entries->count < GRN_MAX_ENTRIES)
		place = entries->count++;
	grnnd_set_entry(n->ix, entries, place, n->id, n->p->code, n->p->factor);
	return true;
}

/* Is p longer than all entry points?  Only codes of inner product say so. */
static bool
is_longest(const GrnndIndex *ix, const GrnndPoint *p, const GrnndEntries *entries)
{
	float		length = grn_f16_to_f32(p->factor.norm2);

	if (!ix->codec.directions || ix->codec.code_dims == 0)
		return false;
	for (uint32 i = 0; i < entries->count; i++)
		if (grn_f16_to_f32(entries->factors[i].norm2) >= length)
			return false;
	return true;
}

/*
 * Entry points 1 to 31 are a sample of the rows, kept by reservoir sampling: row
 * number n takes the place of one of them with probability 31 / n.  So they follow
 * the data as it drifts.  For inner product a row longer than all of them becomes one,
 * too: rows much longer than others answer every query and lie close together, but
 * far from where a search for one of them would begin.
 */
void
grnnd_offer_entry(Relation index, const GrnndIndex *ix, uint32 id, const GrnndPoint *p,
				  const GrnndEntries *entries)
{
	uint32		rows = Max(grnnd_id_limit(index, ix), 1);
	uint32		draw = (uint32) pg_prng_uint64_range(&pg_global_prng_state, 0, rows - 1);
	NewEntry	n = {.ix = ix, .id = id, .p = p};

	if (draw >= GRN_MAX_ENTRIES - 1 && entries->count >= GRN_MAX_ENTRIES &&
		!is_longest(ix, p, entries))
		return;
	n.place = 1 + draw % (GRN_MAX_ENTRIES - 1);
	grnnd_change_entries(index, ix, put_offered, &n);
}

static bool
put_first(GrnndEntries *entries, void *arg)
{
	NewEntry   *n = arg;

	if (entries->count > 0 && entries->ids[0] != n->expected)
		return false;
	grnnd_set_entry(n->ix, entries, 0, n->id, n->p->code, n->p->factor);
	entries->count = Max(entries->count, 1);
	return true;
}

bool
grnnd_put_first_entry(Relation index, const GrnndIndex *ix, uint32 id, const GrnndPoint *p,
					  uint32 expected)
{
	NewEntry	n = {.ix = ix, .id = id, .p = p, .expected = expected};

	return grnnd_change_entries(index, ix, put_first, &n);
}

/* ---- vacuum ---- */

/* Nearer to the centre of the data is better; without codes any will do. */
static bool
is_better_root(const GrnndIndex *ix, GrnFactor a, GrnFactor b)
{
	float		x = grn_f16_to_f32(a.norm2);
	float		y = grn_f16_to_f32(b.norm2);

	/* with inner product's codes these are lengths, and long rows lie in the middle */
	return ix->codec.code_dims > 0 && (ix->codec.directions ? x > y : x < y);
}

/* Copies entries[0] to root: what it is, and what others are to find there. */
static void
set_root(GrnndVacuum *v, const GrnndEntries *entries, GrnndRoot *root)
{
	root->expected = root->id = entries->count > 0 ? entries->ids[0] : GRN_INVALID_ID;
	root->code = palloc(v->ix->layout.code_bytes + 1);
}

void
grnnd_read_root(GrnndVacuum *v, GrnndRoot *root)
{
	set_root(v, grnnd_get_entries(v->index, v->ix), root);
}

bool
grnnd_take_root(GrnndVacuum *v, uint32 id, GrnndRoot *root)
{
	const GrnLayout *l = &v->ix->layout;
	GrnRecord  *rec = palloc(grnnd_copy_bytes(v->ix));
	bool		live = grnnd_copy_record(v->index, v->ix, id, rec, v->strategy) == GRN_NODE;

	if (live)
	{
		root->id = id;
		root->factor = rec->factor;
		memcpy(root->code, GRN_REC_PTR(rec, l->off_code), l->code_bytes);
	}
	pfree(rec);
	return live;
}

/* The best live node among the other entry points and the dead one's neighbours. */
static uint32
best_successor(GrnndVacuum *v, const GrnndEntries *entries)
{
	const GrnLayout *l = &v->ix->layout;
	GrnRecord  *rec = palloc(grnnd_copy_bytes(v->ix));
	GrnFactor	best_factor = {0, 0};
	uint32		best = GRN_INVALID_ID;

	if (entries->count == 0)
		return best;
	grnnd_copy_record(v->index, v->ix, entries->ids[0], rec, v->strategy);
	for (uint32 i = 1; i < entries->count + rec->count; i++)
	{
		uint32		n = i - entries->count;
		uint32		id = i < entries->count ? entries->ids[i] : grn_rec_ids(l, rec)[n];
		GrnFactor	factor = i < entries->count ? entries->factors[i]
			: grnnd_edge_factor(l, rec, n);

		if (!grnnd_set_has(&v->dead, id) &&
			(best == GRN_INVALID_ID || is_better_root(v->ix, factor, best_factor)))
		{
			best = id;
			best_factor = factor;
		}
	}
	pfree(rec);
	return best;
}

void
grnnd_choose_root(GrnndVacuum *v, GrnndRoot *root)
{
	GrnndEntries *entries = grnnd_get_entries(v->index, v->ix);
	uint32		best;

	set_root(v, entries, root);
	if (root->id != GRN_INVALID_ID && !grnnd_set_has(&v->dead, root->id))
		return;
	best = best_successor(v, entries);
	if (best != GRN_INVALID_ID)
	{
		if (!grnnd_take_root(v, best, root))
			grnnd_corrupt(v->index, grnnd_node_block(v->ix, best),
						  "a link to a record that is no node");
		return;
	}
	for (uint32 id = grnnd_set_next(&v->live, 0); id != GRN_INVALID_ID;
		 id = grnnd_set_next(&v->live, id + 1))
	{
		if (grnnd_set_has(&v->dead, id))
			continue;
		if (grnnd_take_root(v, id, root))
			return;
		/* its insert found no place and took it back: nothing leads to it */
		grnnd_set_add(&v->dead, id);
	}
	root->id = GRN_INVALID_ID;
}

/* A change that vacuum makes. */
typedef struct VacuumEntries
{
	GrnndVacuum *v;
	const GrnndRoot *root;
} VacuumEntries;

static bool
put_root(GrnndEntries *entries, void *arg)
{
	VacuumEntries *c = arg;
	const GrnndRoot *root = c->root;

	if (entries->count == 0 || entries->ids[0] != root->expected ||
		root->id == root->expected)
		return false;
	/* the place where it may stand already is dropped later with the dead */
	grnnd_set_entry(c->v->ix, entries, 0, root->id, root->code, root->factor);
	return true;
}

bool
grnnd_publish_root(GrnndVacuum *v, const GrnndRoot *root)
{
	VacuumEntries c = {.v = v, .root = root};

	return grnnd_change_entries(v->index, v->ix, put_root, &c);
}

/* Drops dead and repeated entry points. */
static bool
drop_dead(GrnndEntries *entries, void *arg)
{
	VacuumEntries *c = arg;
	uint32		bytes = c->v->ix->layout.code_bytes;
	uint32		n = 0;

	for (uint32 i = 0; i < entries->count; i++)
		if (!grnnd_set_has(&c->v->dead, entries->ids[i]) &&
			grn_find_id(entries->ids, n, entries->ids[i]) < 0)
		{
			grnnd_set_entry(c->v->ix, entries, n, entries->ids[i],
							entries->codes + i * bytes, entries->factors[i]);
			n++;
		}
	if (n == entries->count)
		return false;
	entries->count = n;
	return true;
}

static bool
append(GrnndEntries *entries, void *arg)
{
	VacuumEntries *c = arg;
	const GrnndRoot *root = c->root;

	if (entries->count == 0 || entries->count == GRN_MAX_ENTRIES ||
		grn_find_id(entries->ids, entries->count, root->id) >= 0)
		return false;
	grnnd_set_entry(c->v->ix, entries, entries->count++, root->id, root->code, root->factor);
	return true;
}

void
grnnd_renew_entries(GrnndVacuum *v)
{
	GrnndRoot	one = {.code = palloc(v->ix->layout.code_bytes + 1)};
	VacuumEntries c = {.v = v, .root = &one};

	if (!grnnd_change_entries(v->index, v->ix, drop_dead, &c))
		return;
	for (int i = 0; i < GRN_MAX_ENTRIES; i++)
	{
		uint32		at = (uint32) pg_prng_uint64_range(&pg_global_prng_state, 0, v->limit - 1);
		uint32		id = grnnd_set_next(&v->live, at);

		if (id != GRN_INVALID_ID && !grnnd_set_has(&v->dead, id) &&
			grnnd_take_root(v, id, &one))
			grnnd_change_entries(v->index, v->ix, append, &c);
	}
}
