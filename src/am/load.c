/*
 * load.c - from the builder's result to the pages of the index.
 *
 * The result is another program's output: it is checked whole before the first
 * page is formed.  Pages are formed in private memory and handed to the page
 * writer; the metapage comes last.
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "build.h"
#include "pagewriter.h"

/*
 * Codes of an index without rows are not fitted to anything: a random rotation.
 * The unit lets half precision hold squared norms from 0.06 to 67 million in full;
 * unit vectors need no more than 4.
 */
#define EMPTY_MAX_DIM 256
#define EMPTY_NORM_UNIT 1024.0f
#define EMPTY_NORM_UNIT_COSINE 1.0f

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
	const float *vectors;		/* [rows][stride] */
	uint32		stride;
	const uint64 *tids;			/* [rows], packed */
	const uint32 *ids;			/* [nodes][degree] */
	const uint8 *counts;		/* [nodes] */
	const uint32 *row_start;	/* [nodes + 1] */
	const uint32 *rows;			/* [rows] */
	const uint8 *codes;			/* [nodes][code_bytes] */
	const GrnFactor *factors;	/* [nodes] */
	const float *codec;			/* mean, basis */
	/* palloc'd */
	Chain	   *chains;			/* [records - nodes], by node */
	uint8	   *scratch;		/* one spanning record, */
	uint64		scratch_id;		/* this one */
} Load;

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
	if (r->nodes == 0 || r->nodes > build->rows || r->nodes >= GRN_MAX_NODES)
		bad_result("impossible number of nodes");
	if (r->degree != build->spec.params.degree)
		bad_result("another degree than the one asked for");
	if (r->vec_format < GRN_VEC_F32 || r->vec_format > GRN_VEC_U8)
		bad_result("unknown vector format");
	if (r->code_dims > GRN_MAX_CODE_DIMS || r->code_dims % GRN_CODE_ALIGN != 0 ||
		(r->code_dims > 0 && !build->spec.use_codes))
		bad_result("impossible code dimensions");
	if (!(r->norm_unit >= 0) || isinf(r->norm_unit) ||
		(r->code_dims > 0 && r->norm_unit == 0) ||
		!(r->max_norm >= 0) || isinf(r->max_norm) || !(r->held >= 0))
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

static void
check_graph(const Load *load)
{
	for (uint32 i = 0; i < load->nodes; i++)
	{
		if (i % 65536 == 0)
			CHECK_FOR_INTERRUPTS();
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

/* Finds the nodes whose TIDs need further records.  Chains come in order of node. */
static void
plan_chains(Load *load)
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

	load->chains = MemoryContextAllocHuge(CurrentMemoryContext, nchains * sizeof(Chain));
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

/*
 * The blocks of everything: meta, entry page, codec, nodes.  Errors: 54000 where
 * the index would be larger than a relation can be.
 */
static BlockNumber
place_blocks(Load *load)
{
	const GrnLayout *l = &load->layout;
	uint64		codec_bytes = sizeof(float) *
		grn_codec_floats(grn_space_dim(load->meta.metric, load->meta.dim), l->code_dims);
	uint64		node_pages;
	uint64		blocks;

	load->meta.entry_block = 1;
	load->meta.codec_block = 2;
	load->meta.codec_pages = (uint32) ((codec_bytes + GRNND_PAYLOAD - 1) / GRNND_PAYLOAD);
	load->meta.first_node_block = 2 + load->meta.codec_pages;
	node_pages = l->span > 1 ? load->records * l->span
		: (load->records + l->per_page - 1) / l->per_page;
	blocks = load->meta.first_node_block + node_pages;
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
	meta->payload = GRNND_PAYLOAD;
}

/* Fixes the records' geometry, in load and in its metapage. */
static void
set_layout(Load *load, uint32 degree, uint32 code_dims, GrnVecFormat format)
{
	if (!grn_layout(&load->layout, load->meta.dim, degree, code_dims, format,
					GRNND_PAYLOAD))
		bad_result("a record would not fit a page");
	load->meta.degree = degree;
	load->meta.code_dims = code_dims;
	load->meta.vec_format = format;
	load->meta.record_bytes = load->layout.record_bytes;
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

	src.x = load->vectors + (uint64) load->rows[load->row_start[node]] * load->stride;
	if (l->code_dims > 0)
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
		if (l->code_dims > 0)
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
		grn_codec_floats(grn_space_dim(load->meta.metric, load->meta.dim),
						 load->layout.code_dims);
	size_t		begin = (size_t) number * GRNND_PAYLOAD;

	grnnd_page_init(page, GRNND_CODEC);
	memcpy(GrnndPagePayload(page), (const char *) load->codec + begin,
		   Min(GRNND_PAYLOAD, bytes - begin));
}

static void
form_meta_page(Load *load, Page page)
{
	GrnndMeta  *meta = &load->meta;

	INIT_CRC32C(meta->crc);
	COMP_CRC32C(meta->crc, meta, offsetof(GrnndMeta, crc));
	FIN_CRC32C(meta->crc);
	grnnd_page_init(page, GRNND_META);
	memcpy(GrnndPagePayload(page), meta, sizeof(*meta));
}

/* Writes all pages of load to a fork; returns their number. */
static BlockNumber
write_all(Load *load, Relation index, ForkNumber fork)
{
	GrnndPageWriter *w = grnnd_writer_begin(index, fork);
	BlockNumber blocks = place_blocks(load);
	BlockNumber node_pages = blocks - load->meta.first_node_block;
	uint64		per_page = load->layout.per_page;

	if (load->layout.span > 1)
	{
		load->scratch = palloc(load->layout.record_bytes);
		load->scratch_id = UINT64_MAX;
	}
	grnnd_writer_skip(w);		/* the metapage */
	form_entry_page(load, grnnd_writer_next(w));
	for (uint32 i = 0; i < load->meta.codec_pages; i++)
		form_codec_page(load, i, grnnd_writer_next(w));
	for (BlockNumber i = 0; i < node_pages; i++)
	{
		if (i % GRNND_WRITER_PAGES == 0)
		{
			CHECK_FOR_INTERRUPTS();
			if (fork == MAIN_FORKNUM)
				grnnd_report_phase(GRN_PHASE_WRITE,
								   Min(i / load->layout.span * per_page, load->records),
								   load->records);
		}
		form_node_page(load, i, grnnd_writer_next(w));
	}
	grnnd_writer_flush(w);
	form_meta_page(load, grnnd_writer_block(w, 0));
	grnnd_writer_end(w);
	if (load->scratch)
		pfree(load->scratch);
	return blocks;
}

BlockNumber
grnnd_load(GrnndBuild *build, const GrnBuildResult *r)
{
	Load	   *load = palloc0(sizeof(Load));
	const GrnndMapping *map = build->map;
	uint32		space_dim = grn_space_dim(build->spec.metric, build->dim);
	BlockNumber blocks;

	grnnd_report_phase(GRN_PHASE_WRITE, 0, 0);
	check_numbers(build, r);
	start_meta(build, &load->meta);
	set_layout(load, r->degree, r->code_dims, (GrnVecFormat) r->vec_format);
	load->meta.norm_unit = r->norm_unit;
	load->meta.max_norm = r->max_norm;
	load->meta.held = r->held;
	load->meta.params = r->params;
	load->meta.on_gpu = r->on_gpu != 0;
	load->meta.build_nodes = r->nodes;

	load->nodes = r->nodes;
	load->nentries = r->nentries;
	load->entries = r->entries;
	load->vectors = (const float *) map->base[GRN_SEG_VECTORS];
	load->stride = build->stride;
	load->tids = (const uint64 *) map->base[GRN_SEG_TIDS];
	load->ids = result_array(map, GRN_SEG_RESULT, r->off_ids,
							 (uint64) r->nodes * r->degree, sizeof(uint32));
	load->counts = result_array(map, GRN_SEG_RESULT, r->off_counts, r->nodes, 1);
	load->row_start = result_array(map, GRN_SEG_RESULT, r->off_row_start,
								   (uint64) r->nodes + 1, sizeof(uint32));
	load->rows = result_array(map, GRN_SEG_RESULT, r->off_rows, build->rows, sizeof(uint32));
	if (r->code_dims > 0)
	{
		load->codes = result_array(map, GRN_SEG_CODES, r->off_codes,
								   (uint64) r->nodes * load->layout.code_bytes, 1);
		load->factors = result_array(map, GRN_SEG_CODES, r->off_factors, r->nodes,
									 sizeof(GrnFactor));
		load->codec = result_array(map, GRN_SEG_CODES, r->off_codec,
								   grn_codec_floats(space_dim, r->code_dims), sizeof(float));
		for (size_t i = 0; i < grn_codec_floats(space_dim, r->code_dims); i++)
			if (!isfinite(load->codec[i]))
				bad_result("a codec is not finite");
	}
	check_graph(load);
	check_rows(load, build->rows);
	plan_chains(load);

	blocks = write_all(load, build->index, MAIN_FORKNUM);
	if (load->chains)
		pfree(load->chains);
	pfree(load);
	return blocks;
}

void
grnnd_load_empty(GrnndBuild *build, ForkNumber fork)
{
	Load	   *load = palloc0(sizeof(Load));
	uint32		degree = build->spec.params.degree;
	uint32		space_dim = grn_space_dim(build->spec.metric, build->dim);
	uint32		code_dims = 0;
	float	   *codec = NULL;

	if (build->spec.use_codes && build->dim <= EMPTY_MAX_DIM)
		code_dims = grn_layout_max_code_dims(build->dim, degree, GRN_VEC_F32, GRNND_PAYLOAD);
	start_meta(build, &load->meta);
	set_layout(load, degree, code_dims, GRN_VEC_F32);
	load->meta.norm_unit = build->spec.metric == GRN_COSINE ? EMPTY_NORM_UNIT_COSINE
		: EMPTY_NORM_UNIT;
	load->meta.params = build->spec.params;
	if (code_dims > 0)
	{
		codec = palloc(grn_codec_floats(space_dim, code_dims) * sizeof(float));
		(void) grn_codec_random(space_dim, code_dims, load->meta.norm_unit,
								build->spec.params.seed, codec);
		load->meta.held = (float) Min(code_dims, space_dim) / space_dim;
		load->codec = codec;
	}
	(void) write_all(load, build->index, fork);
	if (codec)
		pfree(codec);
	pfree(load);
}
