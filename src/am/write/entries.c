/*
 * entries.c - the entry page: its changes, the points that inserts offer, and those
 * that vacuum has to replace.
 */
#include "am/write/write.h"

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

/* ---- long rows ---- */

/*
 * For inner product half of them are the longest rows (GrnMetricInfo.long_entries).  Rows much longer than
 * others answer every query and lie close together in the graph's space, but no way
 * that a search by inner products takes need lead to them.  One alone is not enough:
 * its own product with the query may be less than those of the short rows nearby.
 */

/* A row takes the place of one that is shorter by this factor; lengths are rounded. */
#define LONGER 1.01f

/*
 * Sorts the places of entry points but entries[0]: the longest, if the metric has some, the
 * shortest of them last, then the sample.  Returns how many count as long: none
 * where codes say nothing of lengths.
 */
static uint32
sort_places(const GrnndIndex *ix, const GrnndEntries *entries, uint32 *places)
{
	uint32		n = entries->count > 0 ? entries->count - 1 : 0;

	for (uint32 i = 0; i < n; i++)
		places[i] = i + 1;
	if (ix->key.metric->long_entries == 0 || ix->encoder.code_dims == 0)
		return 0;
	for (uint32 i = 1; i < n; i++)
	{
		uint32		place = places[i];
		float		length = grn_f16_to_f32(entries->factors[place].norm2);
		uint32		j = i;

		for (; j > 0 && grn_f16_to_f32(entries->factors[places[j - 1]].norm2) < length; j--)
			places[j] = places[j - 1];
		places[j] = place;
	}
	return Min(n, ix->key.metric->long_entries);
}

/* The place of a shorter row that one of this factor is to take, or 0. */
static uint32
place_of_shorter(const GrnndIndex *ix, const GrnndEntries *entries, GrnFactor factor)
{
	uint32		places[GRN_MAX_ENTRIES];
	uint32		nlong = sort_places(ix, entries, places);
	uint32		last;

	if (nlong == 0)
		return 0;
	last = places[nlong - 1];
	return grn_f16_to_f32(factor.norm2) >
		LONGER * grn_f16_to_f32(entries->factors[last].norm2) ? last : 0;
}

float
grnnd_typical_length(const GrnndIndex *ix, const GrnndEntries *entries)
{
	uint32		places[GRN_MAX_ENTRIES];
	uint32		nlong = sort_places(ix, entries, places);
	uint32		nsample = entries->count > 0 ? entries->count - 1 - nlong : 0;

	if (nlong == 0 || nsample == 0)
		return 0;
	return grn_f16_to_f32(entries->factors[places[nlong + nsample / 2]].norm2);
}

/* A row longer than the shortest of the long entry points takes its place. */
static bool
enter_long(const GrnndIndex *ix, GrnndEntries *entries, uint32 id,
		   const uint8_t *code, GrnFactor factor)
{
	uint32		place = place_of_shorter(ix, entries, factor);

	if (place == 0 || grn_find_id(entries->ids, entries->count, id) >= 0)
		return false;
	grnnd_set_entry(ix, entries, place, id, code, factor);
	return true;
}

/* ---- inserts ---- */

typedef struct NewEntry
{
	const GrnndIndex *ix;
	uint32		id;
	const GrnndPoint *p;
	uint32		draw;			/* put_offered: the row's lot */
	uint32		expected;		/* put_first: entries[0] as seen */
} NewEntry;

/* The place that a new row takes among the entry points, or 0. */
static uint32
place_for_new(const NewEntry *n, const GrnndEntries *entries)
{
	uint32		places[GRN_MAX_ENTRIES];
	uint32		nlong;
	uint32		place;

	if (entries->count == 0)
		return 0;				/* vacuum has emptied the index meanwhile */
	if (entries->count < GRN_MAX_ENTRIES)
		return entries->count;
	place = place_of_shorter(n->ix, entries, n->p->factor);
	if (place > 0)
		return place;
	nlong = sort_places(n->ix, entries, places);
	return n->draw < entries->count - 1 - nlong ? places[nlong + n->draw] : 0;
}

static bool
put_offered(GrnndEntries *entries, void *arg)
{
	NewEntry   *n = arg;
	uint32		place = place_for_new(n, entries);

	if (place == 0)
		return false;
	entries->count = Max(entries->count, place + 1);
	grnnd_set_entry(n->ix, entries, place, n->id, n->p->code, n->p->factor);
	return true;
}

/*
 * Entry points but the first, and the longest rows, are a sample of the rows, kept by
 * reservoir sampling: row number n takes the place of one of m with probability
 * m / n.  So they follow the data as it drifts.
 */
void
grnnd_offer_entry(Relation index, const GrnndIndex *ix, uint32 id, const GrnndPoint *p,
				  const GrnndEntries *entries)
{
	uint32		rows = Max(grnnd_id_limit(index, ix), 1);
	NewEntry	n = {.ix = ix, .id = id, .p = p};

	n.draw = (uint32) pg_prng_uint64_range(&pg_global_prng_state, 0, rows - 1);
	if (place_for_new(&n, entries) > 0)
		grnnd_change_entries(index, ix, put_offered, &n);
}

static bool
put_first(GrnndEntries *entries, void *arg)
{
	NewEntry   *n = arg;

	if ((entries->count > 0 ? entries->ids[0] : GRN_INVALID_ID) != n->expected)
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
	return ix->encoder.code_dims > 0 && (ix->encoder.kind == GRN_CODES_DIRECTIONS ? x > y : x < y);
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
	bool		keep_first;		/* drop_dead: entries[0] may be dead */
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
		if ((!grnnd_set_has(&c->v->dead, entries->ids[i]) || (i == 0 && c->keep_first)) &&
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

/* The longest rows that vacuum has met. */
static bool
put_longest(GrnndEntries *entries, void *arg)
{
	const VacuumEntries *c = arg;
	const GrnndRoot *root = c->root;

	return enter_long(c->v->ix, entries, root->id, root->code, root->factor);
}

void
grnnd_note_length(GrnndVacuum *v, uint32 id, GrnFactor factor)
{
	float		length = grn_f16_to_f32(factor.norm2);
	uint32		i = v->nlongest;

	if (v->ix->key.metric->long_entries == 0 || v->ix->encoder.code_dims == 0)
		return;
	/* a page may be looked at again */
	if ((i == v->ix->key.metric->long_entries && length <= v->lengths[i - 1]) ||
		grn_find_id(v->longest, v->nlongest, id) >= 0)
		return;
	if (i < v->ix->key.metric->long_entries)
		v->nlongest++;
	else
		i--;
	for (; i > 0 && v->lengths[i - 1] < length; i--)
	{
		v->lengths[i] = v->lengths[i - 1];
		v->longest[i] = v->longest[i - 1];
	}
	v->lengths[i] = length;
	v->longest[i] = id;
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
grnnd_enter_longest(GrnndVacuum *v)
{
	GrnndRoot	one = {.code = palloc(v->ix->layout.code_bytes + 1)};
	VacuumEntries c = {.v = v, .root = &one};

	for (uint32 i = 0; i < v->nlongest; i++)
		if (grnnd_take_root(v, v->longest[i], &one))
			grnnd_change_entries(v->index, v->ix, put_longest, &c);
}

/* Drops dead entry points and gives their places to random live nodes, the first to root. */
static void
replace_dead(VacuumEntries *c, const GrnndRoot *root)
{
	GrnndVacuum *v = c->v;
	GrnndRoot	one = {.code = palloc(v->ix->layout.code_bytes + 1)};
	bool		dropped = grnnd_change_entries(v->index, v->ix, drop_dead, c);

	/* the root to be, which stands in no entry point's place yet */
	if (root != NULL && root->id != root->expected)
	{
		dropped = true;
		c->root = root;
		grnnd_change_entries(v->index, v->ix, append, c);
	}
	c->root = &one;
	for (int i = 0; dropped && i < GRN_MAX_ENTRIES; i++)
	{
		uint32		at = (uint32) pg_prng_uint64_range(&pg_global_prng_state, 0, v->limit - 1);
		uint32		id = grnnd_set_next(&v->live, at);

		if (id != GRN_INVALID_ID && !grnnd_set_has(&v->dead, id) &&
			grnnd_take_root(v, id, &one))
			grnnd_change_entries(v->index, v->ix, append, c);
	}
}

void
grnnd_prepare_entries(GrnndVacuum *v, const GrnndRoot *root)
{
	VacuumEntries c = {.v = v, .keep_first = true};

	replace_dead(&c, root);
}

void
grnnd_renew_entries(GrnndVacuum *v)
{
	VacuumEntries c = {.v = v};

	replace_dead(&c, NULL);
	grnnd_enter_longest(v);
}
