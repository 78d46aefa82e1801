/*
 * fit_fill.c - codes for all records and entry points of an index that has got a codec (steps 3 and
 * 4 of fit_codes.c).
 */
#include "am/write/fit_impl.h"

#include "access/generic_xlog.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "utils/memutils.h"

#include "am/filter/filter.h"
#include "am/index/index.h"
#include "am/test_point.h"
#include "am/write/write.h"

/* Milliseconds between two checks whether inserts have ended. */
#define WRITERS_MS 5

/*
 * Makes the codes of the nodes from f->first to f->end. While vacuum is kept out, a node can become
 * nothing but a dead node.
 */
static void
encode_nodes(Fit *f)
{
	uint32		bytes = f->ix.layout.code_bytes;
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "grnnd code",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);

	memset(f->coded, 0, f->end - f->first);
	for (uint32 id = f->first; id < f->end; id++)
	{
		Size		at = id - f->first;
		GrnndPoint	p;

		if (!grnnd_fit_visit(f, id, true))
			continue;
		grnnd_make_point(&f->ix, f->x, f->error, &p);
		memcpy(f->codes + at * bytes, p.code, bytes);
		f->factors[at] = p.factor;
		f->coded[at] = true;
		if (f->state == GRN_NODE)
			grnnd_note_length(&f->ix, &f->longest, id, p.factor);
		MemoryContextReset(context);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

/* The code of node id, if the code is at hand. */
static const uint8_t *
code_of(const Fit *f, uint32 id, GrnFactor *factor)
{
	Size		at = id - f->first;

	if (id < f->first || id >= f->end || !f->coded[at])
		return NULL;
	*factor = f->factors[at];
	return f->codes + at * f->ix.layout.code_bytes;
}

/*
 * Writes the codes at hand into a record. Other codes stay: codes of newer nodes were written by
 * their inserts, and codes of older or later ranges have their own pass.
 */
static void
put_codes(const Fit *f, GrnRecord *rec, uint32 id)
{
	const GrnLayout *l = &f->ix.layout;
	const uint32 *ids = grn_rec_ids(l, rec);
	GrnFactor	factor;
	const uint8_t *code = code_of(f, id, &factor);

	if (code != NULL)
	{
		rec->factor = factor;
		memcpy(GRN_REC_PTR(rec, l->off_code), code, l->code_bytes);
	}
	for (uint32 i = 0; i < rec->count; i++)
		if ((code = code_of(f, ids[i], &factor)) != NULL)
		{
			GrnEdge		edge = grn_get_edge(l, rec, i);

			edge.code = code;
			edge.factor = factor;
			grn_set_edge(l, rec, i, &edge);
		}
}

static void
write_records(Fit *f)
{
	const GrnLayout *l = &f->ix.layout;
	uint32		limit = f->limit;

	for (uint32 first = 0; first < f->limit; first += l->per_page)
	{
		Buffer		buffer;

		grnnd_fit_check_interrupts(f);
		buffer = grnnd_read(f->index, grnnd_node_block(&f->ix, first),
							BUFFER_LOCK_EXCLUSIVE, GRNND_NODES, NULL);
		if (!PageIsNew(BufferGetPage(buffer)))
		{
			GenericXLogState *xlog = GenericXLogStart(f->index);
			Page		page = GenericXLogRegisterBuffer(xlog, buffer, 0);

			for (uint32 i = 0; i < l->per_page; i++)
			{
				GrnRecord  *rec = grnnd_page_record(page, &f->ix, i);

				grnnd_check_record(f->index, &f->ix, first + i, rec, &limit);
				if (grn_record_leads_on(rec))
					put_codes(f, rec, first + i);
			}
			GenericXLogFinish(xlog);
		}
		UnlockReleaseBuffer(buffer);
		grnnd_test_point("fit-page");
	}
}

static void
set_entry_codes(const Fit *f)
{
	GrnndEntries *entries = grnnd_lock_entries(f->index, &f->ix);
	GrnFactor	factor;
	const uint8_t *code;

	for (uint32 i = 0; i < entries->count; i++)
		if ((code = code_of(f, entries->ids[i], &factor)) != NULL)
			grnnd_set_entry(&f->ix, entries, i, entries->ids[i], code, factor);
	grnnd_unlock_entries(f->index, &f->ix, entries, true);
}

/* Steps 3 and 4. */
void
grnnd_fit_fill(Fit *f)
{
	Size		each = f->ix.layout.code_bytes + sizeof(GrnFactor) + sizeof(bool);
	Size		room;

	/* not in the lock's queue, because new inserts would wait behind this request */
	while (!grnnd_try_lock(f->index, GRNND_WRITERS_LOCK, ShareLock))
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 WRITERS_MS, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		grnnd_fit_check_interrupts(f);
	}
	grnnd_unlock(f->index, GRNND_WRITERS_LOCK, ShareLock);

	f->limit = f->store.id_limit = grnnd_id_limit(f->index, &f->ix);
	room = Min(Max(grnnd_maintenance_memory() / each, 1), f->limit);
	f->coded = palloc_extended(room * sizeof(bool), MCXT_ALLOC_HUGE);
	f->codes = palloc_extended(room * f->ix.layout.code_bytes, MCXT_ALLOC_HUGE);
	f->factors = palloc_extended(room * sizeof(GrnFactor), MCXT_ALLOC_HUGE);
	for (f->first = 0; f->first < f->limit; f->first = f->end)
	{
		f->end = (uint32) Min(f->first + room, f->limit);
		encode_nodes(f);
		write_records(f);
		set_entry_codes(f);
	}
	grnnd_enter_longest(f->index, &f->ix, &f->longest, NULL);
	grnnd_renew_sample(f->index, &f->ix, NULL);
}
