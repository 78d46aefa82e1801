/*
 * sample.c - rows of the index drawn at random, on pages of their own.
 *
 * The pages have room for GRNND_SAMPLE_ROWS rows.  A build fills all pages evenly.  An insert
 * replaces a row with the probability that keeps the sample uniform (reservoir sampling).  A
 * vacuum that frees nodes draws a new sample while it reads the nodes.  A node's signature never
 * changes, so no other operation changes the sample.
 */
#include "am/filter/filter.h"

#include "access/generic_xlog.h"
#include "common/pg_prng.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "am/index/index.h"

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

static GrnndSample *
new_sample(const GrnLayout *l, bool sigs)
{
	GrnndSample *sample = palloc(sizeof(GrnndSample));

	sample->count = 0;
	sample->codes = palloc(GRNND_SAMPLE_ROWS * l->code_bytes + 1);
	sample->sigs = sigs ? palloc(GRNND_SAMPLE_ROWS * l->sig_bytes) : NULL;
	return sample;
}

static void
set_row(const GrnLayout *l, GrnndSample *sample, uint32 i, const GrnEdge *row)
{
	sample->ids[i] = row->id;
	sample->factors[i] = row->factor;
	if (l->code_bytes > 0)
		memcpy(sample->codes + (Size) i * l->code_bytes, row->code, l->code_bytes);
	if (sample->sigs != NULL)
		memcpy(sample->sigs + (Size) i * l->sig_bytes, row->sig, l->sig_bytes);
}

GrnndSample *
grnnd_pick_sample(GrnndStore *store, const GrnFilter *filter, double *share)
{
	const GrnndIndex *ix = store->ix;
	const GrnLayout *l = &ix->layout;
	GrnndSample *sample = new_sample(l, false);
	uint32		bytes = row_bytes(l);
	uint32		seen = 0;

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
			if (row.id < GRN_MAX_NODES)
				set_row(l, sample, sample->count++, &row);
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

void
grnnd_draw_begin(GrnndDraw *d, const GrnLayout *layout)
{
	d->layout = layout;
	d->seen = 0;
	d->sample = layout->sig_bytes > 0 ? new_sample(layout, true) : NULL;
}

void
grnnd_draw(GrnndDraw *d, uint32 id, const GrnRecord *rec)
{
	GrnEdge		row;
	uint64		at = d->seen++;

	if (d->sample == NULL)
		return;
	row = grn_own_edge(d->layout, rec, id);
	if (at >= GRNND_SAMPLE_ROWS)
		at = pg_prng_uint64_range(&pg_global_prng_state, 0, at);
	else
		d->sample->count++;
	if (at < GRNND_SAMPLE_ROWS)
		set_row(d->layout, d->sample, (uint32) at, &row);
}

void
grnnd_draw_end(GrnndDraw *d, Relation index, const GrnndIndex *ix)
{
	const GrnLayout *l = &ix->layout;
	const GrnndSample *s = d->sample;

	for (uint32 i = 0; i < ix->meta.sample_pages && s != NULL; i++)
	{
		Buffer		buffer = read_page(index, ix, i, BUFFER_LOCK_EXCLUSIVE);
		GenericXLogState *xlog = GenericXLogStart(index);
		Page		page = GenericXLogRegisterBuffer(xlog, buffer, 0);

		memset(GrnndPagePayload(page), 0, GRNND_PAYLOAD);
		/* distribute consecutive nodes over all pages, so that each page is a random sample */
		for (uint32 at = i; at < s->count; at += ix->meta.sample_pages)
		{
			GrnEdge		row = {.id = s->ids[at], .factor = s->factors[at],
				.code = s->codes + (Size) at * l->code_bytes,
				.sig = s->sigs + (Size) at * l->sig_bytes};

			if (!grnnd_sample_append(l, page, &row))
				break;
		}
		GenericXLogFinish(xlog);
		UnlockReleaseBuffer(buffer);
	}
}

/* ---- codes ---- */

/*
 * Copies the code of a node's record to row j of page i, unless the row has another node by now.
 */
static void
encode_row(Relation index, const GrnndIndex *ix, uint32 i, uint32 j, uint32 id, uint8 *code)
{
	const GrnLayout *l = &ix->layout;
	GrnFactor	factor;
	Buffer		buffer;

	/* hold no lock on the sample while reading a record */
	if (id >= grnnd_id_limit(index, ix) ||
		!grnnd_copy_own_code(index, ix, id, NULL, code, &factor))
		return;
	buffer = read_page(index, ix, i, BUFFER_LOCK_EXCLUSIVE);
	if (j < *rows_on(BufferGetPage(buffer)) &&
		get_row(l, BufferGetPage(buffer), j).id == id)
	{
		GenericXLogState *xlog = GenericXLogStart(index);
		Page		page = GenericXLogRegisterBuffer(xlog, buffer, 0);
		char	   *at = row_at(l, page, j) + sizeof(uint32);

		memcpy(at, &factor, sizeof(factor));
		memcpy(at + sizeof(factor), code, l->code_bytes);
		GenericXLogFinish(xlog);
	}
	UnlockReleaseBuffer(buffer);
}

void
grnnd_encode_sample(Relation index, const GrnndIndex *ix)
{
	uint8	   *code = palloc(ix->layout.code_bytes + 1);
	uint32	   *ids = palloc(rows_per_page(&ix->layout) * sizeof(uint32));

	for (uint32 i = 0; i < ix->meta.sample_pages; i++)
	{
		Buffer		buffer = read_page(index, ix, i, BUFFER_LOCK_SHARE);
		Page		page = BufferGetPage(buffer);
		uint32		count = *rows_on(page);

		for (uint32 j = 0; j < count; j++)
			ids[j] = get_row(&ix->layout, page, j).id;
		UnlockReleaseBuffer(buffer);
		for (uint32 j = 0; j < count; j++)
			encode_row(index, ix, i, j, ids[j], code);
	}
	pfree(ids);
	pfree(code);
}
