/*
 * row_graph_rows.c - reads the rows of a row graph as a SELECT of the user does, with the user's
 * rights, row security and views (select_rows.h), into the memory of the build.
 *
 * The type of a view's column or of an expression has no number of dimensions.  So the first row
 * gives the number of dimensions, and the build begins with the first row.
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/plancat.h"
#include "storage/bufmgr.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "am/create/create.h"
#include "am/report/select_rows.h"
#include "space/form.h"
#include "tools/row_graph.h"

/* Memory for rows and stored values is allocated in pieces of this size. */
#define CHUNK_BYTES (1024 * 1024)

/* Limit of rows for views and relations without pages of their own. */
#define MOST_OTHER_ROWS (UINT64_C(1) << 28)

/* Address space for stored values. */
#define STORED_BYTES (UINT64_C(4) << 40)

/* Returns the most rows that the relation can have; *guess: the planner's estimate. */
static uint64
most_rows(GrnndRowGraph *g, double *guess)
{
	Relation	rel = g->rel;
	uint64		most = MOST_OTHER_ROWS;
	BlockNumber pages;
	double		allvisible;

	*guess = 0;
	if (rel->rd_rel->relkind == RELKIND_RELATION || rel->rd_rel->relkind == RELKIND_MATVIEW)
	{
		estimate_rel_size(rel, NULL, &pages, guess, &allvisible);
		if (g->by_tid)
			most = Max((uint64) RelationGetNumberOfBlocks(rel), 1) * MaxHeapTuplesPerPage;
	}
	return most;
}

/* Begins the build at the first row, of `dim` dimensions; a GPU opens while rows are read. */
static void
begin(GrnndRowGraph *g, int dim)
{
	static const GrnndAttrs no_columns = {0};
	GrnndBuild *build = &g->build;
	GrnBuildSpec *spec = &build->spec;
	MemoryContext old = MemoryContextSwitchTo(g->context);
	FormData_pg_attribute column = {0};
	double		guess;
	uint64		most;

	column.atttypid = g->type;
	column.atttypmod = dim;
	grnnd_key_set_dim(&g->key, dim);
	g->key.words = GRNND_MOST_WORDS;
	grnnd_build_init(build, g->key, &no_columns, &column, NULL);
	/* the build makes no records */
	spec->keep = GRN_KEEP_EXACT;
	spec->use_codes = false;
	spec->skip_recall = true;
	spec->params.degree = grn_bare_degree(build->dim);
	spec->near.k = g->k;
	spec->near.ef = Max(g->ef, spec->near.k);
	spec->near.exact = g->exact;
	spec->near.farthest = g->farthest;
	if (g->exact)
		spec->device = GRN_DEVICE_CPU;
	build->attrs_bytes = !g->row_by_value ? STORED_BYTES : 0;
	most = most_rows(g, &guess);
	grnnd_build_map(build, most);
	if (spec->device == GRN_DEVICE_GPU ||
		(spec->device == GRN_DEVICE_AUTO && grnnd_worth_gpu(build, guess)))
		grnnd_builder_start(&build->builder, build->map, spec);
	g->begun = true;
	MemoryContextSwitchTo(old);
}

/* Makes room for one more row.  Error: 54000. */
static void
make_room(GrnndRowGraph *g)
{
	GrnndBuild *build = &g->build;
	uint64		row_bytes = build->row_bytes;
	uint64		tid_bytes = sizeof(uint64);
	uint64		rows;

	if (build->rows < g->room)
		return;
	if (build->rows >= build->max_rows)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("a graph cannot have more than %llu rows of %u dimensions",
						(unsigned long long) build->max_rows, build->dim),
				 errhint("Create views of parts of the rows, and make a graph of each view.")));
	rows = Min(g->room + Max(CHUNK_BYTES / row_bytes, 1), build->max_rows);
	grnnd_mapping_grow(build->map, GRN_SEG_VECTORS, rows * row_bytes);
	grnnd_mapping_grow(build->map, GRN_SEG_TIDS, rows * tid_bytes);
	grnnd_mapping_populate(build->map, GRN_SEG_VECTORS, g->room * row_bytes, rows * row_bytes);
	grnnd_mapping_populate(build->map, GRN_SEG_TIDS, g->room * tid_bytes, rows * tid_bytes);
	g->room = rows;
}

/* Copies bytes into ATTRS, aligned.  Returns the offset in ATTRS. */
static uint64
store(GrnndRowGraph *g, const void *bytes, Size size)
{
	GrnndMapping *map = g->build.map;
	uint64		at = g->stored;
	uint64		end = at + MAXALIGN64(size);

	if (end > g->stored_room)
	{
		uint64		room = TYPEALIGN64(CHUNK_BYTES, end);

		grnnd_mapping_grow(map, GRN_SEG_ATTRS, room);
		grnnd_mapping_populate(map, GRN_SEG_ATTRS, g->stored_room, room);
		g->stored_room = room;
	}
	memcpy(map->base[GRN_SEG_ATTRS] + at, bytes, size);
	g->stored = end;
	return at;
}

/* Returns the name of a row as a word of TIDS.  Long values are stored in ATTRS, detoasted. */
static uint64
word_of(GrnndRowGraph *g, Datum row)
{
	if (g->row_by_value)
		return (uint64) row;
	if (g->row_length == -1)
		row = PointerGetDatum(PG_DETOAST_DATUM(row));
	return store(g, DatumGetPointer(row), datumGetSize(row, false, g->row_length));
}

static void
take_row(GrnndRowGraph *g, Datum row, bool no_row, Datum value)
{
	GrnndBuild *build = &g->build;
	Datum		plain = PointerGetDatum(PG_DETOAST_DATUM(value));
	int			dim = g->key.type->dim(plain);
	Size		used;
	char	   *out;

	if (!g->begun)
		begin(g, dim);
	if (dim != (int) build->column_dim)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("column \"%s\" has vectors of %u and of %d dimensions", g->column,
						build->column_dim, dim),
				 errhint("Create a view of rows with one number of dimensions, by vector_dims() or length().")));
	make_room(g);
	out = build->map->base[GRN_SEG_VECTORS] + build->rows * build->row_bytes;
	if (!grnnd_form_row(&build->key, dim, plain, out))
		return;					/* a zero vector has no cosine */
	if (grn_form(build->key.type->form)->sparse && grn_sparse_error(out) > 0)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("a graph cannot have rows of type %s with more than about 1000 non-zero elements",
						build->key.type->name),
				 errhint("Create a view of rows with fewer elements.")));
	if (no_row)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("key column \"%s\" is NULL in a row with a vector", g->row_column),
				 errhint("Pass a column without NULLs, or create a view of the rows that have a key.")));
	used = grn_form_bytes(build->key.type->form, build->dim);
	memset(out + used, 0, build->row_bytes - used);
	((uint64 *) build->map->base[GRN_SEG_TIDS])[build->rows] = word_of(g, row);
	build->rows++;
}

/* A GrnndRowFn for (row, vector). */
static void
receive(void *arg, const Datum *values, const bool *isnull)
{
	GrnndRowGraph *g = arg;

	if (isnull[1])
		return;
	if (g->begun && g->until_check-- == 0)
	{
		if (g->build.builder.pid != 0)
		{
			grnnd_builder_poll(&g->build.builder);
			grnnd_builder_rows(&g->build.builder, g->build.rows);
		}
		g->until_check = GRNND_ROWS_PER_CHECK;
	}
	take_row(g, values[0], isnull[0], values[1]);
}

void
grnnd_row_graph_collect(GrnndRowGraph *g)
{
	/* children of a table have the key column, too */
	GrnndSelect select = {.rel = g->rel, .only = g->by_tid, .values = list_make2(g->row, g->vector)};
	instr_time	start;
	GrnndMapping *map;

	g->context = CurrentMemoryContext;
	get_typlenbyval(exprType((Node *) g->row), &g->row_length, &g->row_by_value);
	INSTR_TIME_SET_CURRENT(start);
	grnnd_run_select(grnnd_plan_select(&select), NULL, receive, g);
	g->seconds = grnnd_seconds_since(start);
	if (g->build.rows == 0)
		return;

	map = g->build.map;
	grnnd_mapping_grow(map, GRN_SEG_ORDER, g->build.rows * sizeof(uint32));
	grnnd_mapping_populate(map, GRN_SEG_ORDER, 0, g->build.rows * sizeof(uint32));
	for (uint64 i = 0; i < g->build.rows; i++)
		((uint32 *) map->base[GRN_SEG_ORDER])[i] = (uint32) i;
}

/* ---- */

static Datum
stored_at(const GrnndRowGraph *g, uint64 at)
{
	return PointerGetDatum(g->build.map->base[GRN_SEG_ATTRS] + at);
}

Datum
grnnd_row_graph_row(const GrnndRowGraph *g, uint32 row)
{
	uint64		word = ((const uint64 *) g->build.map->base[GRN_SEG_TIDS])[row];

	return g->row_by_value ? (Datum) word : stored_at(g, word);
}
