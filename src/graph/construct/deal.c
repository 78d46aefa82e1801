/*
 * deal.c - rows of parts that are too large, dealt out to several.
 *
 * Cells of like size are not always found: clusters may differ in density by orders of magnitude,
 * or rows may be equal.  A part that is too large is halved by a plane between two rows of it that
 * lie far apart, and its halves again, until its pieces are small enough.  Planes go where as many
 * rows lie on both sides as there are to be, so the pieces are of like size whatever the rows are.
 */
#include "graph/construct/cut.h"

#include <math.h>
#include <string.h>

#define TRIALS 256				/* rows of a piece among which two are found that lie far apart */
#define GRAIN 512				/* rows that a thread takes at a time */

/* A piece of a part: one of the new parts, or halved. */
typedef struct Piece
{
	uint32_t	part;			/* the first of its new parts */
	uint32_t	ends[2];		/* the plane lies between these rows, */
	float		at;				/* where a row is by so much farther from the first */
	uint32_t	halves[2];		/* pieces, the second one's rows beyond `at`; 0: not halved */
} Piece;

typedef struct Deal
{
	const GrnRows *rows;
	GrnParts   *parts;
	GrnParallel *parallel;
	uint32_t	npieces;
	Piece		pieces[2 * GRN_MAX_PARTS];
	uint32_t   *members;		/* of the piece that is halved */
	const Piece *halved;
} Deal;

/* How much farther row v lies from the first of a piece's ends than from the second, squared. */
static float
side_of(const Deal *d, const Piece *piece, uint32_t v)
{
	const void *x = grn_row(d->rows, v);
	float		by = grn_row_distance(d->rows, x, grn_row(d->rows, piece->ends[0])) -
		grn_row_distance(d->rows, x, grn_row(d->rows, piece->ends[1]));

	return isfinite(by) ? by : 0;
}

/* Two rows of n that lie far apart: one that is far from the first, and one far from that. */
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

/* home[] of members becomes their side of the plane, until they are at home in a new part. */
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
known_side(const Deal *d, uint32_t v)
{
	float		side;

	memcpy(&side, &d->parts->home[v], sizeof(side));
	return side;
}

/* Puts the k members of n whose sides are least before all others (Hoare's quickselect). */
static void
select_least(const Deal *d, uint32_t *members, size_t n, size_t k)
{
	ptrdiff_t	low = 0;
	ptrdiff_t	high = (ptrdiff_t) n - 1;

	while (low < high)
	{
		float		pivot = known_side(d, members[low + (high - low) / 2]);
		ptrdiff_t	i = low;
		ptrdiff_t	j = high;

		while (i <= j)
		{
			while (known_side(d, members[i]) < pivot)
				i++;
			while (known_side(d, members[j]) > pivot)
				j--;
			if (i <= j)
			{
				uint32_t	swap = members[i];

				members[i++] = members[j];
				members[j--] = swap;
			}
		}
		/* between them all are the pivot */
		if ((ptrdiff_t) k > j && (ptrdiff_t) k < i)
			break;
		low = (ptrdiff_t) k > j ? i : low;
		high = (ptrdiff_t) k > j ? high : j;
	}
}

/*
 * Halves n members, which are to be `count` parts (1 to n) from `part` on, and their halves.  Rows
 * near a plane become guests beyond it, a share of each half: guest[] of them becomes the piece
 * there.  Returns the piece.
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
	piece->at = known_side(d, members[middle]);
	for (size_t i = middle; i < n; i++)
		piece->at = fminf(piece->at, known_side(d, members[i]));
	/* the numbers that the halves are going to have: of the first one's pieces there are so many */
	piece->halves[0] = number + 1;
	piece->halves[1] = number + 2 * first;
	for (size_t i = middle - before; i < middle + behind; i++)
		d->parts->guest[members[i]] = piece->halves[i < middle];
	halve(d, members, middle, part, first, share);
	halve(d, members + middle, n - middle, part + first, count - first, share);
	return number;
}

/* The half of a piece in which row v lies; rows on its plane lie in either. */
static uint32_t
half_of(const Deal *d, const Piece *piece, uint32_t v)
{
	float		side = side_of(d, piece, v);

	return piece->halves[side == piece->at ? grn_random(piece->part, v, 0) & 1 : side > piece->at];
}

/* guest[] from a piece to the part of it in which the row lies. */
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
 * How many parts there will be of each, [nparts], so that each has at most `capacity` rows at home,
 * and room for guests as far as there may be so many parts.  False if there may not be enough.
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
		/* no part without rows */
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
		/* a row comes to so many planes, about: with this share at each, `overlap` become guests */
		double		planes = fmax(1, ceil(log2(pieces[c])));
		double		share = 1 - pow(1 - fmin((double) overlap, 1), 1 / planes);
		uint32_t	whole;

		/* a cell without rows of its own is none any more */
		if (pieces[c] == 0)
			continue;
		whole = halve(&d, members, parts->guests[c] - parts->start[c], nparts, pieces[c], share);
		for (size_t i = parts->guests[c]; i < parts->others[c]; i++)
			parts->guest[parts->members[i]] = whole;
		nparts += pieces[c];
	}
	parallel->run(parallel, rows->n, GRAIN, find_part_range, &d);

	/* guests beyond capacity are left out */
	for (size_t v = 0; v < rows->n; v++)
		sizes[parts->home[v]]++;
	for (size_t v = 0; v < rows->n; v++)
		if (parts->guest[v] != GRN_INVALID_ID && sizes[parts->guest[v]]++ >= capacity)
			parts->guest[v] = GRN_INVALID_ID;
	parts->nlandmarks = landmarks;
	grn_parts_list_members(rows, nparts, overlap, parallel, workspace, parts);
	return true;
}
