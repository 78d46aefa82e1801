/*
 * check.c - grnnd_check(): checks every property that an index must have, and returns one row for
 * each violation.
 *
 * The first pass over the pages stores a mark of four bytes for each record, whatever the memory.
 * The second pass compares edges and chains with the marks.  check_tids.c compares heap TIDs with
 * each other and with the table.
 *
 * Inserts, vacuum and fits are locked out during a check, because a change between the passes
 * would look like damage.  The check takes locks of the index itself (lock.c), and on the table
 * only a reader's lock.  A stronger lock on the table could deadlock: a concurrent index build on
 * the table waits for the check's snapshot and holds a lock on the table.  The check reads rows by
 * a snapshot taken under these locks.  A standby cannot take the locks, so replay may cause false
 * reports there.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "access/xlog.h"
#include "common/hashfn.h"
#include "executor/executor.h"
#include "executor/tuptable.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/tuplestore.h"
#include "utils/tuplesort.h"

#include "am/callbacks.h"
#include "am/index/index.h"
#include "am/report/check_impl.h"
#include "am/test_point.h"
#include "am/write/write.h"
#include "space/form.h"
#include "store/filter.h"
#include "store/prune.h"

/* A mark: the part of a record that the second pass needs. */
#define MARK_STATE 7			/* the bits of GrnState */

PG_FUNCTION_INFO_V1(grnnd_check);

/* ---- reporting ---- */

void
grnnd_report(IndexCheck *c, BlockNumber block, int slot, const char *format,...)
{
	Datum		values[3] = {0};
	bool		nulls[3] = {false, false, false};
	char		text[256];
	va_list		args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	nulls[0] = block == InvalidBlockNumber;
	nulls[1] = slot < 0;
	values[0] = Int64GetDatum((int64) block);
	values[1] = Int32GetDatum(slot);
	values[2] = CStringGetTextDatum(text);
	tuplestore_putvalues(c->result->setResult, c->result->setDesc, values, nulls);
	pfree(DatumGetPointer(values[2]));
}

void
grnnd_report_record(IndexCheck *c, uint32 id, const char *what, uint32 other)
{
	if (other == GRN_INVALID_ID)
		grnnd_report(c, grnnd_node_block(c->ix, id), grn_node_slot(&c->ix->layout, id),
					 "record %u: %s", id, what);
	else
		grnnd_report(c, grnnd_node_block(c->ix, id), grn_node_slot(&c->ix->layout, id),
					 "record %u: %s %u", id, what, other);
}

/* ---- reading ---- */

bool
grnnd_copy_page(IndexCheck *c, BlockNumber block, GrnndPageKind kind, char *page)
{
	Buffer		buffer;
	PageHeader	header = (PageHeader) page;

	CHECK_FOR_INTERRUPTS();
	buffer = ReadBufferExtended(c->index, MAIN_FORKNUM, block, RBM_NORMAL, c->strategy);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	memcpy(page, BufferGetPage(buffer), BLCKSZ);
	UnlockReleaseBuffer(buffer);

	if (PageIsNew(page))
	{
		/* a crash between extension and first use leaves zero pages */
		if (kind != GRNND_NODES && kind != GRNND_TAIL)
			grnnd_report(c, block, -1, "zero page");
		return false;
	}
	if (header->pd_special != BLCKSZ - MAXALIGN(sizeof(GrnndSpecial)) ||
		header->pd_lower != header->pd_upper || header->pd_upper != header->pd_special ||
		((GrnndSpecial *) (page + header->pd_special))->page_id != GRNND_PAGE_ID)
	{
		grnnd_report(c, block, -1, "not a page of grnnd");
		return false;
	}
	if (((GrnndSpecial *) (page + header->pd_special))->kind != kind)
	{
		grnnd_report(c, block, -1, "page of kind %u where %u is expected",
					 ((GrnndSpecial *) (page + header->pd_special))->kind, kind);
		return false;
	}
	return true;
}

/* Hash of code, factor and signature, by which all edges to a node must match its record. */
static uint32
hash_edge(const IndexCheck *c, const GrnEdge *edge)
{
	const GrnLayout *l = &c->ix->layout;
	uint32		h = hash_bytes((const unsigned char *) edge->sig, l->sig_bytes);

	if (grnnd_has_codes(c->ix))
	{
		h = hash_combine(h, hash_bytes((const unsigned char *) edge->code, l->code_bytes));
		h = hash_combine(h, hash_bytes((const unsigned char *) &edge->factor,
									   sizeof(edge->factor)));
	}
	return h;
}

static uint32
make_mark(uint32 hash, GrnState state)
{
	return (hash & ~(uint32) MARK_STATE) | state;
}

static uint32
mark_of(const IndexCheck *c, const GrnRecord *rec)
{
	GrnEdge		own = grn_own_edge(&c->ix->layout, rec, 0);
	bool		vertex = rec->state == GRN_NODE || rec->state == GRN_DEAD;

	return make_mark(vertex ? hash_edge(c, &own) : 0, (GrnState) rec->state);
}

/* ---- first pass ---- */

static void
add_tids(IndexCheck *c, const GrnRecord *rec, uint32 id, uint32 n, uint64 digest)
{
	const GrnLayout *l = &c->ix->layout;
	const uint8_t *bytes = GRN_REC_PTR(rec, l->off_tids);

	for (uint32 i = 0; i < n; i++)
	{
		ItemPointerData tid;

		memcpy(&tid, bytes + i * GRN_TID_BYTES, sizeof(tid));
		if (!ItemPointerIsValid(&tid) || ItemPointerGetBlockNumber(&tid) >= c->heap_blocks)
		{
			grnnd_report_record(c, id, "heap TID leads out of the table", GRN_INVALID_ID);
			continue;
		}
		grnnd_put_tid(c, &tid, id, grn_rec_attrs(l, rec) + i * l->attr_bytes, digest);
	}
}

/* Checks and marks a record.  vec: its own vector; NULL if unreadable or not needed. */
static void
check_record(IndexCheck *c, const GrnRecord *rec, uint32 id, const void *vec)
{
	const GrnLayout *l = &c->ix->layout;
	const char *what = grn_record_check(l, rec, id, c->limit);
	const uint32 *ids = grn_rec_ids(l, rec);

	if (what != NULL)
	{
		grnnd_report_record(c, id, what, GRN_INVALID_ID);
		grnnd_set_add(&c->damaged, id);
		return;
	}
	c->marks[id] = mark_of(c, rec);
	if (rec->state == GRN_NODE || rec->state == GRN_DEAD)
	{
		for (uint32 i = 1; i < rec->count; i++)
			if (grn_find_id(ids, i, ids[i]) >= 0)
				grnnd_report_record(c, id, "repeated neighbor", ids[i]);
		grnnd_reach_note(&c->reach, id, ids, rec->count);
	}
	if (rec->state == GRN_NODE && grn_form(l->form)->sparse && (vec != NULL || l->span == 1))
	{
		const char *fault = grn_sparse_check(vec != NULL ? vec : GRN_REC_PTR(rec, l->off_vec), l->dim);

		if (fault != NULL)
			grnnd_report_record(c, id, fault, GRN_INVALID_ID);
	}
	if (rec->state == GRN_NODE)
	{
		add_tids(c, rec, id, rec->ntids,
				 vec != NULL ? grnnd_own_digest(c->own, vec, rec->error) : GRNND_NO_DIGEST);
		if (!grnnd_signature_fits(c->ix, c->books, rec))
			grnnd_report_record(c, id, "its signature is not that of its values", GRN_INVALID_ID);
	}
	else if (rec->state == GRN_TIDS)
	{
		grnnd_set_add(&c->chains, id);
		add_tids(c, rec, id, rec->ntids16, GRNND_NO_DIGEST);
	}
	else if (rec->state == GRN_DEAD && (rec->ntids > 0 || rec->next != GRN_INVALID_ID))
		grnnd_report_record(c, id, "dead node has heap TIDs", GRN_INVALID_ID);
}

const void *
grnnd_own_vector(IndexCheck *c, const GrnRecord *rec, uint32 id)
{
	const GrnLayout *l = &c->ix->layout;
	BlockNumber block = grnnd_node_block(c->ix, id);
	bool		node = rec->state == GRN_NODE || rec->state == GRN_DEAD;
	bool		whole = true;
	Size		done = l->vec_first;

	if (l->span == 1)
		return c->own != NULL ? GRN_REC_PTR(rec, l->off_vec) : NULL;
	memcpy(c->spanning, GRN_REC_PTR(rec, l->off_vec), l->vec_first);
	for (uint32 i = 1; i < l->span; i++)
	{
		Size		piece = Min(l->vec_bytes - done, l->payload);

		if (grnnd_copy_page(c, block + i, GRNND_TAIL, c->tail_page))
			memcpy(c->spanning + done, GrnndPagePayload(c->tail_page), piece);
		else
		{
			whole = false;
			if (node && PageIsNew(c->tail_page))
				grnnd_report(c, block + i, -1, "zero page");
		}
		done += piece;
	}
	if (!whole && node)
		grnnd_set_add(&c->reported, id);
	return whole && c->own != NULL ? c->spanning : NULL;
}

static void
first_pass(IndexCheck *c, char *page)
{
	const GrnLayout *l = &c->ix->layout;

	for (uint32 first = 0; first < c->limit; first += l->per_page)
	{
		BlockNumber block = grnnd_node_block(c->ix, first);

		if (!grnnd_copy_page(c, block, GRNND_NODES, page))
		{
			for (uint32 i = 0; i < l->per_page; i++)
				grnnd_set_add(&c->damaged, first + i);
			continue;
		}
		for (uint32 i = 0; i < l->per_page; i++)
		{
			const GrnRecord *rec = grnnd_page_record(page, c->ix, i);

			check_record(c, rec, first + i, grnnd_own_vector(c, rec, first + i));
		}
	}
}

/* ---- second pass ---- */

/*
 * Does the signature let every filter pass?  An insert that links a dead node to its new node uses
 * such a signature, because the insert does not read the dead node's signature.
 */
static bool
is_any(const GrnLayout *l, const uint8_t *sig)
{
	for (uint32 i = 0; i < l->sig_bytes; i++)
		if (sig[i] != GRN_SIG_ANY)
			return false;
	return l->sig_bytes > 0;
}

static void
check_edges(IndexCheck *c, const GrnRecord *rec, uint32 id)
{
	const GrnLayout *l = &c->ix->layout;

	for (uint32 i = 0; i < rec->count; i++)
	{
		GrnEdge		edge = grn_get_edge(l, rec, i);
		uint32		y = edge.id;
		uint32		mark;
		GrnState	state;

		/* replay on a standby may have changed the record since the first pass */
		if (y >= c->limit)
			continue;
		mark = c->marks[y];
		state = (GrnState) (mark & MARK_STATE);
		if (state == GRN_FREE)
			grnnd_report_record(c, id, "edge to a free record,", y);
		else if (state == GRN_TIDS)
			grnnd_report_record(c, id, "edge to a record of heap TIDs,", y);
		else if (state == GRN_LIST)
			grnnd_report_record(c, id, "edge to a record of a list,", y);
		else if (state == GRN_DEAD && is_any(l, edge.sig))
			continue;
		else if (make_mark(hash_edge(c, &edge), state) != mark)
			grnnd_report_record(c, id, l->sig_bytes == 0 ?
								"holds another code than the record itself of neighbor" :
								"holds another code or signature than the record itself of neighbor", y);
	}
}

const GrnRecord *
grnnd_chain_record(IndexCheck *c, uint32 id)
{
	if (grnnd_set_has(&c->damaged, id) || !grnnd_set_has(&c->chains, id))
		return NULL;
	/* replay on a standby may have changed the record */
	return grnnd_copy_record(c->index, c->ix, id, c->record, c->strategy) == GRN_TIDS ? c->record : NULL;
}

static void
check_chain(IndexCheck *c, uint32 head, const GrnRecord *rec)
{
	uint16		version = rec->version;

	for (uint32 id = rec->next; id != GRN_INVALID_ID; id = rec->next)
	{
		rec = grnnd_chain_record(c, id);
		if (rec == NULL)
		{
			grnnd_report_record(c, head, "chain of heap TIDs leads to another kind of record,", id);
			return;
		}
		/* also ends the walk around a cycle */
		if (!grnnd_set_add(&c->chained, id))
		{
			grnnd_report_record(c, head, "chain of heap TIDs enters a record for the second time,", id);
			return;
		}
		if (!grn_tids_owned_by(rec, head, version))
			grnnd_report_record(c, head, "chain of heap TIDs holds a foreign record,", id);
	}
}

/* Checks all edges and all chains. */
static void
second_pass(IndexCheck *c, char *page)
{
	const GrnLayout *l = &c->ix->layout;

	for (uint32 first = 0; first < c->limit; first += l->per_page)
	{
		bool		any = false;

		for (uint32 i = 0; i < l->per_page; i++)
			any |= !grnnd_set_has(&c->damaged, first + i);
		if (!any || !grnnd_copy_page(c, grnnd_node_block(c->ix, first), GRNND_NODES, page))
			continue;
		for (uint32 i = 0; i < l->per_page; i++)
		{
			const GrnRecord *rec = grnnd_page_record(page, c->ix, i);
			uint32		id = first + i;

			/* skip records that the first pass has reported */
			if (rec->state != GRN_NODE || grnnd_set_has(&c->damaged, id))
				continue;
			check_edges(c, rec, id);
			check_chain(c, id, rec);
		}
	}
}

/* ---- the check ---- */

static void
check_entries(IndexCheck *c, char *page)
{
	const GrnLayout *l = &c->ix->layout;
	const char *payload = GrnndPagePayload(page);
	uint32		count;

	if (!grnnd_copy_page(c, c->ix->meta.entry_block, GRNND_ENTRIES, page))
		return;
	count = ((const GrnndEntryHeader *) payload)->count;
	if (count > GRN_MAX_ENTRIES)
	{
		grnnd_report(c, c->ix->meta.entry_block, -1, "too many entry points");
		return;
	}
	for (uint32 i = 0; i < count; i++)
	{
		uint32		id = ((const uint32 *) (payload + GRNND_ENTRY_OFF_IDS))[i];
		GrnEdge		edge = grn_own_edge(l, c->reach.rec, id);
		GrnState	state = GRN_FREE;
		uint32		mark = 0;

		/* the entry page has no signatures, so use the record's own signature */
		edge.factor = ((const GrnFactor *) (payload + GRNND_ENTRY_OFF_FACTORS))[i];
		edge.code = (const uint8_t *) payload + GRNND_ENTRY_OFF_CODES + i * l->code_bytes;
		if (id >= c->limit)
		{
			grnnd_report(c, c->ix->meta.entry_block, i, "entry point %u does not exist", id);
			continue;
		}
		if (!grnnd_set_has(&c->damaged, id))
		{
			state = grnnd_copy_record(c->index, c->ix, id, c->reach.rec, c->strategy);
			mark = mark_of(c, c->reach.rec);
		}
		if (state != GRN_NODE && state != GRN_DEAD)
			grnnd_report(c, c->ix->meta.entry_block, i, "entry point %u is not a node", id);
		else if (make_mark(hash_edge(c, &edge), state) != mark)
			grnnd_report(c, c->ix->meta.entry_block, i, "code of entry point %u is not its own", id);
		else if (i == 0)
			grnnd_reach_mark(&c->reach, id);
	}
}

/* Divides maintenance_work_mem, less marks and sets, into halves for lists and the sort. */
static void
divide_memory(IndexCheck *c)
{
	Size		fixed = 6 * grnnd_set_bytes(c->limit) + (Size) c->limit * sizeof(uint32);
	Size		memory = grnnd_maintenance_memory();
	Size		half = (memory > fixed ? memory - fixed : 0) / 2;

	grnnd_set_init(&c->chains, c->limit);
	grnnd_set_init(&c->chained, c->limit);
	grnnd_set_init(&c->unlisted, c->limit);
	grnnd_set_init(&c->reported, c->limit);
	grnnd_set_init(&c->damaged, c->limit);

	c->marks = palloc_extended(Max((Size) c->limit, 1) * sizeof(uint32), MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);

	grnnd_begin_tids(c, half);
	grnnd_reach_init(&c->reach, c->index, c->ix, c->limit, half, c->strategy);
	c->reach.without = &c->damaged;
}

static void
check_index(IndexCheck *c, bool heapallindexed)
{
	char	   *page = palloc(BLCKSZ);
	const GrnSigBook *books = grnnd_index_anew(c->index)->books;

	c->ix = grnnd_index_shape(c->index);
	/* copy the books, because the cached description may free them */
	if (books != NULL)
		c->books = memcpy(palloc(c->ix->attrs->n * sizeof(GrnSigBook)), books,
						  c->ix->attrs->n * sizeof(GrnSigBook));
	c->limit = grnnd_id_limit(c->index, c->ix);
	c->strategy = GetAccessStrategy(BAS_BULKREAD);
	c->heap_blocks = RelationGetNumberOfBlocks(c->heap);
	c->record = palloc(grnnd_copy_bytes(c->ix));
	c->tail_page = palloc(BLCKSZ);
	c->spanning = palloc(c->ix->layout.vec_bytes);
	if (heapallindexed)
		c->own = grnnd_own_begin(c->index, c->ix);
	divide_memory(c);

	/* the codec's pages are unused until a fit writes them */
	for (uint32 i = c->ix->meta.fit_state == GRNND_UNFITTED ? c->ix->meta.codec_pages : 0;
		 i < c->ix->meta.codec_pages + c->ix->meta.center_pages; i++)
		(void) grnnd_copy_page(c, c->ix->meta.codec_block + i, GRNND_CODEC, page);
	first_pass(c, page);
	check_entries(c, page);
	second_pass(c, page);
	grnnd_reach_run(&c->reach);
	c->snapshot = RegisterSnapshot(GetLatestSnapshot());
	/* replay on a standby would change lists while they are read */
	if (c->damaged.count == 0 && !RecoveryInProgress())
		grnnd_check_lists(c);

	if (heapallindexed)
		grnnd_check_heap(c);
	c->fetch = GRNND_INDEX_FETCH_BEGIN(c->heap);
	c->slot = table_slot_create(c->heap, NULL);
	grnnd_check_tids(c);
	ereport(DEBUG1,
			(errmsg_internal("grnnd check: ids %u, memory %zu", c->limit,
							 MemoryContextMemAllocated(CurrentMemoryContext, true))));
	if (c->own != NULL)
		grnnd_own_end(c->own);
	table_index_fetch_end(c->fetch);
	ExecDropSingleTupleTableSlot(c->slot);
	tuplesort_end(c->tids);
	ExecDropSingleTupleTableSlot(c->tid_slot);
	UnregisterSnapshot(c->snapshot);
}

Datum
grnnd_check(PG_FUNCTION_ARGS)
{
	bool		heapallindexed = PG_GETARG_BOOL(1);
	bool		locks = !RecoveryInProgress();
	IndexCheck	c = {0};
	MemoryContext work;
	MemoryContext old;
	GrnndUser	user;

	InitMaterializedSRF(fcinfo, 0);
	c.result = (ReturnSetInfo *) fcinfo->resultinfo;

	c.index = grnnd_open_index(PG_GETARG_OID(0), grnnd_must_own, AccessShareLock, false, &c.heap);
	if (locks)
	{
		/* in this order, as vacuum takes them */
		grnnd_lock(c.index, GRNND_UPKEEP_LOCK, ShareLock);
		grnnd_lock(c.index, GRNND_WRITERS_LOCK, ExclusiveLock);
	}
	grnnd_test_point("check-locked");
	grnnd_become_owner(c.heap, &user);
	work = AllocSetContextCreate(CurrentMemoryContext, "grnnd check", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(work);
	check_index(&c, heapallindexed);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(work);
	if (locks)
	{
		grnnd_unlock(c.index, GRNND_WRITERS_LOCK, ExclusiveLock);
		grnnd_unlock(c.index, GRNND_UPKEEP_LOCK, ShareLock);
	}
	index_close(c.index, AccessShareLock);
	table_close(c.heap, AccessShareLock);
	grnnd_restore_user(&user);
	return (Datum) 0;
}
