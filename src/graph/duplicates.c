/*
 * duplicates.c - finds rows that are identical in every bit.
 */
#include "graph/graph.h"

#include <string.h>

/*
 * An open-addressing table of 2n slots over the rows' hashes.  The hashes' top bits divide the
 * table into partitions.  A worker fills a partition alone and takes rows in order, so the
 * first of equal rows is the smallest.
 */
typedef struct Dups
{
	const GrnRows *rows;
	size_t		vector_bytes;	/* bytes of a row without the scale */
	const uint64_t *hashes;		/* [n] by row */
	const uint32_t *visit;		/* [n] rows in the order of insertion, or NULL */
	uint32_t   *slots;			/* [2n] */
	uint32_t   *first;			/* [n] */
	size_t		partitions;
	size_t		begin,			/* the range of rows that is inserted now */
				end;
	size_t		distinct;
} Dups;

/* With fewer rows a partition could overflow. */
#define ROWS_PER_PARTITION 65536

uint64_t
grn_hash_row(const void *row, size_t bytes)
{
	const uint8_t *x = row;
	uint64_t	lanes[4] = {1, 2, 3, 4};
	uint64_t	h = bytes;
	size_t		j = 0;

	/* four independent chains, so that multiplications overlap */
	for (; j + 32 <= bytes; j += 32)
	{
		uint64_t	w[4];

		memcpy(w, x + j, sizeof(w));
		for (int k = 0; k < 4; k++)
			lanes[k] = (lanes[k] ^ w[k]) * UINT64_C(0x9E3779B97F4A7C15) +
				(lanes[k] >> 29);
	}
	for (; j < bytes; j += 4)
	{
		uint32_t	w = 0;

		memcpy(&w, x + j, bytes - j < sizeof(w) ? bytes - j : sizeof(w));
		h = (h ^ w) * UINT64_C(0xD6E8FEB86659FD93);
		h ^= h >> 32;
	}
	for (int k = 0; k < 4; k++)
		h = grn_random(h, lanes[k], (uint64_t) k);
	return h;
}

static uint64_t
hash_of(const Dups *d, size_t i)
{
	return d->hashes[d->rows->order ? d->rows->order[i] : i];
}

static void
partition_range(void *arg, int worker, size_t begin, size_t end)
{
	Dups	   *d = arg;
	size_t		n = d->rows->n;

	(void) worker;
	for (size_t p = begin; p < end; p++)
	{
		size_t		low = 2 * n * p / d->partitions;
		size_t		high = 2 * n * (p + 1) / d->partitions;
		size_t		distinct = 0;

		for (size_t s = low; s < high && d->begin == 0; s++)
			d->slots[s] = GRN_INVALID_ID;
		for (size_t at = d->begin; at < d->end; at++)
		{
			size_t		i = d->visit ? d->visit[at] : at;
			uint64_t	hash = hash_of(d, i);
			size_t		slot;

			if ((size_t) (((hash >> 32) * d->partitions) >> 32) != p)
				continue;
			slot = low + (size_t) (((hash & UINT32_MAX) * (high - low)) >> 32);
			for (;;)
			{
				uint32_t	other = d->slots[slot];

				if (other == GRN_INVALID_ID)
				{
					d->slots[slot] = (uint32_t) i;
					d->first[i] = (uint32_t) i;
					distinct++;
					break;
				}
				if (hash_of(d, other) == hash &&
					memcmp(grn_row(d->rows, other), grn_row(d->rows, i), d->vector_bytes) == 0)
				{
					d->first[i] = other;
					break;
				}
				if (++slot == high)
					slot = low;
			}
		}
		__atomic_fetch_add(&d->distinct, distinct, __ATOMIC_RELAXED);
	}
}

/* Translates first rows by storage order into first rows by rank. */
typedef struct Ranks
{
	const uint32_t *order;
	const uint32_t *first;		/* [n] by storage order */
	uint32_t   *least;			/* [n] least rank of the rows whose first row is at this place */
	uint32_t   *by_rank;		/* [n] */
} Ranks;

static void
least_range(void *arg, int worker, size_t begin, size_t end)
{
	Ranks	   *ranks = arg;

	(void) worker;
	for (size_t r = begin; r < end; r++)
	{
		uint32_t   *least = &ranks->least[ranks->first[ranks->order[r]]];
		uint32_t	now = __atomic_load_n(least, __ATOMIC_RELAXED);

		while (r < now && !__atomic_compare_exchange_n(least, &now, (uint32_t) r, true,
													   __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			;
	}
}

static void
rank_range(void *arg, int worker, size_t begin, size_t end)
{
	Ranks	   *ranks = arg;

	(void) worker;
	for (size_t r = begin; r < end; r++)
		ranks->by_rank[r] = ranks->least[ranks->first[ranks->order[r]]];
}

size_t
grn_find_duplicates(const GrnRows *rows, const uint64_t *hashes, const uint32_t *visit,
					GrnParallel *parallel, uint32_t *first, void *workspace)
{
	GrnRows		storage_order = *rows;
	Dups		d;

	memset(&d, 0, sizeof(d));
	if (visit)
		storage_order.order = NULL;
	d.rows = &storage_order;
	d.visit = visit;
	d.vector_bytes = grn_form_bytes(rows->form, rows->dim);
	d.hashes = hashes;
	d.slots = workspace;
	d.first = first;
	d.partitions = rows->n / ROWS_PER_PARTITION;
	if (d.partitions > (size_t) parallel->nworkers)
		d.partitions = (size_t) parallel->nworkers;
	if (d.partitions == 0)
		d.partitions = 1;
	/* Rows are inserted in several passes, so that the caller's count of loops advances. */
	for (int i = 0; i < GRN_DUPLICATE_STRETCHES; i++)
	{
		d.begin = rows->n * (size_t) i / GRN_DUPLICATE_STRETCHES;
		d.end = rows->n * (size_t) (i + 1) / GRN_DUPLICATE_STRETCHES;
		if (d.begin < d.end)
			parallel->run(parallel, d.partitions, 1, partition_range, &d);
	}
	if (visit)
	{
		Ranks		ranks = {rows->order, first, d.slots, d.slots + rows->n};

		memset(ranks.least, 0xff, rows->n * sizeof(*ranks.least));
		parallel->run(parallel, rows->n, GRN_GRAIN, least_range, &ranks);
		parallel->run(parallel, rows->n, GRN_GRAIN, rank_range, &ranks);
		memcpy(first, ranks.by_rank, rows->n * sizeof(*first));
	}
	return d.distinct;
}
