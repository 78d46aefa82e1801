/*
 * recall.c - grnnd_recall(): the current recall of an index, for queries that are rows of its
 * table, rows of another relation, elements of an array, or the sampled queries of scans.
 *
 * Rows that are queries are drawn at random.  One scan of the table compares all rows with all
 * queries by the operator.  Then each query runs by the index like an application's query.  A row
 * at most as far as the k-th nearest row counts as found, so equal distances do not matter.
 *
 * Queries of applications are seldom rows of the table, and a row leads to its own neighbors.  So
 * if rows of the table are the queries, a query's own row does not count, and its node is excluded
 * from the searched graph (store/absent.c).
 *
 * SELECTs of OIDs (select_rows.h) read and search the rows under one snapshot.  For the index's
 * owner, row security and functions apply as for the table's owner.  For other users, their own
 * privileges and row security apply, and the index must have no functions.  Another relation is
 * read with the caller's privileges and row security.  Only the owner may ask for the recall of
 * sampled queries, which other roles may have sent.
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "access/relation.h"
#include "catalog/pg_index.h"
#include "catalog/pg_operator_d.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/plancat.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/float.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "am/create/create.h"
#include "am/index/index.h"
#include "am/report/select_rows.h"
#include "am/scan/scan.h"

#define MAX_K 1000
#define MAX_QUERIES 10000

typedef struct RecallQuery
{
	Datum		value;
	ItemPointerData self;		/* the row that the query is; invalid: no row of the table */
	int			n;				/* number of distances in `nearest`, at most k */
	double	   *nearest;		/* [k] smallest distances, ascending */
} RecallQuery;

typedef struct Recall
{
	Relation	heap;
	Relation	index;
	Oid			type;			/* the operator class's input type */
	Oid			operator;
	Expr	   *key;			/* the index's first key */
	Expr	   *tid;
	List	   *where;			/* the predicate of a partial index, else NIL */
	FmgrInfo	distance;
	int			k;
	int			wanted;			/* number of queries asked for */
	bool		given;			/* the queries are no rows of the table */
	int			nqueries;
	RecallQuery *queries;		/* [wanted] */
	uint64		seen;			/* rows that could have been a query */
	int64		compared;
	MemoryContext context;		/* memory that outlives a row */
} Recall;

/* ---- the planner's indexes ---- */

static Oid	planned_table = InvalidOid; /* the table while queries are planned */
static Oid	planned_index;		/* the only index that the planner may use; InvalidOid: none */
static GRNND_REL_HOOK_TYPE next_relation_info;

static void
relation_info(GRNND_REL_HOOK_PARAMS)
{
	ListCell   *lc;

	if (next_relation_info != NULL)
		next_relation_info(GRNND_REL_HOOK_ARGS);
	if (GRNND_REL_HOOK_TABLE != planned_table)
		return;
	foreach(lc, rel->indexlist)
		if (lfirst_node(IndexOptInfo, lc)->indexoid != planned_index)
		rel->indexlist = foreach_delete_current(rel->indexlist, lc);
}

/* ---- the queries ---- */

/* Draws a vector as a query, with equal probability for all.  self: its row; NULL: none. */
static void
draw(Recall *r, Datum value, ItemPointer self)
{
	MemoryContext old;
	uint64		at = r->seen++;
	RecallQuery *query;

	if (at >= (uint64) r->wanted)
		at = grn_random(1, 0, at) % r->seen;
	if (at >= (uint64) r->wanted)
		return;
	query = &r->queries[at];
	old = MemoryContextSwitchTo(r->context);
	if (query->value != (Datum) 0)
		pfree(DatumGetPointer(query->value));
	query->value = PointerGetDatum(PG_DETOAST_DATUM_COPY(value));
	ItemPointerSetInvalid(&query->self);
	if (self != NULL)
		query->self = *self;
	MemoryContextSwitchTo(old);
	r->nqueries = (int) Min(r->seen, (uint64) r->wanted);
}

/* A GrnndRowFn: a row (TID, vector) of the table. */
static void
draw_query(void *arg, const Datum *values, const bool *isnull)
{
	if (!isnull[1])
		draw(arg, values[1], (ItemPointer) DatumGetPointer(values[0]));
}

/* A GrnndRowFn: a row (vector) of another relation. */
static void
draw_given(void *arg, const Datum *values, const bool *isnull)
{
	if (!isnull[0])
		draw(arg, values[0], NULL);
}

static bool
is_own_row(const RecallQuery *query, Datum tid)
{
	return ItemPointerIsValid(&query->self) &&
		ItemPointerEquals((ItemPointer) DatumGetPointer(tid), unconstify(ItemPointerData *, &query->self));
}

/* Raises 42804 unless values of this type can be queries. */
static void
check_type(const Recall *r, Oid type)
{
	Oid			wanted = r->index->rd_opcintype[0];

	if (getBaseType(type) != wanted)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("queries of index %s must be of type %s, not %s",
						quote_identifier(RelationGetRelationName(r->index)), format_type_be(wanted),
						format_type_be(type)),
				 errhint("Cast the queries.")));
}

/* The column of vectors of a relation of queries: by name, or the only one of the index's type. */
static Expr *
query_column(const Recall *r, Relation rel, const char *name)
{
	AttrNumber	number = InvalidAttrNumber;
	TupleDesc	desc = RelationGetDescr(rel);

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(desc, i);

		if (column->attisdropped || (name != NULL ? strcmp(NameStr(column->attname), name) != 0 :
									 getBaseType(column->atttypid) != r->index->rd_opcintype[0]))
			continue;
		if (number != InvalidAttrNumber)
			ereport(ERROR,
					(errcode(ERRCODE_AMBIGUOUS_COLUMN),
					 errmsg("%s has several columns of the index's type",
							quote_identifier(RelationGetRelationName(rel))),
					 errhint("Choose one of the columns with query_column.")));
		number = column->attnum;
	}
	if (number == InvalidAttrNumber)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 name != NULL ? errmsg("column \"%s\" of relation \"%s\" does not exist", name,
									   RelationGetRelationName(rel))
				 : errmsg("%s has no column of the index's type",
						  quote_identifier(RelationGetRelationName(rel)))));
	check_type(r, TupleDescAttr(desc, number - 1)->atttypid);
	return grnnd_select_column(rel, number);
}

/* Draws queries from a relation, as the calling user. */
static void
read_queries(Recall *r, Oid relation, const char *column)
{
	Relation	rel;
	GrnndSelect select = {0};

	(void) grnnd_existing_name(relation);
	grnnd_must_read(relation);
	rel = try_relation_open(relation, AccessShareLock);
	(void) grnnd_existing_name(relation);
	grnnd_must_read(relation);
	if (rel->rd_rel->relkind != RELKIND_RELATION && rel->rd_rel->relkind != RELKIND_MATVIEW &&
		rel->rd_rel->relkind != RELKIND_VIEW && rel->rd_rel->relkind != RELKIND_PARTITIONED_TABLE &&
		rel->rd_rel->relkind != RELKIND_FOREIGN_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table", RelationGetRelationName(rel)),
				 errhint("Pass a table or a view.")));
	select.rel = rel;
	select.values = list_make1(query_column(r, rel, column));
	grnnd_run_select(grnnd_plan_select(&select), NULL, draw_given, r);
	relation_close(rel, NoLock);
}

/* Takes the sampled queries of scans, if there are enough. */
static void
take_sampled(Recall *r)
{
	Datum		values[GRNND_SAMPLED_QUERIES];
	int			n = grnnd_sampled_queries(r->heap, grnnd_index(r->index), values);

	for (int i = 0; i < n && n >= GRNND_LEAST_SAMPLE; i++)
		draw(r, values[i], NULL);
}

static void
take_array(Recall *r, ArrayType * array)
{
	Datum	   *values;
	bool	   *nulls;
	int			n;
	int16		length;
	bool		by_value;
	char		align;

	check_type(r, ARR_ELEMTYPE(array));
	get_typlenbyvalalign(ARR_ELEMTYPE(array), &length, &by_value, &align);
	deconstruct_array(array, ARR_ELEMTYPE(array), length, by_value, align, &values, &nulls, &n);
	for (int i = 0; i < n; i++)
		draw_given(r, &values[i], &nulls[i]);
}

/* A GrnndRowFn: compares a row (TID, vector) with all queries. */
static void
compare_row(void *arg, const Datum *values, const bool *isnull)
{
	Recall	   *r = arg;
	Datum		value;

	if (isnull[1])
		return;
	value = PointerGetDatum(PG_DETOAST_DATUM(values[1]));
	for (int i = 0; i < r->nqueries; i++)
	{
		RecallQuery *query = &r->queries[i];
		double		distance;
		int			at;

		if (is_own_row(query, values[0]))
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

/* Passes the rows of the index's table to fn, in the table's order. */
static void
read_rows(Recall *r, GrnndRowFn fn)
{
	GrnndSelect select = {
		.rel = r->heap, .only = true, .values = list_make2(r->tid, r->key), .where = r->where
	};

	planned_index = InvalidOid;
	grnnd_run_select(grnnd_plan_select(&select), NULL, fn, r);
}

/* Drops queries without distances to any row: zero vectors, if the index leaves them out. */
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

/* ---- the index's results ---- */

typedef struct RecallTotals
{
	int64		hits;
	int64		wanted;
	uint64		visits;
	uint64		width;
	double		seconds;
} RecallTotals;

/* The results of a query, nearest first. */
typedef struct Found
{
	const Recall *r;
	const RecallQuery *query;
	int			taken;			/* number of rows, at most k */
	int			hits;			/* rows among the k nearest */
} Found;

/* A GrnndRowFn: counts a result (TID, distance). */
static void
take_found(void *arg, const Datum *values, const bool *isnull)
{
	Found	   *f = arg;
	const RecallQuery *query = f->query;

	if (f->taken == f->r->k || is_own_row(query, values[0]))
		return;
	f->taken++;
	f->hits += query->n > 0 && DatumGetFloat8(values[1]) <= query->nearest[query->n - 1];
}

/* Plans a query by the index.  The parameter is the vector. */
static PlannedStmt *
plan_query(Recall *r)
{
	Param	   *param = makeNode(Param);
	Expr	   *distance;
	GrnndSelect select = {
		.rel = r->heap, .only = true, .where = r->where,
		/* one more row, because a node of several rows is not excluded */
		.limit = r->k + 1, .less = Float8LessOperator
	};

	param->paramkind = PARAM_EXTERN;
	param->paramid = 1;
	param->paramtype = r->type;
	param->paramtypmod = -1;
	distance = make_opclause(r->operator, FLOAT8OID, false, r->key, (Expr *) param, InvalidOid,
							 r->index->rd_indcollation[0]);
	set_opfuncid(castNode(OpExpr, distance));
	select.values = list_make2(r->tid, distance);
	planned_index = RelationGetRelid(r->index);
	return grnnd_plan_select(&select);
}

/*
 * ParamListInfoData.paramFetch, arg a ParamExternData.  Without this function extensions such as
 * auto_explain could log the vector, which may be another role's.
 */
static ParamExternData *
fetch_param(ParamListInfo params, int paramid, bool speculative, ParamExternData * workspace)
{
	return params->paramFetchArg;
}

static void
run_queries(Recall *r, RecallTotals *a)
{
	PlannedStmt *plan = plan_query(r);
	ParamListInfo params = makeParamList(1);
	ParamExternData vector = {.pflags = PARAM_FLAG_CONST, .ptype = r->type};

	params->paramFetch = fetch_param;
	params->paramFetchArg = &vector;
	for (int i = 0; i < r->nqueries; i++)
	{
		Found		found = {.r = r, .query = &r->queries[i]};
		const GrnndWork *work;
		Oid			index;
		instr_time	start;

		CHECK_FOR_INTERRUPTS();
		grnnd_forget_work();
		grnnd_exclude_row(RelationGetRelid(r->index),
						  ItemPointerIsValid(&found.query->self) ? &found.query->self : NULL);
		vector.value = found.query->value;
		INSTR_TIME_SET_CURRENT(start);
		grnnd_run_select(plan, params, take_found, &found);
		a->seconds += grnnd_seconds_since(start);
		work = grnnd_last_work(&index);
		if (work == NULL || index != RelationGetRelid(r->index))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("queries do not use index %s",
							quote_identifier(RelationGetRelationName(r->index))),
					 errhint("Try again when transactions older than the index have ended.")));
		a->visits += work->visits;
		a->width = work->ef;
		a->hits += found.hits;
		a->wanted += found.query->n;
	}
}

/* ---- the function ---- */

static void
set_option(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0,
							 false);
}

/* Fills the operator, and the expressions of rows and conditions. */
static void
describe_rows(Recall *r)
{
	AttrNumber	column = r->index->rd_index->indkey.values[0];

	r->type = r->index->rd_opcintype[0];
	r->operator = get_opfamily_member(r->index->rd_opfamily[0], r->type, r->type,
									  GRNND_DISTANCE_STRATEGY);
	fmgr_info(get_opcode(r->operator), &r->distance);
	r->tid = grnnd_select_column(r->heap, SelfItemPointerAttributeNumber);
	r->key = column != 0 ? grnnd_select_column(r->heap, column)
		: linitial(RelationGetIndexExpressions(r->index));
	if (exprType((Node *) r->key) != r->type)	/* a domain's values need a relabeling */
		r->key = (Expr *) makeRelabelType(r->key, r->type, -1, r->index->rd_indcollation[0],
										  COERCE_IMPLICIT_CAST);
	r->where = RelationGetIndexPredicate(r->index);
}

static void
measure_recall(Recall *r, int ef, RecallTotals *a)
{
	GRNND_REL_HOOK_TYPE before = GRNND_REL_HOOK;

	/* for example a function of the index, or a policy of the table */
	if (OidIsValid(planned_table))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("grnnd_recall() cannot be called recursively"),
				 errhint("A function of the index or its table calls grnnd_recall().")));
	set_option("enable_seqscan", "off");
	set_option("enable_indexscan", "on");
	set_option("jit", "off");
	set_option("grnnd.sample_queries", "off");
	if (ef > 0)
		set_option("grnnd.ef_search", psprintf("%d", ef));
	next_relation_info = before;
	GRNND_REL_HOOK = relation_info;
	planned_table = RelationGetRelid(r->heap);
	PG_TRY();
	{
		if (!r->given)
			read_rows(r, draw_query);
		drop_zeros(r);
		if (r->nqueries > 0)
			read_rows(r, compare_row);
		run_queries(r, a);
	}
	PG_FINALLY();
	{
		GRNND_REL_HOOK = before;
		planned_table = InvalidOid;
		grnnd_exclude_row(InvalidOid, NULL);
	}
	PG_END_TRY();
}

static void
check_range(const char *name, int value, int most)
{
	if (value < 1 || value > most)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" must be from 1 to %d", name, most),
				 errdetail("The value is %d.", value)));
}

/* Does the index contain only columns, and no functions of its owner? */
static bool
has_no_functions(Relation index)
{
	return index->rd_index->indkey.values[0] != 0 &&
		heap_attisnull(index->rd_indextuple, Anum_pg_index_indpred, NULL);
}

/*
 * A GrnndRightFn: owners of the index and readers of the table may.  The SELECT later checks the
 * privileges on the columns.
 */
static void
must_own_or_read(Oid index, Oid table)
{
	if (!grnnd_owns(index))
		grnnd_must_read(table);
}

/* Errors: 22004. */
static void
must_be_given(FunctionCallInfo fcinfo, int position)
{
	if (PG_ARGISNULL(position))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("index, k and queries must not be null"),
				 errhint("Omit k and queries for 10 neighbors and 100 queries.")));
}

/* An integer argument from 1 to `most`.  Errors: 22004, 22023. */
static int
bounded(FunctionCallInfo fcinfo, int position, const char *name, int most)
{
	must_be_given(fcinfo, position);
	check_range(name, PG_GETARG_INT32(position), most);
	return PG_GETARG_INT32(position);
}

/* Measures by queries that give() takes, or by rows of the table if give is NULL. */
static Datum
recall(FunctionCallInfo fcinfo, Recall *r, int ef, void (*give) (FunctionCallInfo, Recall *))
{
	RecallTotals a = {0};
	TupleDesc	desc;
	Datum		values[6];
	bool		nulls[6] = {false};
	GrnndUser	user;
	bool		owner;
	int			guc_level = 0;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	r->index = grnnd_open_index(PG_GETARG_OID(0), must_own_or_read, AccessShareLock, false, &r->heap);
	owner = grnnd_owns(RelationGetRelid(r->index));
	if (!owner && !has_no_functions(r->index))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of index %s",
						quote_identifier(RelationGetRelationName(r->index))),
				 errhint("The expressions and the predicate of an index run functions as the owner of the index.")));
	r->context = CurrentMemoryContext;
	r->queries = palloc0(r->wanted * sizeof(RecallQuery));
	r->given = give != NULL;
	if (give != NULL)
		give(fcinfo, r);
	if (owner)
		grnnd_become_owner(r->heap, &user);
	else
		guc_level = NewGUCNestLevel();
	describe_rows(r);
	measure_recall(r, ef, &a);
	if (owner)
		grnnd_restore_user(&user);
	else
		AtEOXact_GUC(false, guc_level);
	grnnd_close_index(r->index, r->heap);

	values[0] = Int32GetDatum((int32) a.width);
	values[1] = Float8GetDatum((double) a.hits / (double) Max(a.wanted, 1));
	values[2] = Int32GetDatum(r->nqueries);
	values[3] = Int64GetDatum(r->compared);
	values[4] = Float8GetDatum((double) a.visits / Max(r->nqueries, 1));
	/* in milliseconds with three decimals */
	values[5] = Float8GetDatum(rint(a.seconds * 1e6 / Max(r->nqueries, 1)) / 1000);
	nulls[0] = nulls[4] = nulls[5] = r->nqueries == 0;
	nulls[1] = a.wanted == 0;
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

static void
give_sampled(FunctionCallInfo fcinfo, Recall *r)
{
	grnnd_must_own(RelationGetRelid(r->index), RelationGetRelid(r->heap));
	take_sampled(r);
}

static void
give_relation(FunctionCallInfo fcinfo, Recall *r)
{
	read_queries(r, PG_GETARG_OID(4), PG_ARGISNULL(5) ? NULL : NameStr(*PG_GETARG_NAME(5)));
}

static void
give_array(FunctionCallInfo fcinfo, Recall *r)
{
	take_array(r, PG_GETARG_ARRAYTYPE_P(1));
}

/* grnnd_recall(index, k, ef_search, queries, query_table, query_column, sampled) */
PG_FUNCTION_INFO_V1(grnnd_recall);
Datum
grnnd_recall(PG_FUNCTION_ARGS)
{
	Recall		r = {0};
	bool		sampled = !PG_ARGISNULL(6) && PG_GETARG_BOOL(6);

	must_be_given(fcinfo, 0);
	r.k = bounded(fcinfo, 1, "k", MAX_K);
	r.wanted = bounded(fcinfo, 3, "queries", MAX_QUERIES);
	if ((!PG_ARGISNULL(4) && sampled) || (PG_ARGISNULL(4) && !PG_ARGISNULL(5)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("queries come from the table, from query_table, or from the sample"),
				 errhint("Pass query_table with or without query_column, or sampled, or neither.")));
	return recall(fcinfo, &r, PG_ARGISNULL(2) ? 0 : bounded(fcinfo, 2, "ef_search", GRNND_MAX_EF),
				  sampled ? give_sampled : !PG_ARGISNULL(4) ? give_relation : NULL);
}

/* grnnd_recall(index, vectors, k, ef_search) */
PG_FUNCTION_INFO_V1(grnnd_recall_vectors);
Datum
grnnd_recall_vectors(PG_FUNCTION_ARGS)
{
	Recall		r = {0};

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("index and vectors must not be null"),
				 errhint("Pass an array of query vectors.")));
	r.k = bounded(fcinfo, 2, "k", MAX_K);
	r.wanted = MAX_QUERIES;
	return recall(fcinfo, &r, PG_ARGISNULL(3) ? 0 : bounded(fcinfo, 3, "ef_search", GRNND_MAX_EF), give_array);
}
