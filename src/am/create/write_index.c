/*
 * write_index.c - writes the pages of the index from the builder's result.
 *
 * The result is the output of another program.  So the leader checks its numbers and the rows of
 * nodes first.  Then the leader and its workers get pages of records from the builder, a slot at a
 * time (write_slots.c), check and complete the records, and write the pages.  The metapage is
 * written last.
 */
#include "postgres.h"

#include "access/genam.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/barrier.h"
#include "storage/latch.h"
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

/* The state of all participants, in shared memory if workers exist. */
typedef struct WriteShared
{
	Oid			index;
	bool		concurrent;
	bool		use_wal;
	GrnndIndexPlan plan;
	BlockNumber node_pages;
	pg_atomic_uint64 next_turn; /* next turn of stretch_of_turn() */
	pg_atomic_uint64 pages_done;
	pg_atomic_uint32 next_process;	/* number of the next process that writes */
	Barrier		steps;			/* the common step of all participants: see Step */
	pg_atomic_uint32 next_emptied;	/* next memory file to free */
	GrnndExtents extents;
} WriteShared;

/* The phases of WriteShared.steps. */
typedef enum Step
{
	WRITING,
	UNMAPPING,
	EMPTYING
} Step;

/* What the leader and its workers map: neither rows nor codes. */
#define WRITTEN_SEGMENTS \
	(1 << GRN_SEG_ORDER | 1 << GRN_SEG_RESULT | 1 << GRN_SEG_PAGES | 1 << GRN_SEG_TIDS | 1 << GRN_SEG_ATTRS)

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

uint64
grnnd_place_blocks(GrnndMeta *meta, const GrnLayout *l, bool centered, uint64 records)
{
	meta->list_pages = grnnd_list_pages(meta, l);
	return grnnd_place_areas(meta, l, centered) +
		(l->span > 1 ? records * l->span : (records + l->per_page - 1) / l->per_page);
}

/*
 * Assigns blocks to all parts of the index.  Returns the number of blocks.  Errors: 54000 if the
 * index would exceed the size of a relation.
 */
static BlockNumber
place_blocks(GrnndNewIndex *new)
{
	uint64		blocks = grnnd_place_blocks(&new->plan.meta, &new->layout, new->built.center != NULL, new->plan.records);

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
	GrnndMeta	meta = new->plan.meta;

	if (new->built.codes != NULL && new->layout.sig_bytes > 0)
		records += (uint64) new->nodes * new->columns->n / grn_list_rows(&new->layout);
	return grnnd_place_blocks(&meta, &new->layout, new->built.center != NULL, records);
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
	const GrnndMeta *meta = &new->plan.meta;
	uint32		first = new->built.codec != NULL ? 0 : meta->codec_pages;
	BlockNumber block;

	if (new->nodes == 0 && first > 0)
		first--;
	block = meta->codec_block + first;
	grnnd_form_entry_page(new, grnnd_writer_page(w, meta->entry_block));
	for (uint32 i = first; i < meta->codec_pages; i++)
		grnnd_form_codec_page(new, i, grnnd_writer_page(w, block++));
	for (uint32 i = 0; i < meta->center_pages; i++)
		grnnd_form_center_page(new, i, grnnd_writer_page(w, block++));
	for (uint32 i = 0; block < meta->first_node_block; i++)
		grnnd_form_filter_page(new, i, grnnd_writer_page(w, block++));
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
	const uint64 per_file = Max(RELSEG_SIZE / GRN_SLOT_PAGES, 1);
	uint64		files = (stretches + per_file - 1) / per_file;

	if (moved)
	{
		*stretch = turn;
		return turn < stretches;
	}
	*stretch = files > 0 ? turn % files * per_file + turn / files : 0;
	return turn < files * Min(per_file, stretches);
}

/* Asks for the pages of the next stretch.  Returns false if no stretch is left, or no slot idle. */
static bool
ask_stretch(GrnndSlots *slots, WriteShared *shared)
{
	uint64		stretches = (shared->node_pages + GRN_SLOT_PAGES - 1) / GRN_SLOT_PAGES;
	uint64		stretch;

	do
	{
		if (slots->asked == slots->end - slots->begin ||
			!stretch_of_turn(pg_atomic_fetch_add_u64(&shared->next_turn, 1), stretches,
							 slots->new->plan.result.moved != 0, &stretch))
			return false;
	} while (stretch >= stretches);
	return grnnd_ask_pages(slots, stretch * GRN_SLOT_PAGES,
						   (uint32) Min(GRN_SLOT_PAGES, shared->node_pages - stretch * GRN_SLOT_PAGES));
}

/*
 * Writes this process's share of the pages with records.  builder: the leader's, or NULL in a
 * worker.
 */
static void
write_share(GrnndNewIndex *new, WriteShared *shared, const GrnndMapping *map, GrnndPageWriter *w,
			GrnndBuilder *builder)
{
	GrnndSlots	slots;
	uint64		first;
	uint32		n;
	char	   *pages;

	grnnd_slots_begin(&slots, new, map, builder, pg_atomic_fetch_add_u32(&shared->next_process, 1));
	for (;;)
	{
		uint64		done;

		while (ask_stretch(&slots, shared))
			;
		pages = grnnd_take_pages(&slots, &first, &n);
		if (pages == NULL)
			break;
		CHECK_FOR_INTERRUPTS();
		for (uint32 i = 0; i < n; i++)
			grnnd_complete_page(new, (BlockNumber) (first + i), (Page) (pages + (Size) i * BLCKSZ));
		grnnd_writer_put(w, new->plan.meta.first_node_block + (BlockNumber) first, n, pages);
		done = pg_atomic_add_fetch_u64(&shared->pages_done, n);
		if (builder != NULL)
			grnnd_report_phase(GRN_STEP_WRITE, new->plan.rows * done / shared->node_pages, new->plan.rows);
	}
}

/*
 * Waits until the workers have their last pages, because the leader alone notices a builder that
 * fails.
 */
static void
await_pages(WriteShared *shared, GrnndBuilder *builder)
{
	while (pg_atomic_read_u64(&shared->pages_done) < shared->node_pages)
	{
		grnnd_builder_poll(builder);
		if (WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 1, PG_WAIT_EXTENSION) & WL_LATCH_SET)
			ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

/* Waits until all participants have finished their share of the step. */
static void
finish_step(WriteShared *shared)
{
	BarrierArriveAndWait(&shared->steps, PG_WAIT_EXTENSION);
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

	map = grnnd_mapping_attach(&shared->extents, WRITTEN_SEGMENTS);
	/* If the leader's memory cannot be mapped, the leader works without this worker. */
	if (grnnd_mapping_catch_up(map))
	{
		Step		step = (Step) BarrierAttach(&shared->steps);

		if (step == WRITING)
		{
			GrnndPageWriter *w = grnnd_writer_begin(index, MAIN_FORKNUM, shared->use_wal);

			new->columns = grnnd_attrs(index);
			new->plan = shared->plan;
			set_layout(new, new->plan.meta.degree, new->plan.meta.shape, (GrnForm) new->plan.meta.form);
			grnnd_find_result_arrays(new, map);
			write_share(new, shared, map, w, NULL);
			grnnd_writer_end(w);
			finish_step(shared);
		}
		grnnd_mapping_unmap(map);
		if (step <= UNMAPPING)
			finish_step(shared);
		grnnd_mapping_empty(map, &shared->next_emptied);
		BarrierDetach(&shared->steps);
	}
	grnnd_mapping_release(map, true);
	index_close(index, lock);
	grnnd_worker_end(toc);
}

/* Frees all memory of the build, with the help of all participants. */
static void
free_memory(GrnndBuild *build, WriteShared *shared)
{
	finish_step(shared);
	if (build->builder.pid != 0)
		grnnd_build_release_builder(build);
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
	new->plan.rows = build->rows;
	new->columns = build->attrs;
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
	grnnd_test_point("load");
	nworkers = build->builder.pid == 0 ? 0 : Min(grnnd_write_workers(build, estimate_blocks(new)), GRN_MOST_SLOTS - 1);
	grnnd_begin_pages(new, build, 1 + nworkers);
	blocks = place_blocks(new);
	w = grnnd_writer_begin(build->index, MAIN_FORKNUM, use_wal);
	grnnd_writer_extend(w, blocks);
	if (nworkers > 0)
		workers = grnnd_workers_prepare("grnnd_write_index_worker", nworkers, sizeof(WriteShared),
										(void **) &shared);
	if (!workers)
		shared = palloc0(sizeof(WriteShared));
	shared->index = RelationGetRelid(build->index);
	shared->concurrent = build->info->ii_Concurrent;
	shared->use_wal = use_wal;
	shared->plan = new->plan;
	shared->node_pages = blocks - new->plan.meta.first_node_block;
	pg_atomic_init_u64(&shared->next_turn, 0);
	pg_atomic_init_u64(&shared->pages_done, 0);
	pg_atomic_init_u32(&shared->next_process, 0);
	BarrierInit(&shared->steps, 0);
	BarrierAttach(&shared->steps);
	pg_atomic_init_u32(&shared->next_emptied, 0);
	if (workers)
	{
		grnnd_mapping_share(build->map, &shared->extents);
		grnnd_workers_launch(workers);
	}
	write_head(new, w);
	write_share(new, shared, build->map, w, &build->builder);
	await_pages(shared, &build->builder);
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
	grnnd_form_meta_page(new, grnnd_writer_page(w, 0));
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
	grnnd_form_meta_page(new, grnnd_writer_page(w, 0));
	grnnd_writer_finish(w);
}
