/*
 * sparse.c - rows with few non-zero elements, and their comparisons.
 */
#include "space/form.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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
	GrnSparseHead head = {.scale = 1, .wide = wide};
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
	head.norm2 = (float) norm2;
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
	if (!isfinite(head.scale) || !(head.norm2 >= 0) || !(head.error >= 0) || isinf(head.error))
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

/* The squared length of the stored elements, whose squares may vanish in single precision. */
static double
stored_norm2(const void *row)
{
	Row			r = row_of(row, WHOLE);
	double		norm2 = 0;

	for (uint32_t i = 0; i < r.count; i++)
	{
		double		x = (double) r.head.scale * r.values[i];

		norm2 += x * x;
	}
	return norm2;
}

double
grn_sparse_whole_norm2(const uint8_t *row)
{
	float		error = grn_sparse_error(row);

	return stored_norm2(row) + (double) error * error;
}

void
grn_sparse_normalize(uint8_t *row, size_t words, double norm)
{
	GrnSparseHead head;
	Row			r = row_of(row, words);
	float	   *values = (float *) r.values;

	/* a scale of 1 / norm would be out of the range of floats for some rows */
	for (uint32_t i = 0; i < r.count; i++)
		values[i] = (float) (values[i] / norm);
	memcpy(&head, row, sizeof(head));
	head.norm2 = (float) stored_norm2(row);
	if (head.error > 0)
		head.error = fmaxf((float) (head.error / norm) * ERROR_SURPLUS, FLT_MIN);
	memcpy(row, &head, sizeof(head));
}

/* ---- comparisons of two rows ---- */

float
grn_sparse_ip(const float *a, const uint8_t *b, size_t words)
{
	Row			x = row_of(a, WHOLE);
	Row			y = row_of(b, words);
	float		sum = 0;
	uint32_t	i = 0;
	uint32_t	j = 0;

	while (i < x.count && j < y.count)
	{
		uint32_t	c = column_of(&x, i);
		uint32_t	d = column_of(&y, j);

		sum += c == d ? x.values[i] * y.values[j] : 0;
		i += c <= d;
		j += d <= c;
	}
	return sum * (x.head.scale * y.head.scale);
}

/*
 * The next difference sx * x - sy * y of two rows, in the order of columns.  Advances *i, *j or
 * both; one of them must be below its row's count.
 */
static inline float
next_difference(const Row *x, float sx, uint32_t *i, const Row *y, float sy, uint32_t *j)
{
	uint64_t	c = *i < x->count ? column_of(x, *i) : UINT64_MAX;
	uint64_t	d = *j < y->count ? column_of(y, *j) : UINT64_MAX;
	float		e = 0;

	if (c <= d)
		e = sx * x->values[(*i)++];
	if (d <= c)
		e -= sy * y->values[(*j)++];
	return e;
}

static double
sum_squares(const Row *x, float sx, const Row *y, float sy)
{
	double		sum = 0;

	for (uint32_t i = 0, j = 0; i < x->count || j < y->count;)
	{
		float		e = next_difference(x, sx, &i, y, sy, &j);

		sum += e * e;
	}
	return sum;
}

/*
 * The squared length of elements that are not stored, times s^2: probably the other row has none of
 * their columns.  Without them rounded rows would seem nearer than all others.
 */
static inline double
lost2(const Row *r, float s)
{
	return (double) (s * r->head.error) * (s * r->head.error);
}

float
grn_sparse_l2(const float *a, const uint8_t *b, size_t words)
{
	Row			x = row_of(a, WHOLE);
	Row			y = row_of(b, words);

	return (float) (sum_squares(&x, x.head.scale, &y, y.head.scale) + lost2(&x, 1) + lost2(&y, 1));
}

/* (in the order and precision of pgvector, so that near distances have the operator's order) */
float
grn_sparse_l1(const float *a, const uint8_t *b, size_t words)
{
	Row			x = row_of(a, WHOLE);
	Row			y = row_of(b, words);
	float		sum = 0;

	for (uint32_t i = 0, j = 0; i < x.count || j < y.count;)
		sum += fabsf(next_difference(&x, x.head.scale, &i, &y, y.head.scale, &j));
	return sum;
}

float
grn_sparse_apart(const uint8_t *a, float sa, const uint8_t *b, float sb, size_t words)
{
	Row			x = row_of(a, words);
	Row			y = row_of(b, words);

	if (a == b)
		return 0;
	return (float) (sum_squares(&x, sa * x.head.scale, &y, sb * y.head.scale) + lost2(&x, sa) + lost2(&y, sb));
}

static float
between_l2(const float *a, const float *b, size_t words)
{
	return grn_sparse_l2(a, (const uint8_t *) b, words);
}

static float
between_l1(const float *a, const float *b, size_t words)
{
	return grn_sparse_l1(a, (const uint8_t *) b, words);
}

static float
between_ip(const float *a, const float *b, size_t words)
{
	return -grn_sparse_ip(a, (const uint8_t *) b, words);
}

GrnSparseFn
grn_sparse_between(GrnComparison comparison)
{
	return comparison == GRN_COMPARE_IP ? between_ip : comparison == GRN_COMPARE_L1 ? between_l1 : between_l2;
}

/* ---- numbers for means and cuts ---- */

#define NUMBERS 256				/* of a row with fewer words, some columns are left out */

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
		float		x = r.head.scale * r.values[i];

		if (at >= from && at < from + n)
			out[at - from] += h & 1 ? -x : x;
	}
}

/* ---- queries ---- */

void
grn_sparse_query(const void *row, GrnSparseQuery *query)
{
	Row			r = row_of(row, WHOLE);

	query->row = row;
	query->count = r.count;
	query->norm2 = 0;
	query->lost2 = lost2(&r, 1);
	query->columns = r.narrow == NULL ? 0 : r.count > 0 ? r.narrow[r.count - 1] + 1u : 1;
	memset(query->dense, 0, (query->columns + 1) * sizeof(float));
	for (uint32_t i = 0; i < r.count; i++)
	{
		float		x = r.head.scale * r.values[i];

		query->norm2 += (double) x * x;
		if (query->columns > 0)
			query->dense[r.narrow[i]] = x;
	}
}

/* The query's element in a column of a row. */
static inline float
element(const GrnSparseQuery *q, uint32_t column)
{
	return q->dense[column < q->columns ? column : q->columns];
}

float
grn_sparse_query_ip(const GrnSparseQuery *query, const void *row, size_t words)
{
	Row			r = row_of(row, words);
	float		sums[4] = {0};
	uint32_t	i = 0;

	if (query->columns == 0 || r.narrow == NULL)
		return grn_sparse_ip(query->row, row, words);
	for (; i + 4 <= r.count; i += 4)
		for (uint32_t k = 0; k < 4; k++)
			sums[k] += element(query, r.narrow[i + k]) * r.values[i + k];
	for (; i < r.count; i++)
		sums[0] += element(query, r.narrow[i]) * r.values[i];
	return (sums[0] + sums[1] + (sums[2] + sums[3])) * r.head.scale;
}

/*
 * The query's elements in columns that the row does not have count by their sum of squares, which
 * is the query's less the sum of the others.  The difference of two sums of doubles is exact enough
 * even for rows that are nearly equal.
 */
float
grn_sparse_query_l2(const GrnSparseQuery *query, const void *row, size_t words)
{
	Row			r = row_of(row, words);
	float		scale = r.head.scale;
	double		shared = 0;
	float		sums[4] = {0};
	uint32_t	both = 0;
	uint32_t	i = 0;

	if (query->columns == 0 || r.narrow == NULL)
		return grn_sparse_l2(query->row, row, words);
	for (; i < r.count; i++)
	{
		float		q = element(query, r.narrow[i]);
		float		d = q - scale * r.values[i];

		sums[i & 3] += d * d;
		shared += (double) q * q;
		both += q != 0;
	}
	shared = both == query->count || shared > query->norm2 ? query->norm2 : shared;
	return sums[0] + sums[1] + (sums[2] + sums[3]) + (float) (query->norm2 - shared + query->lost2 + lost2(&r, 1));
}

float
grn_sparse_query_l1(const GrnSparseQuery *query, const void *row, size_t words)
{
	return grn_sparse_l1(query->row, row, words);
}

/* Elements by column for grn_sparse_many(); zero between calls. */
static _Thread_local float thread_elements[GRN_SPARSE_NARROW];

/* The sum of the sizes of a row's elements. */
static float
sum_sizes(const Row *r)
{
	float		sum = 0;

	for (uint32_t i = 0; i < r->count; i++)
		sum += fabsf(r->values[i]);
	return sum * r->head.scale;
}

/*
 * Adds up the columns that y and the row in thread_elements, of scale sx, have both: their
 * products, or for L1 distances their change to the sum of all sizes.  Few columns are common.
 */
static float
sum_common(float sx, const Row *y, GrnComparison comparison)
{
	float		sum = 0;

	for (uint32_t i = 0; i < y->count; i++)
	{
		float		x = thread_elements[y->narrow[i]];

		if (x != 0 && comparison == GRN_COMPARE_L1)
		{
			float		a = sx * x;
			float		b = y->head.scale * y->values[i];

			sum += fabsf(a - b) - (fabsf(a) + fabsf(b));
		}
		else if (x != 0)
			sum += x * y->values[i];
	}
	return comparison == GRN_COMPARE_L1 ? sum : sum * (sx * y->head.scale);
}

void
grn_sparse_many(const void *row, const void *const *others, size_t n, size_t words,
				GrnComparison comparison, float *out)
{
	Row			x = row_of(row, words);
	float		of_x = comparison == GRN_COMPARE_L1 ? sum_sizes(&x) : x.head.norm2 + (float) lost2(&x, 1);

	for (uint32_t i = 0; x.narrow != NULL && i < x.count; i++)
		thread_elements[x.narrow[i]] = x.values[i];
	for (size_t k = 0; k < n; k++)
	{
		Row			y = row_of(others[k], words);
		bool		narrow = x.narrow != NULL && y.narrow != NULL;
		float		d;

		if (comparison == GRN_COMPARE_L1)
			d = narrow ? of_x + sum_sizes(&y) + sum_common(x.head.scale, &y, comparison)
				: grn_sparse_l1(row, others[k], words);
		else
		{
			d = narrow ? sum_common(x.head.scale, &y, comparison) : grn_sparse_ip(row, others[k], words);
			if (comparison == GRN_COMPARE_L2)
				d = (of_x + (y.head.norm2 + (float) lost2(&y, 1))) - 2 * d;
		}
		if (comparison != GRN_COMPARE_IP && !(d > 0 && others[k] != row))
			d = 0;
		out[k] = d;
	}
	for (uint32_t i = 0; x.narrow != NULL && i < x.count; i++)
		thread_elements[x.narrow[i]] = 0;
}
