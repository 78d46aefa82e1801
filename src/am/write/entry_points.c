/* entry_points.c - maintains entry points: the longest rows, and rows that inserts offer. */
#include "am/write/link.h"


#include "am/index/index.h"
#include "am/write/write.h"
#include "space/space.h"
#include "store/prune.h"

/* ---- long rows ---- */

/* Lengths of the entries. No entry counts as long if codes contain no lengths. */
static void
sort_by_length(const GrnndIndex *ix, const GrnndEntries *entries, GrnEntryLengths *e)
{
	e->count = entries->count;
	for (uint32 i = 0; i < entries->count; i++)
		e->lengths[i] = grn_factor_length(entries->factors[i]);
	grn_sort_entries(e, grn_has_codes(&ix->encoder) ? ix->key.metric->long_entries : 0);
}

float
grnnd_typical_length(const GrnndIndex *ix, const GrnndEntries *entries)
{
	GrnEntryLengths e;
	uint32		nsample;

	sort_by_length(ix, entries, &e);
	nsample = e.count > 0 ? e.count - 1 - e.nlong : 0;
	if (e.nlong == 0 || nsample == 0)
		return 0;
	return e.lengths[e.order[e.nlong + nsample / 2]];
}

/* Replaces the shortest of the long entry points by a longer row. */
static bool
enter_long(const GrnndIndex *ix, GrnndEntries *entries, uint32 id,
		   const uint8_t *code, GrnFactor factor)
{
	GrnEntryLengths e;
	uint32		at;

	sort_by_length(ix, entries, &e);
	at = grn_shorter_entry(&e, grn_factor_length(factor));
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
	/* a page may be read twice */
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

/* A candidate for a long entry point. */
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
	uint32		draw;			/* put_offered: the row's random number */
	uint32		expected;		/* put_first: entries[0] when it was read */
} NewEntry;

/* Returns the entry that a new row takes, or 0. */
static uint32
entry_for_new(const NewEntry *n, const GrnndEntries *entries)
{
	GrnEntryLengths e;
	uint32		at;

	if (entries->count == 0)
		return 0;				/* vacuum has emptied the index meanwhile */
	if (entries->count < GRN_MAX_ENTRIES)
		return entries->count;
	sort_by_length(n->ix, entries, &e);
	at = grn_shorter_entry(&e, grn_factor_length(n->p->factor));
	if (at > 0)
		return at;
	return n->draw < e.count - 1 - e.nlong ? e.order[e.nlong + n->draw] : 0;
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
 * The entry points, except the first and the longest rows, are a sample of the rows by reservoir
 * sampling: row number n replaces one of m entries with probability m / n. So entry points follow
 * the data as it drifts.
 */
void
grnnd_offer_entry(Relation index, const GrnndIndex *ix, uint32 id, const GrnndPoint *p,
				  const GrnndEntries *entries)
{
	uint32		rows = Max(grnnd_id_limit(index, ix), 1);
	NewEntry	n = {.ix = ix, .id = id, .p = p};

	n.draw = (uint32) (grn_random(ix->meta.params.seed, rows, id) % rows);
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
