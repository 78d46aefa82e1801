/*
 * sparse.c - rows with few non-zero elements, and their comparisons.
 */
#include "space/form.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "space/space.h"

/* Greater than the rounding error of a sum of 16,000 squares, and of its root. */
#define ERROR_SURPLUS 1.0001f

/* ---- stored rows ---- */

/* A stored row, with bounds that hold whatever bytes a damaged page has. */
typedef struct Row
{
	GrnSparseHead head;
	uint32_t	count;
	const uint16_t *narrow;		/* NULL if columns take 4 bytes */
	const uint32_t *wide;
	const float *values;
} Row;

/* Words of the columns. */
static size_t
column_words(size_t count, bool wide)
{
	return wide ? count : (count + 1) / 2;
}

/* The most elements that a row of `words` words can keep. */
static size_t
most_elements(size_t words, bool wide)
{
	size_t		rest = words - sizeof(GrnSparseHead) / sizeof(float);
	size_t		most = wide ? rest / 2 : rest * 2 / 3;

	while (most > 0 && column_words(most, wide) + most > rest)
		most--;
	return most;
}

static inline Row
row_of(const void *row, size_t words)
{
	const uint32_t *columns = (const uint32_t *) ((const uint8_t *) row + sizeof(GrnSparseHead));
	Row			r;
	size_t		most = words - sizeof(GrnSparseHead) / sizeof(float);

	memcpy(&r.head, row, sizeof(r.head));
	r.count = r.head.count;
	if (column_words(r.count, r.head.wide) + r.count > most)
		r.count = 0;
	r.narrow = r.head.wide ? NULL : (const uint16_t *) columns;
	r.wide = columns;
	r.values = (const float *) (columns + column_words(r.count, r.head.wide));
	return r;
}

/* A row in memory of any number of words. */
#define WHOLE (SIZE_MAX / 16)

static inline uint32_t
column_of(const Row *r, size_t i)
{
	return r->narrow ? r->narrow[i] : r->wide[i];
}

size_t
grn_sparse_words(size_t count, uint32_t columns)
{
	return sizeof(GrnSparseHead) / sizeof(float) + column_words(count, columns > GRN_SPARSE_NARROW) + count;
}

static int
by_size(const void *a, const void *b)
{
	float		x = fabsf(*(const float *) a);
	float		y = fabsf(*(const float *) b);

	return (x < y) - (x > y);
}

/* The size that an element needs to be among the `most` largest of values [count]. */
static float
least_kept(const float *values, size_t count, size_t most)
{
	float	   *sorted = malloc(count * sizeof(float));
	float		least = INFINITY;

	if (sorted == NULL || most == 0)
	{
		free(sorted);
		return least;
	}
	memcpy(sorted, values, count * sizeof(float));
	qsort(sorted, count, sizeof(float), by_size);
	least = fabsf(sorted[most - 1]);
	free(sorted);
	return least;
}

bool
grn_sparse_store(const int32_t *columns, const float *values, size_t count, size_t words, void *out)
{
	bool		wide = count > 0 && columns[count - 1] >= GRN_SPARSE_NARROW;
	size_t		most = most_elements(words, wide);
	float		least = count > most ? least_kept(values, count, most) : 0;
	size_t		larger = 0;
	size_t		kept = 0;
	double		norm2 = 0;
	double		lost2 = 0;
	GrnSparseHead head = {.wide = wide};
	uint8_t    *to = (uint8_t *) out + sizeof(head);
	float	   *to_values;

	for (size_t i = 0; i < count && count > most; i++)
		larger += fabsf(values[i]) > least;
	memset(out, 0, words * sizeof(float));
	head.count = (uint16_t) (count > most ? (isinf(least) ? 0 : most) : count);
	to_values = (float *) (to + column_words(head.count, wide) * sizeof(float));
	for (size_t i = 0; i < count; i++)
	{
		float		size = fabsf(values[i]);
		bool		keeps = count <= most || size > least;

		if (!keeps && size == least && larger < most)
		{
			keeps = true;
			larger++;
		}
		if (!keeps)
		{
			lost2 += (double) values[i] * values[i];
			continue;
		}
		if (wide)
			((uint32_t *) to)[kept] = (uint32_t) columns[i];
		else
			((uint16_t *) to)[kept] = (uint16_t) columns[i];
		to_values[kept++] = values[i];
		norm2 += (double) values[i] * values[i];
	}
	head.norm2 = (float) (norm2 + lost2);
	head.error = lost2 > 0 ? fminf((float) sqrt(lost2) * ERROR_SURPLUS, FLT_MAX) : 0;
	memcpy(out, &head, sizeof(head));
	return lost2 == 0;
}

const char *
grn_sparse_check(const void *row, size_t words)
{
	GrnSparseHead head;
	Row			r;

	memcpy(&head, row, sizeof(head));
	if (head.wide > 1 || head.count > most_elements(words, head.wide))
		return "more elements than fit a record";
	if (!(head.norm2 >= 0) || !(head.error >= 0) || isinf(head.error))
		return "an impossible length of its row";
	r = row_of(row, words);
	for (uint32_t i = 0; i < r.count; i++)
		if ((i > 0 && column_of(&r, i) <= column_of(&r, i - 1)) || !isfinite(r.values[i]))
			return "impossible elements";
	return NULL;
}

void
grn_sparse_load(const void *row, size_t words, void *out)
{
	GrnSparseHead head;

	memcpy(out, row, words * sizeof(float));
	memcpy(&head, out, sizeof(head));
	head.count = (uint16_t) row_of(row, words).count;
	memcpy(out, &head, sizeof(head));
}

float
grn_sparse_error(const void *row)
{
	GrnSparseHead head;

	memcpy(&head, row, sizeof(head));
	return head.error;
}

float
grn_sparse_norm2(const void *row)
{
	GrnSparseHead head;

	memcpy(&head, row, sizeof(head));
	return head.norm2;
}

/*
 * The squared length of the elements that are not stored: probably the other row has none of their
 * columns.  Without them rounded rows would seem nearer than all others.
 */
static inline double
lost2(const Row *r)
{
	return (double) r->head.error * r->head.error;
}

double
grn_sparse_whole_norm2(const void *row)
{
	Row			r = row_of(row, WHOLE);

	return grn_norm2(r.values, r.count) + lost2(&r);
}

void
grn_sparse_normalize(uint8_t *row, size_t words, double norm)
{
	GrnSparseHead head;
	Row			r = row_of(row, words);
	float	   *values = (float *) r.values;

	for (uint32_t i = 0; i < r.count; i++)
		values[i] = (float) (values[i] / norm);
	memcpy(&head, row, sizeof(head));
	head.norm2 = 1;
	if (head.error > 0)
		head.error = fmaxf((float) (head.error / norm) * ERROR_SURPLUS, FLT_MIN);
	memcpy(row, &head, sizeof(head));
}

/* ---- numbers for means and cuts ---- */

/*
 * Of a row with fewer words, some columns are left out.  10,000 rows of keywords, recall at ef 40:
 * half .825, this .830, twice .833.
 */
#define NUMBERS 256

/* the finalizer of splitmix64 */
static uint64_t
hash_column(uint64_t column)
{
	uint64_t	h = column + UINT64_C(0x9E3779B97F4A7C15);

	h = (h ^ h >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
	h = (h ^ h >> 27) * UINT64_C(0x94D049BB133111EB);
	return h ^ h >> 31;
}

void
grn_sparse_piece(const uint8_t *row, size_t from, size_t n, float *out)
{
	Row			r = row_of(row, WHOLE);

	memset(out, 0, n * sizeof(float));
	for (uint32_t i = 0; i < r.count; i++)
	{
		uint64_t	h = hash_column(column_of(&r, i));
		size_t		at = (size_t) (h >> 1) % NUMBERS;
		float		x = r.values[i];

		if (at >= from && at < from + n)
			out[at - from] += h & 1 ? -x : x;
	}
}

/* ---- comparisons ---- */

/*
 * Hashes for each element of a query.  56 elements with 1, 8 and 40 rows: .26, 1.07 and 4.7 us with
 * 16, .27, 1.03 and 4.1 with 32, .31, 1.03 and 4.0 with 64.
 */
#define HASHES_PER_ELEMENT 32
#define LEAST_HASHES_LOG2 4
#define LEAST_HASHES (UINT32_C(1) << LEAST_HASHES_LOG2)

/*
 * Columns at equal intervals have different hashes, too: 570 columns at an interval of 1 to 70,000
 * have chains of 24 on average at worst.  (With the lowest bits of column ^ column >> 12 all 570
 * columns at an interval of 16,388 are in one chain.)
 */
static inline uint32_t
hash_of(const GrnSparseQuery *q, uint32_t column)
{
	return (column * UINT32_C(0x9E3779B1)) >> q->shift;
}

void
grn_sparse_query(const void *row, GrnSparseQuery *query)
{
	Row			r = row_of(row, WHOLE);
	uint32_t	hashes = LEAST_HASHES;

	query->shift = 32 - LEAST_HASHES_LOG2;
	for (; hashes < GRN_SPARSE_HASHES && hashes < HASHES_PER_ELEMENT * r.count; hashes *= 2)
		query->shift--;
	query->row = row;
	query->norm2 = grn_norm2(r.values, r.count);
	memset(query->first, 0, hashes * sizeof(query->first[0]));
	for (uint32_t i = 0; i < r.count; i++)
	{
		uint16_t   *first = &query->first[hash_of(query, column_of(&r, i))];

		query->next[i + 1] = *first;
		*first = (uint16_t) (i + 1);
	}
}

/*
 * The elements x and y of two rows in the next column that either row has; 0 if a row has none
 * there.  Advances *i, *j or both; one of them must be below its row's count.
 */
static inline void
next_column(const Row *a, uint32_t *i, const Row *b, uint32_t *j, float *x, float *y)
{
	uint64_t	c = *i < a->count ? column_of(a, *i) : UINT64_MAX;
	uint64_t	d = *j < b->count ? column_of(b, *j) : UINT64_MAX;

	*x = c <= d ? a->values[*i] : 0;
	*y = d <= c ? b->values[*j] : 0;
	*i += c <= d;
	*j += d <= c;
}

/* Elements of a query and a row in the columns that both have, in the order of columns. */
typedef struct Common
{
	uint32_t	n;
	float		x[GRN_MAX_DIM];
	float		y[GRN_MAX_DIM];
} Common;

/* Adds a pair, without a branch: few columns are common, and no one could predict which. */
static inline void
add_pair(Common *c, float x, float y)
{
	c->x[c->n] = x;
	c->y[c->n] = y;
	c->n += (x != 0) & (y != 0);
}

/*
 * Writes to at [count] the elements of y whose columns the query may have.  Returns their number.
 */
static inline uint32_t
find_possible(const GrnSparseQuery *q, const Row *y, uint16_t *at)
{
	uint32_t	n = 0;

	if (y->narrow != NULL)
		for (uint32_t i = 0; i < y->count; i++)
		{
			at[n] = (uint16_t) i;
			n += q->first[hash_of(q, y->narrow[i])] != 0;
		}
	else
		for (uint32_t i = 0; i < y->count; i++)
		{
			at[n] = (uint16_t) i;
			n += q->first[hash_of(q, y->wide[i])] != 0;
		}
	return n;
}

static void
find_common(const GrnSparseQuery *q, const Row *x, const Row *y, Common *c)
{
	uint16_t	at[GRN_MAX_DIM];
	uint32_t	n = find_possible(q, y, at);

	c->n = 0;
	for (uint32_t i = 0; i < n; i++)
	{
		uint32_t	column = column_of(y, at[i]);
		uint32_t	j = q->first[hash_of(q, column)];

		/* (one branch, nearly always the same) */
		while ((column_of(x, j - 1) != column) & (q->next[j] != 0))
			j = q->next[j];
		add_pair(c, column_of(x, j - 1) == column ? x->values[j - 1] : 0, y->values[at[i]]);
	}
}

/* In the order and precision of pgvector, so that near distances have the operator's order. */
static float
sum_sizes(const Row *x, const Row *y)
{
	float		sum = 0;

	for (uint32_t i = 0, j = 0; i < x->count || j < y->count;)
	{
		float		a;
		float		b;

		next_column(x, &i, y, &j, &a, &b);
		sum += fabsf(a - b);
	}
	return sum;
}

/* The rest of a sum of squares without the common columns. */
static inline double
rest_of(double squares, double common, bool all)
{
	return all || common > squares ? 0 : squares - common;
}

/* The squared distance of the stored elements, column by column. */
static double
sum_squares(const Row *x, const Row *y)
{
	double		sum = 0;

	for (uint32_t i = 0, j = 0; i < x->count || j < y->count;)
	{
		float		a;
		float		b;

		next_column(x, &i, y, &j, &a, &b);
		sum += ((double) a - b) * ((double) a - b);
	}
	return sum;
}

/*
 * Elements in columns of one row alone count by the row's sum of squares less the sum over common
 * columns.  The difference of two sums of doubles is exact enough, except for squared distances
 * below NEAR times the squared lengths: there, small elements would be lost beside a large common
 * element.  10,000 rows of keywords: the same index with half and twice.
 */
#define NEAR 1e-6

float
grn_sparse_compare(GrnComparison comparison, const GrnSparseQuery *query, const void *row, size_t words)
{
	Row			x = row_of(query->row, WHOLE);
	Row			y = row_of(row, words);
	Common		c;
	double		products = 0;
	double		x2 = 0;
	double		y2 = 0;
	double		apart = 0;
	double		norm2;

	if (comparison == GRN_COMPARE_L1)
		return sum_sizes(&x, &y);
	find_common(query, &x, &y, &c);
	if (comparison == GRN_COMPARE_IP)
	{
		for (uint32_t i = 0; i < c.n; i++)
			products += (double) c.x[i] * c.y[i];
		return (float) -products;
	}
	for (uint32_t i = 0; i < c.n; i++)
	{
		double		d = (double) c.x[i] - c.y[i];

		apart += d * d;
		x2 += (double) c.x[i] * c.x[i];
		y2 += (double) c.y[i] * c.y[i];
	}
	norm2 = grn_norm2(y.values, y.count);
	apart += rest_of(query->norm2, x2, c.n == x.count) + rest_of(norm2, y2, c.n == y.count);
	if (apart < NEAR * (query->norm2 + norm2) && (c.n < x.count || c.n < y.count))
		apart = sum_squares(&x, &y);
	return (float) (apart + (lost2(&x) + lost2(&y)));
}

void
grn_sparse_many(const void *row, const void *const *others, size_t n, size_t words,
				GrnComparison comparison, float *out)
{
	GrnSparseQuery query;

	grn_sparse_query(row, &query);
	for (size_t k = 0; k < n; k++)
		out[k] = others[k] == row && comparison != GRN_COMPARE_IP ? 0
			: grn_sparse_compare(comparison, &query, others[k], words);
}
