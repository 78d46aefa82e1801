/*
 * attribute.h - filter columns: the key columns of an index behind its vector.
 *
 * Beside each heap TID a record keeps the values of these columns: a byte for each eight
 * columns whose bits say which values are NULL, and then the values, each in the width of its
 * column, without alignment.  All that is tested is a value's key, 64 bits that are in the
 * order of the values or, of a hashed column, their hash.  The key of an array is a set of bits, in
 * which each element sets one by its hash.  Where keys are not exact, different values may have
 * the same key, and the executor tests rows again.
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
	int16		length;
	bool		by_value;
	char		align;
};

/* All filter columns of an index. */
typedef struct GrnndAttrs
{
	uint32		n;
	uint32		bytes;			/* of a TID's values, <= GRN_MAX_ATTR_BYTES; 0 where n is 0 */
	GrnndAttr	attr[FLEXIBLE_ARRAY_MEMBER];
} GrnndAttrs;

/* What the metapage keeps of one, so that an index is not read by another operator class. */
typedef struct GrnndColumn
{
	uint32		type;			/* 0: GrnndAttr.input */
	uint32		collation;		/* 4 */
	uint8		kind;			/* 8: GrnndAttrKind */
	uint8		width;			/* 9 */
	uint8		exact;			/* 10 */
	uint8		sig_bytes;		/* 11: of a signature, 0 or 1 */
	uint32		unused;			/* 12: 0 */
} GrnndColumn;

StaticAssertDecl(sizeof(GrnndColumn) == 16, "GrnndColumn is on disk");

/* The most filter columns: PostgreSQL's keys but for the vector. */
#define GRNND_MAX_ATTRS (INDEX_MAX_KEYS - 1)

/* ---- attribute.c ---- */

/*
 * The filter columns of an index, palloc'd.  Errors: 0A000 for a second vector, 42883 where a
 * type has no hash function.
 */
extern GrnndAttrs *grnnd_attrs(Relation index);
static inline Size
grnnd_attrs_bytes(const GrnndAttrs *attrs)
{
	return offsetof(GrnndAttrs, attr) + attrs->n * sizeof(GrnndAttr);
}

/* Whether conditions on a column of an SQL type can be of that strategy. */
extern bool grnnd_attr_answers(Oid type, int strategy);
/* The keys of an array's elements, each a bit, palloc'd; NULL elements are left out. */
extern int64 *grnnd_element_keys(const GrnndAttr *attr, Datum array, uint32 *nkeys);
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
	return book->ordered && book->count > 0;
}

/* Writes the signature of a TID's values, a byte a column. */
extern void grnnd_sign(const GrnndAttrs *attrs, const GrnSigBook *books, const uint8 *values,
					   uint8 *sig);

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

/*
 * The ranks of the values that test i allows, or all tests of ranges of its column, ascending and
 * apart; and the column.  Returns how many, at most `most`; 0 where there are more, or the
 * test is of another kind.
 */
extern uint32 grnnd_filter_ranks(const GrnndFilter *filter, uint32 i, uint32 *column,
								 GrnndRanks *ranks, uint32 most);

#endif							/* GRNND_ATTRIBUTE_H */
