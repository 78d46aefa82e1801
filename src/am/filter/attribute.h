/*
 * attribute.h - filter columns: the key columns of an index behind the vector.
 *
 * Beside each heap TID a record keeps the values of these columns: first a NULL bitmap, one
 * byte for each eight columns, then the values, each in the width of its column, without
 * alignment.  Tests compare only a value's key: 64 bits in the order of the values, or the
 * hash of a value of a hashed column.  The key of an array is a set of bits, in which each
 * element sets one bit by its hash.  If keys are not exact, different values may have equal
 * keys, and the executor tests the rows again.
 *
 * The classes of an array's elements decide which lists (lists.c) a row is in.  Records do
 * not keep classes.  A build carries classes behind the values, and inserts and fits compute
 * classes from the table.
 */
#ifndef GRNND_ATTRIBUTE_H
#define GRNND_ATTRIBUTE_H

#include "postgres.h"

#include "access/skey.h"
#include "fmgr.h"
#include "utils/relcache.h"

#include "store/filter.h"

/*
 * Strategies of an operator class for a filter column.  Strategy 1 is the distance.  Such an
 * operator class has no support functions.
 */
typedef enum GrnndAttrStrategy
{
	GRNND_LESS_STRATEGY = 2,
	GRNND_LESS_EQUAL_STRATEGY = 3,
	GRNND_EQUAL_STRATEGY = 4,
	GRNND_GREATER_EQUAL_STRATEGY = 5,
	GRNND_GREATER_STRATEGY = 6,
	GRNND_OVERLAP_STRATEGY = 7, /* arrays: && */
	GRNND_CONTAINS_STRATEGY = 8 /* @> */
} GrnndAttrStrategy;

#define GRNND_NUM_STRATEGIES GRNND_CONTAINS_STRATEGY

typedef enum GrnndAttrKind		/* on disk: never renumber */
{
	GRNND_ATTR_HASH = 1,		/* keys have no order */
	GRNND_ATTR_ORDER = 2,
	GRNND_ATTR_ARRAY = 3		/* keys have the bits of the array's elements */
} GrnndAttrKind;

typedef struct GrnndAttr GrnndAttr;

/* The properties of a column's SQL type. */
typedef struct GrnndAttrType
{
	Oid			type;			/* InvalidOid: any further type that has a hash function;
								 * ANYARRAYOID: any array whose elements have a hash function */
	GrnndAttrKind kind;
	uint8		width;			/* bytes of a stored value: 1, 2, 4 or 8 */
	bool		exact;			/* different values have different keys */
	bool		single;			/* the value is stored as a float; the key is the key of a double */
	/* returns the key of a value of SQL type `type`: of the column or an operator's right side */
	int64		(*key) (const GrnndAttr *attr, Datum value, Oid type);
} GrnndAttrType;

struct GrnndAttr
{
	const GrnndAttrType *type;
	Oid			input;			/* SQL type of the operator class */
	Oid			collation;
	FmgrInfo   *hash;			/* for a hashed column, or for an array's elements; otherwise NULL */
	uint16		offset;			/* offset of the value in a TID's bytes */
	/* for arrays: */
	uint16		elements;		/* offset in a row's elements (GrnndAttrs.element_bytes) */
	int16		length;
	bool		by_value;
	char		align;
};

/* All filter columns of an index. */
typedef struct GrnndAttrs
{
	uint32		n;
	uint32		bytes;			/* bytes of a TID's values, <= GRN_MAX_ATTR_BYTES; 0 if n is 0 */
	uint32		element_bytes;	/* bytes of a row's GrnndElements, one for each array; 0: no arrays */
	GrnndAttr	attr[FLEXIBLE_ARRAY_MEMBER];
} GrnndAttrs;

/* Returns the bytes of values and elements that a build carries for a row. */
static inline uint32
grnnd_row_bytes(const GrnndAttrs *attrs)
{
	return attrs->bytes + attrs->element_bytes;
}

/*
 * The metapage's description of a filter column, which detects that a different operator class
 * reads the index.
 */
typedef struct GrnndColumn
{
	uint32		type;			/* 0: GrnndAttr.input */
	uint32		collation;		/* 4 */
	uint8		kind;			/* 8: GrnndAttrKind */
	uint8		width;			/* 9 */
	uint8		exact;			/* 10 */
	uint8		sig_bytes;		/* 11: bytes of the column's signature, 0 or 1 */
	uint8		former;			/* 12: 0; earlier versions wrote other numbers, which are ignored */
	uint8		unused[3];		/* 13: 0 */
} GrnndColumn;

StaticAssertDecl(sizeof(GrnndColumn) == 16 && offsetof(GrnndColumn, former) == 12, "GrnndColumn is on disk");

/* The most filter columns: PostgreSQL's most keys, less the vector. */
#define GRNND_MAX_ATTRS (INDEX_MAX_KEYS - 1)

/* ---- attribute.c ---- */

/*
 * Returns the filter columns of an index, palloc'd.  Errors: 0A000 for a second vector, 42883
 * for a type without a hash function.
 */
extern GrnndAttrs *grnnd_attrs(Relation index);

/* A column of an existing or planned index. */
typedef struct GrnndAttrSource
{
	Oid			input;			/* SQL type of the operator class, possibly polymorphic */
	Oid			type;			/* SQL type of the column */
	Oid			collation;
} GrnndAttrSource;

/* Returns the filter columns for sources [n], which must not be vectors. */
extern PGDLLEXPORT GrnndAttrs *grnnd_make_attrs(const GrnndAttrSource *sources, uint32 n);
static inline Size
grnnd_attrs_bytes(const GrnndAttrs *attrs)
{
	return offsetof(GrnndAttrs, attr) + attrs->n * sizeof(GrnndAttr);
}

/* Whether a condition on a column of a type can have a strategy, with values of type `other`. */
extern bool grnnd_attr_answers(Oid type, Oid other, int strategy);
/* Whether an operator for these types implements the strategy, given grnnd_attr_answers(). */
extern bool grnnd_attr_is_operator(Oid op, Oid type, Oid other, int strategy);
extern PGDLLEXPORT void grnnd_describe_attr(const GrnndAttr *attr, uint32 sig_bytes, GrnndColumn *column);
/* Writes the values of an index row, whose first value is the vector, to out [attrs->bytes]. */
extern void grnnd_form_attrs(const GrnndAttrs *attrs, const Datum *values, const bool *isnull,
							 uint8 *out);
/* Returns the key of column i of a TID's values in *key.  Returns false if the value is NULL. */
extern bool grnnd_attr_key(const GrnndAttrs *attrs, uint32 i, const uint8 *values, int64 *key);
/*
 * Number of a column's values to which its book is fitted, at most.  Half and twice change the
 * visits of 20,000 sentences and image patches by 3% at most, at the same recall.
 */
#define GRNND_BOOK_ROWS 30000

/*
 * Returns the rank of a key, or of NULL, by the column's book.  Lists of rows use ranks
 * (lists.c), so ranks are on disk.  Ranks order as keys do if grnnd_is_ranked(); otherwise
 * ranks are hashes of keys.
 */
extern uint32 grnnd_key_rank(const GrnSigBook *book, bool isnull, int64 key);
/* Returns the rank of column i of a TID's values. */
extern uint32 grnnd_attr_rank(const GrnndAttrs *attrs, const GrnSigBook *books, uint32 i,
							  const uint8 *values);
static inline bool
grnnd_is_ranked(const GrnSigBook *book)
{
	return (book->ordered == GRN_BOOK_ORDERED || book->ordered == GRN_BOOK_RANKS) && book->count > 0;
}

/* Writes the signature of a TID's values, one byte for each column. */
extern void grnnd_sign(const GrnndAttrs *attrs, const GrnSigBook *books, const uint8 *values,
					   uint8 *sig);

/* ---- element.c ---- */

#define GRNND_CLASSES 65536
/*
 * Rows with more elements are in one list, the list of GRNND_MANY_RANK.  10,000 sentences, 24
 * elements of 256 a row, a filter on one: 451 and 406 pages at ef 40 and 100, with half 452 and 489
 * by an index 5% smaller, the same with twice.
 */
#define GRNND_MOST_ELEMENTS 32
#define GRNND_MANY_RANK 0

/* The elements of an array, without NULL elements.  The struct may be at any address. */
typedef struct GrnndElements
{
	uint16		n;				/* GRNND_MOST_ELEMENTS + 1: more elements, which are not kept */
	uint16		classes[GRNND_MOST_ELEMENTS];	/* [n] ascending, without repetition */
} GrnndElements;

/* Returns the classes of an array's elements, palloc'd, ascending, distinct, and its key. */
extern uint16 *grnnd_element_classes(const GrnndAttr *attr, Datum array, uint32 *nclasses,
									 int64 *key);
/* Writes the elements of an index row's arrays to elements [attrs->element_bytes]. */
extern void grnnd_form_elements(const GrnndAttrs *attrs, const Datum *values, const bool *isnull,
								uint8 *elements);
/* Add the elements of one array, or mark that the row has more than GRNND_MOST_ELEMENTS. */
extern void grnnd_add_elements(const GrnndAttr *attr, Datum array, uint8 *elements);
extern void grnnd_set_many_elements(const GrnndAttr *attr, uint8 *elements);
/* Returns the rank of a class in *rank.  Returns false if the class has no list. */
extern bool grnnd_class_rank(const GrnSigBook *book, uint16 class, uint32 *rank);
/*
 * Writes the ranks of the lists that a row is in by its value of a column.  Returns their
 * number, at most GRNND_MOST_ELEMENTS.  elements may be NULL: the lists of an array's elements
 * are then left out.
 */
extern uint32 grnnd_list_ranks(const GrnndAttrs *attrs, const GrnSigBook *books, uint32 column,
							   const uint8 *values, const uint8 *elements, uint32 *ranks);
/*
 * Tells which lists a row may be in if the row's elements are unknown.  0: the row can only be
 * in the list of *rank.  Otherwise returns the bits of an array's elements, which exclude the
 * lists of some ranks (grnnd_bits_allow()).
 */
extern uint64 grnnd_listed_bits(const GrnndAttrs *attrs, const GrnSigBook *books, uint32 column,
								const uint8 *values, uint32 *rank);
extern bool grnnd_bits_allow(uint64 bits, uint32 rank);
/* Adds a row's elements to counts [GRNND_CLASSES]. */
extern void grnnd_count_elements(const GrnndAttr *attr, const uint8 *elements, uint32 *counts);
/*
 * grnnd_keep_elements() drops the elements without a list.  grnnd_listed_classes() computes
 * listed [GRNND_CLASSES], true for classes with a list.
 */
extern void grnnd_listed_classes(const GrnSigBook *book, bool *listed);
extern void grnnd_keep_elements(const GrnndAttr *attr, const bool *listed, uint8 *elements);
/*
 * Returns the most rows that the lists of an array column have, for a table of `rows` rows: the
 * column makes the index at most 10% larger, or has one list row for each row of the table.  A
 * record of a list takes as many bytes as a node's record.  20,000 sentences, image patches and
 * SIFT rows with three elements of 50 each, an element of a fifth of the rows, recall at ef 40:
 * half makes the index 1 to 1.5% smaller, takes 1.4 to 1.8 times the visits and twice the time,
 * and loses .006 to .01.
 */
#define GRNND_ELEMENT_LISTS 0.09
static inline double
grnnd_most_listed(const GrnLayout *l, double rows)
{
	return rows * Max(GRNND_ELEMENT_LISTS * grn_list_rows(l), 1);
}

/* Fits the book of an array column to the counts of the classes among `rows` rows. */
extern void grnnd_fit_elements(GrnSigBook *book, const GrnLayout *l, const uint32 *counts, uint64 rows);

/* ---- list_make.c ---- */

/* What the book of a column is fitted to; all zeroes at first. */
typedef struct GrnndBookSample
{
	uint64		rows;
	uint32		nkeys;
	int64		keys[GRNND_BOOK_ROWS];	/* values, as many as there is room for, of a column of no
										 * arrays */
	uint32		elements[GRNND_CLASSES];	/* number of rows with an element of each class */
} GrnndBookSample;

/* Takes a row.  elements may be NULL if they are not known. */
extern void grnnd_sample_row(const GrnndAttrs *attrs, uint32 column, const uint8 *values, const uint8 *elements,
							 GrnndBookSample *s);
/*
 * Fits the book of a column.  ranks: signatures exist and never change, so a book on which they
 * depend stays, and another one of values serves ranks alone.
 */
extern void grnnd_fit_book(const GrnndAttr *attr, const GrnLayout *l, GrnndBookSample *s, bool ranks, GrnSigBook *book);

/* The ranks of a row of a node by a column. */
typedef struct GrnndRowRanks
{
	uint32		n;				/* before a node's first row: 0 */
	uint32		ranks[GRNND_MOST_ELEMENTS];
} GrnndRowRanks;

/*
 * Replaces r by the ranks of the node's next row (grnnd_list_ranks()).  Returns false if they are
 * the same, as of most rows of a node.  A node that is in a list twice does no harm.
 */
extern bool grnnd_next_ranks(const GrnndAttrs *attrs, const GrnSigBook *books, uint32 column,
							 const uint8 *values, const uint8 *elements, GrnndRowRanks *r);

/* ---- filter.c ---- */

/* The conditions of a scan on filter columns. */
typedef struct GrnndFilter
{
	GrnFilter	base;
	bool		nothing;		/* no row passes */
	bool		recheck;		/* rows that pass must be tested again by the executor */
	const GrnndAttrs *attrs;
	const GrnSigBook *books;	/* the books that grnnd_make_filter() was given */
	struct GrnndTest *tests;	/* [ntests] a row must pass all of them */
	uint32		ntests;
} GrnndFilter;

/*
 * Makes a filter of scan keys, palloc'd.  Returns NULL if no key is on a filter column and all
 * rows pass.  books: the books of the index's signatures, or NULL.  attrs and books are not
 * copied.
 */
extern GrnndFilter *grnnd_make_filter(const GrnndAttrs *attrs, const GrnSigBook *books,
									  const ScanKeyData *keys, int nkeys);

/* The ranks from least to most. */
typedef struct GrnndRanks
{
	uint32		least;
	uint32		most;
} GrnndRanks;

/*
 * Returns the number of choices of lists for a test.  A row whose array contains several
 * elements is in the list of each element, so any of these lists serves.
 */
extern uint32 grnnd_filter_choices(const GrnndFilter *filter, uint32 i);
/*
 * Writes the ranges of ranks that test i allows (for a range: all range tests of the column
 * together), ascending and disjoint, and the column.  Returns their number, at most `most`.
 * Returns 0 if there are more, or if the kind of test allows no ranks, or if an element has no
 * list.
 */
extern uint32 grnnd_filter_ranks(const GrnndFilter *filter, uint32 i, uint32 choice, uint32 *column,
								 GrnndRanks *ranks, uint32 most);
/*
 * Whether the ranks from grnnd_filter_ranks() exclude all rows that signatures of the column
 * exclude.  False for arrays, whose signature also has the remaining elements, and if the
 * column has a test that is not a range beside test i.
 */
extern bool grnnd_ranks_cover(const GrnndFilter *filter, uint32 i);

#endif							/* GRNND_ATTRIBUTE_H */
