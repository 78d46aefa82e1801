/*
 * write_index_pages.c - forms the pages of a new index from the builder's result.
 */
#include "postgres.h"

#include <math.h>

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

static void
form_node(const GrnndNewIndex *new, uint32 node, void *rec)
{
	const GrnLayout *l = &new->layout;
	uint32		ntids = new->built.row_start[node + 1] - new->built.row_start[node];
	uint8		tids[GRN_MAX_TIDS * GRN_TID_BYTES];
	uint8		attrs[GRN_MAX_TIDS * GRN_MAX_ATTR_BYTES];
	GrnRecordSource src = grn_result_record(&new->built, l, node);
	const void *row;

	row = grn_row(&new->vectors, new->built.moved ? new->built.moved[node] : new->built.rows[new->built.row_start[node]]);
	if (new->vectors.form == l->form)
	{
		src.stored = row;
		if (new->plan.result.own_items)
		{
			src.error = grn_own_item_error(l->form, l->dim, row);
			if (!(src.error >= 0) || isinf(src.error))
				grnnd_bad_result("a rounding error is not a number");
		}
	}
	else
		src.x = grn_row_values(&new->vectors, row, new->floats);
	src.ntids = Min(ntids, l->tids_max);
	put_tids(new, node, 0, src.ntids, tids, attrs);
	src.tids = tids;
	src.attrs = attrs;
	if (ntids > l->tids_max)
		src.next = new->nodes + first_chain(new, node);
	if (l->sig_bytes > 0)
	{
		src.sig = new->filters.sigs + (uint64) node * l->sig_bytes;
		src.all_sigs = new->filters.sigs;
	}
	grn_record_write(l, &src, rec);
}

static void
form_chain(const GrnndNewIndex *new, uint32 number, void *rec)
{
	const GrnLayout *l = &new->layout;
	const GrnndChain *c = &new->chains[number];
	GrnRecord  *r = rec;

	memset(rec, 0, l->record_bytes);
	r->state = GRN_TIDS;
	r->ntids16 = (uint16) c->ntids;
	r->next = number + 1 < new->plan.nchains && c[1].node == c->node ?
		new->nodes + number + 1 : GRN_INVALID_ID;
	grn_tids_set_owner(r, c->node, 0);
	put_tids(new, c->node, c->first, c->ntids, GRN_REC_PTR(rec, l->off_tids),
			 grn_rec_attrs(l, rec));
}

static void
form_record(const GrnndNewIndex *new, uint64 id, void *rec)
{
	if (id < new->nodes)
		form_node(new, (uint32) id, rec);
	else if (id < (uint64) new->nodes + new->plan.nchains)
		form_chain(new, (uint32) (id - new->nodes), rec);
	else
		grnnd_form_list(new, (uint32) id, rec);
}

void
grnnd_form_node_page(GrnndNewIndex *new, BlockNumber number, Page page)
{
	const GrnLayout *l = &new->layout;
	char	   *payload = GrnndPagePayload(page);

	if (l->span == 1)
	{
		uint64		id = (uint64) number * l->per_page;

		grnnd_page_init(page, GRNND_NODES);
		for (uint32 slot = 0; slot < l->per_page && id < new->plan.records; slot++, id++)
			form_record(new, id, payload + (size_t) slot * l->record_bytes);
	}
	else
	{
		uint64		id = number / l->span;
		uint32		offset = number % l->span * l->payload;

		grnnd_page_init(page, offset == 0 ? GRNND_NODES : GRNND_TAIL);
		if (new->scratch_id != id)
		{
			form_record(new, id, new->scratch);
			new->scratch_id = id;
		}
		memcpy(payload, new->scratch + offset, Min(l->payload, l->record_bytes - offset));
	}
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
	form_floats_page(page, new->center.x, new->plan.meta.dim, number);
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
