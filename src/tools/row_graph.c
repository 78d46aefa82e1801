/*
 * row_graph.c - grnnd_graph() and grnnd_graph_by(): the nearest rows of every row of a table.
 *
 * row_graph_rows.c reads the rows as a SELECT does.  The builder process makes a graph of the rows
 * and finds the nearest nodes of each node.  This file turns nodes into the names of rows.
 */
#include "postgres.h"

#include <math.h>

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "storage/ipc.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/tuplestore.h"

#include "am/create/create.h"
#include "am/create/write_index_impl.h"
#include "am/export.h"
#include "am/index/index.h"
#include "am/report/select_rows.h"
#include "tools/row_graph.h"

/*
 * Candidates for each wanted row, and at least.  40,000 sentences, 10 rows wanted: recall .985 for
 * 71 us a row, half .973 for 38, twice .993 for 140 (test/bench/row_graph/results.md).
 */
#define DEFAULT_EF_PER_ROW 2
#define DEFAULT_LEAST_EF 20

#define NCOLUMNS 3				/* row, neighbor, distance */

/* The builder's answer; pointers into the mapping. */
typedef struct Answer
{
	uint32		nodes;
	GrnResultArrays at;
	uint64		near_items;
} Answer;

/* A row that may be among the nearest rows of a second row. */
typedef struct Candidate
{
	double		distance;
	uint32		row;
} Candidate;

typedef struct Output
{
	GrnndRowGraph *g;
	Answer		answer;
	Tuplestorestate *store;
	TupleDesc	desc;
	Candidate  *candidates;		/* [near.k] */
} Output;

/* ---- the arguments ---- */

/*
 * Ends with an error unless oid is a relation with rows of its own and the user may read the
 * relation.  Errors: 42P01, 42809, 42501.
 */
static void
check_relation(Oid oid, bool by_tid)
{
	const char *name = grnnd_existing_name(oid);
	char		kind = get_rel_relkind(oid);

	if (kind != RELKIND_RELATION && kind != RELKIND_MATVIEW &&
		(by_tid || (kind != RELKIND_VIEW && kind != RELKIND_PARTITIONED_TABLE &&
					kind != RELKIND_FOREIGN_TABLE)))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table", name),
				 kind == RELKIND_VIEW || kind == RELKIND_PARTITIONED_TABLE || kind == RELKIND_FOREIGN_TABLE
				 ? errhint("Its rows have no unique ctid. Use grnnd_graph_by() with a key column.")
				 : errhint("Pass a table or a view.")));
	grnnd_must_read(oid);
}

/* Returns a column of the relation by name.  Error: 42703. */
static Expr *
find_column(const GrnndRowGraph *g, const char *name, bool system_too)
{
	AttrNumber	number = get_attnum(RelationGetRelid(g->rel), name);

	if (number == InvalidAttrNumber || (number < 0 && !system_too))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of relation \"%s\" does not exist", name,
						RelationGetRelationName(g->rel))));
	return grnnd_select_column(g->rel, number);
}

/*
 * Opens the relation.  The checks precede the lock, so that nobody waits for a lock without the
 * right to the lock, and are repeated under the lock.  All later look-ups use the OID.
 */
static void
open_relation(GrnndRowGraph *g, Oid oid)
{
	check_relation(oid, g->by_tid);
	g->rel = try_relation_open(oid, AccessShareLock);
	check_relation(oid, g->by_tid);
	if (g->by_tid && find_inheritance_children(oid, NoLock) != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("table \"%s\" has children", RelationGetRelationName(g->rel)),
				 errhint("Rows of several tables have no unique ctid. Use grnnd_graph_by() with a key column.")));
	g->vector = find_column(g, g->column, false);
	g->row = find_column(g, g->row_column, true);
	g->type = getBaseType(exprType((Node *) g->vector));
}

/* Returns an integer argument from 1 to `most`, or `otherwise` for NULL.  Error: 22023. */
static int
bounded(FunctionCallInfo fcinfo, int position, const char *name, int most, int otherwise)
{
	int			value = PG_ARGISNULL(position) ? otherwise : PG_GETARG_INT32(position);

	if (value < 1 || value > most)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must be from 1 to %d", name, most),
				 errhint("Each row has k neighbors; a search keeps ef_search candidates.")));
	return value;
}

/* at: the position of argument k; the optional arguments follow k. */
static void
take_arguments(GrnndRowGraph *g, FunctionCallInfo fcinfo, int at)
{
	for (int i = 0; i <= at; i++)
		if (PG_ARGISNULL(i))
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("table_name, column names and k must not be null"),
					 errhint("Pass the table, the name of its vector column, and the number of neighbors.")));
	g->build.builder.sock = -1;
	g->column = NameStr(*PG_GETARG_NAME(1));
	g->by_tid = at == 2;
	g->row_column = g->by_tid ? "ctid" : NameStr(*PG_GETARG_NAME(2));
	g->k = bounded(fcinfo, at, "k", GRN_MOST_NEAR, 0);
	g->farthest = PG_ARGISNULL(at + 2) ? INFINITY : PG_GETARG_FLOAT8(at + 2);
	g->exact = !PG_ARGISNULL(at + 3) && PG_GETARG_BOOL(at + 3);
	g->ef = bounded(fcinfo, at + 4, "ef_search", GRN_MOST_NEAR_EF,
					Max(DEFAULT_EF_PER_ROW * g->k, DEFAULT_LEAST_EF));
	if (isnan(g->farthest))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("max_distance must be a number"),
				 errhint("NULL means any distance.")));
	open_relation(g, PG_GETARG_OID(0));
	g->key = grnnd_key_by_name(g->type, PG_ARGISNULL(at + 1) ? NULL : PG_GETARG_TEXT_PP(at + 1), NULL);
}

/* The query names the columns of grnnd_graph_by(), with the key's type.  Error: 42804. */
static void
check_result_type(const GrnndRowGraph *g, TupleDesc desc)
{
	Oid			type = exprType((Node *) g->row);
	char	   *name = format_type_be(type);

	if (desc->natts != NCOLUMNS || TupleDescAttr(desc, 2)->atttypid != FLOAT8OID ||
		getBaseType(TupleDescAttr(desc, 0)->atttypid) != getBaseType(type) ||
		getBaseType(TupleDescAttr(desc, 1)->atttypid) != getBaseType(type))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("the result's columns must be two of type %s and one of type double precision", name),
				 errhint("Write AS g (item %s, neighbor %s, distance double precision).", name, name)));
}

/* ---- the builder's answer ---- */

static void
check_answer(const GrnndBuild *build, Answer *a)
{
	const GrnBuildResult *r = &build->builder.result;

	a->nodes = r->nodes;
	a->near_items = r->near_items;
	if (r->nodes == 0 || r->nodes > build->rows)
		grnnd_bad_result("impossible number of nodes");
	a->at = grnnd_result_arrays(build->map, r, build->rows, build->dim, true);
	grnnd_check_result_rows(a->at.row_start, a->at.rows, a->nodes, build->rows);
}

/* Returns the list of a node, of *count items; NULL if the list is empty. */
static const GrnNear *
near_of(const Answer *a, uint32 node, uint32 most, uint32 *count)
{
	*count = a->at.near_count[node];
	if (*count == 0)
		return NULL;
	if (*count > most || a->at.near_start[node] > a->near_items ||
		*count > a->near_items - a->at.near_start[node])
		grnnd_bad_result("a list lies outside its array");
	return a->at.near + a->at.near_start[node];
}

/* ---- output ---- */

/*
 * Makes candidates for a row from the list of the row's node.  Returns the number of candidates, at
 * most k.
 */
static uint32
find_candidates(Output *o, uint32 row, const GrnNear *near, uint32 count)
{
	const GrnndBuild *build = &o->g->build;
	const Answer *a = &o->answer;
	uint32		most = o->g->k;
	uint32		n = 0;

	for (uint32 i = 0; i < count && n < most; i++)
	{
		double		distance = build->key.metric->value(near[i].compared);

		if (near[i].id >= a->nodes)
			grnnd_bad_result("a neighbor is not a node");
		for (uint32 at = a->at.row_start[near[i].id]; at < a->at.row_start[near[i].id + 1] && n < most; at++)
			if (a->at.rows[at] != row)
				o->candidates[n++] = (Candidate) {distance, a->at.rows[at]};
	}
	return n;
}

static void
put_row(Output *o, uint32 row, const GrnNear *near, uint32 count)
{
	Datum		values[NCOLUMNS];
	bool		nulls[NCOLUMNS] = {false};
	uint32		n = find_candidates(o, row, near, count);

	values[0] = grnnd_row_graph_row(o->g, row);
	for (uint32 i = 0; i < n; i++)
	{
		values[1] = grnnd_row_graph_row(o->g, o->candidates[i].row);
		values[2] = Float8GetDatum(o->candidates[i].distance);
		tuplestore_putvalues(o->store, o->desc, values, nulls);
	}
}

static void
put_all(Output *o)
{
	const GrnndBuild *build = &o->g->build;
	const Answer *a = &o->answer;

	check_answer(build, &o->answer);
	o->candidates = palloc(build->spec.near.k * sizeof(Candidate));
	for (uint32 node = 0; node < a->nodes; node++)
	{
		uint32		count;
		const GrnNear *near = near_of(a, node, build->spec.near.k, &count);

		CHECK_FOR_INTERRUPTS();
		for (uint32 at = a->at.row_start[node]; count > 0 && at < a->at.row_start[node + 1]; at++)
			put_row(o, a->at.rows[at], near, count);
	}
}

/* ---- */

static void
run(GrnndRowGraph *g, Output *o)
{
	GrnndBuild *build = &g->build;
	GrnndBuilder *builder = &build->builder;
	const GrnBuildResult *r = &builder->result;
	instr_time	start;
	double		build_s;

	grnnd_row_graph_collect(g);
	if (build->rows == 0)
		return;
	INSTR_TIME_SET_CURRENT(start);
	if (builder->pid == 0)
	{
		grnnd_choose_device(build, (double) build->rows);
		grnnd_builder_start(builder, build->map, &build->spec);
	}
	grnnd_builder_rows(builder, build->rows);
	grnnd_builder_begin(builder, build->rows);
	grnnd_builder_await_end(builder);
	build_s = grnnd_seconds_since(start);
	if (r->on_gpu && IsTransactionBlock())
		grnnd_builder_park(builder);
	else
		grnnd_builder_kill(builder);

	INSTR_TIME_SET_CURRENT(start);
	put_all(o);
	ereport(DEBUG1,
			(errmsg_internal("grnnd graph: rows %llu, nodes %u, device %s, collect %.3f s, build %.3f s (%s), "
							 "output %.3f s, memory " UINT64_FORMAT ", temporary file " UINT64_FORMAT,
							 (unsigned long long) build->rows, r->nodes,
							 g->exact ? "none" : r->on_gpu ? "gpu" : "cpu", g->seconds, build_s,
							 grnnd_builder_seconds(r),
							 grnnd_seconds_since(start), build->map->memory_used,
							 build->map->file_size[GRNND_FILE_DISK])));
}

/* at: position of argument k. */
static Datum
graph(FunctionCallInfo fcinfo, int at)
{
	GrnndRowGraph *g = palloc0(sizeof(GrnndRowGraph));
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Output		o = {.g = g};

	take_arguments(g, fcinfo, at);
	if (get_call_result_type(fcinfo, NULL, NULL) != TYPEFUNC_COMPOSITE)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("function returning record called in context that cannot accept type record"),
				 errhint("Call grnnd_graph_by() in FROM, with the columns that it returns: AS g (item ..., neighbor ..., distance double precision).")));
	InitMaterializedSRF(fcinfo, 0);
	o.store = result->setResult;
	o.desc = result->setDesc;
	if (!g->by_tid)
		check_result_type(g, o.desc);

	PG_ENSURE_ERROR_CLEANUP(grnnd_build_abandon, PointerGetDatum(&g->build));
	{
		run(g, &o);
	}
	PG_END_ENSURE_ERROR_CLEANUP(grnnd_build_abandon, PointerGetDatum(&g->build));
	if (g->begun)
		grnnd_build_finish(&g->build);
	relation_close(g->rel, NoLock);
	return (Datum) 0;
}

PG_FUNCTION_INFO_V1(grnnd_graph);
Datum
grnnd_graph(PG_FUNCTION_ARGS)
{
	return graph(fcinfo, 2);
}

PG_FUNCTION_INFO_V1(grnnd_graph_by);
Datum
grnnd_graph_by(PG_FUNCTION_ARGS)
{
	return graph(fcinfo, 3);
}
