/*
 * stats.c - grnnd_stats(): the content of an index, and how it was built.
 *
 * Records are counted on a sample of the pages, in milliseconds for any index, or on all pages.
 * The number of unreachable nodes needs all pages.
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "am/index/index.h"
#include "am/scan/scan.h"
#include "am/write/write.h"

/*
 * Sample size of larger indexes: pages, or records of several pages.  A share of a half is known to
 * .016, by half of the sample to .022 and by twice to .011.
 */
#define SAMPLE_PAGES 1000

/* An index up to this number of pages is not worth a REINDEX for its free space. */
#define FEW_PAGES 16
/* Shares from which advice is given. */
#define MUCH_DEAD 0.1
#define MUCH_INSERTED 0.5
/* If the recall at the widest search is below this limit, rounding may hide the nearest rows. */
#define LITTLE_FOUND 0.5

/* ef_search and estimated_recall are for queries with this LIMIT. */
#define USUAL_LIMIT 10

enum
{
	FORMAT, DIMENSIONS, LAYOUT, STORED_AS, ROWS, NODES, DEAD_SHARE, CHAIN_RECORDS, MEAN_DEGREE,
	DEGREE_HISTOGRAM, UNREACHABLE, ROUNDED, INDEX_BYTES, BYTES_BY_PART, CODES, EF_SEARCH, RECALL,
	ADVICE, DEVICE, BUILT_AT, BUILD_ROWS, SECONDS, PARAMETERS, CURVE,
	NCOLUMNS
};

/* Counts of the pages read; `factor` scales counts to the whole index. */
typedef struct Counts
{
	double		factor;
	double		rows;			/* heap TIDs */
	double		nodes;			/* live nodes */
	double		dead;			/* dead nodes */
	double		chains;
	double		lists;
	double		free;
	double		rounded;
	double		edges;			/* edges of live nodes */
	double		degrees[GRN_MAX_DEGREE + 1];
	double		unreachable;	/* NaN: unknown */
} Counts;

static Datum
json(const char *text)
{
	return DirectFunctionCall1(jsonb_in, CStringGetDatum(text));
}

/* ---- counting ---- */

static void
count_record(const GrnRecord *rec, Counts *c)
{
	switch ((GrnState) rec->state)
	{
		case GRN_NODE:
			c->nodes++;
			c->rows += rec->ntids;
			c->rounded += rec->error > 0;
			c->edges += rec->count;
			c->degrees[Min(rec->count, GRN_MAX_DEGREE)]++;
			break;
		case GRN_DEAD:
			c->dead++;
			break;
		case GRN_TIDS:
			c->chains++;
			c->rows += rec->ntids16;
			break;
		case GRN_LIST:
			c->lists++;
			break;
		case GRN_FREE:
			c->free++;
			break;
	}
}

/*
 * Reads the node pages, or a sample.  reach, live: if not NULL, filled with the neighbor lists
 * and the live nodes.
 */
static void
count_records(Relation index, const GrnndIndex *ix, uint32 limit, bool whole, Counts *c,
			  GrnndReach *reach, GrnndSet *live)
{
	const GrnLayout *l = &ix->layout;
	uint32		pages = (limit + l->per_page - 1) / l->per_page;
	uint32		n = whole ? pages : Min(pages, SAMPLE_PAGES);
	BufferAccessStrategy strategy = GetAccessStrategy(BAS_BULKREAD);

	c->factor = n > 0 ? (double) pages / n : 1;
	for (uint32 i = 0; i < n; i++)
	{
		uint32		first = (uint32) ((uint64) i * pages / n) * l->per_page;
		Buffer		buffer;
		Page		page;

		CHECK_FOR_INTERRUPTS();
		buffer = grnnd_read(index, grnnd_node_block(ix, first), BUFFER_LOCK_SHARE, GRNND_NODES,
							strategy);
		page = BufferGetPage(buffer);
		for (uint32 slot = 0; slot < l->per_page; slot++)
		{
			const GrnRecord *rec;

			if (PageIsNew(page))
			{
				c->free++;
				continue;
			}
			rec = grnnd_page_record(page, ix, slot);
			grnnd_check_record(index, ix, first + slot, rec, &limit);
			count_record(rec, c);
			if (reach != NULL && (rec->state == GRN_NODE || rec->state == GRN_DEAD))
			{
				grnnd_reach_note(reach, first + slot, grn_rec_ids(l, rec), rec->count);
				if (rec->state == GRN_NODE)
					grnnd_set_add(live, first + slot);
			}
		}
		UnlockReleaseBuffer(buffer);
	}
	FreeAccessStrategy(strategy);
}

static void
count_all(Relation index, const GrnndIndex *ix, uint32 limit, Counts *c)
{
	BufferAccessStrategy strategy = GetAccessStrategy(BAS_BULKREAD);
	GrnndEntries *entries = grnnd_get_entries(index, ix);
	GrnndReach	reach;
	GrnndSet	live;

	grnnd_reach_init(&reach, index, ix, limit, grnnd_maintenance_memory(), strategy);
	grnnd_set_init(&live, limit);
	count_records(index, ix, limit, true, c, &reach, &live);
	if (entries->count > 0 && entries->ids[0] < limit)
		grnnd_reach_mark(&reach, entries->ids[0]);
	grnnd_reach_run(&reach);
	c->unreachable = 0;
	for (uint32 id = grnnd_set_next(&live, 0); id != GRN_INVALID_ID; id = grnnd_set_next(&live, id + 1))
		c->unreachable += !grnnd_set_has(&reach.reached, id);
}

/* ---- the result ---- */

static const char *
codes_text(Relation index, const GrnndMeta *meta)
{
	const GrnndOptions *options = (const GrnndOptions *) index->rd_options;
	const char *state = grnnd_codes_state(meta);

	if (strcmp(state, "unused") == 0)
		return "unused: they would not tell neighbors apart";
	if (strcmp(state, "unfitted") == 0)
		return "unfitted: there were too few rows";
	if (strcmp(state, "filling") == 0)
		return "filling: records are getting them";
	if (strcmp(state, "none") == 0)
		return options != NULL && !options->codes ? "none: codes = off"
			: options != NULL && options->layout == GRN_KEEP_COMPACT ? "none: layout = compact"
			: "none: they would not tell neighbors apart";
	return grn_code_dims(meta->shape) == 0 ? "used: the rows themselves"
		: psprintf("used: %u bytes a neighbor, %.0f%% of the variance",
				   grn_code_bytes(meta->shape), 100 * meta->held);
}

/* Advice for better searches; NULL: none. */
static const char *
choose_advice(const GrnndIndex *ix, uint32 limit, const Counts *c)
{
	const GrnRecallCurve *curve = grnnd_curve(&ix->notes);
	double		built = ix->meta.build_nodes - Min(ix->notes.gone, ix->meta.build_nodes);
	double		inserted = 1 - built / Max(c->nodes * c->factor, 1);

	if (c->nodes > 0 && limit > 0 && grnnd_fit_due(&ix->meta, limit - 1))
		return "grnnd_fit(): codes are due to be fitted or judged";
	if (c->dead > MUCH_DEAD * (c->nodes + c->dead))
		return psprintf("VACUUM: %.0f%% of the nodes are dead", 100 * c->dead / (c->nodes + c->dead));
	if (c->free > c->nodes + c->dead + c->chains + c->lists &&
		limit > FEW_PAGES * ix->layout.per_page)
		return "REINDEX: most of the index is free space";
	/* a search finds all of a few nodes; without a report the inserted share is unknown */
	if (ix->notes.report.built != 0 && c->nodes > GRNND_DEFAULT_EF && inserted >= MUCH_INSERTED)
		return built == 0 ? "REINDEX: all rows were inserted one by one"
			: psprintf("REINDEX: %.0f%% of the nodes were inserted one by one", 100 * inserted);
	if (curve->queries > 0 && curve->recall[0][GRN_CURVE_POINTS - 1] < LITTLE_FOUND && c->rounded > 0)
		return "layout = exact may find more: recall is low at any width, and rows are rounded";
	return NULL;
}

/* Bytes of the index by use.  The parts add up to the size of the index. */
static Datum
parts_json(const GrnndIndex *ix, double bytes, const Counts *c)
{
	const GrnLayout *l = &ix->layout;
	double		nodes = (c->nodes + c->dead) * c->factor;
	double		whole = l->span > 1 ? (double) l->span * BLCKSZ : l->record_bytes;
	double		vectors = l->shape.own > 0 ? 0 : nodes * l->vec_bytes;
	double		codes = nodes * ((1.0 + l->degree) * l->code_bytes + l->degree * (double) l->factor_bytes);
	double		neighbors = nodes * l->degree * sizeof(uint32);
	double		tids = nodes * (l->off_tids + l->tids_max * (double) GRN_TID_BYTES) +
		c->chains * c->factor * whole;
	double		filters = nodes * (l->tids_max * (double) l->attr_bytes + (1.0 + l->degree) * l->sig_bytes) +
		c->lists * c->factor * whole;
	double		freed = c->free * c->factor * whole;
	double		head = (double) ix->meta.first_node_block * BLCKSZ;
	double		rest = bytes - vectors - codes - neighbors - tids - filters - freed - head;

	return json(psprintf("{\"vectors\": %.0f, \"codes\": %.0f, \"neighbors\": %.0f, \"tids\": %.0f, "
						 "\"filters\": %.0f, \"free\": %.0f, \"head\": %.0f, \"unused\": %.0f}",
						 vectors, codes, neighbors, tids, filters, freed, head, Max(rest, 0)));
}

static Datum
degree_counts(const GrnndIndex *ix, const Counts *c)
{
	Datum		values[GRN_MAX_DEGREE + 1];

	for (uint32 i = 0; i <= ix->meta.degree; i++)
		values[i] = Int64GetDatum((int64) rint(c->degrees[i] * c->factor));
	return PointerGetDatum(construct_array(values, (int) ix->meta.degree + 1, INT8OID, 8, true,
										   TYPALIGN_DOUBLE));
}

static Datum
seconds_json(const GrnndReport *r)
{
	StringInfoData text;

	initStringInfo(&text);
	for (GrnStep i = 0; i < GRN_STEPS; i++)
		appendStringInfo(&text, "%s\"%s\": %.3f", i == 0 ? "{" : ", ", grnnd_steps[i].name, r->seconds[i]);
	appendStringInfoChar(&text, '}');
	return json(text.data);
}

static Datum
parameters_json(const GrnndMeta *meta, uint32 threads)
{
	const GrnGraphParams *p = &meta->params;

	return json(psprintf("{\"degree\": %u, \"r\": %u, \"s\": %u, \"t1\": %u, \"t2\": %u, \"rho\": %g, "
						 "\"seed\": " UINT64_FORMAT ", \"threads\": %u}",
						 meta->degree, p->r, p->s, p->t1, p->t2, p->rho, (uint64) p->seed, threads));
}

static Datum
curve_points(const GrnndNotes *notes)
{
	const GrnRecallCurve *curve = grnnd_curve(notes);
	bool		sampled = notes->measured.curve.queries > 0 && notes->queried.sampled > 0;
	static const uint32 widths[] = GRN_CURVE_WIDTHS;
	StringInfoData text;

	initStringInfo(&text);
	for (int i = 0; i < GRN_CURVE_POINTS; i++)
		appendStringInfo(&text, "%s{\"ef_search\": %u, \"recall10\": %.4f, \"recall100\": %.4f, \"records_visited\": %.1f, \"queries\": %u, \"sampled\": %s}",
						 i == 0 ? "[" : ", ", widths[i], curve->recall[0][i], curve->recall[1][i],
						 curve->visits[i], curve->queries, sampled ? "true" : "false");
	appendStringInfoChar(&text, ']');
	return json(text.data);
}

/* Returns the metapage's format number.  Sets *advice if this version cannot read the index. */
static uint32
format_of(Relation index, char **advice)
{
	Buffer		buffer = ReadBuffer(index, 0);
	const GrnndMeta *meta;
	uint32		format = GRNND_FORMAT;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	meta = (const GrnndMeta *) GrnndPagePayload(BufferGetPage(buffer));
	if (!PageIsNew(BufferGetPage(buffer)) && meta->magic == GRNND_MAGIC)
		format = meta->format;
	if (format != GRNND_FORMAT)
		*advice = psprintf("REINDEX: this version of grnnd reads format %d", GRNND_FORMAT);
	else if (!PageIsNew(BufferGetPage(buffer)) && grnnd_has_unknown_features(meta))
		*advice = pstrdup("REINDEX: this version of grnnd does not know all features of the index");
	UnlockReleaseBuffer(buffer);
	return format;
}

static void
fill_columns(Relation index, bool whole, Datum *values, bool *nulls)
{
	double		bytes = (double) RelationGetNumberOfBlocks(index) * BLCKSZ;
	uint32		format;
	char	   *advice = NULL;
	const GrnndIndex *ix;
	const char *what;
	uint32		limit;
	uint32		ef;
	double		recall;
	Counts		c = {.unreachable = NAN};

	memset(nulls, true, NCOLUMNS * sizeof(bool));
	values[INDEX_BYTES] = Int64GetDatum((int64) bytes);
	nulls[INDEX_BYTES] = false;
	if (!index->rd_index->indisvalid)
	{
		/* an invalid index may have no metapage */
		values[ADVICE] = CStringGetTextDatum("REINDEX or DROP INDEX: the index is not valid, unless it is being built now");
		nulls[ADVICE] = false;
		return;
	}
	format = format_of(index, &advice);
	values[FORMAT] = Int32GetDatum((int32) format);
	nulls[FORMAT] = false;
	if (advice != NULL)
	{
		values[ADVICE] = CStringGetTextDatum(advice);
		nulls[ADVICE] = false;
		return;
	}
	ix = grnnd_index_anew(index);
	limit = grnnd_id_limit(index, ix);
	if (whole)
		count_all(index, ix, limit, &c);
	else
		count_records(index, ix, limit, false, &c, NULL, NULL);

	memset(nulls, false, NCOLUMNS * sizeof(bool));
	values[DIMENSIONS] = Int32GetDatum((int32) ix->meta.column_dim);
	values[LAYOUT] = CStringGetTextDatum(grnnd_layout_name((const GrnndOptions *) index->rd_options));
	values[STORED_AS] = CStringGetTextDatum(grn_form(ix->layout.form)->name);
	values[ROWS] = Int64GetDatum((int64) rint(c.rows * c.factor));
	values[NODES] = Int64GetDatum((int64) rint(c.nodes * c.factor));
	values[DEAD_SHARE] = Float8GetDatum(c.dead / Max(c.nodes + c.dead, 1));
	values[CHAIN_RECORDS] = Int64GetDatum((int64) rint(c.chains * c.factor));
	values[MEAN_DEGREE] = Float8GetDatum(c.edges / Max(c.nodes, 1));
	values[DEGREE_HISTOGRAM] = degree_counts(ix, &c);
	values[UNREACHABLE] = Int64GetDatum(whole ? (int64) c.unreachable : 0);
	nulls[UNREACHABLE] = !whole;
	values[ROUNDED] = Int64GetDatum((int64) rint(c.rounded * c.factor));
	values[BYTES_BY_PART] = parts_json(ix, bytes, &c);
	values[CODES] = CStringGetTextDatum(codes_text(index, &ix->meta));
	ef = grnnd_width(index, ix, USUAL_LIMIT).ef;
	recall = grnnd_curve_recall(&ix->notes, limit, ef);
	values[EF_SEARCH] = Int32GetDatum((int32) ef);
	values[RECALL] = Float8GetDatum(rint(recall * 1000) / 1000);
	nulls[RECALL] = isnan(recall);
	what = choose_advice(ix, limit, &c);
	values[ADVICE] = what != NULL ? CStringGetTextDatum(what) : (Datum) 0;
	nulls[ADVICE] = what == NULL;
	values[DEVICE] = CStringGetTextDatum(ix->meta.on_gpu ? "gpu" : "cpu");
	nulls[DEVICE] = ix->meta.build_nodes == 0;
	values[BUILT_AT] = TimestampTzGetDatum(ix->notes.report.built);
	values[BUILD_ROWS] = Int64GetDatum((int64) ix->notes.report.rows);
	values[SECONDS] = seconds_json(&ix->notes.report);
	values[PARAMETERS] = parameters_json(&ix->meta, ix->notes.report.threads);
	values[CURVE] = grnnd_curve(&ix->notes)->queries > 0 ? curve_points(&ix->notes) : (Datum) 0;
	nulls[BUILT_AT] = nulls[BUILD_ROWS] = nulls[SECONDS] = ix->notes.report.built == 0;
	nulls[CURVE] = grnnd_curve(&ix->notes)->queries == 0;
}

/* A GrnndRightFn: the owner, and roles with the privileges of pg_stat_scan_tables, may. */
static void
must_own_or_monitor(Oid index, Oid table)
{
	if (!grnnd_owns(index) && !has_privs_of_role(GetUserId(), ROLE_PG_STAT_SCAN_TABLES))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of index %s", grnnd_name_of(index)),
				 errhint("Roles with the privileges of pg_stat_scan_tables can also call the function.")));
}

/*
 * grnnd_stats(index, all_pages).  The view grnnd_indexes passes all_pages = NULL: neither an
 * invalid index nor an index dropped meanwhile is then an error.
 */
PG_FUNCTION_INFO_V1(grnnd_stats);
Datum
grnnd_stats(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	Datum		values[NCOLUMNS] = {0};
	bool		nulls[NCOLUMNS];
	Relation	heap;
	Relation	index;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	index = grnnd_open_index(PG_GETARG_OID(0), must_own_or_monitor, AccessShareLock,
							 PG_ARGISNULL(1), &heap);
	if (index == NULL)
		PG_RETURN_NULL();
	fill_columns(index, !PG_ARGISNULL(1) && PG_GETARG_BOOL(1), values, nulls);
	grnnd_close_index(index, heap);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}
