/*
 * vacuum_entries.c - replaces dead entry points: entries[0], from which all nodes are reached, and
 * the rest.
 */
#include "am/write/vacuum.h"

#include <math.h>

#include "am/index/index.h"
#include "am/write/write.h"
#include "space/space.h"
#include "store/prune.h"

/* A root nearer to the center of the data is better; without codes any root will do. */
static bool
is_better_root(const GrnndIndex *ix, GrnFactor a, GrnFactor b)
{
	return grn_has_codes(&ix->encoder) && grn_is_more_central(&ix->encoder, a, b);
}

/* Copies entries[0] to root, as the current and as the new content. */
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
	if (!grnnd_copy_own_code(v->index, v->ix, id, v->strategy, root->code, &root->factor))
		return false;
	root->id = id;
	return true;
}

/* Returns the best live node among the other entry points and the dead entry point's neighbors. */
static uint32
best_successor(GrnndVacuum *v, const GrnndEntries *entries)
{
	const GrnLayout *l = &v->ix->layout;
	GrnRecord  *rec = palloc(grnnd_copy_bytes(v->ix));
	GrnFactor	best_factor = {0};
	uint32		best = GRN_INVALID_ID;

	if (entries->count == 0)
		return best;
	grnnd_copy_record(v->index, v->ix, entries->ids[0], rec, v->strategy);
	for (uint32 i = 1; i < entries->count + rec->count; i++)
	{
		uint32		n = i - entries->count;
		uint32		id = i < entries->count ? entries->ids[i] : grn_rec_ids(l, rec)[n];
		GrnFactor	factor = i < entries->count ? entries->factors[i]
			: grn_get_edge(l, rec, n).factor;

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
						  "a link to a record that is not a node");
		return;
	}
	for (uint32 id = grnnd_set_next(&v->live, 0); id != GRN_INVALID_ID;
		 id = grnnd_set_next(&v->live, id + 1))
	{
		if (grnnd_set_has(&v->dead, id))
			continue;
		if (grnnd_take_root(v, id, root))
			return;
		/* an insert that found no neighbors took the node back: nothing leads to the node */
		grnnd_set_add(&v->dead, id);
	}
	root->id = GRN_INVALID_ID;
}

bool
grnnd_publish_root(GrnndVacuum *v, const GrnndRoot *root)
{
	/* a second entry with the same id is dropped later, with dead entries */
	return root->id != root->expected && root->expected != GRN_INVALID_ID &&
		grnnd_put_first_entry(v->index, v->ix, root->id, root->code, root->factor, root->expected);
}

/* Drops dead and repeated entry points.  keep_first: entries[0] may be dead. */
static bool
drop_dead(GrnndVacuum *v, bool keep_first)
{
	GrnndEntries *entries = grnnd_lock_entries(v->index, v->ix);
	uint32		bytes = v->ix->layout.code_bytes;
	uint32		n = 0;
	bool		any;

	for (uint32 i = 0; i < entries->count; i++)
		if ((!grnnd_set_has(&v->dead, entries->ids[i]) || (i == 0 && keep_first)) &&
			grn_find_id(entries->ids, n, entries->ids[i]) < 0)
			grnnd_set_entry(v->ix, entries, n++, entries->ids[i], entries->codes + i * bytes,
							entries->factors[i]);
	any = n < entries->count;
	entries->count = n;
	return grnnd_unlock_entries(v->index, v->ix, entries, any);
}

static void
append(GrnndVacuum *v, const GrnndRoot *root)
{
	GrnndEntries *entries = grnnd_lock_entries(v->index, v->ix);
	bool		fits = entries->count > 0 && entries->count < GRN_MAX_ENTRIES &&
		grn_find_id(entries->ids, entries->count, root->id) < 0;

	if (fits)
		grnnd_set_entry(v->ix, entries, entries->count++, root->id, root->code, root->factor);
	grnnd_unlock_entries(v->index, v->ix, entries, fits);
}

typedef struct FarEntry
{
	GrnndVacuum *v;
	GrnndEntries *entries;
	GrnndRoot	root;			/* the node that was looked at last */
} FarEntry;

/* grn_far_entry(), by codes; without codes all nodes are alike. */
static float
entry_distance(void *arg, uint32 *id)
{
	FarEntry   *far = arg;
	const GrnndVacuum *v = far->v;
	const GrnndEntries *entries = far->entries;
	float		estimates[GRN_MAX_ENTRIES];
	float		nearest = INFINITY;
	GrnCodeQuery query;

	*id = grnnd_set_next(&v->live, *id);
	if (*id == GRN_INVALID_ID || grnnd_set_has(&v->dead, *id) ||
		grn_find_id(entries->ids, entries->count, *id) >= 0 || !grnnd_take_root(far->v, *id, &far->root))
		return 0;
	if (!grn_has_codes(&v->ix->encoder))
		return 1;
	grn_code_query_from_code(&v->ix->encoder, far->root.code, far->root.factor, &query);
	grn_estimate(&query, entries->codes, entries->factors, entries->count, estimates);
	for (uint32 e = 0; e < entries->count; e++)
		nearest = fminf(nearest, estimates[e]);
	return nearest;
}

/* Replaces dead entry points by live nodes far from the others, the first by root. */
static void
replace_dead(GrnndVacuum *v, const GrnndRoot *root, bool keep_first)
{
	FarEntry	far = {.v = v, .root.code = palloc(v->ix->layout.code_bytes + 1)};
	bool		dropped = drop_dead(v, keep_first);

	/* the new root, not an entry point yet */
	if (root != NULL && root->id != root->expected)
	{
		dropped = true;
		append(v, root);
	}
	while (dropped)
	{
		uint32		id;

		far.entries = grnnd_get_entries(v->index, v->ix);
		if (far.entries->count == 0 || far.entries->count == GRN_MAX_ENTRIES)
			break;
		id = grn_far_entry(v->ix->meta.params.seed, far.entries->count, v->limit, entry_distance, &far);
		dropped = id != GRN_INVALID_ID && grnnd_take_root(v, id, &far.root);
		if (dropped)
			append(v, &far.root);
	}
}

void
grnnd_prepare_entries(GrnndVacuum *v, const GrnndRoot *root)
{
	replace_dead(v, root, true);
}

void
grnnd_renew_entries(GrnndVacuum *v)
{
	replace_dead(v, NULL, false);
	grnnd_enter_longest(v->index, v->ix, &v->longest, v->strategy);
}
