/*
 * entry_points.c - which nodes are entry points: the longest rows, and those that inserts
 * offer.
 */
#include "am/write/entry_points.h"

#include "common/pg_prng.h"

#include "am/page.h"
#include "am/write/edit.h"
#include "graph/space.h"
#include "graph/stored/prune.h"

/* ---- long rows ---- */

/*
 * For inner product half of the entry points are the longest rows
 * (GrnMetricInfo.long_entries).  Rows much longer than others answer every query and lie
 * close together in the graph's space, but no way that a search by inner products takes
 * need lead to them.  One alone is not enough:
 * its own product with the query may be less than those of the short rows nearby.
 */

/*
 * Writes to order [GRN_MAX_ENTRIES] which of the entries but entries[0] are the longest, if the
 * metric has such, the longest first, and then which are the sample.  Returns how many
 * count as long: none where codes say nothing of lengths.
 */
static uint32
sort_by_length(const GrnndIndex *ix, const GrnndEntries *entries, uint32 *order)
{
	uint32		n = entries->count > 0 ? entries->count - 1 : 0;

	for (uint32 i = 0; i < n; i++)
		order[i] = i + 1;
	if (ix->key.metric->long_entries == 0 || !grn_has_codes(&ix->encoder))
		return 0;
	for (uint32 i = 1; i < n; i++)
	{
		uint32		at = order[i];
		float		length = grn_factor_length(entries->factors[at]);
		uint32		j = i;

		for (; j > 0 && grn_factor_length(entries->factors[order[j - 1]]) < length; j--)
			order[j] = order[j - 1];
		order[j] = at;
	}
	return Min(n, ix->key.metric->long_entries);
}

/* Which long entry gives way to a row of this factor, because it is shorter; or 0. */
static uint32
find_shorter(const GrnndIndex *ix, const GrnndEntries *entries, GrnFactor factor)
{
	uint32		order[GRN_MAX_ENTRIES];
	uint32		nlong = sort_by_length(ix, entries, order);
	uint32		last;

	if (nlong == 0)
		return 0;
	last = order[nlong - 1];
	return grn_factor_length(factor) >
		GRN_LONGER * grn_factor_length(entries->factors[last]) ? last : 0;
}

float
grnnd_typical_length(const GrnndIndex *ix, const GrnndEntries *entries)
{
	uint32		order[GRN_MAX_ENTRIES];
	uint32		nlong = sort_by_length(ix, entries, order);
	uint32		nsample = entries->count > 0 ? entries->count - 1 - nlong : 0;

	if (nlong == 0 || nsample == 0)
		return 0;
	return grn_factor_length(entries->factors[order[nlong + nsample / 2]]);
}

/* A row longer than the shortest of the long entry points takes its place. */
static bool
enter_long(const GrnndIndex *ix, GrnndEntries *entries, uint32 id,
		   const uint8_t *code, GrnFactor factor)
{
	uint32		at = find_shorter(ix, entries, factor);

	if (at == 0 || grn_find_id(entries->ids, entries->count, id) >= 0)
		return false;
	grnnd_set_entry(ix, entries, at, id, code, factor);
	return true;
}

void
grnnd_note_length(const GrnndIndex *ix, GrnndLongest *longest, uint32 id, GrnFactor factor)
{
	float		length = grn_factor_length(factor);
	uint32		i = longest->n;
	uint32		most = ix->key.metric->long_entries;

	if (most == 0 || !grn_has_codes(&ix->encoder))
		return;
	/* a page may be looked at again */
	if ((i == most && length <= longest->lengths[i - 1]) ||
		grn_find_id(longest->ids, longest->n, id) >= 0)
		return;
	if (i < most)
		longest->n++;
	else
		i--;
	for (; i > 0 && longest->lengths[i - 1] < length; i--)
	{
		longest->lengths[i] = longest->lengths[i - 1];
		longest->ids[i] = longest->ids[i - 1];
	}
	longest->lengths[i] = length;
	longest->ids[i] = id;
}

/* A node that may become a long entry point. */
typedef struct LongNode
{
	const GrnndIndex *ix;
	uint32		id;
	uint8_t    *code;
	GrnFactor	factor;
} LongNode;

static bool
put_long(GrnndEntries *entries, void *arg)
{
	const LongNode *n = arg;

	return enter_long(n->ix, entries, n->id, n->code, n->factor);
}

void
grnnd_enter_longest(Relation index, const GrnndIndex *ix, const GrnndLongest *longest,
					BufferAccessStrategy strategy)
{
	LongNode	n = {.ix = ix, .code = palloc(ix->layout.code_bytes + 1)};

	for (uint32 i = 0; i < longest->n; i++)
	{
		n.id = longest->ids[i];
		if (grnnd_copy_own_code(index, ix, n.id, strategy, n.code, &n.factor))
			grnnd_change_entries(index, ix, put_long, &n);
	}
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

/* Which entry a new row becomes, or 0. */
static uint32
entry_for_new(const NewEntry *n, const GrnndEntries *entries)
{
	uint32		order[GRN_MAX_ENTRIES];
	uint32		nlong;
	uint32		at;

	if (entries->count == 0)
		return 0;				/* vacuum has emptied the index meanwhile */
	if (entries->count < GRN_MAX_ENTRIES)
		return entries->count;
	at = find_shorter(n->ix, entries, n->p->factor);
	if (at > 0)
		return at;
	nlong = sort_by_length(n->ix, entries, order);
	return n->draw < entries->count - 1 - nlong ? order[nlong + n->draw] : 0;
}

static bool
put_offered(GrnndEntries *entries, void *arg)
{
	NewEntry   *n = arg;
	uint32		at = entry_for_new(n, entries);

	if (at == 0)
		return false;
	entries->count = Max(entries->count, at + 1);
	grnnd_set_entry(n->ix, entries, at, n->id, n->p->code, n->p->factor);
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
	if (entry_for_new(&n, entries) > 0)
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
