/*
 * estimate.c - grnnd_build_estimate(): memory, pages and seconds of a CREATE INDEX.
 *
 * The estimate calls the functions that plan memory and pages of a build, for the number of rows
 * that the planner expects.  All rows are assumed to differ.  A sample of pages spread over the
 * table gives the share of rows with a vector, and the form that holds all vectors.  No builder is
 * started.
 */
#include "postgres.h"

#include <math.h>

#include "access/relation.h"
#include "access/tableam.h"
#include "access/xlog.h"
#include "catalog/pg_type_d.h"
#include "commands/defrem.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "optimizer/plancat.h"
#include "storage/bufmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "am/create/create.h"
#include "am/create/write_index_impl.h"
#include "am/filter/filter.h"
#include "am/index/index.h"
#include "am/test_point.h"
#include "am/write/write.h"
#include "graph/descent.h"

#define SAMPLE_PAGES 64
#define VECTORS_PER_PAGE 4

/* Bytes of rows, index and WAL in a second, about, on fast disks (test/bench/create/results.md). */
#define BYTES_PER_SECOND 1e9

/* Bytes of WAL for a page: its image, and its share of the record. */
#define WAL_PAGE_BYTES (BLCKSZ + 40)

typedef struct Estimate
{
	GrnndBuild	build;			/* as grnnd_build_init() leaves the struct */
	/* columns of the table */
	FormData_pg_attribute vector;
	GrnndAttrs *attrs;			/* of filter columns */
	/* of the sample */
	double		rows;			/* on the sampled pages */
	double		vectors;		/* rows with a vector on the sampled pages */
	int			nvalues;
	Datum		values[SAMPLE_PAGES * VECTORS_PER_PAGE];	/* detoasted vectors */
} Estimate;

/* Ends with an error unless oid is a table of the user.  Errors: 42P01, 42809, 42501. */
static void
check_table(Oid oid)
{
	const char *name = grnnd_existing_name(oid);
	char		kind = get_rel_relkind(oid);

	if (kind != RELKIND_RELATION && kind != RELKIND_MATVIEW)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table", name),
				 kind == RELKIND_PARTITIONED_TABLE
				 ? errhint("Pass one of its partitions.")
				 : errhint("Pass a table or a materialized view.")));
	if (!grnnd_owns(oid))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, name);
}

/*
 * Opens a table of the user.  The checks precede the lock, so that nobody waits without the right
 * to it, and are repeated under the lock, because the table may change meanwhile.
 */
static Relation
open_table(Oid oid)
{
	Relation	table;

	check_table(oid);
	table = try_relation_open(oid, AccessShareLock);
	check_table(oid);
	if (RecoveryInProgress() && table->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot read unlogged tables during recovery"),
				 errhint("Call the function on the primary server.")));
	return table;
}

static Form_pg_attribute
table_column(Relation table, const char *name)
{
	AttrNumber	attnum = get_attnum(RelationGetRelid(table), name);
	Form_pg_attribute attribute;

	if (attnum <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of relation \"%s\" does not exist", name, RelationGetRelationName(table))));
	attribute = TupleDescAttr(RelationGetDescr(table), attnum - 1);
#if PG_VERSION_NUM >= 180000
	if (attribute->attgenerated == ATTRIBUTE_GENERATED_VIRTUAL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot index virtual generated column \"%s\"", name),
				 errhint("Declare the column as STORED.")));
#endif
	return attribute;
}

/* Finds filter columns by name, with the default operator classes of CREATE INDEX. */
static void
find_filter_columns(Estimate *e, Relation table, ArrayType * names)
{
	GrnndAttrSource sources[GRNND_MAX_ATTRS];
	Oid			am = get_am_oid("grnnd", false);
	Datum	   *each;
	bool	   *nulls;
	int			n = 0;

	if (names != NULL)
		deconstruct_array(names, NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR, &each, &nulls, &n);
	if (n > GRNND_MAX_ATTRS)
		ereport(ERROR,
				(errcode(ERRCODE_TOO_MANY_COLUMNS),
				 errmsg("cannot use more than %d columns in an index", INDEX_MAX_KEYS),
				 errhint("The vector column counts as one of the columns.")));
	for (int i = 0; i < n; i++)
	{
		Form_pg_attribute attribute;
		Oid			class_oid,
					input;

		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("the name of a filter column must not be null"),
					 errhint("Pass column names, as in \"{tenant_id,created_at}\".")));
		attribute = table_column(table, NameStr(*DatumGetName(each[i])));
		class_oid = ResolveOpClass(NIL, attribute->atttypid, "grnnd", am);
		input = get_opclass_input_type(class_oid);
		if (OidIsValid(get_opfamily_proc(get_opclass_family(class_oid), input, input, GRNND_SUPPORT_TYPE)))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("filter column \"%s\" is a vector", NameStr(attribute->attname)),
					 errhint("Only the first column of a grnnd index can be a vector. Create an index for each vector column.")));
		sources[i] = (GrnndAttrSource) {input, attribute->atttypid, attribute->attcollation};
	}
	e->attrs = grnnd_make_attrs(sources, (uint32) n);
}

/* ---- the sample ---- */

/* Reads a sample of pages spread over the table.  Returns the number of rows of the whole table. */
static double
read_sample(Estimate *e, Relation table)
{
	BlockNumber blocks = RelationGetNumberOfBlocks(table);
	uint32		n = Min(blocks, SAMPLE_PAGES);
	TupleTableSlot *slot = table_slot_create(table, NULL);
	double		tuples,
				allvisible;
	ItemPointerData first,
				last;

	for (uint32 i = 0; i < n; i++)
	{
		BlockNumber block = (BlockNumber) ((uint64) blocks * i / n);
		TableScanDesc scan;

		ItemPointerSet(&first, block, FirstOffsetNumber);
		ItemPointerSet(&last, block, MaxOffsetNumber);
		scan = GRNND_BEGINSCAN_TIDRANGE(table, GetActiveSnapshot(), &first, &last);
		for (int kept = 0; table_scan_getnextslot_tidrange(scan, ForwardScanDirection, slot);)
		{
			bool		isnull;
			Datum		value = slot_getattr(slot, e->vector.attnum, &isnull);

			e->rows++;
			e->vectors += !isnull;
			if (!isnull && kept++ < VECTORS_PER_PAGE)
				e->values[e->nvalues++] = PointerGetDatum(PG_DETOAST_DATUM_COPY(value));
		}
		table_endscan(scan);
		CHECK_FOR_INTERRUPTS();
	}
	ExecDropSingleTupleTableSlot(slot);
	if (n == blocks || table->rd_rel->reltuples < 0)
		return e->rows / Max(n, 1) * blocks;
	estimate_rel_size(table, NULL, &blocks, &tuples, &allvisible);
	return tuples;
}

/* Returns the form that holds all indexed vectors of the sample exactly. */
static GrnForm
sampled_form(Estimate *e)
{
	const GrnndBuild *b = &e->build;
	void	   *row = palloc0(b->row_bytes);
	float	   *numbers = palloc(b->dim * sizeof(float));
	uint32		needed = 0;
	int			indexed = 0;

	for (int i = 0; i < e->nvalues; i++)
		if (b->key.type->dim(e->values[i]) == (int) b->column_dim &&
			grnnd_form_row(&b->key, (int) b->column_dim, e->values[i], row))
		{
			grn_form_load(b->key.type->form, row, b->dim, numbers);
			needed |= 1u << grn_form_smallest(numbers, b->dim);
			indexed++;
		}
	e->vectors *= (double) indexed / Max(e->nvalues, 1);
	return grn_rows_form(needed, b->key.type->form);
}

/* ---- the estimate ---- */

/*
 * Computes the pages of the index, and the bytes of LISTS.  All lists of a column are assumed to
 * have equal lengths.
 */
static uint64
index_pages(const Estimate *e, const GrnLayout *layout, uint64 rows, uint64 *bytes)
{
	const GrnndBuild *b = &e->build;
	GrnndMeta	meta = {.sig_bytes = (uint16) layout->sig_bytes, .ncolumns = e->attrs->n, .build_nodes = (uint32) rows};
	GrnListSizes lists = {0};
	uint64		records;

	/* an index without codes has no lists; an index of few rows gets lists later */
	if (layout->code_bytes > 0 && (rows >= grnnd_fit_rows(b->dim) || layout->shape.own != 0))
		meta.list_buckets = grnnd_list_buckets(layout, rows);
	for (uint32 c = 0; c < e->attrs->n; c++)
		for (uint32 i = 0; i < meta.list_buckets && grnnd_has_list(&e->attrs->attr[c]); i++)
			grn_add_list(&lists, layout, GRNND_LEAST_GROUPS, rows / meta.list_buckets, rows);
	records = grn_place_lists(layout, rows, &lists).end;
	grnnd_check_records(records);
	*bytes = layout->sig_bytes == 0 ? 0 :
		grn_place_new_lists(layout, (uint32) rows, meta.list_buckets * meta.ncolumns, &lists, NULL).bytes;
	return grnnd_place_blocks(&meta, layout, grn_has_center(layout->form, rows), records);
}

/* Sizes of the segments, computed as grnnd_mapping_grow() lengthens segments. */
typedef struct Segments
{
	uint64		size[GRN_NSEGMENTS];
	uint64		memory_left;
	uint64		memory;
	uint64		disk;			/* of the temporary file */
} Segments;

static void
grow(Segments *s, GrnSegment segment, uint64 bytes)
{
	while (s->size[segment] < bytes)
	{
		uint64		piece = grnnd_next_piece(s->size[segment], bytes, UINT64_MAX, s->memory_left);

		s->size[segment] += piece;
		*(s->memory_left > 0 ? &s->memory : &s->disk) += piece;
		s->memory_left -= Min(piece, s->memory_left);
	}
}

/* Returns memory and temporary file of a build of `rows` rows, in the order of its steps. */
static Segments
build_memory(const GrnndBuild *b, const GrnLayoutSpec *spec, const GrnLayout *layout, uint64 list_bytes,
			 uint64 pages, uint64 rows)
{
	Segments	s = {.memory_left = (uint64) maintenance_work_mem * 1024};
	uint64		of_row = b->attrs->bytes;
	uint64		chunk = grnnd_chunk_rows(b->row_bytes);
	GrnBuildResult r = {.nodes = (uint32) rows, .degree = layout->degree,
		.centered = grn_has_center(layout->form, rows)};
	GrnRows		like = {.dim = b->dim, .form = (GrnForm) b->spec.form};
	GrnGraphParams params = b->spec.params;
	GrnWorkNeeds needs = {.rows = rows, .nodes = rows, .dim = b->dim, .degree = layout->degree, .centered = r.centered};
	uint32		processes = 1 + (uint32) grnnd_write_workers(b, pages);
	GrnCodeCosts costs;
	GrnWork		work;

	for (uint64 n = chunk; n < rows + chunk; n += chunk)
	{
		grow(&s, GRN_SEG_VECTORS, Min(n, rows) * b->row_bytes);
		grow(&s, GRN_SEG_TIDS, Min(n, rows) * sizeof(uint64));
		grow(&s, GRN_SEG_ATTRS, Min(n, rows) * of_row);
	}
	grow(&s, GRN_SEG_ORDER, rows * sizeof(uint32));
	grow(&s, GRN_SEG_VALUES, rows * b->spec.sig_bytes * GRN_VALUE_BYTES);
	grn_layout_code_costs(spec, &costs);
	needs.code_bytes = grn_most_code_bytes(&costs);
	needs.code_dims = b->spec.use_codes && needs.code_bytes > 0 ? grn_max_code_dims(b->dim) : 0;
	work = grn_place_work_arrays(&needs, NULL);
	grow(&s, GRN_SEG_WORK, Max(grn_compare_work_bytes(rows), work.bytes));
	grn_default_params(&params, b->dim, rows);
	if (b->spec.device != GRN_DEVICE_GPU)
		grow(&s, GRN_SEG_WORK, work.kept_bytes + grn_rnnd_bytes(&params, rows, grn_copied_dims(&like)));
	grow(&s, GRN_SEG_RESULT, grn_result_arrays(&r, rows, b->dim, false, NULL).bytes);
	r.shape = layout->shape;
	grow(&s, GRN_SEG_RESULT, grn_result_arrays(&r, rows, b->dim, false, NULL).bytes);
	grow(&s, GRN_SEG_PAGES, grn_slot_at(processes * grnnd_slots_of_process(b->spec.threads, processes), BLCKSZ));
	grow(&s, GRN_SEG_LISTS, list_bytes);
	return s;
}

/* Fills the result columns for a table with rows. */
static void
estimate(Estimate *e, GrnForm exact, uint64 rows, bool wal, Datum *values)
{
	static const char *const devices[] = {[GRN_DEVICE_AUTO] = "auto",[GRN_DEVICE_GPU] = "gpu",[GRN_DEVICE_CPU] = "cpu"};
	GrnndBuild *b = &e->build;
	GrnLayoutSpec spec = grnnd_usual_layout(b, exact);
	GrnLayout	layout;
	uint64		pages,
				list_bytes;
	Segments	segments;

	grnnd_choose_device(b, (double) rows);
	spec = grnnd_usual_layout(b, grn_layout_form_beside_columns((GrnKeep) b->spec.keep, b->spec.use_codes, &spec));
	if (!grn_layout_of(&layout, &spec))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("a record of degree %u does not fit a page", spec.degree),
				 errhint("Lower the storage parameter \"degree\".")));
	pages = index_pages(e, &layout, rows, &list_bytes);
	segments = build_memory(b, &spec, &layout, list_bytes, pages, rows);

	values[0] = Int64GetDatum((int64) rows);
	values[2] = CStringGetTextDatum(devices[b->spec.device]);
	values[3] = Int64GetDatum((int64) (pages * BLCKSZ));
	values[4] = Int64GetDatum((int64) (wal ? pages * WAL_PAGE_BYTES : 0));
	values[5] = Int64GetDatum((int64) segments.memory);
	values[6] = Int64GetDatum((int64) segments.disk);
	values[7] = Float8GetDatum(grnnd_graph_seconds(b, (double) rows) +
							   (double) (rows * b->row_bytes + pages * BLCKSZ * (wal ? 2 : 1)) / BYTES_PER_SECOND);
}

/* The words that the longest sampled row needs. */
static uint32
most_words(const Estimate *e, const GrnndKey *key)
{
	int			most = GRNND_LEAST_WORDS;

	for (int i = 0; i < e->nvalues; i++)
		most = Max(most, key->type->words(e->values[i]));
	return Min(most, GRNND_MOST_WORDS);
}

PG_FUNCTION_INFO_V1(grnnd_build_estimate);
Datum
grnnd_build_estimate(PG_FUNCTION_ARGS)
{
	Datum		values[8] = {0};	/* the function's columns */
	bool		nulls[8] = {false};
	TupleDesc	tupdesc;
	Relation	table;
	GrnndOptions *options;
	GrnndKey	key;
	GrnForm		exact;
	Estimate   *e = palloc0(sizeof(Estimate));
	double		rows;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("table_name and column_name must not be null"),
				 errhint("Pass the table and the name of its vector column.")));
	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	table = open_table(PG_GETARG_OID(0));
	e->vector = *table_column(table, NameStr(*PG_GETARG_NAME(1)));
	options = (GrnndOptions *) grnnd_options(PG_ARGISNULL(3) ? (Datum) 0 : PG_GETARG_DATUM(3), true);
	find_filter_columns(e, table, PG_ARGISNULL(4) ? NULL : PG_GETARG_ARRAYTYPE_P(4));
	e->vector.atttypid = getBaseTypeAndTypmod(e->vector.atttypid, &e->vector.atttypmod);
	key = grnnd_key_by_name(e->vector.atttypid, PG_ARGISNULL(2) ? NULL : PG_GETARG_TEXT_PP(2), NULL);
	grnnd_test_point("estimate");
	rows = read_sample(e, table);
	/* assume an index on an expression with the dimensions of the first vector */
	if (e->vector.atttypmod < 1 && e->nvalues > 0)
		e->vector.atttypmod = key.type->dim(e->values[0]);
	grnnd_key_set_dim(&key, e->vector.atttypmod);
	if (key.type->words != NULL && e->nvalues > 0)
		key.words = most_words(e, &key);
	grnnd_build_init(&e->build, key, e->attrs, &e->vector, options);
	exact = sampled_form(e);
	rows = rint(rows * e->vectors / Max(e->rows, 1));
	values[1] = Int32GetDatum((int32) e->build.column_dim);
	nulls[2] = rows < 1;
	values[7] = Float8GetDatum(0);
	if (rows >= 1)
		estimate(e, exact, (uint64) rows, RelationNeedsWAL(table) && XLogIsNeeded(), values);
	relation_close(table, AccessShareLock);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc), values, nulls)));
}
