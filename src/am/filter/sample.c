/*
 * sample.c - rows of the index drawn at random, on pages of their own.
 *
 * The pages have room for GRNND_SAMPLE_ROWS rows.  A build fills all pages evenly.  An insert
 * replaces a row with the probability that keeps the sample uniform (reservoir sampling).  A
 * vacuum that frees nodes draws a new sample, and so does a fit that gives records codes.  A node's
 * signature never changes, so no other operation changes the sample.
 */
#include "am/filter/filter.h"

#include "access/generic_xlog.h"
#include "common/pg_prng.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "am/index/index.h"
#include "store/prune.h"

/* Bytes of a row on a page. */
static uint32
row_bytes(const GrnLayout *l)
{
	return ((uint32) (sizeof(uint32) + sizeof(GrnFactor)) + l->code_bytes + l->sig_bytes + 3) & ~3;
}

static uint32
rows_per_page(const GrnLayout *l)
{
	return (GRNND_PAYLOAD - (uint32) sizeof(GrnndSampleHeader)) / row_bytes(l);
}

uint32
grnnd_sample_pages(const GrnLayout *l)
{
	return l->sig_bytes == 0 ? 0 : (GRNND_SAMPLE_ROWS + rows_per_page(l) - 1) / rows_per_page(l);
}

/* ---- rows on a page ---- */

static char *
row_at(const GrnLayout *l, Page page, uint32 i)
{
	return GrnndPagePayload(page) + sizeof(GrnndSampleHeader) + (Size) i * row_bytes(l);
}

static uint32 *
rows_on(Page page)
{
	return &((GrnndSampleHeader *) GrnndPagePayload(page))->count;
}

static void
put_row(const GrnLayout *l, Page page, uint32 i, const GrnEdge *row)
{
	char	   *at = row_at(l, page, i);

	memcpy(at, &row->id, sizeof(row->id));
	memcpy(at + sizeof(uint32), &row->factor, sizeof(GrnFactor));
	at += sizeof(uint32) + sizeof(GrnFactor);
	if (l->code_bytes > 0)
		memcpy(at, row->code, l->code_bytes);
	memcpy(at + l->code_bytes, row->sig, l->sig_bytes);
}

/* Row i of a page; code and sig point into the page. */
static GrnEdge
get_row(const GrnLayout *l, Page page, uint32 i)
{
	const char *at = row_at(l, page, i);
	GrnEdge		row;

	memcpy(&row.id, at, sizeof(row.id));
	memcpy(&row.factor, at + sizeof(uint32), sizeof(GrnFactor));
	row.code = (const uint8_t *) at + sizeof(uint32) + sizeof(GrnFactor);
	row.sig = row.code + l->code_bytes;
	return row;
}

bool
grnnd_sample_append(const GrnLayout *l, Page page, const GrnEdge *row)
{
	uint32	   *count = rows_on(page);

	if (*count >= rows_per_page(l))
		return false;
	put_row(l, page, (*count)++, row);
	return true;
}

static void
check_rows(Relation index, const GrnndIndex *ix, Buffer buffer)
{
	if (*rows_on(BufferGetPage(buffer)) > rows_per_page(&ix->layout))
		grnnd_corrupt(index, BufferGetBlockNumber(buffer), "too many rows of a sample");
}

/* Locks page i of the sample and checks its row count. */
static Buffer
read_page(Relation index, const GrnndIndex *ix, uint32 i, int lockmode)
{
	Buffer		buffer = grnnd_read(index, ix->meta.sample_block + i, lockmode, GRNND_SAMPLE,
									NULL);

	check_rows(index, ix, buffer);
	return buffer;
}

/* ---- reading ---- */

GrnndSample *
grnnd_pick_sample(GrnndStore *store, const GrnFilter *filter, double *share)
{
	const GrnndIndex *ix = store->ix;
	const GrnLayout *l = &ix->layout;
	GrnndSample *sample = palloc(sizeof(GrnndSample));
	uint32		bytes = row_bytes(l);
	uint32		seen = 0;

	sample->count = 0;
	sample->codes = palloc(GRNND_SAMPLE_ROWS * l->code_bytes + 1);
	for (uint32 i = 0; i < ix->meta.sample_pages && sample->count < GRNND_ENOUGH_ROWS; i++)
	{
		Buffer		buffer = grnnd_store_read(store, ix->meta.sample_block + i, GRNND_SAMPLE);
		Page		page = BufferGetPage(buffer);
		const uint8 *sig;
		uint32		rows;

		check_rows(store->index, ix, buffer);
		rows = Min(*rows_on(page), GRNND_SAMPLE_ROWS - sample->count);
		sig = get_row(l, page, 0).sig;
		for (uint32 j = 0; j < rows; j++, sig += bytes)
		{
			GrnEdge		row;

			if (!grn_sig_passes(filter, sig))
				continue;
			row = get_row(l, page, j);
			if (row.id >= GRN_MAX_NODES)
				continue;
			sample->ids[sample->count] = row.id;
			sample->factors[sample->count] = row.factor;
			memcpy(sample->codes + (Size) sample->count++ * l->code_bytes, row.code, l->code_bytes);
		}
		seen += rows;
		UnlockReleaseBuffer(buffer);
	}
	*share = (sample->count + 1.0) / (seen + 2.0);
	return sample;
}

/* ---- inserts ---- */

void
grnnd_offer_sample(Relation index, const GrnndIndex *ix, uint32 id, const GrnRecord *rec)
{
	const GrnLayout *l = &ix->layout;
	uint32		rows = Max(grnnd_id_limit(index, ix), 1);
	uint32		draw = (uint32) pg_prng_uint64_range(&pg_global_prng_state, 0, rows - 1);
	uint32		number;
	GrnEdge		row;
	GenericXLogState *xlog;
	Buffer		buffer;
	Page		page;

	if (ix->meta.sample_pages == 0 || draw >= GRNND_SAMPLE_ROWS)
		return;
	number = draw / rows_per_page(l);
	row = grn_own_edge(l, rec, id);
	buffer = read_page(index, ix, number, BUFFER_LOCK_EXCLUSIVE);
	xlog = GenericXLogStart(index);
	page = GenericXLogRegisterBuffer(xlog, buffer, 0);
	if (!grnnd_sample_append(l, page, &row))
		put_row(l, page, draw % rows_per_page(l), &row);
	GenericXLogFinish(xlog);
	UnlockReleaseBuffer(buffer);
}

/* ---- a new sample ---- */

/*
 * Random ids that are drawn for each row of a new sample.  An index of which few records are nodes
 * gets a smaller sample: with half and twice the sample is full if a quarter and a sixteenth of the
 * records are nodes.
 */
#define DRAWS_PER_ROW 8

typedef struct Drawing
{
	const GrnLayout *layout;
	Page		page;
	uint32		n;
	uint32		ids[GRNND_SAMPLE_ROWS]; /* [n] the rows so far, and the id that is looked at */
} Drawing;

/* A GrnVisitFn */
static void
take_node(void *arg, const GrnRecord *rec, const void *vec)
{
	Drawing    *d = arg;
	GrnEdge		row = grn_own_edge(d->layout, rec, d->ids[d->n]);

	d->n += rec->state == GRN_NODE && grnnd_sample_append(d->layout, d->page, &row);
}

void
grnnd_renew_sample(Relation index, const GrnndIndex *ix, BufferAccessStrategy strategy)
{
	Drawing		d = {.layout = &ix->layout, .page = palloc(BLCKSZ)};
	uint32		draws = GRNND_SAMPLE_ROWS * DRAWS_PER_ROW;
	GrnndStore	store;

	grnnd_store_init(&store, index, ix, CurrentMemoryContext);
	store.strategy = strategy;
	for (uint32 i = 0; i < ix->meta.sample_pages && store.id_limit > 0; i++)
	{
		GenericXLogState *xlog;
		Buffer		buffer;

		grnnd_page_init(d.page, GRNND_SAMPLE);
		for (; draws > 0 && d.n < GRNND_SAMPLE_ROWS && *rows_on(d.page) < rows_per_page(d.layout); draws--)
		{
			/* no lock on the sample while records are read */
			grnnd_delay_point();
			d.ids[d.n] = (uint32) pg_prng_uint64_range(&pg_global_prng_state, 0, store.id_limit - 1);
			if (grn_find_id(d.ids, d.n, d.ids[d.n]) < 0)
				store.base.visit(&store.base, d.ids[d.n], take_node, &d);
		}
		buffer = read_page(index, ix, i, BUFFER_LOCK_EXCLUSIVE);
		xlog = GenericXLogStart(index);
		memcpy(GrnndPagePayload(GenericXLogRegisterBuffer(xlog, buffer, 0)), GrnndPagePayload(d.page), GRNND_PAYLOAD);
		GenericXLogFinish(xlog);
		UnlockReleaseBuffer(buffer);
	}
	pfree(d.page);
}
