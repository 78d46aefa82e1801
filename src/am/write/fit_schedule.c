/*
 * fit_schedule.c - decides when an index's codes are fitted and judged (fit_codes.c), and by which
 * process. No statement that writes a row fits codes: the statement would wait, or reach its own
 * time limit again and again.
 *
 * - An insert that finds a fit due starts a background worker and goes on. If the insert's
 *   transaction has locked the table (perhaps created the table), the worker starts at commit. The
 *   worker then fits all indexes of its database that are due. At most one worker runs in a
 *   database, and two in the server.
 * - VACUUM fits after its own work, and also checks whether recall must be measured.
 * - grnnd_fit() fits for the index's owner; grnnd_codes() shows the state.
 *
 * A process that begins a fit first writes the time on the metapage (GrnndAttempt). Inserts and
 * VACUUM then leave the index alone for a while, whether the worker is running, could not be
 * started, failed, or was killed. This time doubles with each attempt without success.
 */
#include "am/write/write.h"

#include "access/genam.h"
#include "access/generic_xlog.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/index.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "commands/defrem.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "am/callbacks.h"
#include "am/index/index.h"

/*
 * Time until the next attempt: RETRY_MS after the first failure, doubled RETRY_DOUBLINGS times at
 * most.
 */
#define RETRY_MS 10000
#define RETRY_DOUBLINGS 8		/* 43 minutes */

/* A worker tries this often to lock a table, at this interval. */
#define LOCK_TRIES 100
#define LOCK_TRY_MS 10

/* Workers running in all databases together. */
#define WORKERS 2

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
 * Checks a locked metapage. Returns false if nothing is due, or if an attempt was made lately. No
 * error for an index that is damaged or of another version, because an error would stop VACUUM.
 */
static bool
may_try(Relation index, const GrnndKey *key, const GrnndAttrs *attrs, Page page,
		BlockNumber blocks, TimestampTz now)
{
	const GrnndMeta *meta = (const GrnndMeta *) GrnndPagePayload(page);
	const GrnndAttempt *attempt = page_attempt(page);
	GrnndNotes	notes;
	GrnLayout	l;
	uint64		limit;

	if (PageIsNew(page) || meta->format != GRNND_FORMAT ||
		grnnd_meta_fault(meta, key, attrs, blocks, &l) != NULL)
		return false;
	limit = (uint64) (blocks - meta->first_node_block) / l.span * l.per_page;
	limit = Min(limit, GRN_MAX_NODES);
	grnnd_read_notes(page, &notes);
	/* a time in the future comes from a clock that was set back, and does not count */
	return limit > 0 && (grnnd_fit_due(meta, (uint32) limit - 1) ||
						 grnnd_recall_due(index, meta, &notes, (uint32) limit)) &&
		(attempt->tries == 0 || next_attempt(attempt) <= now || attempt->last > now);
}

/*
 * Returns whether a fit is due and no attempt was made lately. With `record`, notes the caller's
 * attempt on the metapage.
 */
static bool
check_due(Relation index, bool record)
{
	BlockNumber blocks = RelationGetNumberOfBlocks(index);
	TimestampTz now = GetCurrentTimestamp();
	GrnndKey	key = grnnd_key(index);
	GrnndAttrs *attrs = grnnd_attrs(index);
	Buffer		buffer;
	bool		due;

	if (blocks == 0)
		return false;
	buffer = ReadBuffer(index, 0);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	due = may_try(index, &key, attrs, BufferGetPage(buffer), blocks, now);
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	if (due && record)
	{
		LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
		due = may_try(index, &key, attrs, BufferGetPage(buffer), blocks, now);
		if (due)
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
	return due;
}

static bool
claim(Relation index)
{
	return check_due(index, true);
}

void
grnnd_fit_in_vacuum(Relation index, bool *begun)
{
	*begun = claim(index);
	if (*begun)
		grnnd_fit_codes(index, NULL, true);
}

/* ---- the background worker ---- */

/* A worker's task, in bgw_extra. */
typedef struct FitJob
{
	Oid			database;
	Oid			index;			/* an index whose attempt is already on the metapage, or InvalidOid */
} FitJob;

StaticAssertDecl(sizeof(FitJob) <= BGW_EXTRALEN, "a worker's job fits where it is passed");

/* The worker that this session has started; NULL: none. */
static BackgroundWorkerHandle *my_worker;

/*
 * This transaction has locked (for example created) a table whose index is due. A worker could not
 * lock the index before the transaction ends.
 */
static bool due_at_commit;

/* A running worker locks the place of its database, and one of the server's places. */
static LOCKTAG
database_place(Oid database)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, InvalidOid, DatabaseRelationId, database, 1);
	return tag;
}

static LOCKTAG
server_place(int i)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, InvalidOid, DatabaseRelationId, InvalidOid, i);
	return tag;
}

static bool
is_taken(LOCKTAG tag)
{
	int			holders;

	pfree(GetLockConflicts(&tag, ExclusiveLock, &holders));
	return holders > 0;
}

static bool
take(LOCKTAG tag)
{
	return LockAcquire(&tag, ExclusiveLock, true, true) != LOCKACQUIRE_NOT_AVAIL;
}

/*
 * Takes a place in the database and a place in the server. The session holds the locks, but an
 * abort releases them; the worker holds no lock yet.
 */
static bool
take_places(void)
{
	if (!take(database_place(MyDatabaseId)))
		return false;
	for (int i = 0; i < WORKERS; i++)
		if (take(server_place(i)))
			return true;
	return false;
}

/* An on_exit_callback: outside a transaction the server would keep the session's locks. */
static void
leave_places(int code, Datum arg)
{
	LockReleaseSession(DEFAULT_LOCKMETHOD);
}

/* Would a new worker find no place, or does a starting worker find all that is due? */
static bool
has_workers(void)
{
	int			taken = 0;
	pid_t		pid;

	if (my_worker != NULL)
	{
		BgwHandleStatus status = GetBackgroundWorkerPid(my_worker, &pid);

		if (status == BGWH_NOT_YET_STARTED || status == BGWH_STARTED)
			return true;
		pfree(my_worker);
		my_worker = NULL;
	}
	if (is_taken(database_place(MyDatabaseId)))
		return true;
	for (int i = 0; i < WORKERS; i++)
		taken += is_taken(server_place(i));
	return taken == WORKERS;
}

/* Raises no error, because the function also runs after a commit. */
static bool
start_worker(Oid index)
{
	BackgroundWorker worker = {
		.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION,
		.bgw_start_time = BgWorkerStart_RecoveryFinished,
		.bgw_restart_time = BGW_NEVER_RESTART,
		.bgw_library_name = "grnnd",
		.bgw_function_name = "grnnd_fit_main",
		.bgw_name = "grnnd fit",
		.bgw_type = "grnnd fit"
	};
	FitJob		job = {MyDatabaseId, index};
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	bool		started;

	memcpy(worker.bgw_extra, &job, sizeof(job));
	started = RegisterDynamicBackgroundWorker(&worker, &my_worker);
	MemoryContextSwitchTo(old);
	return started;
}

/*
 * The transaction has committed: other sessions see its tables, and its locks go in a moment. A
 * rolled back subtransaction may have removed the index, or the reason for the fit. The worker
 * checks both.
 */
static void
end_of_transaction(XactEvent event, void *arg)
{
	if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT && event != XACT_EVENT_PREPARE)
		return;
	if (event == XACT_EVENT_COMMIT && due_at_commit && !has_workers() && !start_worker(InvalidOid))
		ereport(LOG,
				(errmsg("no background worker was free to fit codes for indexes of a transaction"),
				 errdetail("The next insert tries again."),
				 errhint("Increase max_worker_processes, or VACUUM the tables.")));
	due_at_commit = false;
}

void
grnnd_request_fit(Relation index, Relation heap, uint32 id)
{
	static bool registered = false;
	bool		locked = CheckRelationLockedByMe(heap, ShareUpdateExclusiveLock, true);

	if (due_at_commit && locked)
		return;
	/* this backend's copy of the metapage may be old */
	if (!grnnd_fit_due(&grnnd_index_anew(index)->meta, id))
		return;
	/* no worker can read a temporary table */
	if (!grnnd_background_fit || RelationUsesLocalBuffers(index))
		return;
	if (!registered)
		RegisterXactCallback(end_of_transaction, NULL);
	registered = true;
	if (locked)
		due_at_commit = true;
	else if (check_due(index, false) && !has_workers() && claim(index) &&
			 !start_worker(RelationGetRelid(index)))
		ereport(LOG,
				(errmsg("no background worker was free to fit codes for index \"%s\"",
						RelationGetRelationName(index)),
				 errdetail("A later insert tries again."),
				 errhint("Increase max_worker_processes, or VACUUM the table.")));
}

void
grnnd_request_measurement(Relation index)
{
	if (grnnd_background_fit && !RecoveryInProgress() && check_due(index, false) && !has_workers())
		(void) start_worker(InvalidOid);
}

static bool
is_ours(Relation index)
{
	return index->rd_rel->relkind == RELKIND_INDEX &&
		index->rd_indam->aminsert == grnnd_insert;
}

/*
 * Fits an index of a table. No function of a user runs, so the caller's rights do. With claims, the
 * attempt is recorded first, if a fit is due. A relation that is no grnnd index of the table is
 * left alone.
 */
static void
fit_of_table(Relation heap, Oid oid, bool in_worker, bool claims)
{
	Relation	index = try_relation_open(oid, NoLock);

	/* an index that a concurrent build has not finished gets its codes from the build */
	if (index != NULL && is_ours(index) && index->rd_index->indrelid == RelationGetRelid(heap) &&
		index->rd_index->indisvalid && (!claims || claim(index)))
	{
		/* an insert may have found the next fit due while this fit was running */
		do
			grnnd_fit_codes(index, in_worker ? heap : NULL, false);
		while (in_worker && claim(index));
	}
	if (index != NULL)
		relation_close(index, NoLock);
}

/* ---- what a worker does ---- */

/*
 * Takes a relation's lock without waiting in the lock's queue. *tries counts down: the transaction
 * that started this worker may be about to release the lock.
 */
static bool
lock_soon(Oid relation, LOCKMODE mode, int *tries)
{
	while (!ConditionalLockRelationOid(relation, mode))
	{
		if (*tries == 0)
			return false;
		(*tries)--;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, LOCK_TRY_MS,
						 PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	return true;
}

/* Returns false if a lock was not available. */
static bool
fit_index(Oid oid, bool claimed)
{
	Oid			table = IndexGetRelation(oid, true);
	int			tries = LOCK_TRIES;
	Relation	heap;

	if (!OidIsValid(table))
		return true;
	if (!grnnd_try_lock_database() || !lock_soon(table, ShareUpdateExclusiveLock, &tries) ||
		!ConditionalLockRelationOid(oid, ShareUpdateExclusiveLock))
		return false;
	heap = try_relation_open(table, NoLock);
	if (heap != NULL)
	{
		fit_of_table(heap, oid, true, !claimed);
		relation_close(heap, NoLock);
	}
	return true;
}

/* The index that find_due() reads; InvalidOid: none. */
static Oid	examined;

/*
 * Finds an index of this database that is due, none of those in `skipped`.  *due stays if there is
 * none.  The worker waits a second in all for indexes that are locked against reading, and then
 * skips the rest.
 */
static void
find_due(const List *skipped, Oid *due)
{
	static int	tries = LOCK_TRIES;
	Relation	catalog = table_open(RelationRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_class_relam, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(get_am_oid("grnnd", true)));
	scan = systable_beginscan(catalog, InvalidOid, false, NULL, 1, &key);
	while (!OidIsValid(*due) && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);
		Relation	index;

		examined = InvalidOid;
		CHECK_FOR_INTERRUPTS();
		if (grnnd_database_is_wanted())
			break;
		if (form->relkind != RELKIND_INDEX || form->relpersistence == RELPERSISTENCE_TEMP ||
			list_member_oid(skipped, form->oid) ||
			!lock_soon(form->oid, AccessShareLock, &tries))
			continue;
		examined = form->oid;
		index = try_relation_open(form->oid, NoLock);
		if (index == NULL)
		{
			UnlockRelationOid(form->oid, AccessShareLock);
			continue;
		}
		if (is_ours(index) && index->rd_index->indisvalid && check_due(index, false))
			*due = form->oid;
		relation_close(index, AccessShareLock);
	}
	examined = InvalidOid;
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
}

/*
 * Runs a step of the worker in a transaction: fits the index oid, or with InvalidOid finds an index
 * that is due. An error is logged, because an index that cannot be fitted must not stop the rest.
 * Giving way to a session is no error. Returns false if the step must not be tried again.
 */
static bool
run_step(Oid oid, bool claimed, const List *skipped, Oid *due)
{
	MemoryContext context = CurrentMemoryContext;
	volatile bool done = false;

	PG_TRY();
	{
		StartTransactionCommand();
		if (OidIsValid(oid))
			done = fit_index(oid, claimed);
		else if ((done = grnnd_try_lock_database()))
			find_due(skipped, due);
		CommitTransactionCommand();
	}
	PG_CATCH();
	{
		ErrorData  *error;

		HOLD_INTERRUPTS();
		done = false;
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
	MemoryContextSwitchTo(context);
	return done;
}

/* Skips an index from now on. Returns false if the worker has lost its places to another worker. */
static bool
skip(Oid oid, List **skipped)
{
	*skipped = lappend_oid(*skipped, oid);
	LockReleaseSession(DEFAULT_LOCKMETHOD);
	return take_places();
}

/* Returns false if the worker has lost its places to another worker. */
static bool
try_index(Oid oid, bool claimed, List **skipped)
{
	return run_step(oid, claimed, NIL, NULL) || skip(oid, skipped);
}

/* Fits until nothing is due. Returns false if the worker has lost its places, or its database. */
static bool
fit_all(List **skipped)
{
	for (;;)
	{
		Oid			due = InvalidOid;

		if (!run_step(InvalidOid, false, *skipped, &due))
		{
			if (!OidIsValid(examined) || !skip(examined, skipped))
				return false;
		}
		else if (!OidIsValid(due))
			return true;
		else if (!try_index(due, false, skipped))
			return false;
	}
}

/*
 * The worker blocks no other session: as soon as a session waits for a lock that the worker holds,
 * the worker releases the lock. Then the attempt ends with a line in the log, and is repeated
 * later.
 */
void
grnnd_fit_main(Datum arg)
{
	FitJob		job;
	List	   *skipped = NIL;
	bool		placed;

	memcpy(&job, MyBgworkerEntry->bgw_extra, sizeof(job));
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	/* a server's or database's limits are for statements; autovacuum ignores them as well */
	SetConfigOption("lock_timeout", "0", PGC_SUSET, PGC_S_OVERRIDE);
#if PG_VERSION_NUM >= 170000
	SetConfigOption("transaction_timeout", "0", PGC_SUSET, PGC_S_OVERRIDE);
#endif
	BackgroundWorkerInitializeConnectionByOid(job.database, InvalidOid, 0);
	pgstat_report_activity(STATE_RUNNING, MyBgworkerEntry->bgw_name);
	before_shmem_exit(leave_places, 0);
	placed = take_places();
	if (placed && OidIsValid(job.index))
		placed = try_index(job.index, true, &skipped);
	/*
	 * While this worker holds its places, no insert starts a worker. When the places are free,
	 * search again for indexes that became due in the meantime.
	 */
	while (placed && fit_all(&skipped))
	{
		Oid			due = InvalidOid;

		LockReleaseSession(DEFAULT_LOCKMETHOD);
		placed = run_step(InvalidOid, false, skipped, &due) && OidIsValid(due) && take_places();
	}
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
	fit_of_table(heap, oid, false, false);
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
