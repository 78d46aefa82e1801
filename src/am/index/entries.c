/*
 * entries.c - reads and changes the entry page.
 */
#include "am/index/index.h"

#include "access/generic_xlog.h"

/* Reads the entry page and locks it in this mode. */
static GrnndEntries *
read_entries(Relation index, const GrnndIndex *ix, int lockmode)
{
	GrnndEntries *entries = palloc(sizeof(GrnndEntries));
	Size		code_bytes = GRN_MAX_ENTRIES * (Size) ix->layout.code_bytes;
	const char *payload;

	entries->codes = palloc(Max(code_bytes, 1));
	entries->buffer = grnnd_read(index, ix->meta.entry_block, lockmode, GRNND_ENTRIES, NULL);
	payload = GrnndPagePayload(BufferGetPage(entries->buffer));
	entries->count = ((const GrnndEntryHeader *) payload)->count;
	if (entries->count > GRN_MAX_ENTRIES)
		grnnd_corrupt(index, ix->meta.entry_block, "too many entry points");
	memcpy(entries->ids, payload + GRNND_ENTRY_OFF_IDS, sizeof(entries->ids));
	memcpy(entries->factors, payload + GRNND_ENTRY_OFF_FACTORS, sizeof(entries->factors));
	memcpy(entries->codes, payload + GRNND_ENTRY_OFF_CODES, code_bytes);
	return entries;
}

GrnndEntries *
grnnd_get_entries(Relation index, const GrnndIndex *ix)
{
	GrnndEntries *entries = read_entries(index, ix, BUFFER_LOCK_SHARE);

	UnlockReleaseBuffer(entries->buffer);
	return entries;
}

GrnStoredGraph
grnnd_stored_graph(Relation index, const GrnndIndex *ix, GrnStore *const *store)
{
	const GrnndEntries *entries = grnnd_get_entries(index, ix);

	return (GrnStoredGraph) {.layout = &ix->layout, .codec = &ix->codec, .metric = ix->key.metric, .stores = store,
							 .entries = entries->ids, .entry_codes = entries->codes, .entry_factors = entries->factors,
							 .nentries = entries->count};
}

GrnndEntries *
grnnd_lock_entries(Relation index, const GrnndIndex *ix)
{
	return read_entries(index, ix, BUFFER_LOCK_EXCLUSIVE);
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
grnnd_unlock_entries(Relation index, const GrnndIndex *ix, GrnndEntries *entries, bool changed)
{
	if (changed)
	{
		GenericXLogState *xlog = GenericXLogStart(index);
		char	   *payload = GrnndPagePayload(GenericXLogRegisterBuffer(xlog, entries->buffer, 0));

		((GrnndEntryHeader *) payload)->count = entries->count;
		memcpy(payload + GRNND_ENTRY_OFF_IDS, entries->ids, sizeof(entries->ids));
		memcpy(payload + GRNND_ENTRY_OFF_FACTORS, entries->factors, sizeof(entries->factors));
		memcpy(payload + GRNND_ENTRY_OFF_CODES, entries->codes,
			   GRN_MAX_ENTRIES * (Size) ix->layout.code_bytes);
		GenericXLogFinish(xlog);
	}
	UnlockReleaseBuffer(entries->buffer);
	pfree(entries->codes);
	pfree(entries);
	return changed;
}
