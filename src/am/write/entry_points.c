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

void
grnnd_enter_longest(Relation index, const GrnndIndex *ix, const GrnndLongest *longest,
					BufferAccessStrategy strategy)
{
	uint8_t    *code = palloc(ix->layout.code_bytes + 1);

	for (uint32 i = 0; i < longest->n; i++)
	{
		uint32		id = longest->ids[i];
		uint32		at;
		bool		enters;
		GrnFactor	factor;
		GrnEntryLengths lengths;
		GrnndEntries *entries;

		if (!grnnd_copy_own_code(index, ix, id, strategy, code, &factor))
			continue;
		/* replaces the shortest of the long entry points by a longer row */
		entries = grnnd_lock_entries(index, ix);
		sort_by_length(ix, entries, &lengths);
		at = grn_shorter_entry(&lengths, grn_factor_length(factor));
		enters = at > 0 && grn_find_id(entries->ids, entries->count, id) < 0;
		if (enters)
			grnnd_set_entry(ix, entries, at, id, code, factor);
		grnnd_unlock_entries(index, ix, entries, enters);
	}
}

/* ---- inserts ---- */

/* Returns the entry that a new row takes, or 0. */
static uint32
entry_for_new(const GrnndIndex *ix, const GrnndEntries *entries, const GrnndPoint *p, uint32 draw)
{
	GrnEntryLengths e;
	uint32		at;

	if (entries->count == 0)
		return 0;				/* vacuum has emptied the index meanwhile */
	if (entries->count < GRN_MAX_ENTRIES)
		return entries->count;
	sort_by_length(ix, entries, &e);
	at = grn_shorter_entry(&e, grn_factor_length(p->factor));
	if (at > 0)
		return at;
	return draw < e.count - 1 - e.nlong ? e.order[e.nlong + draw] : 0;
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
	uint32		draw = (uint32) (grn_random(ix->meta.params.seed, rows, id) % rows);
	uint32		at;
	GrnndEntries *now;

	if (entry_for_new(ix, entries, p, draw) == 0)
		return;
	now = grnnd_lock_entries(index, ix);
	at = entry_for_new(ix, now, p, draw);
	if (at > 0)
	{
		now->count = Max(now->count, at + 1);
		grnnd_set_entry(ix, now, at, id, p->code, p->factor);
	}
	grnnd_unlock_entries(index, ix, now, at > 0);
}

bool
grnnd_put_first_entry(Relation index, const GrnndIndex *ix, uint32 id, const uint8_t *code,
					  GrnFactor factor, uint32 expected)
{
	GrnndEntries *entries = grnnd_lock_entries(index, ix);
	bool		same = (entries->count > 0 ? entries->ids[0] : GRN_INVALID_ID) == expected;

	if (same)
	{
		grnnd_set_entry(ix, entries, 0, id, code, factor);
		entries->count = Max(entries->count, 1);
	}
	return grnnd_unlock_entries(index, ix, entries, same);
}
