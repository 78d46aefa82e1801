/*
 * cut.c - divides rows into overlapping parts: the workspace, and the members of each part.
 *
 * A row is at home in the part whose cell contains the row (cells.c).  Rows near a border are
 * also guests of the part behind the border, as in DiskANN's merged build (Subramanya et al.,
 * NeurIPS 2019, section 3.3), so that the merged graphs are connected.  Clusters far from each
 * other share no border.  Therefore some rows, the landmarks (landmarks.c), are members of all
 * parts, and edges lead from one such cluster to the next.
 */
#include "graph/cut_impl.h"

#include <math.h>
#include <string.h>

#include "memory/memory.h"

/*
 * 20,000 sentences and image patches in parts, recall at ef 40: half of SAMPLE .002 and .004 more,
 * half of SAMPLE_PER_PART .006 and .008 more, twice .002 more and .001 less.  Half and twice of
 * GUESTS_SURPLUS and BLOCK change nothing; half and twice of LANDMARKS differ as two builds do.
 */
#define BLOCK 16384				/* rows that a thread sorts into parts at a time */
#define SAMPLE 32768			/* the most rows from which the cells are found */
#define SAMPLE_PER_PART 512		/* the most rows of the sample for each part */
#define GUESTS_SURPLUS 0.05		/* guests allowed above the share `overlap`, because the borders
								 * come from a sample */
#define LANDMARKS 64			/* landmarks of a part */
/*
 * Landmarks, counted as members of all parts, are at most this share of the rows.  Measured on
 * a million rows in 300 clusters: .02, .05, .1 and .2 have recall .972, .995, .994 and .997.
 */
#define LANDMARKS_SHARE 0.05

size_t
grn_cut_sample_size(size_t n, uint32_t nparts)
{
	size_t		size = (size_t) SAMPLE_PER_PART * nparts;

	if (size > SAMPLE)
		size = SAMPLE;
	return size < n ? size : n;
}

static size_t
most_guests(size_t n, float overlap)
{
	double		guests = ((double) overlap + GUESTS_SURPLUS) * (double) n;

	return overlap <= 0 ? 0 : guests < (double) n ? (size_t) guests : n;
}

static size_t
most_members(size_t n, float overlap)
{
	return n + most_guests(n, overlap) + (size_t) (LANDMARKS_SHARE * (double) n);
}

uint32_t
grn_parts_landmarks(size_t n, uint32_t nparts)
{
	size_t		most = (size_t) (LANDMARKS_SHARE * (double) n) / nparts;

	return nparts == 1 ? 0 : (uint32_t) (most < LANDMARKS * nparts ? most : LANDMARKS * nparts);
}

size_t
grn_parts_kept(size_t n, float overlap)
{
	return GRN_ALIGNMENT + 2 * grn_aligned(n * sizeof(uint32_t)) +
		grn_aligned(most_members(n, overlap) * sizeof(uint32_t));
}

/* Places the arrays in the workspace and returns its bytes. */
size_t
grn_cut_place_arrays(Split *s, void *workspace, size_t n, uint32_t dim, uint32_t nparts, float overlap)
{
	size_t		size = grn_cut_sample_size(n, nparts);
	GrnArena	a = grn_arena(workspace);

	s->nparts = s->parts->nparts = nparts;
	s->parts->home = grn_take(&a, n, sizeof(uint32_t));
	s->parts->guest = grn_take(&a, n, sizeof(uint32_t));
	s->parts->members = grn_take(&a, most_members(n, overlap), sizeof(uint32_t));
	/* The place must not depend on the number of parts, which grn_parts_deal() changes. */
	s->parts->landmarks = grn_take(&a, GRN_MAX_PARTS * LANDMARKS, sizeof(uint32_t));
	s->order = grn_take(&a, size, sizeof(uint32_t));
	s->numbers = grn_take(&a, size, sizeof(uint32_t));
	s->copies = grn_take(&a, size / CENTERS_SHARE + 1, dim * sizeof(float) + 2 * GRN_ROW_ALIGN);
	s->homes = grn_take(&a, size, sizeof(uint32_t));
	s->centers = grn_take(&a, nparts, dim * sizeof(float));
	s->weights = grn_take(&a, nparts, sizeof(float));
	s->across = grn_take(&a, nparts, nparts * sizeof(float));
	s->distances = grn_take(&a, (size + ROWS - 1) / ROWS * ROWS, nparts * sizeof(float));
	s->borders = grn_take(&a, size, sizeof(float));
	s->by_part = grn_take(&a, size, sizeof(float));
	s->rows_by_part = grn_take(&a, size, sizeof(uint32_t));
	s->counts = grn_take(&a, (n + BLOCK - 1) / BLOCK, 2 * nparts * sizeof(uint32_t));
	return grn_arena_bytes(&a);
}

size_t
grn_parts_bytes(size_t n, uint32_t dim, uint32_t nparts, float overlap)
{
	GrnParts	parts;
	Split		s = {.parts = &parts};

	return grn_cut_place_arrays(&s, NULL, n, dim, nparts, overlap);
}

/* ---- members ---- */

/* For rows [begin, end) on a disk: tells the kernel which rows follow position `at`. */
static void
prefetch_rows(const Split *s, size_t at, size_t begin, size_t end)
{
	size_t		piece = (GRN_PREFETCH_PIECE / s->rows->row_bytes / ROWS + 1) * ROWS;

	if ((at - begin) % piece == 0)
		grn_prefetch_rows(s->rows, at == begin ? at : at + piece, at + 2 * piece < end ? at + 2 * piece : end);
}

static void
assign_range(void *arg, int worker, size_t begin, size_t end)
{
	Split	   *s = arg;
	float		distances[GRN_MAX_PARTS * ROWS];
	NearestParts nearest;

	(void) worker;
	for (size_t first = begin; first < end; first += ROWS)
	{
		size_t		count = end - first < ROWS ? end - first : ROWS;

		if (s->rows->on_disk)
			prefetch_rows(s, first, begin, end);
		grn_cut_to_centers(s, s->rows, first, count, distances);
		grn_cut_find_nearest(s, distances, &nearest);
		for (size_t i = 0; i < count; i++)
		{
			s->parts->home[first + i] = nearest.home[i];
			s->parts->guest[first + i] = grn_cut_guest_of(s, &nearest, i);
		}
	}
}

void
grn_parts_home(const GrnRows *rows, uint32_t nparts, size_t n, void *workspace, size_t begin,
			   size_t end, uint8_t *home)
{
	GrnParts	parts;
	Split		s = {.rows = rows, .parts = &parts, .border = -INFINITY};
	float		distances[GRN_MAX_PARTS * ROWS];
	NearestParts nearest;

	grn_cut_place_arrays(&s, workspace, n, rows->dim, nparts, 0);
	for (size_t first = begin; first < end; first += ROWS)
	{
		size_t		count = end - first < ROWS ? end - first : ROWS;

		grn_cut_to_centers(&s, rows, first, count, distances);
		grn_cut_find_nearest(&s, distances, &nearest);
		for (size_t i = 0; i < count; i++)
			home[first + i] = (uint8_t) nearest.home[i];
	}
}

static void
count_blocks(void *arg, int worker, size_t begin, size_t end)
{
	Split	   *s = arg;

	(void) worker;
	for (size_t block = begin; block < end; block++)
	{
		size_t		last = (block + 1) * BLOCK < s->rows->n ? (block + 1) * BLOCK : s->rows->n;
		uint32_t   *counts = s->counts + block * 2 * s->nparts;

		memset(counts, 0, 2 * s->nparts * sizeof(*counts));
		for (size_t i = block * BLOCK; i < last; i++)
		{
			counts[s->parts->home[i]]++;
			if (s->parts->guest[i] != GRN_INVALID_ID)
				counts[s->nparts + s->parts->guest[i]]++;
		}
	}
}

/* Appends landmarks that are not yet members of part c.  Returns the position behind the last. */
static size_t
put_landmarks(GrnParts *parts, uint32_t c, uint32_t count, size_t position)
{
	for (uint32_t i = 0; i < count; i++)
	{
		uint32_t	v = parts->landmarks[(size_t) parts->nlandmarks * i / count];

		if (v != GRN_INVALID_ID && parts->home[v] != c && parts->guest[v] != c)
			parts->members[position++] = v;
	}
	return position;
}

/* Turns counts into the first position of each block, and appends the landmarks of each part. */
static void
find_places(Split *s, size_t blocks)
{
	GrnParts   *parts = s->parts;
	uint32_t	landmarks = grn_parts_landmarks(s->rows->n, s->nparts);
	size_t		position = 0;

	landmarks = landmarks < parts->nlandmarks ? landmarks : parts->nlandmarks;
	for (uint32_t c = 0; c < s->nparts; c++)
	{
		parts->start[c] = position;
		for (int guests = 0; guests < 2; guests++)
		{
			if (guests)
				parts->guests[c] = position;
			for (size_t b = 0; b < blocks; b++)
			{
				uint32_t   *count = &s->counts[(b * 2 + guests) * s->nparts + c];
				uint32_t	here = *count;

				*count = (uint32_t) position;
				position += here;
			}
		}
		parts->others[c] = position;
		position = put_landmarks(parts, c, landmarks, position);
	}
	parts->start[s->nparts] = position;
}

static void
place_range(void *arg, int worker, size_t begin, size_t end)
{
	Split	   *s = arg;
	GrnParts   *parts = s->parts;

	(void) worker;
	for (size_t block = begin; block < end; block++)
	{
		size_t		last = (block + 1) * BLOCK < s->rows->n ? (block + 1) * BLOCK : s->rows->n;
		uint32_t   *positions = s->counts + block * 2 * s->nparts;

		for (size_t i = block * BLOCK; i < last; i++)
		{
			parts->home[i] = positions[parts->home[i]]++;
			parts->members[parts->home[i]] = (uint32_t) i;
			if (parts->guest[i] == GRN_INVALID_ID)
				continue;
			parts->guest[i] = positions[s->nparts + parts->guest[i]]++;
			parts->members[parts->guest[i]] = (uint32_t) i;
		}
	}
}

/* Drops guests beyond `most`, beginning with the last rows. */
static void
limit_guests(Split *s, size_t blocks, size_t most)
{
	size_t		guests = 0;

	for (size_t b = 0; b < blocks; b++)
		for (uint32_t c = 0; c < s->nparts; c++)
			guests += s->counts[(2 * b + 1) * s->nparts + c];
	for (size_t i = s->rows->n; guests > most; i--)
	{
		uint32_t   *part = &s->parts->guest[i - 1];

		if (*part == GRN_INVALID_ID)
			continue;
		s->counts[((i - 1) / BLOCK * 2 + 1) * s->nparts + *part]--;
		*part = GRN_INVALID_ID;
		guests--;
	}
}

void
grn_parts_list_members(const GrnRows *rows, uint32_t nparts, float overlap, GrnParallel *parallel,
					   void *workspace, GrnParts *parts)
{
	size_t		blocks = (rows->n + BLOCK - 1) / BLOCK;
	Split		s = {.rows = rows, .parts = parts};

	grn_cut_place_arrays(&s, workspace, rows->n, rows->dim, nparts, overlap);
	parallel->run(parallel, blocks, 1, count_blocks, &s);
	limit_guests(&s, blocks, most_guests(rows->n, overlap));
	find_places(&s, blocks);
	parallel->run(parallel, blocks, 1, place_range, &s);
}

void
grn_parts_make(const GrnRows *rows, uint32_t nparts, float overlap, uint64_t seed,
			   GrnParallel *parallel, void *workspace, GrnParts *parts)
{
	Split		s = {.rows = rows, .parts = parts};
	GrnCells	cells;

	grn_cut_place_arrays(&s, workspace, rows->n, rows->dim, nparts, overlap);
	if (nparts == 1)
	{
		parts->nlandmarks = 0;
		for (size_t i = 0; i < rows->n; i++)
		{
			parts->home[i] = 0;
			parts->guest[i] = GRN_INVALID_ID;
		}
	}
	else
	{
		grn_parts_cells(rows, nparts, overlap, seed, parallel, workspace, parts, &cells);
		grn_parts_find_landmarks(rows, nparts, overlap, seed, parallel, workspace, parts);
		s.border = cells.border;
		parallel->run(parallel, rows->n, BLOCK, assign_range, &s);
	}
	grn_parts_list_members(rows, nparts, overlap, parallel, workspace, parts);
}

size_t
grn_parts_largest(const GrnParts *parts)
{
	size_t		largest = 0;

	for (uint32_t c = 0; c < parts->nparts; c++)
		if (parts->start[c + 1] - parts->start[c] > largest)
			largest = parts->start[c + 1] - parts->start[c];
	return largest;
}
