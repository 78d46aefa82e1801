/*
 * fit_schedule.c - when an index's codes are fitted and judged (fit_codes.c), and by which
 * process.  No statement that writes a row does it: the statement would wait, or fail by its
 * own time limit again and again.
 *
 *  - An insert that finds it due starts a background worker and goes on.  If its transaction
 *    has the table locked, having created it perhaps, the worker is started at the commit.
 *  - VACUUM does it after its own work, and looks at what became of recall, too.
 *  - grnnd_fit() does it for the index's owner; grnnd_codes() tells how things stand.
 *
 * A process that begins first writes the time on the metapage (GrnndAttempt).  Inserts and
 * VACUUM then leave the index alone for a while, whether the worker is at work, could not be
 * started, failed, or was killed.  That while doubles with each attempt without success.
 */
#include "am/write/fit.h"

#include "access/generic_xlog.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/pg_class.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "tcop/tcopprot.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "am/cache.h"
#include "am/handler.h"
#include "am/owner.h"
#include "am/page.h"
#include "am/write/lock.h"

/* Time until the next attempt: this after the first, and how often it doubles. */
#define RETRY_MS 10000
#define RETRY_DOUBLINGS 8		/* 43 minutes */

/* A worker looks for the table's lock that often, at this interval. */
#define LOCK_TRIES 100
#define LOCK_TRY_MS 10

extern PGDLLEXPORT void grnnd_fit_main(Datum arg);

/* ---- attempts ---- */

static GrnndAttempt *
page_attempt(Page page)
{
	return (GrnndAttempt *) (GrnndPagePayload(page) + GRNND_META_OFF_ATTEMPT);
}

static TimestampTz
next_attempt(const GrnndAttempt *attempt)
{
	int			doublings = Min(attempt->tries, RETRY_DOUBLINGS + 1) - 1;

	if (doublings < 0)
		return attempt->last;
	return TimestampTzPlusMilliseconds(attempt->last, (int64) RETRY_MS << doublings);
}

void
grnnd_note_success(Page page)
{
	page_attempt(page)->tries = 0;
}

/*
 * Looks at a metapage that is locked.  False: nothing is due, or an attempt was made lately.  No
 * error where the index is damaged or of another version, for that would stop VACUUM.
 */
static bool
may_try(Relation index, Page page, BlockNumber blocks, TimestampTz now)
{
	const GrnndMeta *meta = (const GrnndMeta *) GrnndPagePayload(page);
	const GrnndAttempt *attempt = page_attempt(page);
	GrnndNotes	notes;
	GrnLayoutSpec spec = {.dim = meta->dim, .degree = meta->degree, .shape = meta->shape,
		.form = (GrnForm) meta->form, .attr_bytes = meta->attr_bytes,
		.sig_bytes = meta->sig_bytes, .payload = meta->payload};
	GrnLayout	l;
	uint64		limit;

	if (PageIsNew(page) || meta->magic != GRNND_MAGIC || meta->format != GRNND_FORMAT ||
		!EQ_CRC32C(grnnd_meta_crc(meta), meta->crc) || blocks <= meta->first_node_block ||
		!grn_layout_of(&l, &spec))
		return false;
	limit = (uint64) (blocks - meta->first_node_block) / l.span * l.per_page;
	limit = Min(limit, GRN_MAX_NODES);
	grnnd_read_notes(page, &notes);
	/* a clock that was set back since does not count */
	return limit > 0 && (grnnd_fit_due(meta, (uint32) limit - 1) ||
						 grnnd_recall_due(index, meta, &notes, (uint32) limit)) &&
		(attempt->tries == 0 || next_attempt(attempt) <= now || attempt->last > now);
}

/* Records an attempt by the caller, if one is due and no other was made lately. */
static bool
claim(Relation index)
{
	BlockNumber blocks = RelationGetNumberOfBlocks(index);
	TimestampTz now = GetCurrentTimestamp();
	Buffer		buffer;
	bool		claimed;

	if (blocks == 0)
		return false;
	buffer = ReadBuffer(index, 0);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	claimed = may_try(index, BufferGetPage(buffer), blocks, now);
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	if (claimed)
	{
		LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
		claimed = may_try(index, BufferGetPage(buffer), blocks, now);
		if (claimed)
		{
			GenericXLogState *xlog = GenericXLogStart(index);
			GrnndAttempt *attempt = page_attempt(GenericXLogRegisterBuffer(xlog, buffer, 0));

			attempt->last = now;
			attempt->tries++;
			GenericXLogFinish(xlog);
		}
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	}
	ReleaseBuffer(buffer);
	return claimed;
}

void
grnnd_fit_in_vacuum(Relation index, bool *begun)
{
	*begun = claim(index);
	if (*begun)
		grnnd_fit_codes(index, NULL, true);
}

/* ---- the background worker ---- */

/* What a worker is told, in bgw_extra. */
typedef struct FitJob
{
	Oid			database;
	bool		claimed;		/* the attempt is on the metapage already */
	uint32		count;
	Oid			indexes[(BGW_EXTRALEN - 3 * sizeof(uint32)) / sizeof(Oid)];
} FitJob;

StaticAssertDecl(sizeof(FitJob) <= BGW_EXTRALEN, "a worker's job fits where it is passed");

/*
 * Indexes that are due, but whose tables this transaction has locked, for example because it
 * created them.  A worker could not get at them before the transaction ends.  In
 * TopTransactionContext.
 */
static List *due_at_commit;

/* Raises no error, for it runs behind a commit, too. */
static bool
start_worker(const FitJob *job)
{
	BackgroundWorker worker = {
		.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION,
		.bgw_start_time = BgWorkerStart_RecoveryFinished,
		.bgw_restart_time = BGW_NEVER_RESTART,
		.bgw_library_name = "grnnd",
		.bgw_function_name = "grnnd_fit_main",
		.bgw_type = "grnnd fit"
	};

	snprintf(worker.bgw_name, BGW_MAXLEN, "grnnd fit of index %u", job->indexes[0]);
	memcpy(worker.bgw_extra, job, sizeof(*job));
	return RegisterDynamicBackgroundWorker(&worker, NULL);
}

/*
 * The transaction has committed, and others see its tables; its locks go in a moment.  What was
 * due need not be any more, nor need the index exist, if a subtransaction was rolled back: the
 * worker looks.
 */
static void
end_of_transaction(XactEvent event, void *arg)
{
	FitJob		job = {.database = MyDatabaseId};
	ListCell   *cell;

	if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT && event != XACT_EVENT_PREPARE)
		return;
	if (event == XACT_EVENT_COMMIT)
		foreach(cell, due_at_commit)
	{
		job.indexes[job.count++] = lfirst_oid(cell);
		if (job.count < lengthof(job.indexes) && lnext(due_at_commit, cell) != NULL)
			continue;
		if (!start_worker(&job))
		{
			ereport(LOG,
					(errmsg("no background worker was free to fit codes for indexes of a transaction"),
					 errdetail("The next insert asks for one again."),
					 errhint("Increase max_worker_processes, or VACUUM the tables.")));
			break;
		}
		job.count = 0;
	}
	due_at_commit = NIL;
}

static void
ask_at_commit(Relation index)
{
	static bool registered = false;
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);

	if (!registered)
		RegisterXactCallback(end_of_transaction, NULL);
	registered = true;
	due_at_commit = lappend_oid(due_at_commit, RelationGetRelid(index));
	MemoryContextSwitchTo(old);
}

void
grnnd_ask_for_fit(Relation index, Relation heap, uint32 id)
{
	FitJob		job = {
		.database = MyDatabaseId,
		.claimed = true,
		.count = 1,
		.indexes = {RelationGetRelid(index)}
	};

	if (list_member_oid(due_at_commit, RelationGetRelid(index)))
		return;
	/* what this backend goes by may be old */
	if (!grnnd_fit_due(&grnnd_index_anew(index)->meta, id))
		return;
	/* no worker finds a table of this session's alone */
	if (!grnnd_background_fit || RelationUsesLocalBuffers(index))
		return;
	if (CheckRelationLockedByMe(heap, ShareUpdateExclusiveLock, true))
		ask_at_commit(index);
	else if (claim(index) && !start_worker(&job))
		ereport(LOG,
				(errmsg("no background worker was free to fit codes for index \"%s\"",
						RelationGetRelationName(index)),
				 errdetail("It is tried again later."),
				 errhint("Increase max_worker_processes, or VACUUM the table.")));
}

static bool
is_ours(Relation index)
{
	return index->rd_rel->relkind == RELKIND_INDEX &&
		index->rd_indam->aminsert == grnnd_insert;
}

/*
 * Fits as the table's owner, whose functions the index may have.  With claims, it first records
 * the attempt, if that is due.  Does nothing to what is no index of grnnd on that table.
 */
static void
fit_as_owner(Relation heap, Oid oid, bool gives_way, bool claims)
{
	Relation	index;
	GrnndUser	user;

	grnnd_become_owner(heap, &user);
	index = try_relation_open(oid, NoLock);
	/* one that a concurrent build has not finished has its codes from that */
	if (index != NULL && is_ours(index) && index->rd_index->indrelid == RelationGetRelid(heap) &&
		index->rd_index->indisvalid && (!claims || claim(index)))
	{
		/* rows that came meanwhile may make the next attempt due, and found this one under way */
		do
			grnnd_fit_codes(index, gives_way ? heap : NULL, false);
		while (gives_way && claim(index));
	}
	if (index != NULL)
		relation_close(index, NoLock);
	grnnd_become_again(&user);
}

/*
 * Takes the table's lock within a second, without waiting in its queue: the transaction that
 * started us may be about to release it.
 */
static bool
lock_table(Oid table)
{
	for (int tries = 0; !ConditionalLockRelationOid(table, ShareUpdateExclusiveLock); tries++)
	{
		if (tries == LOCK_TRIES)
			return false;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, LOCK_TRY_MS,
						 PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	return true;
}

static void
fit_index(Oid oid, bool claimed)
{
	Oid			table;

	StartTransactionCommand();
	table = IndexGetRelation(oid, true);
	if (OidIsValid(table) && grnnd_try_lock_database() && lock_table(table) &&
		ConditionalLockRelationOid(oid, ShareUpdateExclusiveLock))
	{
		Relation	heap = try_relation_open(table, NoLock);

		if (heap != NULL)
		{
			fit_as_owner(heap, oid, true, !claimed);
			relation_close(heap, NoLock);
		}
	}
	CommitTransactionCommand();
}

/* An index that cannot be fitted now stops no other.  Giving way to a session is no error. */
static void
try_index(Oid oid, bool claimed)
{
	MemoryContext context = CurrentMemoryContext;

	PG_TRY();
	{
		fit_index(oid, claimed);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		HOLD_INTERRUPTS();
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		if (error->sqlerrcode != ERRCODE_LOCK_NOT_AVAILABLE)
			EmitErrorReport();
		AbortOutOfAnyTransaction();
		MemoryContextSwitchTo(context);
		FlushErrorState();
		if (error->sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE)
			ereport(LOG,
					(errmsg_internal("%s", error->message),
					 error->hint != NULL ? errhint("%s", error->hint) : 0));
		FreeErrorData(error);
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
}

/*
 * It stands in no lock's way, and gives up its own where another session waits for them.  Then
 * the attempt ends, which the log tells, and is made again later.
 */
void
grnnd_fit_main(Datum arg)
{
	FitJob		job;

	memcpy(&job, MyBgworkerEntry->bgw_extra, sizeof(job));
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	/* such limits of a server or database are for statements, as autovacuum sees it too */
	SetConfigOption("lock_timeout", "0", PGC_SUSET, PGC_S_OVERRIDE);
#if PG_VERSION_NUM >= 170000
	SetConfigOption("transaction_timeout", "0", PGC_SUSET, PGC_S_OVERRIDE);
#endif
	BackgroundWorkerInitializeConnectionByOid(job.database, InvalidOid, 0);
	pgstat_report_activity(STATE_RUNNING, MyBgworkerEntry->bgw_name);
	for (uint32 i = 0; i < job.count; i++)
		try_index(job.indexes[i], job.claimed);
	pgstat_report_activity(STATE_IDLE, NULL);
}

/* ---- SQL functions ---- */

PG_FUNCTION_INFO_V1(grnnd_fit);
Datum
grnnd_fit(PG_FUNCTION_ARGS)
{
	Relation	heap;
	Relation	index;
	Oid			oid;

	PreventCommandDuringRecovery("grnnd_fit()");
	index = grnnd_open_index(PG_GETARG_OID(0), grnnd_must_own, AccessShareLock, false, &heap);
	oid = RelationGetRelid(index);
	index_close(index, NoLock);
	fit_as_owner(heap, oid, false, false);
	table_close(heap, NoLock);
	PG_RETURN_VOID();
}

const char *
grnnd_codes_state(const GrnndMeta *meta)
{
	if (grn_code_bytes(meta->shape) == 0)
		return "none";
	switch ((GrnndFitState) meta->fit_state)
	{
		case GRNND_UNFITTED:
			return "unfitted";
		case GRNND_FILLING:
			return "filling";
		case GRNND_FITTED:
			break;
	}
	return meta->codes_ignored ? "unused" : "used";
}

PG_FUNCTION_INFO_V1(grnnd_codes);
Datum
grnnd_codes(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	Datum		values[5] = {0};
	bool		nulls[5] = {false};
	Relation	heap;
	Relation	index;
	const GrnndIndex *ix;
	GrnndAttempt attempt;
	Buffer		buffer;
	uint32		limit;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	index = grnnd_open_index(PG_GETARG_OID(0), grnnd_must_own, AccessShareLock, false, &heap);
	ix = grnnd_index_anew(index);
	limit = grnnd_id_limit(index, ix);
	buffer = grnnd_read(index, 0, BUFFER_LOCK_SHARE, GRNND_META, NULL);
	attempt = *page_attempt(BufferGetPage(buffer));
	UnlockReleaseBuffer(buffer);

	values[0] = CStringGetTextDatum(grnnd_codes_state(&ix->meta));
	values[1] = BoolGetDatum(limit > 0 && grnnd_fit_due(&ix->meta, limit - 1));
	values[2] = Int64GetDatum((int64) attempt.tries);
	values[3] = TimestampTzGetDatum(attempt.last);
	nulls[3] = attempt.last == 0;
	values[4] = TimestampTzGetDatum(next_attempt(&attempt));
	nulls[4] = attempt.tries == 0;
	grnnd_close_index(index, heap);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(desc, values, nulls)));
}
