/*
 * attribute.h - filter columns: the key columns of an index behind the vector.
 *
 * Beside each heap TID a record keeps the values of these columns: first a NULL bitmap, one
 * byte for each eight columns, then the values, each in the width of its column, without
 * alignment.  Tests compare only a value's key: 64 bits in the order of the values, or the
 * hash of a value of a hashed column.  The key of an array is a set of bits, in which each
 * element sets one bit by its hash.  If keys are not exact, different values may have equal
 * keys, and the executor tests the rows again.
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
	/* elements of an array: */
	int16		length;
	bool		by_value;
	char		align;
};

/* All filter columns of an index. */
typedef struct GrnndAttrs
{
	uint32		n;
	uint32		bytes;			/* bytes of a TID's values, <= GRN_MAX_ATTR_BYTES; 0 if n is 0 */
	GrnndAttr	attr[FLEXIBLE_ARRAY_MEMBER];
} GrnndAttrs;

/*
 * Has the column a list of rows for each value?  An array has none: a GIN index finds rare
 * elements, and a search finds frequent ones by signatures.
 */
static inline bool
grnnd_has_list(const GrnndAttr *attr)
{
	return attr->type->kind != GRNND_ATTR_ARRAY;
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

/* What the book of a column is fitted to; all zeroes at first. */
typedef struct GrnndBookSample
{
	uint32		nkeys;
	int64		keys[GRNND_BOOK_ROWS];	/* values, as many as there is room for */
} GrnndBookSample;

/* Takes a row. */
extern void grnnd_sample_row(const GrnndAttrs *attrs, uint32 column, const uint8 *values, GrnndBookSample *s);
/*
 * Fits the book of a column.  ranks: signatures exist and never change, so a book on which they
 * depend stays, and another one of values serves ranks alone.
 */
extern void grnnd_fit_book(const GrnndAttr *attr, GrnndBookSample *s, bool ranks, GrnSigBook *book);

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
 * Writes the ranges of ranks that test i allows (for a range: all range tests of the column
 * together), ascending and disjoint, and the column.  Returns their number, at most `most`.
 * Returns 0 if there are more, if the kind of test allows no ranks, or if the column has no lists.
 */
extern uint32 grnnd_filter_ranks(const GrnndFilter *filter, uint32 i, uint32 *column,
								 GrnndRanks *ranks, uint32 most);
/*
 * Whether the ranks from grnnd_filter_ranks() exclude all rows that signatures of the column
 * exclude.  False if the column has a test that is not a range beside test i.
 */
extern bool grnnd_ranks_cover(const GrnndFilter *filter, uint32 i);

#endif							/* GRNND_ATTRIBUTE_H */
