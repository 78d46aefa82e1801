/*
 * write_index.c - from the builder's result to the pages of the index.
 *
 * The result is another program's output: it is checked whole before a node's
 * page is written.  Then the leader and its workers form and write pages, a
 * stretch of blocks at a time, and the metapage comes last.
 */
#include "postgres.h"

#include <math.h>

#include "access/genam.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/barrier.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "am/build/pagewriter.h"
#include "am/build/parallel.h"
#include "am/build/progress.h"
#include "am/build/write_index.h"
#include "am/cache.h"
#include "am/page.h"
#include "am/test_point.h"
#include "am/write/fit.h"
#include "graph/rows.h"
#include "graph/stored/codec_fit.h"

/* Nodes checked, and pages written, by a participant in one go. */
#define CHECK_NODES 16384
#define STRETCH_PAGES 256

/* A GRN_TIDS record to write: TIDs that a node's own record has no room for. */
typedef struct Chain
{
	uint32		node;
	uint32		first;			/* index of its first TID among the node's */
	uint32		ntids;
} Chain;

typedef struct Load
{
	GrnndMeta	meta;
	GrnLayout	layout;
	uint32		nodes;
	uint64		records;		/* nodes and chains */
	uint32		nentries;
	const uint32 *entries;
	/* in the mapping */
	GrnRows		vectors;
	const uint64 *tids;			/* [rows], packed */
	const uint32 *ids;			/* [nodes][degree] */
	const uint8 *counts;		/* [nodes] */
	const uint32 *row_start;	/* [nodes + 1] */
	const uint32 *rows;			/* [rows] */
	const uint8 *codes;			/* [nodes][code_bytes] */
	const GrnFactor *factors;	/* [nodes] */
	const float *codec;			/* mean, basis */
	Chain	   *chains;			/* [records - nodes], by node; in segment ORDER */
	/* palloc'd */
	float	   *floats;			/* [dim] */
	uint8	   *scratch;		/* one spanning record, */
	uint64		scratch_id;		/* this one */
} Load;

/* In shared memory where there are workers. */
typedef struct Shared
{
	Oid			index;
	bool		concurrent;
	bool		use_wal;
	uint64		nrows;
	GrnRows		vectors;		/* but for their address */
	uint64		records;
	BlockNumber node_pages;
	GrnBuildResult result;
	GrnndMeta	meta;
	pg_atomic_uint64 next_node; /* first node that no process checks yet */
	pg_atomic_uint64 next_turn; /* of stretch_of_turn() */
	pg_atomic_uint64 pages_done;
	GrnndWalAhead wal_ahead;
	Barrier		checked;		/* all participants have checked their share */
	GrnndExtents extents;
} Shared;

PGDLLEXPORT void grnnd_write_index_worker(dsm_segment *seg, shm_toc *toc);

/* ---- checks ---- */

static GRNND_NORETURN void
bad_result(const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_INTERNAL_ERROR),
			 errmsg("the index builder's result is invalid: %s", what),
			 errhint("The table is unchanged. If the GPU reports memory errors, replace it; else this is a bug to report.")));
}

/* A result array in a segment: bounds and alignment. */
static const void *
result_array(const GrnndMapping *map, GrnSegment segment, uint64 offset,
			 uint64 count, uint64 size)
{
	if (offset % 4 != 0 || count > UINT64_MAX / size ||
		offset > map->size[segment] || count * size > map->size[segment] - offset)
		bad_result("an array lies outside its segment");
	return map->base[segment] + offset;
}

static void
check_numbers(const GrnndBuild *build, const GrnBuildResult *r)
{
	bool		coded = grn_code_dims(r->shape) > 0;

	if (r->nodes == 0 || r->nodes > build->rows || r->nodes >= GRN_MAX_NODES)
		bad_result("impossible number of nodes");
	if (r->degree != build->spec.params.degree)
		bad_result("another degree than the one asked for");
	if (grn_form_for(r->form, build->key.type->form) == NULL)
		bad_result("unknown vector format");
	if (!grn_shape_sound(r->shape) || (coded && !build->spec.use_codes))
		bad_result("impossible shape of codes");
	for (int b = 0; b < GRN_CODE_BLOCKS; b++)
		if (r->shape.dims[b] > 0 && (!(r->steps[b] > 0) || isinf(r->steps[b])))
			bad_result("a step of codes is no positive number");
	if (!(r->norm_unit >= 0) || isinf(r->norm_unit) ||
		((coded || build->key.metric->embedding == GRN_EMBED_SCALED) && r->norm_unit == 0) ||
		!(r->held >= 0))
		bad_result("a scale is no positive number");
	if (r->nentries == 0 || r->nentries > GRN_MAX_ENTRIES)
		bad_result("impossible number of entry points");
	for (uint32 i = 0; i < r->nentries; i++)
	{
		if (r->entries[i] >= r->nodes)
			bad_result("an entry point is no node");
		for (uint32 j = 0; j < i; j++)
			if (r->entries[j] == r->entries[i])
				bad_result("an entry point is there twice");
	}
}

const uint32 *
grnnd_result_row_start(const GrnndBuild *build, const GrnBuildResult *r)
{
	check_numbers(build, r);
	return result_array(build->map, GRN_SEG_RESULT, r->off_row_start,
						(uint64) r->nodes + 1, sizeof(uint32));
}

static void
check_codec(const Load *load)
{
	size_t		floats = load->codec == NULL ? 0 :
		grn_codec_floats(load->meta.dim, grn_code_dims(load->layout.shape));

	for (size_t i = 0; i < floats; i++)
		if (!isfinite(load->codec[i]))
			bad_result("a codec is not finite");
}

/*
 * One vertex's list: ids below nodes, no self, no duplicate.  A bitmap of hashes
 * spares nearly all comparisons of ids with each other.
 */
static void
check_list(const uint32 *ids, uint32 count, uint32 self, uint32 nodes)
{
	uint64		seen[8] = {0};

	for (uint32 i = 0; i < count; i++)
	{
		uint32		id = ids[i];
		uint32		hash = (id * UINT32_C(0x9E3779B1)) >> 23;	/* 9 bits */
		uint64		bit = UINT64_C(1) << (hash & 63);

		if (id >= nodes)
			bad_result("a neighbour is no node");
		if (id == self)
			bad_result("a node is its own neighbour");
		if (seen[hash >> 6] & bit)
			for (uint32 j = 0; j < i; j++)
				if (ids[j] == id)
					bad_result("a neighbour is there twice");
		seen[hash >> 6] |= bit;
	}
}

/* Checks what belongs to nodes [begin, end). */
static void
check_nodes(const Load *load, uint32 begin, uint32 end)
{
	for (uint32 i = begin; i < end; i++)
	{
		if (load->counts[i] > load->layout.degree)
			bad_result("a node has too many neighbours");
		check_list(load->ids + (uint64) i * load->layout.degree, load->counts[i],
				   i, load->nodes);
	}
}

/* Each row belongs to exactly one node, and each node has one. */
static void
check_rows(const Load *load, uint64 nrows)
{
	uint64	   *seen;

	if (load->row_start[0] != 0 || load->row_start[load->nodes] != nrows)
		bad_result("not every row belongs to a node");
	for (uint32 i = 0; i < load->nodes; i++)
		if (load->row_start[i] >= load->row_start[i + 1])
			bad_result("a node has no row");
	CHECK_FOR_INTERRUPTS();

	seen = MemoryContextAllocExtended(CurrentMemoryContext, nrows / 64 * 8 + 8,
									  MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	for (uint64 i = 0; i < nrows; i++)
	{
		uint32		row = load->rows[i];
		uint64		bit = UINT64_C(1) << (row % 64);

		if (row >= nrows)
			bad_result("a node's row does not exist");
		if (seen[row / 64] & bit)
			bad_result("a row belongs to two nodes");
		seen[row / 64] |= bit;
	}
	pfree(seen);
}

/* ---- preparation ---- */

/*
 * Finds the nodes whose TIDs need further records, in order of node.  The table
 * of chains takes the place of ORDER, which is not needed any more.
 */
static void
plan_chains(Load *load, GrnndMapping *map)
{
	const GrnLayout *l = &load->layout;
	uint64		nchains = 0;
	uint64		n = 0;

	for (uint32 i = 0; i < load->nodes; i++)
	{
		uint32		ntids = load->row_start[i + 1] - load->row_start[i];

		if (ntids > l->tids_max)
			nchains += (ntids - l->tids_max + l->chain_tids - 1) / l->chain_tids;
	}
	load->records = load->nodes + nchains;
	if (load->records >= GRN_MAX_NODES)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("a grnnd index cannot hold more than %u records", GRN_MAX_NODES - 1),
				 errhint("Partition the table.")));
	if (nchains == 0)
		return;

	grnnd_mapping_grow(map, GRN_SEG_ORDER, nchains * sizeof(Chain));
	grnnd_mapping_populate(map, GRN_SEG_ORDER, 0, nchains * sizeof(Chain));
	load->chains = (Chain *) map->base[GRN_SEG_ORDER];
	for (uint32 i = 0; i < load->nodes; i++)
	{
		uint32		ntids = load->row_start[i + 1] - load->row_start[i];

		for (uint32 first = l->tids_max; first < ntids; first += l->chain_tids)
		{
			Chain	   *c = &load->chains[n++];

			c->node = i;
			c->first = first;
			c->ntids = Min(l->chain_tids, ntids - first);
		}
	}
	Assert(n == nchains);
}

/* Number of the first chain of a node that has one. */
static uint32
first_chain(const Load *load, uint32 node)
{
	uint64		low = 0;
	uint64		high = load->records - load->nodes;

	while (low < high)
	{
		uint64		mid = low + (high - low) / 2;

		if (load->chains[mid].node < node)
			low = mid + 1;
		else
			high = mid;
	}
	return (uint32) low;
}

static uint32
codec_pages(const GrnLayout *l)
{
	uint64		bytes = sizeof(float) * grn_codec_floats(l->dim, grn_code_dims(l->shape));

	return (uint32) ((bytes + GRNND_PAYLOAD - 1) / GRNND_PAYLOAD);
}

uint64
grnnd_index_blocks(const GrnLayout *l, uint64 records)
{
	return 2 + codec_pages(l) +
		(l->span > 1 ? records * l->span : (records + l->per_page - 1) / l->per_page);
}

/*
 * The blocks of everything: meta, entry page, codec, nodes.  Errors: 54000 where
 * the index would be larger than a relation can be.
 */
static BlockNumber
place_blocks(Load *load)
{
	uint64		blocks = grnnd_index_blocks(&load->layout, load->records);

	load->meta.entry_block = 1;
	load->meta.codec_block = 2;
	load->meta.codec_pages = codec_pages(&load->layout);
	load->meta.first_node_block = 2 + load->meta.codec_pages;
	if (blocks > MaxBlockNumber)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("the index would need %llu pages, and at most %u are possible",
						(unsigned long long) blocks, MaxBlockNumber),
				 errhint("Partition the table, or lower the storage parameter \"degree\".")));
	return (BlockNumber) blocks;
}

/* Metapage fields that do not come from the builder. */
static void
start_meta(GrnndBuild *build, GrnndMeta *meta)
{
	memset(meta, 0, sizeof(*meta));
	meta->magic = GRNND_MAGIC;
	meta->format = GRNND_FORMAT;
	if (!pg_strong_random(&meta->build_id, sizeof(meta->build_id)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate a random number")));
	meta->metric = build->spec.metric;
	meta->dim = build->dim;
	meta->column_dim = build->column_dim;
	meta->payload = GRNND_PAYLOAD;
}

/* Fixes the records' geometry, in load and in its metapage. */
static void
set_layout(Load *load, uint32 degree, GrnCodeShape shape, GrnForm format)
{
	if (!grn_layout(&load->layout, load->meta.dim, degree, shape, format,
					GRNND_PAYLOAD))
		bad_result("a record would not fit a page");
	load->meta.degree = degree;
	load->meta.shape = shape;
	load->meta.form = format;
	load->meta.record_bytes = load->layout.record_bytes;
}

/*
 * The layout where there are too few rows to say anything of those to come: values
 * of every kind, and room for codes that fit_codes.c is to fill.
 */
static void
set_open_layout(Load *load, const GrnndBuild *build)
{
	uint32		degree = build->spec.params.degree;
	GrnForm		form = build->spec.exact ? build->key.type->form
		: grn_layout_form(build->dim, degree, build->key.type->form, GRNND_PAYLOAD);
	GrnCodeShape shape = GRN_NO_CODES;
	GrnCodeCosts costs;

	if (build->spec.use_codes)
	{
		grn_layout_code_costs(build->dim, degree, form, GRNND_PAYLOAD, &costs);
		shape = grn_codec_usual_shape(build->dim, &costs);
	}
	set_layout(load, degree, shape, form);
	load->meta.fit_state = grn_code_dims(shape) > 0 ? GRNND_UNFITTED : GRNND_FITTED;
	/* fit_codes.c knows better; without codes it stays */
	if (build->key.metric->embedding == GRN_EMBED_SCALED)
		load->meta.norm_unit = build->key.metric->norm_unit > 0 ? build->key.metric->norm_unit : 1;
}

/* ---- records and pages ---- */

static uint8 *
put_tids(const Load *load, uint32 node, uint32 first, uint32 ntids, uint8 *out)
{
	const uint32 *rows = load->rows + load->row_start[node] + first;

	for (uint32 i = 0; i < ntids; i++)
	{
		ItemPointerData tid;

		grnnd_unpack_tid(load->tids[rows[i]], &tid);
		memcpy(out, &tid, GRN_TID_BYTES);
		out += GRN_TID_BYTES;
	}
	return out;
}

static void
form_node(const Load *load, uint32 node, void *rec)
{
	const GrnLayout *l = &load->layout;
	uint32		ntids = load->row_start[node + 1] - load->row_start[node];
	uint8		tids[GRN_MAX_TIDS * GRN_TID_BYTES];
	GrnRecordSource src = {0};
	const void *row;

	row = grn_row(&load->vectors, load->rows[load->row_start[node]]);
	if (load->vectors.form == l->form)
		src.stored = row;
	else
		src.x = grn_row_values(&load->vectors, row, load->floats);
	if (load->codes != NULL)
	{
		src.code = load->codes + (uint64) node * l->code_bytes;
		src.factor = load->factors[node];
	}
	src.ntids = Min(ntids, l->tids_max);
	put_tids(load, node, 0, src.ntids, tids);
	src.tids = tids;
	src.next = ntids > l->tids_max ? load->nodes + first_chain(load, node) : GRN_INVALID_ID;
	src.ids = load->ids + (uint64) node * l->degree;
	src.count = load->counts[node];
	src.all_codes = load->codes;
	src.all_factors = load->factors;
	grn_record_write(l, &src, rec);
}

static void
form_chain(const Load *load, uint32 number, void *rec)
{
	const GrnLayout *l = &load->layout;
	const Chain *c = &load->chains[number];
	GrnRecord  *r = rec;

	memset(rec, 0, l->record_bytes);
	r->state = GRN_TIDS;
	r->ntids16 = (uint16) c->ntids;
	r->next = load->nodes + number + 1 < load->records && c[1].node == c->node ?
		load->nodes + number + 1 : GRN_INVALID_ID;
	grn_tids_set_owner(r, c->node, 0);
	put_tids(load, c->node, c->first, c->ntids, GRN_REC_PTR(rec, l->off_tids));
}

static void
form_record(const Load *load, uint64 id, void *rec)
{
	if (id < load->nodes)
		form_node(load, (uint32) id, rec);
	else
		form_chain(load, (uint32) (id - load->nodes), rec);
}

/* Forms page number `number` of the node area. */
static void
form_node_page(Load *load, BlockNumber number, Page page)
{
	const GrnLayout *l = &load->layout;
	char	   *payload = GrnndPagePayload(page);

	if (l->span == 1)
	{
		uint64		id = (uint64) number * l->per_page;

		grnnd_page_init(page, GRNND_NODES);
		for (uint32 slot = 0; slot < l->per_page && id < load->records; slot++, id++)
			form_record(load, id, payload + (size_t) slot * l->record_bytes);
	}
	else
	{
		uint64		id = number / l->span;
		uint32		offset = number % l->span * l->payload;

		grnnd_page_init(page, offset == 0 ? GRNND_NODES : GRNND_TAIL);
		if (load->scratch_id != id)
		{
			form_record(load, id, load->scratch);
			load->scratch_id = id;
		}
		memcpy(payload, load->scratch + offset, Min(l->payload, l->record_bytes - offset));
	}
}

static void
form_entry_page(const Load *load, Page page)
{
	const GrnLayout *l = &load->layout;
	char	   *payload = GrnndPagePayload(page);

	grnnd_page_init(page, GRNND_ENTRIES);
	((GrnndEntryHeader *) payload)->count = load->nentries;
	for (uint32 i = 0; i < load->nentries; i++)
	{
		uint32		id = load->entries[i];

		((uint32 *) (payload + GRNND_ENTRY_OFF_IDS))[i] = id;
		if (load->codes != NULL)
		{
			((GrnFactor *) (payload + GRNND_ENTRY_OFF_FACTORS))[i] = load->factors[id];
			memcpy(payload + GRNND_ENTRY_OFF_CODES + (size_t) i * l->code_bytes,
				   load->codes + (uint64) id * l->code_bytes, l->code_bytes);
		}
	}
}

static void
form_codec_page(const Load *load, uint32 number, Page page)
{
	size_t		bytes = sizeof(float) *
		grn_codec_floats(load->meta.dim,
						 grn_code_dims(load->layout.shape));
	size_t		begin = (size_t) number * GRNND_PAYLOAD;

	grnnd_page_init(page, GRNND_CODEC);
	if (load->codec != NULL)
		memcpy(GrnndPagePayload(page), (const char *) load->codec + begin,
			   Min(GRNND_PAYLOAD, bytes - begin));
}

static void
form_meta_page(Load *load, Page page)
{
	GrnndMeta  *meta = &load->meta;

	meta->crc = grnnd_meta_crc(meta);
	grnnd_page_init(page, GRNND_META);
	memcpy(GrnndPagePayload(page), meta, sizeof(*meta));
}

/* The pages before the node area, but for the metapage. */
static void
write_head(Load *load, GrnndPageWriter *w)
{
	grnnd_writer_seek(w, load->meta.entry_block);
	form_entry_page(load, grnnd_writer_next(w));
	for (uint32 i = 0; i < load->meta.codec_pages; i++)
		form_codec_page(load, i, grnnd_writer_next(w));
}

static void
write_meta(Load *load, GrnndPageWriter *w)
{
	grnnd_writer_seek(w, 0);
	form_meta_page(load, grnnd_writer_next(w));
}

/* ---- the leader and its workers ---- */

/* The arrays of the result, as this process has them mapped. */
static void
find_arrays(Load *load, const GrnndMapping *map, const GrnBuildResult *r, uint64 nrows)
{
	load->nodes = r->nodes;
	load->nentries = r->nentries;
	load->entries = r->entries;
	load->vectors.base = map->base[GRN_SEG_VECTORS];
	load->tids = (const uint64 *) map->base[GRN_SEG_TIDS];
	load->chains = (Chain *) map->base[GRN_SEG_ORDER];
	load->ids = result_array(map, GRN_SEG_RESULT, r->off_ids,
							 (uint64) r->nodes * r->degree, sizeof(uint32));
	load->counts = result_array(map, GRN_SEG_RESULT, r->off_counts, r->nodes, 1);
	load->row_start = result_array(map, GRN_SEG_RESULT, r->off_row_start,
								   (uint64) r->nodes + 1, sizeof(uint32));
	load->rows = result_array(map, GRN_SEG_RESULT, r->off_rows, nrows, sizeof(uint32));
	if (grn_code_dims(r->shape) > 0 && load->meta.fit_state == GRNND_FITTED)
	{
		load->codes = result_array(map, GRN_SEG_CODES, r->off_codes,
								   (uint64) r->nodes * load->layout.code_bytes, 1);
		load->factors = result_array(map, GRN_SEG_CODES, r->off_factors, r->nodes,
									 sizeof(GrnFactor));
		load->codec = result_array(map, GRN_SEG_CODES, r->off_codec,
								   grn_codec_floats(load->meta.dim, grn_code_dims(r->shape)),
								   sizeof(float));
	}
}

/* This process's share of the checks. */
static void
check_share(Load *load, Shared *shared)
{
	for (;;)
	{
		uint64		begin = pg_atomic_fetch_add_u64(&shared->next_node, CHECK_NODES);

		if (begin >= load->nodes)
			break;
		CHECK_FOR_INTERRUPTS();
		check_nodes(load, (uint32) begin, (uint32) Min(begin + CHECK_NODES, load->nodes));
	}
}

/*
 * The stretch that is written as number `turn`: turns go round the relation's
 * files, since file systems let one process at a time write to a file.  A stretch
 * may not exist, because the last file is shorter.  False after the last turn.
 */
static bool
stretch_of_turn(uint64 turn, uint64 stretches, uint64 *stretch)
{
	const uint64 per_file = RELSEG_SIZE / STRETCH_PAGES;
	uint64		files = (stretches + per_file - 1) / per_file;

	*stretch = turn % files * per_file + turn / files;
	return turn < files * Min(per_file, stretches);
}

/* This process's share of the node area. */
static void
write_share(Load *load, Shared *shared, GrnndPageWriter *w, bool report)
{
	uint64		stretches = (shared->node_pages + STRETCH_PAGES - 1) / STRETCH_PAGES;
	uint64		stretch;

	load->floats = palloc(load->layout.dim * sizeof(float));
	if (load->layout.span > 1)
	{
		load->scratch = palloc(load->layout.record_bytes);
		load->scratch_id = UINT64_MAX;
	}
	while (stretch_of_turn(pg_atomic_fetch_add_u64(&shared->next_turn, 1), stretches,
						   &stretch))
	{
		uint64		begin = stretch * STRETCH_PAGES;
		uint64		end = Min(begin + STRETCH_PAGES, shared->node_pages);

		if (begin >= end)
			continue;
		CHECK_FOR_INTERRUPTS();
		if (shared->use_wal)
			grnnd_wal_ahead(&shared->wal_ahead);
		grnnd_writer_seek(w, load->meta.first_node_block + (BlockNumber) begin);
		for (uint64 i = begin; i < end; i++)
			form_node_page(load, (BlockNumber) i, grnnd_writer_next(w));
		pg_atomic_fetch_add_u64(&shared->pages_done, end - begin);
		if (report)
			grnnd_report_phase(GRN_PHASE_WRITE,
							   load->records * pg_atomic_read_u64(&shared->pages_done) /
							   shared->node_pages, load->records);
	}
}

/* A worker's main function. */
void
grnnd_write_index_worker(dsm_segment *seg, shm_toc *toc)
{
	Shared	   *shared = grnnd_worker_begin(toc);
	LOCKMODE	lock = shared->concurrent ? RowExclusiveLock : AccessExclusiveLock;
	Relation	index = index_open(shared->index, lock);
	GrnndMapping *map;
	Load	   *load = palloc0(sizeof(Load));

	map = grnnd_mapping_attach(&shared->extents, ~(1 << GRN_SEG_WORK));
	/* where the leader's memory is out of sight, it does without us */
	if (grnnd_mapping_catch_up(map))
	{
		/* attached at phase 1, the others have finished checking */
		int			phase = BarrierAttach(&shared->checked);
		GrnndPageWriter *w;

		load->meta = shared->meta;
		load->records = shared->records;
		load->vectors = shared->vectors;
		set_layout(load, shared->meta.degree, shared->meta.shape,
				   (GrnForm) shared->meta.form);
		find_arrays(load, map, &shared->result, shared->nrows);
		if (phase == 0)
		{
			check_share(load, shared);
			BarrierArriveAndWait(&shared->checked, PG_WAIT_EXTENSION);
		}
		w = grnnd_writer_begin(index, MAIN_FORKNUM, shared->use_wal);
		write_share(load, shared, w, false);
		grnnd_writer_end(w);
		BarrierDetach(&shared->checked);
	}
	grnnd_mapping_release(map, true);
	index_close(index, lock);
	grnnd_worker_end(toc);
}

/* The leader's part, with workers (launched here) or without. */
static void
load_nodes(Load *load, Shared *shared, GrnndPageWriter *w, GrnndWorkers *workers,
		   BlockNumber blocks)
{
	if (workers)
		grnnd_workers_launch(workers);
	grnnd_writer_extend(w, blocks);
	write_head(load, w);
	check_share(load, shared);
	BarrierArriveAndWait(&shared->checked, PG_WAIT_EXTENSION);
	write_share(load, shared, w, true);
}

BlockNumber
grnnd_write_index(GrnndBuild *build, const GrnBuildResult *r)
{
	Load	   *load = palloc0(sizeof(Load));
	Shared	   *shared = NULL;
	GrnndWorkers *workers = NULL;
	GrnndPageWriter *w;
	BlockNumber blocks;
	BlockNumber node_pages;
	bool		use_wal = grnnd_writer_needs_wal(build->index, MAIN_FORKNUM);
	int			nworkers;

	grnnd_report_phase(GRN_PHASE_WRITE, 0, 0);
	check_numbers(build, r);
	start_meta(build, &load->meta);
	if (r->nodes < grnnd_fit_rows(build->dim))
		set_open_layout(load, build);
	else
		set_layout(load, r->degree, r->shape, (GrnForm) r->form);
	load->vectors = (GrnRows) {NULL, NULL, build->rows, build->row_bytes, build->dim,
							   build->key.metric->embedding, build->key.type->form};
	if (load->meta.fit_state == GRNND_FITTED)
	{
		load->meta.held = r->held;
		load->meta.judged = r->nodes;
		memcpy(load->meta.steps, r->steps, sizeof(r->steps));
	}
	if (load->meta.fit_state == GRNND_FITTED || build->key.metric->embedding == GRN_EMBED_SCALED)
		load->meta.norm_unit = r->norm_unit;
	load->meta.params = r->params;
	load->meta.on_gpu = r->on_gpu != 0;
	load->meta.build_nodes = r->nodes;
	find_arrays(load, build->map, r, build->rows);
	check_codec(load);
	check_rows(load, build->rows);
	plan_chains(load, build->map);
	blocks = place_blocks(load);
	node_pages = blocks - load->meta.first_node_block;

	grnnd_test_point("load");
	w = grnnd_writer_begin(build->index, MAIN_FORKNUM, use_wal);
	nworkers = grnnd_load_workers(build, node_pages);
	if (nworkers > 0)
		workers = grnnd_workers_prepare("grnnd_write_index_worker", nworkers, sizeof(Shared),
										(void **) &shared);
	if (!workers)
		shared = palloc0(sizeof(Shared));
	shared->index = RelationGetRelid(build->index);
	shared->concurrent = build->info->ii_Concurrent;
	shared->use_wal = use_wal;
	shared->nrows = build->rows;
	shared->vectors = load->vectors;
	shared->records = load->records;
	shared->node_pages = node_pages;
	shared->result = *r;
	shared->meta = load->meta;
	pg_atomic_init_u64(&shared->next_node, 0);
	pg_atomic_init_u64(&shared->next_turn, 0);
	pg_atomic_init_u64(&shared->pages_done, 0);
	grnnd_wal_ahead_init(&shared->wal_ahead, blocks);
	BarrierInit(&shared->checked, 0);
	BarrierAttach(&shared->checked);
	if (workers)
		grnnd_mapping_share(build->map, &shared->extents);

	load_nodes(load, shared, w, workers, blocks);

	if (workers)
	{
		build->load_workers = workers->launched;
		grnnd_mapping_unshare(build->map);
		grnnd_workers_finish(workers);
	}
	else
		pfree(shared);
	write_meta(load, w);
	grnnd_test_point("load");
	grnnd_writer_finish(w);
	pfree(load);
	return blocks;
}

void
grnnd_write_empty_index(GrnndBuild *build, ForkNumber fork)
{
	Load	   *load = palloc0(sizeof(Load));
	GrnndPageWriter *w;

	start_meta(build, &load->meta);
	set_open_layout(load, build);
	load->meta.params = build->spec.params;
	w = grnnd_writer_begin(build->index, fork, grnnd_writer_needs_wal(build->index, fork));
	grnnd_writer_extend(w, place_blocks(load));
	write_head(load, w);
	write_meta(load, w);
	grnnd_writer_finish(w);
}
