/*
 * recall.c - grnnd_recall(): the recall of an index now, for queries that are rows of its table.
 *
 * Queries are drawn at random from the rows.  One reading of the table compares all rows with all
 * queries by the operator; then each query is run by the index, as an application's would be.  A
 * row that is as near as the k-th nearest counts as found, whichever of equal ones it is.
 *
 * Applications' queries are hardly ever rows of the table, and a row leads to its neighbours.  So
 * a query's own row counts for nothing, and its node is absent from the graph that is searched
 * (graph/stored/absent.h).
 *
 * All of this is SQL under one snapshot.  The index's owner sees what the table's owner sees, and
 * the index's functions run with that owner's rights.  Others see what their privileges and row
 * security let them, if the index has no functions.
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_index.h"
#include "catalog/pg_operator.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "optimizer/plancat.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/float.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "am/build/progress.h"
#include "am/cache.h"
#include "am/owner.h"
#include "am/scan.h"

#define MAX_K 1000
#define MAX_QUERIES 10000

/* Rows that a cursor brings at a time. */
#define FETCH_ROWS 1000

/* Rows are drawn by chance: so many times as many are asked for, and more where those were few. */
#define SURPLUS 1.3
#define SPARE_ROWS 20
#define GROWTH 8

typedef struct Question
{
	Datum		value;
	ItemPointerData self;		/* the row that it is */
	int			n;				/* rows compared so far, k at most */
	double	   *nearest;		/* [k] their distances, sorted */
} Question;

typedef struct Recall
{
	Relation	heap;
	Relation	index;
	Oid			type;			/* that the operator class is for */
	char	   *expression;		/* of the index's first column */
	char	   *table;			/* ONLY its name */
	char	   *where;			/* of a partial index, else "" */
	char	   *operator;
	FmgrInfo	distance;
	int			k;
	int			wanted;			/* queries */
	int			nqueries;
	Question   *queries;		/* [wanted] */
	uint64		seen;			/* rows that could have been a query */
	int64		compared;
	MemoryContext context;		/* of what lasts beyond a batch of rows */
} Recall;

/* ---- which indexes the planner sees ---- */

static Oid	planned_table = InvalidOid; /* while queries are planned */
static Oid	planned_index;		/* the only index that it has then; InvalidOid: it has none */
static get_relation_info_hook_type next_relation_info;

static void
relation_info(PlannerInfo *root, Oid relation, bool inhparent, RelOptInfo *rel)
{
	ListCell   *lc;

	if (next_relation_info != NULL)
		next_relation_info(root, relation, inhparent, rel);
	if (relation != planned_table)
		return;
	foreach(lc, rel->indexlist)
		if (lfirst_node(IndexOptInfo, lc)->indexoid != planned_index)
		rel->indexlist = foreach_delete_current(rel->indexlist, lc);
}

/* ---- the queries ---- */

/* Takes a row as a query with the probability that all have. */
static void
draw(Recall *r, ItemPointer tid, Datum value)
{
	MemoryContext old;
	uint64		at = r->seen++;
	Question   *query;

	if (at >= (uint64) r->wanted)
		at = grn_random(1, 0, at) % r->seen;
	if (at >= (uint64) r->wanted)
		return;
	query = &r->queries[at];
	old = MemoryContextSwitchTo(r->context);
	if (query->value != (Datum) 0)
		pfree(DatumGetPointer(query->value));
	query->value = PointerGetDatum(PG_DETOAST_DATUM_COPY(value));
	query->self = *tid;
	MemoryContextSwitchTo(old);
	r->nqueries = (int) Min(r->seen, (uint64) r->wanted);
}

/* Holds a row against all queries. */
static void
compare(Recall *r, ItemPointer tid, Datum value)
{
	value = PointerGetDatum(PG_DETOAST_DATUM(value));
	for (int i = 0; i < r->nqueries; i++)
	{
		Question   *query = &r->queries[i];
		double		distance;
		int			at;

		if (ItemPointerEquals(tid, &query->self))
			continue;
		distance = DatumGetFloat8(FunctionCall2Coll(&r->distance, r->index->rd_indcollation[0],
													value, query->value));
		/* zero vectors have no angle and are in no index */
		if (isnan(distance) || (query->n == r->k && distance >= query->nearest[r->k - 1]))
			continue;
		at = query->n < r->k ? query->n++ : r->k - 1;
		for (; at > 0 && query->nearest[at - 1] > distance; at--)
			query->nearest[at] = query->nearest[at - 1];
		query->nearest[at] = distance;
	}
	r->compared++;
}

/*
 * Hands the rows that the index is of to fn, or a share of them drawn by chance.  Reads the table
 * in order.
 */
static void
read_rows(Recall *r, double share, void (*fn) (Recall *r, ItemPointer tid, Datum value))
{
	StringInfoData text;
	MemoryContext batch = AllocSetContextCreate(CurrentMemoryContext, "grnnd recall",
												ALLOCSET_DEFAULT_SIZES);
	Portal		portal;

	initStringInfo(&text);
	appendStringInfo(&text, "SELECT ctid, %s FROM %s", r->expression, r->table);
	if (share < 100)
		appendStringInfo(&text, " TABLESAMPLE BERNOULLI (%g) REPEATABLE (1)", share);
	appendStringInfoString(&text, r->where);
	planned_index = InvalidOid;
	portal = SPI_cursor_open_with_args(NULL, text.data, 0, NULL, NULL, NULL, true, 0);
	do
	{
		SPI_cursor_fetch(portal, true, FETCH_ROWS);
		for (uint64 i = 0; i < SPI_processed; i++)
		{
			MemoryContext old = MemoryContextSwitchTo(batch);
			HeapTuple	tuple = SPI_tuptable->vals[i];
			bool		isnull;
			Datum		tid = SPI_getbinval(tuple, SPI_tuptable->tupdesc, 1, &isnull);
			Datum		value = SPI_getbinval(tuple, SPI_tuptable->tupdesc, 2, &isnull);

			CHECK_FOR_INTERRUPTS();
			if (!isnull)
				fn(r, (ItemPointer) DatumGetPointer(tid), value);
			MemoryContextSwitchTo(old);
			MemoryContextReset(batch);
		}
		SPI_freetuptable(SPI_tuptable);
	} while (SPI_processed > 0);
	SPI_cursor_close(portal);
	MemoryContextDelete(batch);
}

/* Draws the queries.  Of few rows, or under a filter, it takes more than one reading. */
static void
draw_queries(Recall *r)
{
	BlockNumber pages;
	double		tuples;
	double		allvisible;
	double		share;

	estimate_rel_size(r->heap, NULL, &pages, &tuples, &allvisible);
	share = 100 * (SURPLUS * r->wanted + SPARE_ROWS) / Max(tuples, 1);
	for (;; share *= GROWTH)
	{
		r->seen = 0;
		read_rows(r, share, draw);
		if (r->nqueries == r->wanted || share >= 100)
			break;
	}
}

/* Drops queries that no row has a distance to: zero vectors, where the index leaves those out. */
static void
drop_zeros(Recall *r)
{
	int			n = 0;

	for (int i = 0; i < r->nqueries; i++)
		if (!isnan(DatumGetFloat8(FunctionCall2Coll(&r->distance, r->index->rd_indcollation[0],
													r->queries[i].value, r->queries[i].value))))
			r->queries[n++] = r->queries[i];
	r->nqueries = n;
	for (int i = 0; i < n; i++)
	{
		r->queries[i].n = 0;
		r->queries[i].nearest = MemoryContextAlloc(r->context, r->k * sizeof(double));
	}
}

/* ---- the index's answers ---- */

typedef struct Answers
{
	int64		hits;
	int64		wanted;
	uint64		visits;
	uint64		width;
	double		seconds;
} Answers;

/* Of the rows that SPI has brought, nearest first: how many of the k nearest are there. */
static int
hits_of(const Recall *r, const Question *query)
{
	int			taken = 0;
	int			hits = 0;

	for (uint64 i = 0; i < SPI_processed && taken < r->k; i++)
	{
		HeapTuple	tuple = SPI_tuptable->vals[i];
		bool		isnull;
		ItemPointer tid = (ItemPointer) DatumGetPointer(SPI_getbinval(tuple, SPI_tuptable->tupdesc, 1,
																	  &isnull));
		double		distance = DatumGetFloat8(SPI_getbinval(tuple, SPI_tuptable->tupdesc, 2, &isnull));

		if (ItemPointerEquals(tid, unconstify(ItemPointerData *, &query->self)))
			continue;
		taken++;
		hits += query->n > 0 && distance <= query->nearest[query->n - 1];
	}
	return hits;
}

static void
run_queries(Recall *r, Answers *a)
{
	StringInfoData text;
	SPIPlanPtr	plan;

	initStringInfo(&text);
	/* one row more: a node of several rows is not absent */
	appendStringInfo(&text, "SELECT ctid, %s %s $1 FROM %s%s ORDER BY 2 LIMIT %d", r->expression,
					 r->operator, r->table, r->where, r->k + 1);
	planned_index = RelationGetRelid(r->index);
	plan = SPI_prepare(text.data, 1, &r->type);
	if (plan == NULL)
		elog(ERROR, "SPI_prepare failed: %s", SPI_result_code_string(SPI_result));
	for (int i = 0; i < r->nqueries; i++)
	{
		Question   *query = &r->queries[i];
		const GrnndWork *work;
		Oid			index;
		instr_time	start;

		CHECK_FOR_INTERRUPTS();
		grnnd_forget_work();
		grnnd_hide_row(RelationGetRelid(r->index), &query->self);
		INSTR_TIME_SET_CURRENT(start);
		if (SPI_execute_plan(plan, &query->value, NULL, true, 0) != SPI_OK_SELECT)
			elog(ERROR, "unexpected result of a query");
		a->seconds += grnnd_seconds_since(start);
		work = grnnd_last_work(&index);
		if (work == NULL || index != RelationGetRelid(r->index))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("queries do not use index %s",
							quote_identifier(RelationGetRelationName(r->index))),
					 errhint("Try again when transactions that began before the index was made have ended.")));
		a->visits += work->visits;
		a->width = work->ef;
		a->hits += hits_of(r, query);
		a->wanted += query->n;
		SPI_freetuptable(SPI_tuptable);
	}
	SPI_freeplan(plan);
}

/* ---- the function ---- */

static void
set_option(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0,
							 false);
}

/* What its definition says of the rows and the order of the index. */
static void
describe(Recall *r)
{
	Oid			operator;
	Oid			heap = RelationGetRelid(r->heap);
	HeapTuple	tuple;
	bool		isnull;
	Datum		definition;

	r->type = r->index->rd_opcintype[0];
	operator = get_opfamily_member(r->index->rd_opfamily[0], r->type, r->type,
								   GRNND_DISTANCE_STRATEGY);
	fmgr_info(get_opcode(operator), &r->distance);
	tuple = SearchSysCache1(OPEROID, ObjectIdGetDatum(operator));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for operator %u", operator);
	r->operator = psprintf("OPERATOR(%s.%s)",
						   quote_identifier(get_namespace_name(((Form_pg_operator) GETSTRUCT(tuple))->oprnamespace)),
						   NameStr(((Form_pg_operator) GETSTRUCT(tuple))->oprname));
	ReleaseSysCache(tuple);
	definition = DirectFunctionCall3(pg_get_indexdef_ext,
									 ObjectIdGetDatum(RelationGetRelid(r->index)),
									 Int32GetDatum(1), BoolGetDatum(false));
	r->expression = psprintf("(%s)", TextDatumGetCString(definition));
	r->table = psprintf("ONLY %s",
						quote_qualified_identifier(get_namespace_name(RelationGetNamespace(r->heap)),
												   RelationGetRelationName(r->heap)));
	r->where = "";
	definition = SysCacheGetAttr(INDEXRELID, r->index->rd_indextuple, Anum_pg_index_indpred, &isnull);
	if (!isnull)
	{
		definition = DirectFunctionCall2(pg_get_expr, definition, ObjectIdGetDatum(heap));
		r->where = psprintf(" WHERE %s", TextDatumGetCString(definition));
	}
}

static void
measure(Recall *r, int ef, Answers *a)
{
	get_relation_info_hook_type before = get_relation_info_hook;

	/* by a function of the index or a policy of the table, say */
	if (OidIsValid(planned_table))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("grnnd_recall() cannot be called while it runs"),
				 errhint("A function that the index or its table uses calls it.")));
	set_option("enable_seqscan", "off");
	set_option("enable_indexscan", "on");
	set_option("jit", "off");
	set_option("plan_cache_mode", "force_generic_plan");
	if (ef > 0)
		set_option("grnnd.ef_search", psprintf("%d", ef));
	SPI_connect();
	next_relation_info = before;
	get_relation_info_hook = relation_info;
	planned_table = RelationGetRelid(r->heap);
	PG_TRY();
	{
		draw_queries(r);
		drop_zeros(r);
		if (r->nqueries > 0)
			read_rows(r, 100, compare);
		run_queries(r, a);
	}
	PG_FINALLY();
	{
		get_relation_info_hook = before;
		planned_table = InvalidOid;
		grnnd_hide_row(InvalidOid, NULL);
	}
	PG_END_TRY();
	SPI_finish();
}

static void
check_range(const char *name, int value, int most)
{
	if (value < 1 || value > most)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" must be from 1 to %d", name, most),
				 errhint("It is %d.", value)));
}

PG_FUNCTION_INFO_V1(grnnd_recall);
Datum
grnnd_recall(PG_FUNCTION_ARGS)
{
	Recall		r = {0};
	Answers		a = {0};
	TupleDesc	desc;
	Datum		values[6];
	bool		nulls[6] = {false};
	GrnndUser	user;
	bool		owner;
	int			ef = PG_ARGISNULL(2) ? 0 : PG_GETARG_INT32(2);
	int			guc_level = 0;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_ARGISNULL(3))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("index, k and queries must not be null"),
				 errhint("Leave out k and queries for 10 neighbours and 100 queries.")));
	r.k = PG_GETARG_INT32(1);
	r.wanted = PG_GETARG_INT32(3);
	check_range("k", r.k, MAX_K);
	check_range("queries", r.wanted, MAX_QUERIES);
	if (!PG_ARGISNULL(2))
		check_range("ef", ef, GRNND_MAX_EF);
	r.index = grnnd_open_index(PG_GETARG_OID(0), AccessShareLock, false, &r.heap);
	owner = grnnd_owns(RelationGetRelid(r.index));
	if (!owner && (r.index->rd_index->indkey.values[0] == 0 ||
				   !heap_attisnull(r.index->rd_indextuple, Anum_pg_index_indpred, NULL)))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of index %s",
						quote_identifier(RelationGetRelationName(r.index))),
				 errhint("The functions of an index's expressions and predicate are its owner's.")));
	if (owner)
		grnnd_become_owner(r.heap, &user);
	else
		guc_level = NewGUCNestLevel();
	describe(&r);
	r.context = CurrentMemoryContext;
	r.queries = palloc0(r.wanted * sizeof(Question));
	measure(&r, ef, &a);
	if (owner)
		grnnd_become_again(&user);
	else
		AtEOXact_GUC(false, guc_level);
	grnnd_close_index(r.index, r.heap);

	nulls[0] = a.wanted == 0;
	values[0] = Float8GetDatum((double) a.hits / (double) Max(a.wanted, 1));
	values[1] = Int32GetDatum(r.nqueries);
	values[2] = Int64GetDatum(r.compared);
	values[3] = Int32GetDatum((int32) a.width);
	values[4] = Float8GetDatum((double) a.visits / Max(r.nqueries, 1));
	values[5] = Float8GetDatum(a.seconds * 1000 / Max(r.nqueries, 1));
	nulls[3] = nulls[4] = nulls[5] = r.nqueries == 0;
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}
