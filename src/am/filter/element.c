/*
 * element.c - elements of arrays: their bits in keys, their classes, and the classes that have
 * lists.
 *
 * Records keep 64 bits of an array.  The bits do not tell which elements the array has, so the
 * array itself decides which lists a row is added to.  A class is 16 bits of an element's
 * hash.  The book of an array column names the classes without a list, which too many rows
 * have.
 */
#include "am/filter/attribute.h"

#include "utils/array.h"

/* Returns the hashes of an array's elements, palloc'd, without NULL elements. */
static uint32 *
element_hashes(const GrnndAttr *attr, Datum array, uint32 *nhashes)
{
	ArrayType  *elements = DatumGetArrayTypeP(array);
	Datum	   *values;
	bool	   *isnull;
	uint32	   *hashes;
	int			n;

	deconstruct_array(elements, ARR_ELEMTYPE(elements), attr->length, attr->by_value,
					  attr->align, &values, &isnull, &n);
	hashes = palloc(Max(n, 1) * sizeof(uint32));
	*nhashes = 0;
	for (int i = 0; i < n; i++)
		if (!isnull[i])
			hashes[(*nhashes)++] = DatumGetUInt32(FunctionCall1Coll(attr->hash, attr->collation,
																	values[i]));
	pfree(values);
	pfree(isnull);
	return hashes;
}

/*
 * The six lowest bits of the hash choose the key's bit, and are the lowest six bits of the
 * class.  The key therefore tells whether an array may have an element of a class.  The upper
 * ten bits of the class mix all bits of the hash.
 */
#define KEY_BITS 64

static uint16
class_of(uint32 hash)
{
	return (uint16) ((hash * UINT32_C(0x9E3779B1) >> 16 & ~(KEY_BITS - 1)) | hash % KEY_BITS);
}

static int
compare_classes(const void *a, const void *b)
{
	return *(const uint16 *) a - *(const uint16 *) b;
}

uint16 *
grnnd_element_classes(const GrnndAttr *attr, Datum array, uint32 *nclasses, int64 *key)
{
	uint32		n;
	uint32	   *hashes = element_hashes(attr, array, &n);
	uint16	   *classes = palloc(Max(n, 1) * sizeof(uint16));
	uint32		kept = 0;

	*key = 0;
	for (uint32 i = 0; i < n; i++)
	{
		*key |= (int64) (UINT64CONST(1) << hashes[i] % KEY_BITS);
		classes[i] = class_of(hashes[i]);
	}
	pfree(hashes);
	qsort(classes, n, sizeof(uint16), compare_classes);
	for (uint32 i = 0; i < n; i++)
		if (kept == 0 || classes[i] != classes[kept - 1])
			classes[kept++] = classes[i];
	*nclasses = kept;
	return classes;
}

/* ---- a row's elements ---- */

void
grnnd_add_elements(const GrnndAttr *attr, Datum array, uint8 *elements)
{
	GrnndElements e;
	int64		key;
	uint32		n;
	uint16	   *classes = grnnd_element_classes(attr, array, &n, &key);

	memcpy(&e, elements + attr->elements, sizeof(e));
	for (uint32 i = 0; i < n && e.n <= GRNND_MOST_ELEMENTS; i++)
	{
		uint16		at = e.n;

		while (at > 0 && e.classes[at - 1] > classes[i])
			at--;
		if (at > 0 && e.classes[at - 1] == classes[i])
			continue;
		if (e.n < GRNND_MOST_ELEMENTS)
		{
			memmove(&e.classes[at + 1], &e.classes[at], (e.n - at) * sizeof(uint16));
			e.classes[at] = classes[i];
		}
		e.n++;
	}
	memcpy(elements + attr->elements, &e, sizeof(e));
	pfree(classes);
}

void
grnnd_set_many_elements(const GrnndAttr *attr, uint8 *elements)
{
	GrnndElements e = {.n = GRNND_MOST_ELEMENTS + 1};

	memcpy(elements + attr->elements, &e, sizeof(e));
}

void
grnnd_form_elements(const GrnndAttrs *attrs, const Datum *values, const bool *isnull,
					uint8 *elements)
{
	if (attrs->element_bytes == 0)
		return;
	memset(elements, 0, attrs->element_bytes);
	for (uint32 i = 0; i < attrs->n; i++)
		if (attrs->attr[i].type->kind == GRNND_ATTR_ARRAY && !isnull[i + 1])
			grnnd_add_elements(&attrs->attr[i], values[i + 1], elements);
}

void
grnnd_count_elements(const GrnndAttr *attr, const uint8 *elements, uint32 *counts)
{
	GrnndElements e;

	memcpy(&e, elements + attr->elements, sizeof(e));
	for (uint32 i = 0; i < e.n && e.n <= GRNND_MOST_ELEMENTS; i++)
		counts[e.classes[i]]++;
}

void
grnnd_keep_elements(const GrnndAttr *attr, const bool *listed, uint8 *elements)
{
	GrnndElements e;
	uint16		kept = 0;

	memcpy(&e, elements + attr->elements, sizeof(e));
	if (e.n == 0 || e.n > GRNND_MOST_ELEMENTS)
		return;
	for (uint32 i = 0; i < e.n; i++)
		if (listed[e.classes[i]])
			e.classes[kept++] = e.classes[i];
	e.n = kept;
	memcpy(elements + attr->elements, &e, sizeof(e));
}

/* ---- lists ---- */

void
grnnd_listed_classes(const GrnSigBook *book, bool *listed)
{
	memset(listed, true, GRNND_CLASSES);
	for (uint32 i = 0; i < book->count; i++)
		listed[(uint16) book->keys[i]] = false;
}

bool
grnnd_class_rank(const GrnSigBook *book, uint16 class, uint32 *rank)
{
	uint32		at = grn_find_key(book->keys, book->count, class);

	/* No class has GRNND_MANY_RANK, because the last bit is set. */
	*rank = (uint32) class << 16 | 1;
	return at == book->count || book->keys[at] != class;
}

uint32
grnnd_list_ranks(const GrnndAttrs *attrs, const GrnSigBook *books, uint32 column,
				 const uint8 *values, const uint8 *elements, uint32 *ranks)
{
	const GrnndAttr *attr = &attrs->attr[column];
	const GrnSigBook *book = &books[column];
	GrnndElements e;
	uint32		n = 0;
	int64		key;

	if (attr->type->kind != GRNND_ATTR_ARRAY || !grnnd_attr_key(attrs, column, values, &key))
	{
		*ranks = grnnd_attr_rank(attrs, books, column, values);
		return 1;
	}
	if (book->ordered != GRN_BOOK_ELEMENTS || elements == NULL)
		return 0;
	memcpy(&e, elements + attr->elements, sizeof(e));
	if (e.n > GRNND_MOST_ELEMENTS)
	{
		*ranks = GRNND_MANY_RANK;
		return 1;
	}
	for (uint32 i = 0; i < e.n; i++)
		n += grnnd_class_rank(book, e.classes[i], &ranks[n]);
	return n;
}

uint64
grnnd_listed_bits(const GrnndAttrs *attrs, const GrnSigBook *books, uint32 column,
				  const uint8 *values, uint32 *rank)
{
	int64		key;

	if (attrs->attr[column].type->kind == GRNND_ATTR_ARRAY &&
		grnnd_attr_key(attrs, column, values, &key) && key != 0)
		return (uint64) key;
	*rank = grnnd_attr_rank(attrs, books, column, values);
	return 0;
}

bool
grnnd_bits_allow(uint64 bits, uint32 rank)
{
	/* The upper 16 bits of a rank are the class. */
	return rank == GRNND_MANY_RANK || (bits >> (rank >> 16) % KEY_BITS & 1) != 0;
}

/*
 * The most frequent classes get no list, until the remaining lists are within the budget of
 * grnnd_most_listed().  A class below the frequency LEAST_LEFT_OUT always gets a list, because
 * no other access path is good for so few rows.  Half and twice of LEAST_LEFT_OUT take the same
 * visits (20,000 sentences, image patches and SIFT rows with three elements of 50).
 */
#define LEAST_LEFT_OUT 0.005

typedef struct ClassCount
{
	uint32		count;
	uint16		class;
} ClassCount;

static int
compare_counts(const void *a, const void *b)
{
	const ClassCount *x = a;
	const ClassCount *y = b;

	return x->count != y->count ? (x->count < y->count) - (x->count > y->count)
		: x->class - y->class;
}

void
grnnd_fit_elements(GrnSigBook *book, const GrnLayout *l, const uint32 *counts, uint64 rows)
{
	ClassCount *all;
	double		budget = grnnd_most_listed(l, (double) rows);
	uint64		left = 0;
	uint32		n = 0;

	memset(book, 0, sizeof(*book));
	book->ordered = GRN_BOOK_ELEMENTS;
	all = palloc(GRNND_CLASSES * sizeof(ClassCount));
	for (uint32 i = 0; i < GRNND_CLASSES; i++)
		if (counts[i] > 0)
		{
			all[n++] = (ClassCount) {counts[i], (uint16) i};
			left += counts[i];
		}
	qsort(all, n, sizeof(ClassCount), compare_counts);
	for (uint32 i = 0; i < n && i < GRN_SIG_CODES; i++)
	{
		if ((double) all[i].count < LEAST_LEFT_OUT * (double) rows || (double) left <= budget)
			break;
		left -= all[i].count;
		book->keys[book->count++] = all[i].class;
	}
	qsort(book->keys, book->count, sizeof(int64), grn_compare_keys);
	pfree(all);
}
