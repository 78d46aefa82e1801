/*
 * check.c - grnnd_check(): every property that an index must have, one row for each
 * place where it has not.
 *
 * The first pass over the pages takes down what each record is; the second holds
 * the edges and chains against that.  Writers are kept out meanwhile (ShareLock
 * on the table), because a change between the passes would look like damage.
 * On a standby, where that lock cannot be had, replay may cause false reports.
 */
#include "write.h"

#include "access/relation.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xlog.h"
#include "catalog/index.h"
#include "catalog/pg_class.h"
#include "common/hashfn.h"
#include "executor/executor.h"
#include "executor/tuptable.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

typedef struct CheckTid
{
	uint64		tid;			/* block << 16 | offset */
	uint32		id;				/* of the record that holds it */
} CheckTid;

typedef struct Check
{
	Relation	heap;
	Relation	index;
	const GrnndIndex *ix;
	ReturnSetInfo *result;
	BufferAccessStrategy strategy;
	Snapshot	snapshot;
	IndexFetchTableData *fetch;
	TupleTableSlot *slot;
	BlockNumber heap_blocks;
	uint32		limit;			/* ids */
	/* by id */
	uint8	   *states;
	uint32	   *hashes;			/* of the own code and factor, or the chain's owner */
	uint32	   *next;
	GrnndSet	chained;		/* GRN_TIDS records found in a chain */
	GrnndSet	damaged;		/* what could not be read, and is reported */
	GrnndReach	reach;
	CheckTid   *tids;
	Size		ntids;
	Size		tids_room;
	float	   *vector;			/* heapallindexed: scratch */
} Check;

PG_FUNCTION_INFO_V1(grnnd_check);

/* ---- reporting ---- */

static void report(Check *c, BlockNumber block, int slot, const char *format,...)
			pg_attribute_printf(4, 5);

/* slot -1: the whole page; block invalid: no page in particular. */
static void
report(Check *c, BlockNumber block, int slot, const char *format,...)
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

static void
report_node(Check *c, uint32 id, const char *what, uint32 other)
{
	if (other == GRN_INVALID_ID)
		report(c, grnnd_node_block(c->ix, id), grn_node_slot(&c->ix->layout, id),
			   "record %u: %s", id, what);
	else
		report(c, grnnd_node_block(c->ix, id), grn_node_slot(&c->ix->layout, id),
			   "record %u: %s %u", id, what, other);
}

/* ---- reading ---- */

/* Copies a page; false where it is not one of this kind, which is reported. */
static bool
read_page(Check *c, BlockNumber block, GrnndPageKind kind, char *page)
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
		/* a crash between extension and first use leaves these */
		if (kind != GRNND_NODES && kind != GRNND_TAIL)
			report(c, block, -1, "zero page");
		return false;
	}
	if (header->pd_special != BLCKSZ - MAXALIGN(sizeof(GrnndSpecial)) ||
		header->pd_lower != header->pd_upper || header->pd_upper != header->pd_special ||
		((GrnndSpecial *) (page + header->pd_special))->page_id != GRNND_PAGE_ID)
	{
		report(c, block, -1, "not a page of grnnd");
		return false;
	}
	if (((GrnndSpecial *) (page + header->pd_special))->kind != kind)
	{
		report(c, block, -1, "page of kind %u where %u is expected",
			   ((GrnndSpecial *) (page + header->pd_special))->kind, kind);
		return false;
	}
	return true;
}

static uint32
hash_code(const GrnLayout *l, const uint8_t *code, GrnFactor factor)
{
	uint32		h = hash_bytes((const unsigned char *) code, l->code_bytes);

	return hash_combine(h, hash_bytes((const unsigned char *) &factor, sizeof(factor)));
}

/* A chained record's owner stands where a node's code does. */
static uint32
hash_owner(uint32 id, uint16 version)
{
	return hash_combine(murmurhash32(id), version);
}

/* ---- first pass ---- */

static void
take_tids(Check *c, const GrnRecord *rec, uint32 id, uint32 n)
{
	const uint8_t *bytes = GRN_REC_PTR(rec, c->ix->layout.off_tids);

	for (uint32 i = 0; i < n; i++)
	{
		ItemPointerData tid;

		memcpy(&tid, bytes + i * GRN_TID_BYTES, sizeof(tid));
		if (!ItemPointerIsValid(&tid) || ItemPointerGetBlockNumber(&tid) >= c->heap_blocks)
		{
			report_node(c, id, "heap TID leads out of the table", GRN_INVALID_ID);
			continue;
		}
		if (c->ntids == c->tids_room)
		{
			c->tids_room *= 2;
			c->tids = repalloc_huge(c->tids, c->tids_room * sizeof(CheckTid));
		}
		c->tids[c->ntids].tid = (uint64) ItemPointerGetBlockNumber(&tid) << 16 |
			ItemPointerGetOffsetNumber(&tid);
		c->tids[c->ntids++].id = id;
	}
}

static void
take_record(Check *c, const GrnRecord *rec, uint32 id)
{
	const GrnLayout *l = &c->ix->layout;
	const char *what = grn_record_check(l, rec, id, c->limit);
	const uint32 *ids = grn_rec_ids(l, rec);

	if (what != NULL)
	{
		report_node(c, id, what, GRN_INVALID_ID);
		grnnd_set_add(&c->damaged, id);
		return;
	}
	c->states[id] = rec->state;
	c->next[id] = rec->next;
	if (rec->state == GRN_NODE || rec->state == GRN_DEAD)
	{
		if (grnnd_has_codes(c->ix))
			c->hashes[id] = hash_code(l, GRN_REC_PTR(rec, l->off_code), rec->factor);
		for (uint32 i = 1; i < rec->count; i++)
			if (grn_find_id(ids, i, ids[i]) >= 0)
				report_node(c, id, "repeated neighbour", ids[i]);
		grnnd_reach_note(&c->reach, id, ids, rec->count);
	}
	if (rec->state == GRN_NODE)
		take_tids(c, rec, id, rec->ntids);
	else if (rec->state == GRN_TIDS)
	{
		uint16		version;
		uint32		owner = grn_tids_owner(rec, &version);

		c->hashes[id] = hash_owner(owner, version);
		take_tids(c, rec, id, rec->ntids16);
	}
	else if (rec->state == GRN_DEAD && (rec->ntids > 0 || rec->next != GRN_INVALID_ID))
		report_node(c, id, "dead node has heap TIDs", GRN_INVALID_ID);
}

static void
first_pass(Check *c, char *page)
{
	const GrnLayout *l = &c->ix->layout;

	for (uint32 first = 0; first < c->limit; first += l->per_page)
	{
		BlockNumber block = grnnd_node_block(c->ix, first);
		bool		nodes = false;

		if (!read_page(c, block, GRNND_NODES, page))
		{
			for (uint32 i = 0; i < l->per_page; i++)
				grnnd_set_add(&c->damaged, first + i);
			continue;
		}
		for (uint32 i = 0; i < l->per_page; i++)
		{
			const GrnRecord *rec = grnnd_page_record(page, c->ix, i);

			take_record(c, rec, first + i);
			nodes |= rec->state == GRN_NODE || rec->state == GRN_DEAD;
		}
		for (uint32 i = 1; i < l->span; i++)
			if (!read_page(c, block + i, GRNND_TAIL, page) && nodes && PageIsNew(page))
				report(c, block + i, -1, "zero page");
	}
}

/* ---- second pass ---- */

static void
check_edges(Check *c, const GrnRecord *rec, uint32 id)
{
	const GrnLayout *l = &c->ix->layout;

	for (uint32 i = 0; i < rec->count; i++)
	{
		uint32		y = grn_rec_ids(l, rec)[i];

		if (c->states[y] == GRN_FREE)
			report_node(c, id, "edge to a free record,", y);
		else if (c->states[y] == GRN_TIDS)
			report_node(c, id, "edge to a record of heap TIDs,", y);
		else if (grnnd_has_codes(c->ix) &&
				 hash_code(l, grn_rec_codes(l, rec) + i * l->code_bytes,
						   grn_rec_factors(l, rec)[i]) != c->hashes[y])
			report_node(c, id, "holds another code than the record itself of neighbour", y);
	}
}

static void
check_chain(Check *c, uint32 head, uint16 version)
{
	for (uint32 id = c->next[head]; id != GRN_INVALID_ID; id = c->next[id])
	{
		if (c->states[id] != GRN_TIDS)
		{
			report_node(c, head, "chain of heap TIDs leads to another kind of record,", id);
			return;
		}
		/* also ends the walk of a circle */
		if (!grnnd_set_add(&c->chained, id))
		{
			report_node(c, head, "chain of heap TIDs enters a record for the second time,", id);
			return;
		}
		if (c->hashes[id] != hash_owner(head, version))
			report_node(c, head, "chain of heap TIDs holds a foreign record,", id);
	}
}

static void
second_pass(Check *c, char *page)
{
	const GrnLayout *l = &c->ix->layout;

	for (uint32 first = 0; first < c->limit; first += l->per_page)
	{
		BlockNumber block = grnnd_node_block(c->ix, first);
		bool		any = false;

		for (uint32 i = 0; i < l->per_page; i++)
			any |= c->states[first + i] == GRN_NODE || c->states[first + i] == GRN_TIDS;
		if (!any || !read_page(c, block, GRNND_NODES, page))
			continue;
		for (uint32 i = 0; i < l->per_page; i++)
		{
			const GrnRecord *rec = grnnd_page_record(page, c->ix, i);
			uint32		id = first + i;

			/* what the first pass reported is not looked at again */
			if (rec->state != c->states[id])
				continue;
			if (rec->state == GRN_NODE)
			{
				check_edges(c, rec, id);
				check_chain(c, id, rec->version);
			}
		}
	}
}

/* ---- rows that exist ---- */

static int
compare_tids(const void *a, const void *b)
{
	uint64		x = ((const CheckTid *) a)->tid;
	uint64		y = ((const CheckTid *) b)->tid;

	return x < y ? -1 : x > y;
}

static bool
is_visible(Check *c, uint64 tid)
{
	ItemPointerData pointer;
	bool		again = false;
	bool		dead = false;
	bool		found;

	ItemPointerSet(&pointer, (BlockNumber) (tid >> 16), (OffsetNumber) (tid & 0xFFFF));
	do
	{
		found = table_index_fetch_tuple(c->fetch, &pointer, c->snapshot, c->slot,
										&again, &dead);
	} while (!found && again);
	ExecClearTuple(c->slot);
	return found;
}

/*
 * Rows that no search can find.  Rows of a transaction that was rolled back, or
 * of a crash in the middle of an insert, are nobody's loss.
 */
static void
check_reach(Check *c)
{
	GrnndSet	reported;

	grnnd_set_init(&reported, c->limit);
	for (Size i = 0; i < c->ntids; i++)
	{
		uint32		id = c->tids[i].id;
		bool		lost = c->states[id] == GRN_TIDS ? !grnnd_set_has(&c->chained, id)
			: !grnnd_set_has(&c->reach.reached, id);

		if (lost && !grnnd_set_has(&reported, id) && is_visible(c, c->tids[i].tid))
		{
			grnnd_set_add(&reported, id);
			report_node(c, id, c->states[id] == GRN_TIDS ? "in no node's chain"
						: "cannot be reached from the first entry point", GRN_INVALID_ID);
		}
	}
}

static void
check_repeated_tids(Check *c)
{
	qsort(c->tids, c->ntids, sizeof(CheckTid), compare_tids);
	for (Size i = 1; i < c->ntids; i++)
		if (c->tids[i].tid == c->tids[i - 1].tid)
			report_node(c, c->tids[i].id, "shares a heap TID with record", c->tids[i - 1].id);
}

static void
check_heap_row(Relation index, ItemPointer tid, Datum *values, bool *isnull,
			   bool alive, void *arg)
{
	Check	   *c = arg;
	CheckTid	key;

	if (isnull[0] ||
		!grnnd_form_vector(&c->ix->key, c->ix->meta.dim, values[0], c->vector))
		return;
	key.tid = (uint64) ItemPointerGetBlockNumber(tid) << 16 | ItemPointerGetOffsetNumber(tid);
	if (c->ntids == 0 ||
		bsearch(&key, c->tids, c->ntids, sizeof(CheckTid), compare_tids) == NULL)
		report(c, InvalidBlockNumber, -1, "row (%u,%u) of the table is not in the index",
			   ItemPointerGetBlockNumber(tid), ItemPointerGetOffsetNumber(tid));
}

static void
check_heap(Check *c)
{
	IndexInfo  *info = BuildIndexInfo(c->index);
	TableScanDesc scan = table_beginscan_strat(c->heap, c->snapshot, 0, NULL, true, true);

	/* rows as our snapshot sees them, as a concurrent build takes them */
	info->ii_Concurrent = true;
	info->ii_Unique = false;
	info->ii_ExclusionOps = NULL;
	c->vector = palloc(c->ix->meta.dim * sizeof(float));
	table_index_build_scan(c->heap, c->index, info, true, false, check_heap_row, c, scan);
}

/* ---- the whole ---- */

static void
check_entries(Check *c, char *page)
{
	const GrnLayout *l = &c->ix->layout;
	const char *payload = GrnndPagePayload(page);
	uint32		count;

	if (!read_page(c, c->ix->meta.entry_block, GRNND_ENTRIES, page))
		return;
	count = ((const GrnndEntryHeader *) payload)->count;
	if (count > GRN_MAX_ENTRIES)
	{
		report(c, c->ix->meta.entry_block, -1, "too many entry points");
		return;
	}
	for (uint32 i = 0; i < count; i++)
	{
		uint32		id = ((const uint32 *) (payload + GRNND_ENTRY_OFF_IDS))[i];
		GrnFactor	factor = ((const GrnFactor *) (payload + GRNND_ENTRY_OFF_FACTORS))[i];
		const uint8_t *code = (const uint8_t *) payload + GRNND_ENTRY_OFF_CODES +
			i * l->code_bytes;

		if (id >= c->limit)
			report(c, c->ix->meta.entry_block, i, "entry point %u does not exist", id);
		else if (c->states[id] != GRN_NODE && c->states[id] != GRN_DEAD)
			report(c, c->ix->meta.entry_block, i, "entry point %u is no node", id);
		else if (grnnd_has_codes(c->ix) && hash_code(l, code, factor) != c->hashes[id])
			report(c, c->ix->meta.entry_block, i, "code of entry point %u is not its own", id);
		else if (i == 0)
			grnnd_reach_mark(&c->reach, id);
	}
}

static void *
by_id(Check *c, Size bytes)
{
	return palloc_extended(Max((Size) c->limit, 1) * bytes, MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
}

static void
check_index(Check *c, bool heapallindexed)
{
	char	   *page = palloc(BLCKSZ);

	c->ix = grnnd_index_shape(c->index);
	c->limit = grnnd_id_limit(c->index, c->ix);
	c->strategy = GetAccessStrategy(BAS_BULKREAD);
	c->heap_blocks = RelationGetNumberOfBlocks(c->heap);
	c->states = by_id(c, 1);
	c->hashes = by_id(c, sizeof(uint32));
	c->next = by_id(c, sizeof(uint32));
	grnnd_set_init(&c->chained, c->limit);
	grnnd_set_init(&c->damaged, c->limit);
	grnnd_reach_init(&c->reach, c->index, c->ix, c->limit,
					 grnnd_maintenance_memory(), c->strategy);
	c->reach.without = &c->damaged;
	c->tids_room = Max(1024, (Size) c->limit);
	c->tids = palloc_extended(c->tids_room * sizeof(CheckTid), MCXT_ALLOC_HUGE);

	for (uint32 i = 0; i < c->ix->meta.codec_pages; i++)
		(void) read_page(c, c->ix->meta.codec_block + i, GRNND_CODEC, page);
	first_pass(c, page);
	check_entries(c, page);
	second_pass(c, page);
	grnnd_reach_run(&c->reach);

	c->snapshot = RegisterSnapshot(GetLatestSnapshot());
	c->fetch = table_index_fetch_begin(c->heap);
	c->slot = table_slot_create(c->heap, NULL);
	check_reach(c);
	table_index_fetch_end(c->fetch);
	ExecDropSingleTupleTableSlot(c->slot);
	check_repeated_tids(c);
	if (heapallindexed)
		check_heap(c);
	UnregisterSnapshot(c->snapshot);
}

static bool
owns(Oid relation)
{
#if PG_VERSION_NUM >= 160000
	return object_ownercheck(RelationRelationId, relation, GetUserId());
#else
	return pg_class_ownercheck(relation, GetUserId());
#endif
}

/* Ends with an error unless oid is an index that the user may check. */
static Oid
table_of(Oid oid)
{
	Oid			heap = InvalidOid;

	if (get_rel_relkind(oid) == RELKIND_INDEX)
		heap = IndexGetRelation(oid, true);
	if (!OidIsValid(heap))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("relation %s is not a grnnd index",
						get_rel_name(oid) ? quote_identifier(get_rel_name(oid))
						: psprintf("%u", oid)),
				 get_rel_relkind(oid) == RELKIND_PARTITIONED_INDEX
				 ? errhint("Check the indexes of its partitions.") : 0));
	if (!owns(oid) && !owns(heap))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of index %s", quote_identifier(get_rel_name(oid)))));
	return heap;
}

Datum
grnnd_check(PG_FUNCTION_ARGS)
{
	Oid			oid = PG_GETARG_OID(0);
	bool		heapallindexed = PG_GETARG_BOOL(1);
	Oid			heap = table_of(oid);
	LOCKMODE	lock = RecoveryInProgress() ? AccessShareLock : ShareLock;
	Check		c = {0};
	Oid			user;
	int			context;
	int			guc_level;

	InitMaterializedSRF(fcinfo, 0);
	c.result = (ReturnSetInfo *) fcinfo->resultinfo;

	/* the table first, as everyone else does */
	c.heap = table_open(heap, lock);
	/* the index's functions are its owner's, not to be run with the caller's rights */
	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(c.heap->rd_rel->relowner, context | SECURITY_RESTRICTED_OPERATION);
	guc_level = NewGUCNestLevel();
#if PG_VERSION_NUM >= 170000
	RestrictSearchPath();
#endif
	c.index = index_open(oid, AccessShareLock);
	if (c.index->rd_index->indrelid != heap || c.index->rd_indam->aminsert != grnnd_insert)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("relation %s is not a grnnd index",
						quote_identifier(RelationGetRelationName(c.index)))));
	if (RELATION_IS_OTHER_TEMP(c.index))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot check temporary indexes of other sessions")));
	if (RecoveryInProgress() && c.heap->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot check indexes of unlogged tables during recovery")));
	if (!c.index->rd_index->indisvalid)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("index %s is not valid",
						quote_identifier(RelationGetRelationName(c.index))),
				 errhint("REINDEX or drop it.")));
	check_index(&c, heapallindexed);
	index_close(c.index, AccessShareLock);
	table_close(c.heap, lock);
	AtEOXact_GUC(false, guc_level);
	SetUserIdAndSecContext(user, context);
	return (Datum) 0;
}
