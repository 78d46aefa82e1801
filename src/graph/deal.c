/*
 * deal.c - divides parts that are too large into several parts.
 *
 * Cells of similar size do not always exist: clusters may differ in density by orders of
 * magnitude, or rows may be equal.  The rows of a part that is too large are sorted along the line
 * between two distant rows of the part, and the sequence is cut into pieces of equal numbers of
 * rows.  So pieces have similar sizes for any rows.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE				/* for qsort_r() */
#endif
#include "graph/cut.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * Rows of a part among which find_ends() looks for two distant rows.  10,000 sentences in parts by
 * 8 MB: the same recall with half and twice, as two builds differ.
 */
#define TRIALS 256

/* A part that is dealt out. */
typedef struct Deal
{
	const GrnRows *rows;
	GrnParts   *parts;
	uint32_t   *members;		/* members that are at home in the part, or guests there */
	uint32_t	ends[2];		/* two distant rows */
	uint32_t	part;			/* the first new part */
	uint32_t	count;			/* number of new parts */
	float		least[GRN_MAX_PARTS];	/* least side_of() the rows of each new part */
} Deal;

/* Returns the squared distance of row v from ends[0] minus the squared distance from ends[1]. */
static float
side_of(const Deal *d, uint32_t v)
{
	const void *x = grn_row(d->rows, v);
	float		by = grn_row_distance(d->rows, x, grn_row(d->rows, d->ends[0])) -
		grn_row_distance(d->rows, x, grn_row(d->rows, d->ends[1]));

	return isfinite(by) ? by : 0;
}

/* Finds two distant rows among n: a row far from the first, and a row far from that row. */
static void
find_ends(Deal *d, size_t n)
{
	size_t		trials = n < TRIALS ? n : TRIALS;

	d->ends[0] = d->ends[1] = d->members[0];
	for (int end = 0; end < 2; end++)
	{
		const void *from = grn_row(d->rows, d->ends[!end]);
		float		most = -1;

		for (size_t i = 0; i < trials; i++)
		{
			uint32_t	v = d->members[n * i / trials];
			float		apart = grn_row_distance(d->rows, from, grn_row(d->rows, v));

			if (apart > most)
			{
				most = apart;
				d->ends[end] = v;
			}
		}
	}
}

/* Stores the sides of members in home[], until their new parts are known. */
static void
side_range(void *arg, int worker, size_t begin, size_t end)
{
	const Deal *d = arg;

	(void) worker;
	for (size_t i = begin; i < end; i++)
	{
		float		side = side_of(d, d->members[i]);

		memcpy(&d->parts->home[d->members[i]], &side, sizeof(side));
	}
}

static float
stored_side(const Deal *d, uint32_t v)
{
	float		side;

	memcpy(&side, &d->parts->home[v], sizeof(side));
	return side;
}

/* Orders rows by their stored sides, and equal ones by their numbers. */
static int
by_side(const void *a, const void *b, void *arg)
{
	uint32_t	x = *(const uint32_t *) a;
	uint32_t	y = *(const uint32_t *) b;
	float		side_x = stored_side(arg, x);
	float		side_y = stored_side(arg, y);

	return side_x != side_y ? (side_x > side_y) - (side_x < side_y) : (x > y) - (x < y);
}

/* Makes guests of the part guests of the new parts on whose rows' side they are. */
static void
guest_range(void *arg, int worker, size_t begin, size_t end)
{
	const Deal *d = arg;

	(void) worker;
	for (size_t i = begin; i < end; i++)
	{
		float		side = d->count > 1 ? side_of(d, d->members[i]) : 0;
		uint32_t	to = d->count - 1;

		while (to > 0 && side < d->least[to])
			to--;
		d->parts->guest[d->members[i]] = d->part + to;
	}
}

/*
 * Deals n members out to the new parts.  A share of each new part's rows, those next to other new
 * parts, become guests there.
 */
static void
deal_homes(Deal *d, size_t n, float share, GrnParallel *parallel)
{
	if (d->count > 1)
	{
		find_ends(d, n);
		parallel->run(parallel, n, GRN_GRAIN, side_range, d);
		qsort_r(d->members, n, sizeof(uint32_t), by_side, d);
		for (uint32_t to = 0; to < d->count; to++)
			d->least[to] = stored_side(d, d->members[n * to / d->count]);
	}
	for (uint32_t to = 0; to < d->count; to++)
	{
		size_t		begin = n * to / d->count;
		size_t		end = n * (to + 1) / d->count;
		int			borders = (to > 0) + (to + 1 < d->count);
		size_t		near = borders > 0 ? (size_t) (share * (float) (end - begin) / (float) borders) : 0;

		for (size_t i = begin; i < end; i++)
			d->parts->home[d->members[i]] = d->part + to;
		for (size_t i = 0; i < near && to > 0; i++)
			d->parts->guest[d->members[begin + i]] = d->part + to - 1;
		for (size_t i = 0; i < near && to + 1 < d->count; i++)
			d->parts->guest[d->members[end - 1 - i]] = d->part + to + 1;
	}
}

/*
 * Computes the number of new parts of each part, pieces [nparts].  No new part has more than
 * `capacity` rows at home, and new parts have room for guests as far as `most` allows.
 * Returns false if `most` new parts are not enough.
 */
static bool
count_pieces(const GrnParts *parts, uint32_t most, float overlap, size_t capacity, uint32_t *pieces)
{
	size_t		left = most;

	for (uint32_t c = 0; c < parts->nparts; c++)
	{
		size_t		homes = parts->guests[c] - parts->start[c];
		size_t		n = (homes + capacity - 1) / capacity;

		if (n > left)
			return false;
		pieces[c] = (uint32_t) n;
		left -= n;
	}
	for (uint32_t c = 0; c < parts->nparts; c++)
	{
		size_t		homes = parts->guests[c] - parts->start[c];
		double		members = (double) (parts->others[c] - parts->start[c]) * (1 + (double) overlap);
		/* Each new part must have a row. */
		double		more = fmin(ceil(members / (double) capacity), (double) homes) - pieces[c];

		if (pieces[c] > 1 && more > 0)
		{
			more = more < (double) left ? more : (double) left;
			pieces[c] += (uint32_t) more;
			left -= (size_t) more;
		}
	}
	return true;
}

bool
grn_parts_deal(const GrnRows *rows, uint32_t most, float overlap, size_t capacity,
			   GrnParallel *parallel, void *workspace, GrnParts *parts)
{
	uint32_t	pieces[GRN_MAX_PARTS];
	size_t		sizes[GRN_MAX_PARTS] = {0};
	uint32_t	landmarks = parts->nlandmarks < capacity / 4 ? parts->nlandmarks : 0;
	Deal		d = {.rows = rows, .parts = parts};

	capacity -= landmarks;
	if (!count_pieces(parts, most, overlap, capacity, pieces))
		return false;
	memset(parts->guest, 0xff, rows->n * sizeof(*parts->guest));
	/* A cell without rows at home is dropped. */
	for (uint32_t c = 0; c < parts->nparts; d.part += pieces[c++])
	{
		d.count = pieces[c];
		if (d.count == 0)
			continue;
		d.members = parts->members + parts->start[c];
		deal_homes(&d, parts->guests[c] - parts->start[c], fminf(overlap, 1), parallel);
		d.members = parts->members + parts->guests[c];
		parallel->run(parallel, parts->others[c] - parts->guests[c], GRN_GRAIN, guest_range, &d);
	}

	/* Guests beyond the capacity are left out. */
	for (size_t v = 0; v < rows->n; v++)
		sizes[parts->home[v]]++;
	for (size_t v = 0; v < rows->n; v++)
		if (parts->guest[v] != GRN_INVALID_ID && sizes[parts->guest[v]]++ >= capacity)
			parts->guest[v] = GRN_INVALID_ID;
	parts->nlandmarks = landmarks;
	grn_parts_list_members(rows, d.part, overlap, parallel, workspace, parts);
	return true;
}
