/*
 * collect.c - reads the table's vectors into shared memory: segment VECTORS in
 * build form, TIDS with the heap TIDs, and ORDER, which ranks rows by TID so that
 * nothing later depends on who read which row when.
 *
 * Rows are claimed in chunks from one atomic counter.  At the end each participant
 * leaves an unused rest of its last chunk; rows from the end move there.
 */
#include "postgres.h"

#include "access/tableam.h"
#include "commands/progress.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/rel.h"

#include "build.h"

/* A chunk: about this many bytes of vectors, and at most so many rows. */
#define CHUNK_BYTES (1024 * 1024)
#define CHUNK_ROWS 4096

/* Buckets with more rows than this are sorted by qsort. */
#define INSERTION_SORT_ROWS 64

typedef struct Collector
{
	GrnndBuild *build;
	GrnndMapping *map;
	uint64		next_row;		/* first unclaimed row */
	uint64		at,				/* own chunk: next row to write, and its end */
				end;
	uint32		chunk_rows;
} Collector;

/* Takes the next chunk and the memory for it. */
static void
claim_chunk(Collector *c)
{
	GrnndBuild *build = c->build;
	uint64		row_bytes = (uint64) build->stride * sizeof(float);

	grnnd_builder_poll(&build->builder);
	grnnd_builder_rows(&build->builder, c->at);
	c->at = c->next_row;
	c->end = Min(c->at + c->chunk_rows, build->max_rows);
	if (c->at >= c->end)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("a grnnd index cannot hold more than %llu rows of %u dimensions",
						(unsigned long long) build->max_rows, build->dim),
				 errhint("Partition the table.")));
	c->next_row = c->end;
	grnnd_mapping_grow(c->map, GRN_SEG_VECTORS, c->end * row_bytes);
	grnnd_mapping_grow(c->map, GRN_SEG_TIDS, c->end * sizeof(uint64));
	grnnd_mapping_populate(c->map, GRN_SEG_VECTORS, c->at * row_bytes, c->end * row_bytes);
	grnnd_mapping_populate(c->map, GRN_SEG_TIDS, c->at * sizeof(uint64),
						   c->end * sizeof(uint64));
}

/* An IndexBuildCallback. */
static void
collect_row(Relation index, ItemPointer tid, Datum *values, bool *isnull,
			bool alive, void *state)
{
	Collector  *c = state;
	const GrnndBuild *build = c->build;
	float	   *out;

	if (isnull[0])
		return;
	if (c->at >= c->end)
		claim_chunk(c);
	out = (float *) c->map->base[GRN_SEG_VECTORS] + c->at * build->stride;

	if (!grnnd_form_vector(build->type, (int) build->dim, values[0], out))
		return;					/* a zero vector has no place under cosine */
	for (uint32 i = build->dim; i < build->stride; i++)
		out[i] = 0;
	((uint64 *) c->map->base[GRN_SEG_TIDS])[c->at] = grnnd_pack_tid(tid);
	c->at++;
}

static int
compare_rows(const void *a, const void *b, void *tids)
{
	uint64		x = ((const uint64 *) tids)[*(const uint32 *) a];
	uint64		y = ((const uint64 *) tids)[*(const uint32 *) b];

	return x < y ? -1 : x > y;
}

static void
sort_bucket(uint32 *rows, uint32 n, const uint64 *tids)
{
	if (n > INSERTION_SORT_ROWS)
	{
		qsort_arg(rows, n, sizeof(uint32), compare_rows, (void *) tids);
		return;
	}
	for (uint32 i = 1; i < n; i++)
	{
		uint32		row = rows[i];
		uint32		j = i;

		for (; j > 0 && tids[rows[j - 1]] > tids[row]; j--)
			rows[j] = rows[j - 1];
		rows[j] = row;
	}
}

/*
 * Ranks rows by TID: a counting sort by heap block (several blocks a bucket where
 * there are fewer rows than blocks), then each bucket, which is sorted or nearly
 * so already.
 */
static void
rank_rows(GrnndBuild *build)
{
	const uint64 *tids = (const uint64 *) build->map->base[GRN_SEG_TIDS];
	uint32	   *order;
	uint32		n = (uint32) build->rows;
	uint64		max_block = 0;
	int			shift = 16;		/* from TID to bucket */
	size_t		nbuckets;
	uint32	   *begin;

	grnnd_mapping_grow(build->map, GRN_SEG_ORDER, (uint64) n * sizeof(uint32));
	grnnd_mapping_populate(build->map, GRN_SEG_ORDER, 0, (uint64) n * sizeof(uint32));
	order = (uint32 *) build->map->base[GRN_SEG_ORDER];

	for (uint32 i = 0; i < n; i++)
		max_block = Max(max_block, tids[i] >> 16);
	while ((max_block >> (shift - 16)) > n)
		shift++;
	nbuckets = (size_t) (max_block >> (shift - 16)) + 1;

	begin = MemoryContextAllocExtended(CurrentMemoryContext,
									   (nbuckets + 1) * sizeof(uint32),
									   MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	for (uint32 i = 0; i < n; i++)
		begin[(tids[i] >> shift) + 1]++;
	for (size_t b = 0; b < nbuckets; b++)
		begin[b + 1] += begin[b];
	CHECK_FOR_INTERRUPTS();
	for (uint32 i = 0; i < n; i++)
		order[begin[tids[i] >> shift]++] = i;
	CHECK_FOR_INTERRUPTS();
	/* begin[b] has moved to the bucket's end */
	for (size_t b = 0; b < nbuckets; b++)
	{
		uint32		from = b == 0 ? 0 : begin[b - 1];

		sort_bucket(order + from, begin[b] - from, tids);
	}
	pfree(begin);
}

void
grnnd_collect(GrnndBuild *build)
{
	Collector	c = {0};
	uint64		row_bytes = (uint64) build->stride * sizeof(float);

	grnnd_report_phase(GRN_PHASE_COLLECT, 0, 0);
	c.build = build;
	c.map = build->map;
	c.chunk_rows = (uint32) Max(1, Min(CHUNK_ROWS, CHUNK_BYTES / row_bytes));
	build->heap_tuples = table_index_build_scan(build->heap, build->index, build->info,
												true, true, collect_row, &c, NULL);
	build->rows = c.at;
	if (build->rows > 0)
	{
		grnnd_builder_rows(&build->builder, build->rows);
		rank_rows(build);
	}
}
