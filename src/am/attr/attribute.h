/*
 * attribute.h - filter columns: the key columns of an index behind its vector.
 *
 * Beside each heap TID a record keeps the values of these columns: a byte for each eight
 * columns whose bits say which values are NULL, and then the values, each in the width of its
 * column, without alignment.  All that is tested is a value's key, 64 bits that are in the
 * order of the values or, of a hashed column, their hash.  The key of an array is a set of bits, in
 * which each element sets one by its hash.  Where keys are not exact, different values may have
 * the same key, and the executor tests rows again.
 *
 * What of an array decides in which lists a row is (am/lists.h) are its elements' classes.  Records
 * do not keep these; a build carries them behind the values, and others take them from the table.
 */
#ifndef GRNND_ATTRIBUTE_H
#define GRNND_ATTRIBUTE_H

#include "postgres.h"

#include "access/skey.h"
#include "fmgr.h"
#include "utils/relcache.h"

#include "graph/stored/signature.h"

/*
 * Strategies of an operator class for a filter column; 1 is that of distances.  Such a class
 * has no support functions.
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

/* What an index knows of a column's SQL type. */
typedef struct GrnndAttrType
{
	Oid			type;			/* InvalidOid: any other that has a hash function; ANYARRAYOID: any
								 * array whose elements have one */
	GrnndAttrKind kind;
	uint8		width;			/* of a stored value, bytes: 1, 2, 4 or 8 */
	bool		exact;			/* different values have different keys */
	bool		single;			/* stored as a float, its key is that of a double */
	/* the key of a value of SQL type `type`, the column's own or that of an operator's right side */
	int64		(*key) (const GrnndAttr *attr, Datum value, Oid type);
} GrnndAttrType;

struct GrnndAttr
{
	const GrnndAttrType *type;
	Oid			input;			/* SQL type of the operator class */
	Oid			collation;
	FmgrInfo   *hash;			/* of a hashed column, or of an array's elements; else NULL */
	uint16		offset;			/* of the value in a TID's bytes */
	/* of an array's elements */
	uint16		elements;		/* where they begin in GrnndAttrs.element_bytes */
	int16		length;
	bool		by_value;
	char		align;
};

/* All filter columns of an index. */
typedef struct GrnndAttrs
{
	uint32		n;
	uint32		bytes;			/* of a TID's values, <= GRN_MAX_ATTR_BYTES; 0 where n is 0 */
	uint32		element_bytes;	/* of a row's GrnndElements, one for each array; 0: there is none */
	GrnndAttr	attr[FLEXIBLE_ARRAY_MEMBER];
} GrnndAttrs;

/* What a build carries of a row. */
static inline uint32
grnnd_row_bytes(const GrnndAttrs *attrs)
{
	return attrs->bytes + attrs->element_bytes;
}

/* What the metapage keeps of one, so that an index is not read by another operator class. */
typedef struct GrnndColumn
{
	uint32		type;			/* 0: GrnndAttr.input */
	uint32		collation;		/* 4 */
	uint8		kind;			/* 8: GrnndAttrKind */
	uint8		width;			/* 9 */
	uint8		exact;			/* 10 */
	uint8		sig_bytes;		/* 11: of a signature, 0 or 1 */
	uint8		former;			/* 12: 0; earlier versions wrote other numbers, which nobody reads */
	uint8		unused[3];		/* 13: 0 */
} GrnndColumn;

StaticAssertDecl(sizeof(GrnndColumn) == 16 && offsetof(GrnndColumn, former) == 12, "GrnndColumn is on disk");

/* The most filter columns: PostgreSQL's keys but for the vector. */
#define GRNND_MAX_ATTRS (INDEX_MAX_KEYS - 1)

/* ---- attribute.c ---- */

/*
 * The filter columns of an index, palloc'd.  Errors: 0A000 for a second vector, 42883 where a
 * type has no hash function.
 */
extern GrnndAttrs *grnnd_attrs(Relation index);

/* A column that an index has, or is to have. */
typedef struct GrnndAttrSource
{
	Oid			input;			/* SQL type of its operator class, perhaps a polymorphic one, */
	Oid			type;			/* and its own */
	Oid			collation;
} GrnndAttrSource;

/* The same of columns [n] that are no vectors. */
extern GrnndAttrs *grnnd_make_attrs(const GrnndAttrSource *sources, uint32 n);
static inline Size
grnnd_attrs_bytes(const GrnndAttrs *attrs)
{
	return offsetof(GrnndAttrs, attr) + attrs->n * sizeof(GrnndAttr);
}

/* Whether conditions on a column of a type can be of that strategy, with values of the other. */
extern bool grnnd_attr_answers(Oid type, Oid other, int strategy);
/* Whether an operator of these types, which grnnd_attr_answers(), is that strategy. */
extern bool grnnd_attr_is_operator(Oid op, Oid type, Oid other, int strategy);
extern void grnnd_describe_attr(const GrnndAttr *attr, uint32 sig_bytes, GrnndColumn *column);
/* Writes the values of an index row, its vector among them, to out [attrs->bytes]. */
extern void grnnd_form_attrs(const GrnndAttrs *attrs, const Datum *values, const bool *isnull,
							 uint8 *out);
/* The key of column i of a TID's values; false: it is NULL. */
extern bool grnnd_attr_key(const GrnndAttrs *attrs, uint32 i, const uint8 *values, int64 *key);
/*
 * The rank of a key, or of NULL, by its column's book: what lists of rows go by (am/lists.h), so it
 * is on disk.  It is in the order of the keys where grnnd_is_ranked(), else their hash.
 */
extern uint32 grnnd_key_rank(const GrnSigBook *book, bool isnull, int64 key);
/* That of column i of a TID's values. */
extern uint32 grnnd_attr_rank(const GrnndAttrs *attrs, const GrnSigBook *books, uint32 i,
							  const uint8 *values);
static inline bool
grnnd_is_ranked(const GrnSigBook *book)
{
	return (book->ordered == GRN_BOOK_ORDERED || book->ordered == GRN_BOOK_RANKS) && book->count > 0;
}

/* Writes the signature of a TID's values, a byte a column. */
extern void grnnd_sign(const GrnndAttrs *attrs, const GrnSigBook *books, const uint8 *values,
					   uint8 *sig);

/* ---- element.c ---- */

#define GRNND_CLASSES 65536
/* Rows with more elements than this are in one list for all of them. */
#define GRNND_MOST_ELEMENTS 32
#define GRNND_MANY_RANK 0		/* its rank */

/* The elements of an array, NULL ones left out.  It may lie anywhere. */
typedef struct GrnndElements
{
	uint16		n;				/* more than GRNND_MOST_ELEMENTS: more than that, and unknown */
	uint16		classes[GRNND_MOST_ELEMENTS];	/* [n] ascending */
} GrnndElements;

/* The classes of an array's elements, palloc'd, ascending and each once; and its key. */
extern uint16 *grnnd_element_classes(const GrnndAttr *attr, Datum array, uint32 *nclasses,
									 int64 *key);
/* Writes the elements of an index row's arrays to elements [attrs->element_bytes]. */
extern void grnnd_form_elements(const GrnndAttrs *attrs, const Datum *values, const bool *isnull,
								uint8 *elements);
/* Adds those of one array, or writes that there are many. */
extern void grnnd_add_elements(const GrnndAttr *attr, Datum array, uint8 *elements);
extern void grnnd_set_many_elements(const GrnndAttr *attr, uint8 *elements);
/* The rank of a class; false: it has no list. */
extern bool grnnd_class_rank(const GrnSigBook *book, uint16 class, uint32 *rank);
/*
 * The ranks of the lists to which a row belongs by its value of a column.  Returns how many, at
 * most GRNND_MOST_ELEMENTS.  elements may be NULL: then none of an array's elements.
 */
extern uint32 grnnd_list_ranks(const GrnndAttrs *attrs, const GrnSigBook *books, uint32 column,
							   const uint8 *values, const uint8 *elements, uint32 *ranks);
/*
 * What is known of the lists to which a row belongs without its elements.  0: it is in that of
 * *rank alone, if any.  Else the bits of an array's elements, which allow the lists of some ranks.
 */
extern uint64 grnnd_listed_bits(const GrnndAttrs *attrs, const GrnSigBook *books, uint32 column,
								const uint8 *values, uint32 *rank);
extern bool grnnd_bits_allow(uint64 bits, uint32 rank);
/* Adds a row's elements to counts [GRNND_CLASSES]. */
extern void grnnd_count_elements(const GrnndAttr *attr, const uint8 *elements, uint32 *counts);
/* Drops those that have no list; listed: [GRNND_CLASSES] those that have one. */
extern void grnnd_listed_classes(const GrnSigBook *book, bool *listed);
extern void grnnd_keep_elements(const GrnndAttr *attr, const bool *listed, uint8 *elements);
/*
 * Rows that the lists of an array column have at most, of a table of so many: the column makes the
 * index 5% larger at most, or has one row of a list for each row of the table.  A record of a list
 * takes as many bytes as one of a node.
 */
#define GRNND_ELEMENT_LISTS 0.045
static inline double
grnnd_most_listed(const GrnLayout *l, double rows)
{
	return rows * Max(GRNND_ELEMENT_LISTS * grn_list_rows(l), 1);
}

/* Fits the book of an array column to the counts of so many rows. */
extern void grnnd_fit_elements(GrnSigBook *book, const GrnLayout *l, const uint32 *counts, uint64 rows);

/* ---- filter.c ---- */

/* The conditions of a scan on filter columns. */
typedef struct GrnndFilter
{
	GrnFilter	base;
	bool		nothing;		/* no row passes */
	bool		recheck;		/* rows that pass may fail after all */
	const GrnndAttrs *attrs;
	const GrnSigBook *books;	/* as given */
	struct GrnndTest *tests;	/* [ntests], all of which a row has to pass */
	uint32		ntests;
} GrnndFilter;

/*
 * By scan keys; NULL where none of them is on a filter column and all rows pass.  books: of
 * the index's signatures, NULL where it has none.  Palloc'd; attrs and books are used by
 * reference.
 */
extern GrnndFilter *grnnd_make_filter(const GrnndAttrs *attrs, const GrnSigBook *books,
									  const ScanKeyData *keys, int nkeys);

/* Ranks from least to most. */
typedef struct GrnndRanks
{
	uint32		least;
	uint32		most;
} GrnndRanks;

/* How many choices of lists a test has: an array that contains several elements is in each's. */
extern uint32 grnnd_filter_choices(const GrnndFilter *filter, uint32 i);
/*
 * The ranks of the values that test i allows, or all tests of ranges of its column, ascending and
 * apart; and the column.  Returns how many, at most `most`; 0 where there are more, or the
 * test is of another kind, or an element has no list.
 */
extern uint32 grnnd_filter_ranks(const GrnndFilter *filter, uint32 i, uint32 choice, uint32 *column,
								 GrnndRanks *ranks, uint32 most);
/*
 * Do those ranks say all that signatures say of the column?  Not of an array, whose other elements
 * are in its signature, or where another test of the column is no range.
 */
extern bool grnnd_ranks_cover(const GrnndFilter *filter, uint32 i);

#endif							/* GRNND_ATTRIBUTE_H */
