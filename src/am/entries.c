/*
 * entries.c - changes of the entry page.
 */
#include "write.h"

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
