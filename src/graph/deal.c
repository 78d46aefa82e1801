/*
 * deal.c - divides parts that are too large into several parts.
 *
 * Cells of similar size do not always exist: clusters may differ in density by orders of
 * magnitude, or rows may be equal.  A part that is too large is halved by a plane between two
 * distant rows of the part, and each half is halved again, until the pieces are small enough.
 * The plane is moved until both sides have the planned numbers of rows, so pieces have similar
 * sizes for any rows.
 */
#include "graph/cut.h"

#include <math.h>
#include <string.h>

#define TRIALS 256				/* rows of a piece among which find_ends() looks for two distant
								 * rows */
#define GRAIN 512				/* rows that a thread takes at a time */

/* A piece of a part: a new part, or a piece that is halved. */
typedef struct Piece
{
	uint32_t	part;			/* the first new part of the piece */
	uint32_t	ends[2];		/* rows on either side of the plane */
	float		at;				/* side_of() a row on the plane */
	uint32_t	halves[2];		/* pieces; the second half has the rows beyond `at`; 0: the piece
								 * is a new part */
} Piece;

typedef struct Deal
{
	const GrnRows *rows;
	GrnParts   *parts;
	GrnParallel *parallel;
	uint32_t	npieces;
	Piece		pieces[2 * GRN_MAX_PARTS];
	uint32_t   *members;		/* members of the piece that is being halved */
	const Piece *halved;
} Deal;

/* Returns the squared distance of row v from ends[0] minus the squared distance from ends[1]. */
static float
side_of(const Deal *d, const Piece *piece, uint32_t v)
{
	const void *x = grn_row(d->rows, v);
	float		by = grn_row_distance(d->rows, x, grn_row(d->rows, piece->ends[0])) -
		grn_row_distance(d->rows, x, grn_row(d->rows, piece->ends[1]));

	return isfinite(by) ? by : 0;
}

/* Finds two distant rows among n: a row far from the first, and a row far from that row. */
static void
find_ends(const Deal *d, const uint32_t *members, size_t n, Piece *piece)
{
	size_t		trials = n < TRIALS ? n : TRIALS;

	piece->ends[0] = piece->ends[1] = members[0];
	for (int end = 0; end < 2; end++)
	{
		const void *from = grn_row(d->rows, piece->ends[!end]);
		float		most = -1;

		for (size_t i = 0; i < trials; i++)
		{
			uint32_t	v = members[n * i / trials];
			float		apart = grn_row_distance(d->rows, from, grn_row(d->rows, v));

			if (apart > most)
			{
				most = apart;
				piece->ends[end] = v;
			}
		}
	}
}

/* Stores each member's side of the plane in home[], until the new part is known. */
static void
side_range(void *arg, int worker, size_t begin, size_t end)
{
	const Deal *d = arg;

	(void) worker;
	for (size_t i = begin; i < end; i++)
	{
		float		side = side_of(d, d->halved, d->members[i]);

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

/* Moves the k members with the least sides to the front (Hoare's quickselect). */
static void
select_least(const Deal *d, uint32_t *members, size_t n, size_t k)
{
	ptrdiff_t	low = 0;
	ptrdiff_t	high = (ptrdiff_t) n - 1;

	while (low < high)
	{
		float		pivot = stored_side(d, members[low + (high - low) / 2]);
		ptrdiff_t	i = low;
		ptrdiff_t	j = high;

		while (i <= j)
		{
			while (stored_side(d, members[i]) < pivot)
				i++;
			while (stored_side(d, members[j]) > pivot)
				j--;
			if (i <= j)
			{
				uint32_t	swap = members[i];

				members[i++] = members[j];
				members[j--] = swap;
			}
		}
		/* All sides between j and i equal the pivot. */
		if ((ptrdiff_t) k > j && (ptrdiff_t) k < i)
			break;
		low = (ptrdiff_t) k > j ? i : low;
		high = (ptrdiff_t) k > j ? high : j;
	}
}

/*
 * Halves a piece of n members, which becomes `count` new parts (1 to n) from `part` on, and
 * halves its halves.  A share of each half, the rows near the plane, become guests in the half
 * beyond: guest[] is set to the half's number.  Returns the piece's number.
 */
static uint32_t
halve(Deal *d, uint32_t *members, size_t n, uint32_t part, uint32_t count, double share)
{
	uint32_t	number = d->npieces++;
	Piece	   *piece = &d->pieces[number];
	uint32_t	first = count / 2;
	size_t		middle = n * first / count;
	size_t		before = (size_t) (share * (double) middle);
	size_t		behind = (size_t) (share * (double) (n - middle));

	*piece = (Piece) {.part = part};
	if (count < 2)
	{
		for (size_t i = 0; i < n; i++)
			d->parts->home[members[i]] = part;
		return number;
	}
	find_ends(d, members, n, piece);
	d->members = members;
	d->halved = piece;
	d->parallel->run(d->parallel, n, GRAIN, side_range, d);
	select_least(d, members, n, middle);
	select_least(d, members, middle, middle - before);
	select_least(d, members + middle, n - middle, behind);
	piece->at = stored_side(d, members[middle]);
	for (size_t i = middle; i < n; i++)
		piece->at = fminf(piece->at, stored_side(d, members[i]));
	/* The numbers that the halves will have: the first half makes 2 * first - 1 pieces. */
	piece->halves[0] = number + 1;
	piece->halves[1] = number + 2 * first;
	for (size_t i = middle - before; i < middle + behind; i++)
		d->parts->guest[members[i]] = piece->halves[i < middle];
	halve(d, members, middle, part, first, share);
	halve(d, members + middle, n - middle, part + first, count - first, share);
	return number;
}

/* Returns the half of a piece that contains row v.  Rows on the plane are divided at random. */
static uint32_t
half_of(const Deal *d, const Piece *piece, uint32_t v)
{
	float		side = side_of(d, piece, v);

	return piece->halves[side == piece->at ? grn_random(piece->part, v, 0) & 1 : side > piece->at];
}

/* Replaces the piece in guest[] by the new part of the piece that contains the row. */
static void
find_part_range(void *arg, int worker, size_t begin, size_t end)
{
	const Deal *d = arg;

	(void) worker;
	for (size_t v = begin; v < end; v++)
	{
		uint32_t   *guest = &d->parts->guest[v];
		const Piece *piece;

		if (*guest == GRN_INVALID_ID)
			continue;
		piece = &d->pieces[*guest];
		while (piece->halves[0] != 0)
			piece = &d->pieces[half_of(d, piece, (uint32_t) v)];
		*guest = piece->part;
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
	Deal		d = {.rows = rows, .parts = parts, .parallel = parallel};
	uint32_t	nparts = 0;

	capacity -= landmarks;
	if (!count_pieces(parts, most, overlap, capacity, pieces))
		return false;
	memset(parts->guest, 0xff, rows->n * sizeof(*parts->guest));
	for (uint32_t c = 0; c < parts->nparts; c++)
	{
		uint32_t   *members = parts->members + parts->start[c];
		/*
		 * A row meets about `planes` planes.  With this share at each plane, a share `overlap`
		 * of the rows become guests.
		 */
		double		planes = fmax(1, ceil(log2(pieces[c])));
		double		share = 1 - pow(1 - fmin((double) overlap, 1), 1 / planes);
		uint32_t	whole;

		/* A cell without rows at home is dropped. */
		if (pieces[c] == 0)
			continue;
		whole = halve(&d, members, parts->guests[c] - parts->start[c], nparts, pieces[c], share);
		for (size_t i = parts->guests[c]; i < parts->others[c]; i++)
			parts->guest[parts->members[i]] = whole;
		nparts += pieces[c];
	}
	parallel->run(parallel, rows->n, GRAIN, find_part_range, &d);

	/* Guests beyond the capacity are left out. */
	for (size_t v = 0; v < rows->n; v++)
		sizes[parts->home[v]]++;
	for (size_t v = 0; v < rows->n; v++)
		if (parts->guest[v] != GRN_INVALID_ID && sizes[parts->guest[v]]++ >= capacity)
			parts->guest[v] = GRN_INVALID_ID;
	parts->nlandmarks = landmarks;
	grn_parts_list_members(rows, nparts, overlap, parallel, workspace, parts);
	return true;
}
