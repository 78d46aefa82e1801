/*
 * write_index_pages.c - completes the pages of records that the builder forms, and forms the other
 * pages of a new index.
 */
#include "postgres.h"

#include "am/create/write_index_impl.h"
#include "am/index/index.h"
#include "store/codec.h"

/* ---- records ---- */

/* The number of the first chain record of a node.  The node must have a chain. */
static uint32
first_chain(const GrnndNewIndex *new, uint32 node)
{
	uint64		low = 0;
	uint64		high = new->plan.nchains;

	while (low < high)
	{
		uint64		mid = low + (high - low) / 2;

		if (new->chains[mid].node < node)
			low = mid + 1;
		else
			high = mid;
	}
	return (uint32) low;
}

/* Writes ntids heap TIDs of a node, from TID number `first`, and the values beside each TID. */
static void
put_tids(const GrnndNewIndex *new, uint32 node, uint32 first, uint32 ntids, uint8 *out,
		 uint8 *attrs)
{
	const uint32 *rows = new->built.rows + new->built.row_start[node] + first;
	Size		attr_bytes = new->layout.attr_bytes;

	for (uint32 i = 0; i < ntids; i++)
	{
		ItemPointerData tid;

		grnnd_unpack_tid(new->tids[rows[i]], &tid);
		memcpy(out, &tid, GRN_TID_BYTES);
		out += GRN_TID_BYTES;
		if (attr_bytes > 0)
			memcpy(attrs + i * attr_bytes, grnnd_row_attrs(new, rows[i]), attr_bytes);
	}
}

/* Writes the TIDs and values of a node, whose record the builder has formed. */
static void
complete_node(const GrnndNewIndex *new, uint32 node, GrnRecord *rec)
{
	const GrnLayout *l = &new->layout;
	uint32		ntids = new->built.row_start[node + 1] - new->built.row_start[node];
	const char *what = rec->state == GRN_NODE ? grn_record_check(l, rec, node, new->nodes) : "a node has no record";

	if (what != NULL)
		grnnd_bad_result(what);
	rec->ntids = (uint8) Min(ntids, l->tids_max);
	put_tids(new, node, 0, rec->ntids, GRN_REC_PTR(rec, l->off_tids), grn_rec_attrs(l, rec));
	rec->next = ntids > l->tids_max ? new->nodes + first_chain(new, node) : GRN_INVALID_ID;
}

static void
form_chain(const GrnndNewIndex *new, uint32 number, void *rec)
{
	const GrnLayout *l = &new->layout;
	const GrnndChain *c = &new->chains[number];
	GrnRecord  *r = rec;

	memset(rec, 0, Min(l->record_bytes, l->payload));
	r->state = GRN_TIDS;
	r->ntids16 = (uint16) c->ntids;
	r->next = number + 1 < new->plan.nchains && c[1].node == c->node ?
		new->nodes + number + 1 : GRN_INVALID_ID;
	grn_tids_set_owner(r, c->node, 0);
	put_tids(new, c->node, c->first, c->ntids, GRN_REC_PTR(rec, l->off_tids),
			 grn_rec_attrs(l, rec));
}

static void
complete_record(const GrnndNewIndex *new, uint64 id, GrnRecord *rec)
{
	const char *what;

	if (id < new->nodes)
		complete_node(new, (uint32) id, rec);
	else if (id < (uint64) new->nodes + new->plan.nchains)
		form_chain(new, (uint32) (id - new->nodes), rec);
	else
	{
		what = rec->state == GRN_LIST || rec->state == GRN_FREE ?
			grn_record_check(&new->layout, rec, (uint32) id, (uint32) new->plan.records) : "a list has another record";
		if (what != NULL)
			grnnd_bad_result(what);
	}
}

void
grnnd_complete_page(GrnndNewIndex *new, BlockNumber number, Page page)
{
	const GrnLayout *l = &new->layout;
	uint64		id = (uint64) number * l->per_page / l->span;

	if (number % l->span > 0)
	{
		grnnd_page_adopt(page, GRNND_TAIL);
		return;
	}
	grnnd_page_adopt(page, GRNND_NODES);
	for (uint32 slot = 0; slot < l->per_page && id < new->plan.records; slot++, id++)
		complete_record(new, id, (GrnRecord *) (GrnndPagePayload(page) + (size_t) slot * l->record_bytes));
}

void
grnnd_form_entry_page(const GrnndNewIndex *new, Page page)
{
	const GrnLayout *l = &new->layout;
	char	   *payload = GrnndPagePayload(page);

	grnnd_page_init(page, GRNND_ENTRIES);
	((GrnndEntryHeader *) payload)->count = new->plan.result.nentries;
	for (uint32 i = 0; i < new->plan.result.nentries; i++)
	{
		uint32		id = new->plan.result.entries[i];

		((uint32 *) (payload + GRNND_ENTRY_OFF_IDS))[i] = id;
		if (new->built.codes != NULL)
		{
			((GrnFactor *) (payload + GRNND_ENTRY_OFF_FACTORS))[i] = new->built.factors[id];
			memcpy(payload + GRNND_ENTRY_OFF_CODES + (size_t) i * l->code_bytes,
				   new->built.codes + (uint64) id * l->code_bytes, l->code_bytes);
		}
	}
}

/* Forms page `number` of an array of n floats.  floats NULL: zeroes. */
static void
form_floats_page(Page page, const float *floats, size_t n, uint32 number)
{
	size_t		begin = (size_t) number * GRNND_PAYLOAD;

	grnnd_page_init(page, GRNND_CODEC);
	if (floats != NULL)
		memcpy(GrnndPagePayload(page), (const char *) floats + begin,
			   Min(GRNND_PAYLOAD, n * sizeof(float) - begin));
}

void
grnnd_form_codec_page(const GrnndNewIndex *new, uint32 number, Page page)
{
	form_floats_page(page, new->built.codec, grn_codec_floats(new->plan.meta.dim, grn_code_dims(new->layout.shape)),
					 number);
}

void
grnnd_form_center_page(const GrnndNewIndex *new, uint32 number, Page page)
{
	form_floats_page(page, new->built.center, new->plan.meta.dim, number);
}

void
grnnd_form_meta_page(GrnndNewIndex *new, Page page)
{
	GrnndMeta  *meta = &new->plan.meta;

	meta->crc = grnnd_meta_crc(meta);
	grnnd_page_init(page, GRNND_META);
	memcpy(GrnndPagePayload(page), meta, sizeof(*meta));
	new->report.crc = grnnd_report_crc(&new->report);
	memcpy(GrnndPagePayload(page) + GRNND_META_OFF_REPORT, &new->report, sizeof(new->report));
	new->queried.crc = grnnd_queried_crc(&new->queried);
	memcpy(GrnndPagePayload(page) + GRNND_META_OFF_QUERIED, &new->queried, sizeof(new->queried));
}
