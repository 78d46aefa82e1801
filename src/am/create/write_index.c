/*
 * write_index.c - writes the pages of the index from the builder's result.
 *
 * The result is the output of another program.  So the leader checks the numbers and the rows of
 * nodes first.  Then the leader and its workers form and write the pages, a stretch of blocks at a
 * time, and check the lists of a stretch before they form its records.  The metapage is written
 * last.
 */
#include "postgres.h"

#include "access/genam.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/barrier.h"
#include "utils/timestamp.h"
#include "utils/rel.h"
#include "utils/wait_event.h"

#include "am/create/create.h"
#include "am/create/pagewriter.h"
#include "am/create/write_index_impl.h"
#include "am/index/index.h"
#include "am/test_point.h"
#include "memory/memory.h"
#include "store/codec.h"

/* Pages that a participant writes at a time.  10,000 sentences: half and twice take as long. */
#define STRETCH_PAGES 256

/* The state of all participants, in shared memory if workers exist. */
typedef struct WriteShared
{
	Oid			index;
	bool		concurrent;
	bool		use_wal;
	GrnndIndexPlan plan;
	BlockNumber node_pages;
	pg_atomic_uint64 next_counted;	/* first share of nodes that no process counts for lists */
	pg_atomic_uint64 next_sorted;	/* first share of nodes that no process sorts into lists */
	pg_atomic_uint64 next_turn; /* next turn of stretch_of_turn(), for pages with nodes */
	pg_atomic_uint64 next_list_turn;	/* the same for pages of lists */
	pg_atomic_uint64 pages_done;
	Barrier		steps;			/* the common step of all participants: see Step */
	pg_atomic_uint32 next_emptied;	/* next memory file to free */
	GrnndExtents extents;
} WriteShared;

/* The phases of WriteShared.steps. */
typedef enum Step
{
	COUNTING,					/* count the rows of lists */
	PLANNING,					/* the leader plans the lists and the pages */
	SORTING,					/* sign rows, and sort rows into lists */
	WRITING_NODES,				/* write nodes, while the builder groups lists */
	WRITING_LISTS				/* write lists */
} Step;

PGDLLEXPORT void grnnd_write_index_worker(dsm_segment *seg, shm_toc *toc);

/* ---- preparation ---- */

void
grnnd_check_records(uint64 records)
{
	if (records >= GRN_MAX_NODES)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("a grnnd index cannot hold more than %u records", GRN_MAX_NODES - 1),
				 errhint("Partition the table.")));
}

/* Finds the nodes whose TIDs need further records.  The table of chains reuses segment ORDER. */
static void
plan_chains(GrnndNewIndex *new, GrnndMapping *map)
{
	const GrnLayout *l = &new->layout;
	uint64		nchains = 0;
	uint64		n = 0;

	for (uint32 i = 0; i < new->nodes; i++)
	{
		uint32		ntids = new->built.row_start[i + 1] - new->built.row_start[i];

		grnnd_check_cancel(i);
		if (ntids > l->tids_max)
			nchains += (ntids - l->tids_max + l->chain_tids - 1) / l->chain_tids;
	}
	grnnd_check_records(new->nodes + nchains);
	new->plan.nchains = (uint32) nchains;
	new->plan.records = new->nodes + nchains;
	if (nchains == 0)
		return;

	grnnd_mapping_grow(map, GRN_SEG_ORDER, nchains * sizeof(GrnndChain));
	grnnd_mapping_populate(map, GRN_SEG_ORDER, 0, nchains * sizeof(GrnndChain));
	new->chains = (GrnndChain *) map->base[GRN_SEG_ORDER];
	for (uint32 i = 0; i < new->nodes; i++)
	{
		uint32		ntids = new->built.row_start[i + 1] - new->built.row_start[i];

		for (uint32 first = l->tids_max; first < ntids; first += l->chain_tids)
		{
			GrnndChain *c = &new->chains[n++];

			c->node = i;
			c->first = first;
			c->ntids = Min(l->chain_tids, ntids - first);
		}
	}
	Assert(n == nchains);
}

static uint32
pages_of(uint64 floats)
{
	return (uint32) ((sizeof(float) * floats + GRNND_PAYLOAD - 1) / GRNND_PAYLOAD);
}

static uint32
codec_pages(const GrnLayout *l)
{
	return pages_of(grn_codec_floats(l->dim, grn_code_dims(l->shape)));
}

static uint32
center_pages(const GrnLayout *l, bool centered)
{
	return centered ? pages_of(l->dim) : 0;
}

uint64
grnnd_index_blocks(const GrnLayout *l, bool centered, uint64 records)
{
	return 2 + codec_pages(l) + center_pages(l, centered) +
		(l->span > 1 ? records * l->span : (records + l->per_page - 1) / l->per_page);
}

/*
 * Assigns blocks to all parts of the index: meta, entry page, codec, center, filters, nodes.
 * Returns the number of blocks.  Errors: 54000 if the index would exceed the size of a relation.
 */
static BlockNumber
place_blocks(GrnndNewIndex *new)
{
	bool		centered = new->layout.center != NULL;
	uint64		blocks = grnnd_index_blocks(&new->layout, centered, new->plan.records);
	BlockNumber head;

	new->plan.meta.entry_block = 1;
	new->plan.meta.codec_block = 2;
	new->plan.meta.codec_pages = codec_pages(&new->layout);
	new->plan.meta.center_pages = center_pages(&new->layout, centered);
	head = 2 + new->plan.meta.codec_pages + new->plan.meta.center_pages;
	grnnd_place_filters(&new->plan.meta, &new->layout, head);
	new->plan.meta.first_node_block = head + grnnd_filter_pages(&new->plan.meta);
	blocks += grnnd_filter_pages(&new->plan.meta);
	if (blocks > MaxBlockNumber)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("the index would need %llu pages, but at most %u are possible",
						(unsigned long long) blocks, MaxBlockNumber),
				 errhint("Partition the table, or lower the storage parameter \"degree\".")));
	return (BlockNumber) blocks;
}

/* Estimates the number of blocks before lists are planned. */
static uint64
estimate_blocks(const GrnndNewIndex *new)
{
	uint64		records = new->plan.records;

	if (new->plan.filters.nbuckets > 0)
		records += (uint64) new->nodes * new->columns->n / grn_list_rows(&new->layout);
	return grnnd_index_blocks(&new->layout, new->layout.center != NULL, records);
}

/* Sets the metapage's fields that do not come from the builder. */
static void
init_meta(GrnndBuild *build, GrnndMeta *meta)
{
	memset(meta, 0, sizeof(*meta));
	meta->magic = GRNND_MAGIC;
	meta->format = GRNND_FORMAT;
	meta->build_id = pg_prng_uint64(&pg_global_prng_state);
	meta->metric = build->spec.metric;
	meta->dim = build->dim;
	meta->column_dim = build->column_dim;
	meta->payload = GRNND_PAYLOAD;
	meta->attr_bytes = (uint16) build->spec.attr_bytes;
	meta->sig_bytes = (uint16) build->spec.sig_bytes;
	meta->ncolumns = build->attrs->n;
	for (uint32 i = 0; i < build->attrs->n; i++)
		grnnd_describe_attr(&build->attrs->attr[i], meta->sig_bytes > 0, &meta->columns[i]);
}

/* Sets the geometry of records, in the new index and in its metapage. */
static void
set_layout(GrnndNewIndex *new, uint32 degree, GrnCodeShape shape, GrnForm format)
{
	GrnLayoutSpec spec = {.dim = new->plan.meta.dim, .degree = degree, .shape = shape, .form = format,
		.attr_bytes = new->plan.meta.attr_bytes, .sig_bytes = new->plan.meta.sig_bytes,
		.payload = GRNND_PAYLOAD};

	if (!grn_layout_of(&new->layout, &spec))
		grnnd_bad_result("a record would not fit a page");
	new->plan.meta.degree = degree;
	new->plan.meta.shape = shape;
	new->plan.meta.form = format;
	new->plan.meta.record_bytes = new->layout.record_bytes;
}

/* The geometry of records without codes. */
static GrnLayoutSpec
layout_spec(const GrnndBuild *build, GrnForm form)
{
	return (GrnLayoutSpec) {.dim = build->dim, .degree = build->spec.params.degree, .form = form,
							.attr_bytes = build->spec.attr_bytes, .sig_bytes = build->spec.sig_bytes,
							.payload = GRNND_PAYLOAD};
}

GrnLayoutSpec
grnnd_usual_layout(const GrnndBuild *build, GrnForm form)
{
	GrnLayoutSpec spec = layout_spec(build, form);
	GrnCodeCosts costs;

	if (!build->spec.use_codes)
		return spec;
	spec.shape = grn_layout_own_shape(build->key.metric, &spec);
	if (spec.shape.own == 0)
	{
		grn_layout_code_costs(&spec, &costs);
		spec.shape = grn_codec_usual_shape(build->dim, &costs);
	}
	return spec;
}

/*
 * The form of own vectors for an index that must hold any rows.  `form` is the form of the layout.
 * `built` is the builder's form, which is finer if rounding would hide rows.
 */
static GrnForm
open_form(const GrnndBuild *build, const GrnLayoutSpec *open, GrnForm form, GrnForm built)
{
	GrnLayoutSpec spec = *open;
	GrnForm		rounded;

	spec.form = built;
	rounded = grn_layout_form_beside_columns((GrnKeep) build->spec.keep, build->spec.use_codes, &spec);
	if (rounded == built)
		return form == GRN_FORM_ROUNDED_MORE && built == GRN_FORM_ROUNDED ? built : form;
	/* The builder has kept rows exactly that the layout would have rounded. */
	return build->key.type->form;
}

/*
 * Sets the layout of an index with too few rows to predict later rows: the records hold any values
 * and have room for codes (fit_codes.c).  r: the builder's result; NULL: the index has no rows.
 */
static void
set_open_layout(GrnndNewIndex *new, const GrnndBuild *build, const GrnBuildResult *r)
{
	uint32		degree = build->spec.params.degree;
	GrnLayoutSpec spec = layout_spec(build, build->key.type->form);
	GrnForm		form = grn_layout_form_beside_columns((GrnKeep) build->spec.keep,
													  build->spec.use_codes, &spec);

	if (r != NULL)
		form = open_form(build, &spec, form, (GrnForm) r->form);
	spec = grnnd_usual_layout(build, form);
	set_layout(new, degree, spec.shape, form);
	new->plan.meta.fit_state = grn_code_dims(spec.shape) > 0 ? GRNND_UNFITTED : GRNND_FITTED;
	/* A later fit (fit_codes.c) replaces this norm unit.  Without codes the norm unit stays. */
	if (grn_is_scaled(build->key.metric->embedding))
		new->plan.meta.norm_unit = (float) grn_metric_norm_unit(build->key.metric, NULL);
}

/* ---- pages ---- */

/*
 * Writes the pages before the node area, except the metapage.  Pages that a later fit will write
 * stay zero.  In an index without rows the last is written, so that WAL has the index's length.
 */
static void
write_head(GrnndNewIndex *new, GrnndPageWriter *w)
{
	uint32		first = new->built.codec != NULL ? 0 : new->plan.meta.codec_pages;

	if (new->nodes == 0 && first > 0)
		first--;
	grnnd_writer_seek(w, new->plan.meta.entry_block);
	grnnd_form_entry_page(new, grnnd_writer_next(w));
	grnnd_writer_seek(w, new->plan.meta.codec_block + first);
	for (uint32 i = first; i < new->plan.meta.codec_pages; i++)
		grnnd_form_codec_page(new, i, grnnd_writer_next(w));
	for (uint32 i = 0; i < new->plan.meta.center_pages; i++)
		grnnd_form_center_page(new, i, grnnd_writer_next(w));
	for (uint32 i = 0; i < grnnd_filter_pages(&new->plan.meta); i++)
		grnnd_form_filter_page(new, i, grnnd_writer_next(w));
}

static void
write_meta(GrnndNewIndex *new, GrnndPageWriter *w)
{
	grnnd_writer_seek(w, 0);
	grnnd_form_meta_page(new, grnnd_writer_next(w));
}

/* ---- the leader and its workers ---- */

/*
 * Maps a turn to a stretch of pages.  Turns alternate between the relation's files, because file
 * systems let a single process at a time write to a file.  *stretch may be beyond the end, because
 * the last file is shorter.  Returns false after the last turn.
 *
 * If rows have moved because memory is short, turns go from the first page to the last instead:
 * then all processes work on the rows of a few cells.
 */
static bool
stretch_of_turn(uint64 turn, uint64 stretches, bool moved, uint64 *stretch)
{
	/* Test servers have tiny files. */
	const uint64 per_file = Max(RELSEG_SIZE / STRETCH_PAGES, 1);
	uint64		files = (stretches + per_file - 1) / per_file;

	if (moved)
	{
		*stretch = turn;
		return turn < stretches;
	}
	*stretch = files > 0 ? turn % files * per_file + turn / files : 0;
	return turn < files * Min(per_file, stretches);
}

static uint64
stretches_of(uint64 pages)
{
	return (pages + STRETCH_PAGES - 1) / STRETCH_PAGES;
}

/*
 * Takes the next turn of the pages [first, last) of the node area, and writes the turn's stretch,
 * if the stretch exists.  Returns false if no turn is left.
 */
static bool
write_turn(GrnndNewIndex *new, WriteShared *shared, GrnndPageWriter *w, pg_atomic_uint64 *next_turn,
		   BlockNumber first, BlockNumber last, bool report)
{
	const GrnLayout *l = &new->layout;
	uint64		done;
	uint64		stretch;
	uint64		begin;
	uint64		end;
	uint64		nodes_end;

	if (!stretch_of_turn(pg_atomic_fetch_add_u64(next_turn, 1), stretches_of(last - first),
						 new->built.moved != NULL, &stretch))
		return false;
	begin = first + stretch * STRETCH_PAGES;
	end = Min(begin + STRETCH_PAGES, last);
	if (begin >= end)
		return true;
	CHECK_FOR_INTERRUPTS();
	nodes_end = Min((end * l->per_page + l->span - 1) / l->span, new->nodes);
	grnnd_check_result_nodes(new, (uint32) Min(begin * l->per_page / l->span, nodes_end), (uint32) nodes_end);
	grnnd_writer_seek(w, new->plan.meta.first_node_block + (BlockNumber) begin);
	for (uint64 i = begin; i < end; i++)
		grnnd_form_node_page(new, (BlockNumber) i, grnnd_writer_next(w));
	done = pg_atomic_add_fetch_u64(&shared->pages_done, end - begin);
	if (report)
		grnnd_report_phase(GRN_STEP_WRITE, shared->plan.vectors.n * done / shared->node_pages,
						   shared->plan.vectors.n);
	return true;
}

/* Number of pages in the node area before the first page with a record of a list. */
static BlockNumber
pages_of_nodes(const GrnndNewIndex *new)
{
	uint64		records = (uint64) new->nodes + new->plan.nchains;

	return (BlockNumber) (new->layout.span > 1 ? records * new->layout.span : records / new->layout.per_page);
}

static GrnndPageWriter *
begin_writing(GrnndNewIndex *new, bool use_wal, Relation index)
{
	GrnndPageWriter *w = grnnd_writer_begin(index, MAIN_FORKNUM, use_wal);

	new->floats = palloc(new->layout.dim * sizeof(float));
	if (new->layout.span > 1)
	{
		new->scratch = palloc(new->layout.record_bytes);
		new->scratch_id = UINT64_MAX;
	}
	return w;
}

/* Writes the next turn of the pages with lists.  All lists must have their groups. */
static bool
write_list_turn(GrnndNewIndex *new, WriteShared *shared, GrnndPageWriter *w, bool report)
{
	return write_turn(new, shared, w, &shared->next_list_turn, Min(pages_of_nodes(new), shared->node_pages),
					  shared->node_pages, report);
}

/*
 * Writes this process's share of the pages with nodes.  build: the leader's, which takes the groups
 * at the end, or NULL in a worker.
 */
static void
write_nodes(GrnndNewIndex *new, WriteShared *shared, GrnndPageWriter *w, GrnndBuild *build)
{
	BlockNumber nodes = Min(pages_of_nodes(new), shared->node_pages);

	if (new->built.moved != NULL)
	{
		Size		bytes = new->vectors.n * new->vectors.row_bytes;

		/* Pages are requested in advance; read-ahead would push them out of memory. */
		grn_pages_scattered(new->vectors.base, bytes, true);
	}
	while (write_turn(new, shared, w, &shared->next_turn, 0, nodes, build != NULL))
		if (build != NULL && build->holds_builder)
			grnnd_builder_poll(&build->builder);
	if (build != NULL)
		grnnd_take_groups(new, build);
}

/* Reads the leader's plan from shared memory. */
static void
read_plan(GrnndNewIndex *new, const WriteShared *shared, const GrnndMapping *map)
{
	new->plan = shared->plan;
	grnnd_find_filters(new, map);
}

/* Waits until all participants have finished their share of the step. */
static void
finish_step(WriteShared *shared)
{
	BarrierArriveAndWait(&shared->steps, PG_WAIT_EXTENSION);
}

/* Does a worker's share of all steps, from the present step of all participants. */
static void
work_from(Step step, GrnndNewIndex *new, WriteShared *shared, GrnndMapping *map, Relation index)
{
	GrnndPageWriter *w;

	if (step <= SORTING)
	{
		grnnd_sort_lists(new, &shared->next_sorted, true);
		finish_step(shared);
	}
	w = begin_writing(new, shared->use_wal, index);
	if (step <= WRITING_NODES)
	{
		write_nodes(new, shared, w, NULL);
		finish_step(shared);
	}
	if (step <= WRITING_LISTS)
		while (write_list_turn(new, shared, w, false))
			;
	grnnd_writer_end(w);
	grnnd_mapping_unmap(map);
	if (step <= WRITING_LISTS)
		finish_step(shared);
	grnnd_mapping_empty(map, &shared->next_emptied);
}

/* The main function of a worker. */
void
grnnd_write_index_worker(dsm_segment *seg, shm_toc *toc)
{
	WriteShared *shared = grnnd_worker_begin(toc);
	LOCKMODE	lock = shared->concurrent ? RowExclusiveLock : AccessExclusiveLock;
	Relation	index = index_open(shared->index, lock);
	GrnndMapping *map;
	GrnndNewIndex *new = palloc0(sizeof(GrnndNewIndex));

	map = grnnd_mapping_attach(&shared->extents, shared->plan.result.moved ? ~0 : ~(1 << GRN_SEG_WORK));
	/* If the leader's memory cannot be mapped, the leader works without this worker. */
	if (grnnd_mapping_catch_up(map))
	{
		Step		step = (Step) BarrierAttach(&shared->steps);

		new->columns = grnnd_attrs(index);
		new->plan = shared->plan;
		set_layout(new, new->plan.meta.degree, new->plan.meta.shape, (GrnForm) new->plan.meta.form);
		grnnd_find_result_arrays(new, map);
		if (step == COUNTING)
		{
			read_plan(new, shared, map);
			grnnd_sort_lists(new, &shared->next_counted, false);
			finish_step(shared);
		}
		if (step <= PLANNING)
			finish_step(shared);
		if (grnnd_mapping_catch_up(map))
		{
			read_plan(new, shared, map);
			work_from(step, new, shared, map, index);
		}
		BarrierDetach(&shared->steps);
	}
	grnnd_mapping_release(map, true);
	index_close(index, lock);
	grnnd_worker_end(toc);
}

/* Publishes the plan for workers.  blocks: of the whole index. */
static void
share_plan(const GrnndNewIndex *new, WriteShared *shared, BlockNumber blocks)
{
	shared->plan = new->plan;
	shared->node_pages = blocks - new->plan.meta.first_node_block;
}

/* Does the leader's part, with workers (launched here) or without.  Returns the index's blocks. */
static BlockNumber
write_all(GrnndNewIndex *new, WriteShared *shared, GrnndBuild *build, GrnndPageWriter *w, GrnndWorkers *workers)
{
	BlockNumber blocks;

	if (workers)
		grnnd_workers_launch(workers);
	grnnd_sort_lists(new, &shared->next_counted, false);
	finish_step(shared);
	grnnd_plan_lists(new, build->map);
	blocks = place_blocks(new);
	share_plan(new, shared, blocks);
	finish_step(shared);
	grnnd_writer_extend(w, blocks);
	grnnd_sort_lists(new, &shared->next_sorted, true);
	finish_step(shared);
	grnnd_begin_groups(new, build);
	write_head(new, w);
	write_nodes(new, shared, w, build);
	finish_step(shared);
	while (write_list_turn(new, shared, w, true))
		;
	return blocks;
}

/* Frees all memory of the build, with the help of all participants. */
static void
free_memory(GrnndBuild *build, WriteShared *shared)
{
	grnnd_mapping_unmap(build->map);
	finish_step(shared);
	grnnd_mapping_empty(build->map, &shared->next_emptied);
}

/* Initializes the new index from the builder's result.  Checks the result except the lists. */
static void
accept_result(GrnndNewIndex *new, GrnndBuild *build, const GrnBuildResult *r)
{
	grnnd_check_result_numbers(build, r);
	init_meta(build, &new->plan.meta);
	if (r->nodes < build->spec.fit_rows && r->shape.own == 0)
		set_open_layout(new, build, r);
	else
		set_layout(new, r->degree, r->shape, (GrnForm) r->form);
	new->plan.result = *r;
	new->plan.vectors = (GrnRows) {NULL, NULL, build->rows, build->row_bytes, build->dim,
								   build->key.metric->embedding, build->key.type->form};
	if (new->plan.meta.fit_state == GRNND_FITTED)
	{
		new->plan.meta.held = r->held;
		memcpy(new->plan.meta.steps, r->steps, sizeof(r->steps));
	}
	if (new->plan.meta.fit_state == GRNND_FITTED || grn_is_scaled(build->key.metric->embedding))
		new->plan.meta.norm_unit = r->norm_unit;
	new->plan.meta.power = r->power;
	new->report.rows = build->rows;
	new->report.threads = build->spec.threads;
	memcpy(new->report.seconds, r->seconds, sizeof(r->seconds));
	new->report.seconds[GRN_STEP_COLLECT] = (float) build->collect_seconds;
	/* The curve holds only for searches with the own vectors and the codes of this index. */
	if (new->plan.meta.fit_state == GRNND_FITTED)
	{
		new->report.curve = r->curve;
		new->queried.built = r->contrast;
	}
	new->plan.meta.params = r->params;
	new->plan.meta.on_gpu = r->on_gpu != 0;
	new->plan.meta.build_nodes = r->nodes;
	grnnd_find_result_arrays(new, build->map);
	grnnd_check_result_codec(new);
	grnnd_check_result_rows(new->built.row_start, new->built.rows, new->nodes, build->rows);
}

BlockNumber
grnnd_write_index(GrnndBuild *build, const GrnBuildResult *r)
{
	GrnndNewIndex *new = palloc0(sizeof(GrnndNewIndex));
	WriteShared *shared = NULL;
	GrnndWorkers *workers = NULL;
	GrnndPageWriter *w;
	BlockNumber blocks;
	instr_time	start,
				written;
	bool		use_wal = grnnd_writer_needs_wal(build->index, MAIN_FORKNUM);
	int			nworkers;

	INSTR_TIME_SET_CURRENT(start);
	grnnd_report_phase(GRN_STEP_WRITE, 0, build->rows);
	accept_result(new, build, r);
	plan_chains(new, build->map);
	new->columns = build->attrs;
	grnnd_plan_filters(new, build->map);

	grnnd_test_point("load");
	w = begin_writing(new, use_wal, build->index);
	nworkers = grnnd_write_workers(build, estimate_blocks(new));
	if (nworkers > 0)
		workers = grnnd_workers_prepare("grnnd_write_index_worker", nworkers, sizeof(WriteShared),
										(void **) &shared);
	if (!workers)
		shared = palloc0(sizeof(WriteShared));
	shared->index = RelationGetRelid(build->index);
	shared->concurrent = build->info->ii_Concurrent;
	shared->use_wal = use_wal;
	share_plan(new, shared, 0);
	pg_atomic_init_u64(&shared->next_counted, 0);
	pg_atomic_init_u64(&shared->next_sorted, 0);
	pg_atomic_init_u64(&shared->next_turn, 0);
	pg_atomic_init_u64(&shared->next_list_turn, 0);
	pg_atomic_init_u64(&shared->pages_done, 0);
	BarrierInit(&shared->steps, 0);
	BarrierAttach(&shared->steps);
	pg_atomic_init_u32(&shared->next_emptied, 0);
	if (workers)
		grnnd_mapping_share(build->map, &shared->extents);

	blocks = write_all(new, shared, build, w, workers);
	INSTR_TIME_SET_CURRENT(written);
	free_memory(build, shared);
	build->empty_seconds = grnnd_seconds_since(written);

	if (workers)
	{
		build->write_workers = workers->launched;
		grnnd_mapping_unshare(build->map);
		grnnd_workers_finish(workers);
	}
	else
		pfree(shared);
	new->report.ids = (uint32) new->plan.records;
	/* Lists take ids, too. */
	if (new->plan.meta.fit_state == GRNND_FITTED)
		new->plan.meta.judged = (uint32) new->plan.records;
	new->report.built = GetCurrentTimestamp();
	new->report.seconds[GRN_STEP_WRITE] = (float) grnnd_seconds_since(start);
	write_meta(new, w);
	grnnd_test_point("load");
	grnnd_writer_finish(w);
	pfree(new);
	return blocks;
}

void
grnnd_write_empty_index(GrnndBuild *build, ForkNumber fork)
{
	GrnndNewIndex *new = palloc0(sizeof(GrnndNewIndex));
	GrnndPageWriter *w;

	init_meta(build, &new->plan.meta);
	set_open_layout(new, build, NULL);
	new->plan.meta.params = build->spec.params;
	new->report.built = GetCurrentTimestamp();
	w = grnnd_writer_begin(build->index, fork, grnnd_writer_needs_wal(build->index, fork));
	grnnd_writer_extend(w, place_blocks(new));
	write_head(new, w);
	write_meta(new, w);
	grnnd_writer_finish(w);
}
