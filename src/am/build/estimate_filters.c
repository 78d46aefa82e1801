/*
 * estimate_filters.c - what filter columns take of a build and of its index, by a sample.
 *
 * The lists of values are planned as those of an index are (write_filters.c), by the sample's
 * numbers of rows of each bucket, in proportion.
 */
#include "postgres.h"

#include "access/genam.h"
#include "catalog/pg_type_d.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "am/build/estimate_filters.h"
#include "am/build/write_index_impl.h"
#include "am/lists.h"
#include "am/opclass.h"
#include "am/write/fit.h"
#include "graph/build/value_edges.h"

/* ---- columns ---- */

Form_pg_attribute
grnnd_table_column(Relation table, const char *name)
{
	AttrNumber	attnum = get_attnum(RelationGetRelid(table), name);

	if (attnum <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of relation \"%s\" does not exist", name,
						RelationGetRelationName(table))));
	return TupleDescAttr(RelationGetDescr(table), attnum - 1);
}

static GrnndAttrSource
filter_column(Relation table, const char *name)
{
	Oid			am = get_am_oid("grnnd", false);
	Form_pg_attribute attribute = grnnd_table_column(table, name);
	Oid			class_oid;
	Oid			input;

#if PG_VERSION_NUM >= 180000
	if (attribute->attgenerated == ATTRIBUTE_GENERATED_VIRTUAL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("filter column \"%s\" is generated when it is read, and cannot be in an index", name),
				 errhint("Generate it as STORED.")));
#endif
	class_oid = GetDefaultOpClass(attribute->atttypid, am);
	if (!OidIsValid(class_oid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("data type %s has no default operator class for access method \"%s\"",
						format_type_be(attribute->atttypid), "grnnd"),
				 errhint("Leave the column out of the index: conditions on it work all the same.")));
	input = get_opclass_input_type(class_oid);
	if (OidIsValid(get_opfamily_proc(get_opclass_family(class_oid), input, input, GRNND_SUPPORT_TYPE)))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("filter column \"%s\" is a vector", name),
				 errhint("Only the first column of a grnnd index can be one. Make an index for each vector.")));
	return (GrnndAttrSource) {.input = input, .type = attribute->atttypid, .collation = attribute->attcollation};
}

GrnndFilterColumns *
grnnd_filter_columns(Relation table, ArrayType * names)
{
	GrnndFilterColumns *columns = palloc0(sizeof(GrnndFilterColumns));
	GrnndAttrSource sources[GRNND_MAX_ATTRS];
	Datum	   *each;
	bool	   *nulls;
	int			n = 0;

	if (names != NULL)
		deconstruct_array(names, NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR, &each, &nulls, &n);
	if (n > GRNND_MAX_ATTRS)
		ereport(ERROR,
				(errcode(ERRCODE_TOO_MANY_COLUMNS),
				 errmsg("cannot use more than %d columns in an index", INDEX_MAX_KEYS),
				 errhint("The vector is one of them.")));
	for (int i = 0; i < n; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("the name of a filter column must not be null"),
					 errhint("Write each as in \"{tenant_id,created_at}\".")));
		columns->names[i] = pstrdup(NameStr(*DatumGetName(each[i])));
		sources[i] = filter_column(table, columns->names[i]);
	}
	columns->n = (uint32) n;
	columns->attrs = grnnd_make_attrs(sources, columns->n);
	return columns;
}

/* ---- edges of frequent values ---- */

GrnndMembers
grnnd_count_members(const GrnndBuild *build)
{
	GrnndMembers members = {build->spec.sig_bytes};
	const uint8 *numbers = (const uint8 *) build->map->base[GRN_SEG_VALUES];

	members.counts = palloc0(Max(members.columns, 1) * sizeof(*members.counts));
	if (build->map->size[GRN_SEG_VALUES] == 0)
		return members;
	for (uint64 row = 0; row < build->rows; row++)
		for (uint32 c = 0; c < members.columns; c++)
			members.counts[c][numbers[row * members.columns + c]]++;
	return members;
}

double
grnnd_rows_with_edges(const GrnndBuild *build, const GrnndMembers *members, double rows, double nodes)
{
	const GrnBuildResult *r = &build->builder.result;
	GrnLayoutSpec spec = grn_result_layout_spec(&build->spec, r);
	GrnCodeCosts costs;
	double		all = 0;
	double		most = 0;		/* of a column */
	uint32		columns = 0;	/* that may have such values at once */

	grn_layout_code_costs_of(&spec, &costs);
	while (columns < members->columns &&
		   grn_most_value_edges(r->degree, columns + 1, grn_most_code_bytes(&costs)) > 0)
		columns++;
	for (uint32 c = 0; c < members->columns; c++)
	{
		double		of_column = 0;

		for (int byte = 1; byte < 256; byte++)
		{
			double		count = members->counts[c][byte] / (double) build->rows * nodes;

			if (grn_has_value_edges(count, nodes, r->on_gpu != 0))
				of_column += count;
		}
		all += of_column;
		most = Max(most, of_column);
	}
	return Min(all, columns * most);
}

/* ---- the index ---- */

/*
 * How many rows lists of a column have, for each of the sample's rows there.  A node is on a list
 * once for all of its rows that have the value: so what counts is its first row, and how many of
 * the others bring it onto a list anew, as far as the sample knows.
 */
static double
entries_of_sampled(const GrnndNewIndex *new, uint32 column, const uint64 *counts, uint64 sampled,
				   double rows, double nodes)
{
	uint32		buckets = new->meta.list_buckets;
	double		first = 0;
	double		each = 0;
	double		listed = 0;
	double		anew;

	for (uint32 node = 0; node < new->nodes; node++)
		for (uint32 i = new->row_start[node]; i < new->row_start[node + 1]; i++)
		{
			const uint8 *values = grnnd_row_attrs(new, new->rows[i]);
			uint32		ranks[GRNND_MOST_ELEMENTS];
			uint32		n = grnnd_list_ranks(new->columns, new->books, column, values,
											 values + new->columns->bytes, ranks);

			each += n;
			if (i == new->row_start[node])
				first += n;
		}
	for (uint32 b = 0; b < buckets; b++)
		listed += (double) counts[(uint64) column * buckets + b];
	if (listed == 0)
		return 0;
	anew = each > first ? (listed - first) / (each - first) : 1;
	return (nodes * first / new->nodes + Max(rows - nodes, 0) * anew * each / (double) sampled) / listed;
}

/* What the builder has made of the sample, and the books of its columns. */
static void
take_sample(GrnndNewIndex *new, GrnndBuild *build, const GrnLayout *layout, uint64 sampled, double rows)
{
	const GrnBuildResult *r = &build->builder.result;
	const GrnndAttrs *attrs = build->attrs;

	new->layout = *layout;
	new->columns = attrs;
	new->element_lists = build->options.element_lists;
	new->attrs = (uint8 *) build->map->base[GRN_SEG_ATTRS];
	new->nodes = r->nodes;
	new->row_start = grnnd_result_row_start(build, r);
	new->rows = grnnd_result_array(build->map, GRN_SEG_RESULT, r->off_rows, sampled, sizeof(uint32));
	grnnd_check_result_rows(new->row_start, new->rows, new->nodes, sampled);
	new->meta.metric = build->spec.metric;
	new->meta.ncolumns = attrs->n;
	new->meta.sig_bytes = (uint16) build->spec.sig_bytes;
	for (uint32 i = 0; i < attrs->n; i++)
		grnnd_describe_attr(&attrs->attr[i], build->spec.sig_bytes, &new->meta.columns[i]);
	new->books = palloc(attrs->n * sizeof(GrnSigBook));
	memcpy(new->books, build->books, attrs->n * sizeof(GrnSigBook));
	for (uint32 c = 0; c < attrs->n; c++)
		if (attrs->attr[c].type->kind == GRNND_ATTR_ARRAY)
			grnnd_fit_array_book(new, c, sampled, rows);
}

GrnndFilterNeeds
grnnd_filter_needs(GrnndBuild *build, const GrnLayout *layout, uint64 sampled, double rows, double nodes,
				   double records)
{
	GrnndFilterNeeds needs = {0};
	GrnndListSizes lists = {0};
	GrnndNewIndex *new;
	const GrnMetricInfo *metric = grn_metric((GrnMetric) build->spec.metric);
	/* what groups are counted by; of the rest, which the sample's has, nothing is asked */
	GrnCodec	codec = {.dim = layout->dim, .shape = layout->shape, .kind = metric->codes, .own = metric->own_codes};

	if (build->attrs->n == 0)
		return needs;
	new = palloc0(sizeof(GrnndNewIndex));
	take_sample(new, build, layout, sampled, rows);
	new->meta.build_nodes = (uint32) Min(nodes, GRN_MAX_NODES);
	/* (of few nodes codes are fitted later, and lists are made then: write_index.c) */
	if (layout->code_bytes > 0 && (nodes >= grnnd_fit_rows(build->dim) || layout->shape.own != 0))
	{
		uint64	   *counts;

		new->meta.list_buckets = grnnd_list_buckets(layout, (uint64) nodes);
		counts = grnnd_count_lists(new);
		for (uint32 c = 0; c < new->columns->n; c++)
		{
			double		scale = entries_of_sampled(new, c, counts, sampled, rows, nodes);

			for (uint32 b = 0; b < new->meta.list_buckets; b++)
				grnnd_add_list(&lists, &new->meta, layout, &codec, c,
							   (uint64) rint(scale * (double) counts[(uint64) c * new->meta.list_buckets + b]),
							   (uint64) nodes);
		}
		needs.records = (double) grnnd_place_lists(layout, (uint64) records, &lists).end - records;
		pfree(counts);
	}
	grnnd_place_filters(&new->meta, layout, 0);
	needs.pages = grnnd_filter_pages(&new->meta);
	needs.bytes = (double) grnnd_filter_bytes(&new->meta, layout, (uint64) nodes, &lists);
	pfree(new->books);
	pfree(new);
	return needs;
}
