/*
 * entries.c - reads and changes the entry page.
 */
#include "am/index/index.h"

#include "access/generic_xlog.h"


/* Copies the page's whole arrays [GRN_MAX_ENTRIES].  Returns the number of entries. */
static uint32
copy_entries(Relation index, const GrnndIndex *ix, Buffer buffer, uint32 *ids, GrnFactor *factors,
			 uint8_t *codes)
{
	const char *payload = GrnndPagePayload(BufferGetPage(buffer));
	uint32		count = ((const GrnndEntryHeader *) payload)->count;

	if (count > GRN_MAX_ENTRIES)
		grnnd_corrupt(index, ix->meta.entry_block, "too many entry points");
	memcpy(ids, payload + GRNND_ENTRY_OFF_IDS, GRN_MAX_ENTRIES * sizeof(uint32));
	memcpy(factors, payload + GRNND_ENTRY_OFF_FACTORS, GRN_MAX_ENTRIES * sizeof(GrnFactor));
	memcpy(codes, payload + GRNND_ENTRY_OFF_CODES,
		   GRN_MAX_ENTRIES * (Size) ix->layout.code_bytes);
	return count;
}

uint32
grnnd_read_entries(Relation index, const GrnndIndex *ix, uint32 *ids,
				   GrnFactor *factors, uint8_t *codes)
{
	Buffer		buffer = grnnd_read(index, ix->meta.entry_block,
									BUFFER_LOCK_SHARE, GRNND_ENTRIES, NULL);
	uint32		count = copy_entries(index, ix, buffer, ids, factors, codes);

	UnlockReleaseBuffer(buffer);
	return count;
}

static GrnndEntries *
alloc_entries(const GrnndIndex *ix)
{
	GrnndEntries *entries = palloc(sizeof(GrnndEntries));

	entries->codes = palloc(Max(GRN_MAX_ENTRIES * (Size) ix->layout.code_bytes, 1));
	return entries;
}

GrnndEntries *
grnnd_get_entries(Relation index, const GrnndIndex *ix)
{
	GrnndEntries *entries = alloc_entries(ix);

	entries->count = grnnd_read_entries(index, ix, entries->ids, entries->factors,
										entries->codes);
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
	GrnndEntries *entries = alloc_entries(ix);

	entries->buffer = grnnd_read(index, ix->meta.entry_block, BUFFER_LOCK_EXCLUSIVE,
								 GRNND_ENTRIES, NULL);
	entries->count = copy_entries(index, ix, entries->buffer, entries->ids, entries->factors,
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
