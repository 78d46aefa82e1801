/*
 * form.h - the forms in which an index keeps its rows' own vectors, one table entry each.
 *
 * A short form begins with a head that says what the numbers behind it stand for.  A row that
 * numbers standing for themselves do not hold gets a head of its own, so that its rounding
 * error is in proportion to its own range.  The exact layout has the smallest form that
 * holds all rows of the build exactly; the default layout rounds them to bytes where that
 * saves pages (grn_layout_form()).
 *
 * Only form.c names a form.  Everything else asks the table.
 */
#ifndef GRN_FORM_H
#define GRN_FORM_H

#include "graph/kernels/dist.h"
#include "graph/metric.h"

/* On-disk values: never renumber.  What the comments say of heads is src/graph/form.c's. */
typedef enum GrnForm
{
	GRN_FORM_F32 = 1,			/* 32-bit floats, without a head: any row, exactly */
	GRN_FORM_F16 = 2,			/* IEEE binary16, times the head: a float, power of two */
	GRN_FORM_U8 = 3,			/* integers 0..255; the head is a GrnByteHead */
	GRN_FORM_BITS = 4,			/* 0 and 1, without a head: the first is a byte's highest bit */
	GRN_FORM_ROTATED4 = 5,		/* 4 bits a number of the rotated row; a GrnRotatedHead */
	GRN_FORM_ROTATED2 = 6,		/* the same of 2 bits */
	GRN_FORM_ROTATED1 = 7		/* and of 1 bit */
} GrnForm;

/* Floats as they are.  It holds any row exactly: for rows that are not known yet. */
#define GRN_FORM_WIDEST GRN_FORM_F32
/* The form of rows that are given as a float *. */
#define GRN_FORM_FLOATS GRN_FORM_F32
/* Holds any row, with a small error: for the default layout. */
#define GRN_FORM_ROUNDED GRN_FORM_U8
/* and the one by which it saves more where that form is too large (grn_layout_form()) */
#define GRN_FORM_ROUNDED_MORE GRN_FORM_ROTATED4

/* A byte b stands for scale * (b + zero): 8 significant bits times 16, an exact float. */
typedef struct GrnByteHead
{
	uint16_t	scale;			/* the upper half of a float's bits */
	int16_t		zero;
} GrnByteHead;

typedef struct GrnFormInfo
{
	GrnForm		id;
	const char *name;
	uint32_t	head;			/* bytes before the numbers */
	uint32_t	bits;			/* of a number */
	uint32_t	max_dim;
	bool		lossless;		/* every row is stored exactly */
	/*
	 * A scan reads rows with an error from the table, in the order of lower bounds of their
	 * distances (src/am/rerank.c).  0: the bounds hold for any row.  Else they are likely ones: of an
	 * error, the part along the line to the query is taken for at most so many of its
	 * standard deviations, error / sqrt(dimensions).
	 */
	double		deviations;
	/* rows that are read for one that is returned */
	double		reads;
	GrnNumbers	numbers;		/* what they are, where rows of builds come in it */
	bool		direct;			/* two of them, or a query and one, are compared best by apart() */
	/*
	 * Whether numbers that stand for themselves hold all n floats exactly.  NULL: a form for
	 * rows that come in it alone, because others that follow could not be stored.
	 */
	bool		(*holds) (const float *x, size_t n);
	/* writes the stored form of n floats; returns whether it is exact */
	bool		(*store) (const float *x, size_t n, uint8_t *out);
	/* numbers [from, from + n) of a stored vector, as floats; NULL: only all at once, by load() */
	void		(*piece) (const uint8_t *stored, size_t from, size_t n, float *out);
	/* all n numbers, where there is no piece() */
	void		(*load) (const uint8_t *stored, size_t n, float *out);
	/*
	 * Whether l2(), ip() and l1() serve a stored vector; else it is converted by piece().  NULL:
	 * they never do, and the form has none.
	 */
	bool		(*plain) (const uint8_t *stored);
	/* squared Euclidean distance, inner product and L1 distance of a query and a stored vector */
	float		(*l2) (const float *q, const uint8_t *stored, size_t n);
	float		(*ip) (const float *q, const uint8_t *stored, size_t n);
	float		(*l1) (const float *q, const uint8_t *stored, size_t n);
	/* the head under which numbers stand for themselves; NULL where there is no head */
	const void *own_head;
	/* brings a stored vector to length 1; NULL: it cannot be */
	void		(*normalise) (uint8_t *stored, size_t n, double norm);
	/*
	 * Of forms that round any row, so that queries need the table for exact distances: numbers
	 * of the rotated row.  They have no piece(), and a query is made ready for many of them.
	 */
	bool		rotated;
	/* squared distance of two stored vectors times sa and sb; NULL: not of floats or rotated rows */
	float		(*apart) (const uint8_t *a, float sa, const uint8_t *b, float sb, size_t n);
	/* Jaccard distance of two stored vectors; NULL: by way of floats */
	float		(*jaccard) (const uint8_t *a, const uint8_t *b, size_t n);
} GrnFormInfo;

/* The entry of a form; NULL where the number, read from elsewhere, is none. */
extern const GrnFormInfo *grn_form(uint32_t id);
/* The same, if records may keep rows of a type in it whose own form is `rows`. */
extern const GrnFormInfo *grn_form_for(uint32_t id, GrnForm rows);

/* Whether a stored vector is a float *.  A comparison, for distances of builds ask it. */
static inline bool
grn_form_is_floats(GrnForm form)
{
	return form == GRN_FORM_FLOATS;
}

/* Bytes of a stored vector of n dimensions. */
static inline size_t
grn_form_bytes(GrnForm form, size_t n)
{
	const GrnFormInfo *info = grn_form(form);

	return info->head + (info->bits * n + 7) / 8;
}

/* The smallest form whose numbers, standing for themselves, hold all n floats exactly. */
extern GrnForm grn_form_smallest(const float *x, size_t n);
/* Whether rotated forms say enough of what is compared so. */
static inline bool
grn_rotated_serves(GrnComparison comparison)
{
	return comparison == GRN_COMPARE_L2 || comparison == GRN_COMPARE_IP;
}

/* The rotated form of the most bits whose vectors take so many bytes; else that of the fewest. */
extern GrnForm grn_rotated_form(size_t n, size_t bytes);
/* The form that holds all that either of two forms holds. */
extern GrnForm grn_form_wider(GrnForm a, GrnForm b);

/*
 * Convert n finite floats to and from the stored form (unaligned); rounds to nearest.
 * grn_form_store() returns whether the stored form is exact.
 */
extern bool grn_form_store(GrnForm form, const float *x, size_t n, void *out);
extern void grn_form_load(GrnForm form, const void *stored, size_t n, float *out);
/* Numbers [from, from + n) of a stored vector. */
extern void grn_form_piece(GrnForm form, const void *stored, size_t from, size_t n, float *out);

/*
 * Rows of a build are kept in the form of the column's type.  A row is begun with the
 * head under which its numbers stand for themselves; returns where the numbers go.
 */
extern void *grn_form_begin(GrnForm form, void *stored);
/* Brings such a row to length 1, by its head if it has one.  False: it is zero. */
extern bool grn_form_normalise(GrnForm form, void *stored, size_t n);
/*
 * Writes n numbers as a stored vector of bits.  A row that is not of 0 and 1 becomes one of what
 * its numbers are nearest to.  Returns whether it was exact.
 */
extern bool grn_pack_bits(const float *x, size_t n, uint8_t *out);
/* 1 - the share of the bits in either row that are in both; 1 where there are none in either. */
extern float grn_jaccard(double both, double either);
/* |x|^2, infinite or NaN where a number is. */
extern float grn_form_norm2(GrnForm form, const void *stored, size_t n);
/*
 * Squared distance of sa * a and sb * b, two stored vectors of a form that is neither floats nor
 * rotated.  It is the same for b and a, and 0 for a vector and itself.
 */
extern float grn_form_apart(GrnForm form, const void *a, float sa, const void *b, float sb,
							size_t n);

/* Squared Euclidean distance, inner product and L1 distance of a query and a stored vector. */
extern float grn_form_l2(GrnForm form, const float *q, const void *stored, size_t n);
extern float grn_form_ip(GrnForm form, const float *q, const void *stored, size_t n);
extern float grn_form_l1(GrnForm form, const float *q, const void *stored, size_t n);
/* GRN_COMPARE_JACCARD, the same. */
extern float grn_form_jaccard(GrnForm form, const float *q, const void *stored, size_t n);

/* What a metric compares a query with a stored vector by. */
static inline float
grn_compare(GrnComparison comparison, GrnForm form, const float *q, const void *stored,
			size_t n)
{
	switch (comparison)
	{
		case GRN_COMPARE_L2:
			break;
		case GRN_COMPARE_IP:
			return -grn_form_ip(form, q, stored, n);
		case GRN_COMPARE_L1:
			return grn_form_l1(form, q, stored, n);
		case GRN_COMPARE_JACCARD:
			return grn_form_jaccard(form, q, stored, n);
	}
	return grn_form_l2(form, q, stored, n);
}

/* Whether a comparison of two vectors follows from their inner products, but for rounding. */
static inline bool
grn_compares_by_product(GrnComparison comparison)
{
	return comparison == GRN_COMPARE_L2 || comparison == GRN_COMPARE_IP;
}

/* Is it that product itself? */
static inline bool
grn_compares_products(GrnComparison comparison)
{
	return comparison == GRN_COMPARE_IP;
}

/* That comparison, from two squared lengths and the inner product. */
static inline float
grn_compared_by_product(GrnComparison comparison, float norm2_a, float norm2_b, float product)
{
	return comparison == GRN_COMPARE_IP ? -product : norm2_a + norm2_b - 2 * product;
}

/*
 * A query that is compared with many stored vectors is made ready first: packed into their form,
 * or rotated.  Its bytes; 0 where grn_compare() does as well.
 */
extern size_t grn_query_bytes(GrnComparison comparison, GrnForm form, size_t n);
/* Makes a query ready, at an aligned address.  False: grn_compare() has to serve it. */
extern bool grn_query_make(GrnForm form, const float *q, size_t n, void *query);
/* The same as grn_compare() of a query made ready. */
extern float grn_query_compare(GrnComparison comparison, GrnForm form, const void *query,
							   const void *stored, size_t n);

#endif							/* GRN_FORM_H */
