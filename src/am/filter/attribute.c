/*
 * attribute.c - the types of filter columns: keys and bytes of their values.
 */
#include "am/filter/attribute.h"

#include <math.h>

#include "access/genam.h"
#include "access/stratnum.h"
#include "catalog/pg_operator_d.h"
#include "catalog/pg_type_d.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

#if PG_VERSION_NUM >= 190000
#include "nodes/miscnodes.h"
#endif

#include "am/index/opclass.h"

/* ---- keys ---- */

static GRNND_NORETURN void
unknown_type(Oid type)
{
	elog(ERROR, "a condition on a grnnd index compares with a value of type %u", type);
}

static int64
integer_key(const GrnndAttr *attr, Datum value, Oid type)
{
	switch (type)
	{
		case INT2OID:
			return DatumGetInt16(value);
		case INT4OID:
			return DatumGetInt32(value);
		case INT8OID:
			return DatumGetInt64(value);
		default:
			unknown_type(type);
	}
}

static int64
bool_key(const GrnndAttr *attr, Datum value, Oid type)
{
	return DatumGetBool(value);
}

/* Keys order as numbers do: -0 equals 0, and NaN is the largest, as in PostgreSQL. */
static int64
double_key(double x)
{
	int64		bits;

	if (isnan(x))
		return PG_INT64_MAX;
	if (x == 0)
		return 0;
	memcpy(&bits, &x, sizeof(bits));
	return bits < 0 ? PG_INT64_MIN - bits : bits;
}

static int64
float_key(const GrnndAttr *attr, Datum value, Oid type)
{
	switch (type)
	{
		case FLOAT4OID:
			return double_key(DatumGetFloat4(value));
		case FLOAT8OID:
			return double_key(DatumGetFloat8(value));
		default:
			unknown_type(type);
	}
}

/* The number is rounded to a double.  The order is kept, except that some numbers become equal. */
static int64
numeric_key(const GrnndAttr *attr, Datum value, Oid type)
{
	return double_key(DatumGetFloat8(DirectFunctionCall1(numeric_float8_no_overflow, value)));
}

static int64
date_key(const GrnndAttr *attr, Datum value, Oid type)
{
	return DatumGetDateADT(value);
}

/*
 * Returns the key of a timestamp, or of a date as the comparison operators convert dates: a
 * date beyond all timestamps is next to infinity, the largest or the least key.
 */
static int64
timestamp_key(const GrnndAttr *attr, Datum value, Oid type)
{
	int			overflow = 0;
	int64		key;

	if (type != DATEOID)
		return DatumGetTimestamp(value);
#if PG_VERSION_NUM >= 190000
	{
		ErrorSaveContext beyond = {T_ErrorSaveContext};

		key = attr->input == TIMESTAMPTZOID
			? date2timestamptz_safe(DatumGetDateADT(value), (Node *) &beyond)
			: date2timestamp_safe(DatumGetDateADT(value), (Node *) &beyond);
		if (beyond.error_occurred)
		{
			overflow = DatumGetDateADT(value) > 0 ? 1 : -1;
			key = overflow > 0 ? DT_NOEND : DT_NOBEGIN;
		}
	}
#else
	key = attr->input == TIMESTAMPTZOID
		? date2timestamptz_opt_overflow(DatumGetDateADT(value), &overflow)
		: date2timestamp_opt_overflow(DatumGetDateADT(value), &overflow);
#endif
	return key - overflow;
}

static int64
enum_key(const GrnndAttr *attr, Datum value, Oid type)
{
	return (int32) DatumGetObjectId(value);
}

static int64
hash_key(const GrnndAttr *attr, Datum value, Oid type)
{
	return (int32) DatumGetUInt32(FunctionCall1Coll(attr->hash, attr->collation, value));
}

/* Each element but NULL sets the bit that its hash chooses. */
static int64
array_key(const GrnndAttr *attr, Datum array, Oid type)
{
	ArrayType  *elements = DatumGetArrayTypeP(array);
	Datum	   *values;
	bool	   *isnull;
	uint64		bits = 0;
	int			n;

	deconstruct_array(elements, ARR_ELEMTYPE(elements), attr->length, attr->by_value,
					  attr->align, &values, &isnull, &n);
	for (int i = 0; i < n; i++)
		if (!isnull[i])
			bits |= UINT64CONST(1) << DatumGetUInt32(FunctionCall1Coll(attr->hash, attr->collation,
																	   values[i])) % 64;
	pfree(values);
	pfree(isnull);
	return (int64) bits;
}

/* ---- types ---- */

static const GrnndAttrType attr_types[] = {
	{BOOLOID, GRNND_ATTR_ORDER, 1, true, false, bool_key},
	{INT2OID, GRNND_ATTR_ORDER, 2, true, false, integer_key},
	{INT4OID, GRNND_ATTR_ORDER, 4, true, false, integer_key},
	{INT8OID, GRNND_ATTR_ORDER, 8, true, false, integer_key},
	{FLOAT4OID, GRNND_ATTR_ORDER, 4, true, true, float_key},
	{FLOAT8OID, GRNND_ATTR_ORDER, 8, true, false, float_key},
	{NUMERICOID, GRNND_ATTR_ORDER, 8, false, false, numeric_key},
	{DATEOID, GRNND_ATTR_ORDER, 4, true, false, date_key},
	{TIMESTAMPOID, GRNND_ATTR_ORDER, 8, true, false, timestamp_key},
	{TIMESTAMPTZOID, GRNND_ATTR_ORDER, 8, true, false, timestamp_key},
	{ANYENUMOID, GRNND_ATTR_HASH, 4, true, false, enum_key},
	{ANYARRAYOID, GRNND_ATTR_ARRAY, 8, false, false, array_key},
	{InvalidOid, GRNND_ATTR_HASH, 4, false, false, hash_key}
};

static const GrnndAttrType *
attr_type(Oid type)
{
	int			i = 0;

	while (OidIsValid(attr_types[i].type) && attr_types[i].type != type)
		i++;
	return &attr_types[i];
}

/* Whether keys of values of both types compare as the values do. */
static bool
keys_compare(Oid type, Oid other)
{
	const GrnndAttrType *t = attr_type(type);

	if (t->key == integer_key || t->key == float_key)
		return attr_type(other)->key == t->key;
	return other == type || (t->key == timestamp_key && other == DATEOID);
}

bool
grnnd_attr_answers(Oid type, Oid other, int strategy)
{
	if (!keys_compare(type, other))
		return false;
	switch (attr_type(type)->kind)
	{
		case GRNND_ATTR_HASH:
			return strategy == GRNND_EQUAL_STRATEGY;
		case GRNND_ATTR_ORDER:
			return strategy >= GRNND_LESS_STRATEGY && strategy <= GRNND_GREATER_STRATEGY;
		case GRNND_ATTR_ARRAY:
			return strategy == GRNND_OVERLAP_STRATEGY || strategy == GRNND_CONTAINS_STRATEGY;
	}
	return false;
}

/*
 * Strategies 2 to 6 are the strategies of btree families, plus 1.  A type without an order has
 * the equality operator of its hash family, whose hash function makes the keys.
 */
bool
grnnd_attr_is_operator(Oid op, Oid type, Oid other, int strategy)
{
	TypeCacheEntry *entry = lookup_type_cache(type, TYPECACHE_BTREE_OPFAMILY | TYPECACHE_HASH_OPFAMILY);

	if (attr_type(type)->kind == GRNND_ATTR_ARRAY)
		return op == (strategy == GRNND_OVERLAP_STRATEGY ? OID_ARRAY_OVERLAP_OP : OID_ARRAY_CONTAINS_OP);
	if (OidIsValid(entry->btree_opf) &&
		get_opfamily_member(entry->btree_opf, type, other, (int16) (strategy - 1)) == op)
		return true;
	return strategy == GRNND_EQUAL_STRATEGY && OidIsValid(entry->hash_opf) &&
		get_opfamily_member(entry->hash_opf, type, other, HTEqualStrategyNumber) == op;
}

/* ---- columns ---- */

/* Returns the hash function of a column's type or array elements.  Error: 42883 if none. */
static FmgrInfo *
hash_function(const GrnndAttrSource *source, GrnndAttr *attr)
{
	Oid			type = attr->input;
	TypeCacheEntry *entry;

	if (IsPolymorphicType(type))
		type = getBaseType(source->type);
	if (attr->type->kind == GRNND_ATTR_ARRAY)
	{
		type = get_element_type(type);
		get_typlenbyvalalign(type, &attr->length, &attr->by_value, &attr->align);
	}
	entry = lookup_type_cache(type, TYPECACHE_HASH_PROC_FINFO);
	if (!OidIsValid(entry->hash_proc))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("could not identify a hash function for type %s",
						format_type_be(type)),
				 errhint("Leave the column out of the index. Conditions on the column still work, as a filter.")));
	return &entry->hash_proc_finfo;
}

GrnndAttrs *
grnnd_make_attrs(const GrnndAttrSource *sources, uint32 n)
{
	GrnndAttrs *attrs = palloc0(offsetof(GrnndAttrs, attr) + n * sizeof(GrnndAttr));

	attrs->n = n;
	attrs->bytes = (n + 7) / 8;
	for (uint32 i = 0; i < n; i++)
	{
		GrnndAttr  *a = &attrs->attr[i];

		a->input = sources[i].input;
		a->collation = sources[i].collation;
		a->type = attr_type(a->input);
		if (a->type->key == hash_key || a->type->kind == GRNND_ATTR_ARRAY)
			a->hash = hash_function(&sources[i], a);
		a->offset = (uint16) attrs->bytes;
		attrs->bytes += a->type->width;
	}
	return attrs;
}

GrnndAttrs *
grnnd_attrs(Relation index)
{
	uint32		n = (uint32) IndexRelationGetNumberOfKeyAttributes(index) - 1;
	GrnndAttrSource sources[GRNND_MAX_ATTRS];

	for (uint32 i = 0; i < n; i++)
	{
		if (OidIsValid(index_getprocid(index, i + 2, GRNND_SUPPORT_TYPE)))
		{
			/* reports a first column of another type, which needs another hint */
			grnnd_key(index);
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("column %u of index \"%s\" is a vector", i + 2,
							RelationGetRelationName(index)),
					 errhint("Only the first column of a grnnd index can be a vector. Create an index for each vector column.")));
		}
		sources[i] = (GrnndAttrSource) {
										.input = index->rd_opcintype[i + 1],
										.type = TupleDescAttr(RelationGetDescr(index), i + 1)->atttypid,
										.collation = index->rd_indcollation[i + 1]
			};
	}
	return grnnd_make_attrs(sources, n);
}

void
grnnd_describe_attr(const GrnndAttr *attr, uint32 sig_bytes, GrnndColumn *column)
{
	memset(column, 0, sizeof(*column));
	column->type = attr->input;
	column->collation = attr->collation;
	column->kind = (uint8) attr->type->kind;
	column->width = attr->type->width;
	column->exact = attr->type->exact;
	column->sig_bytes = (uint8) sig_bytes;
}

/* ---- bytes ---- */

/* Converts a float's key by way of the double back to the float. */
static float
key_to_single(int64 key)
{
	int64		bits = key < 0 ? PG_INT64_MIN - key : key;
	double		x;

	memcpy(&x, &bits, sizeof(x));
	return (float) x;
}

static void
store_key(const GrnndAttr *attr, int64 key, uint8 *out)
{
	uint8		x1 = (uint8) key;
	int16		x2 = (int16) key;
	int32		x4 = (int32) key;
	float		single;

	switch (attr->type->width)
	{
		case 1:
			*out = x1;
			break;
		case 2:
			memcpy(out, &x2, sizeof(x2));
			break;
		case 4:
			if (attr->type->single)
			{
				single = key_to_single(key);
				memcpy(&x4, &single, sizeof(x4));
			}
			memcpy(out, &x4, sizeof(x4));
			break;
		default:
			memcpy(out, &key, sizeof(key));
	}
}

static int64
load_key(const GrnndAttr *attr, const uint8 *bytes)
{
	int16		x2;
	int32		x4;
	int64		x8;
	float		single;

	switch (attr->type->width)
	{
		case 1:
			return *bytes;
		case 2:
			memcpy(&x2, bytes, sizeof(x2));
			return x2;
		case 4:
			memcpy(&x4, bytes, sizeof(x4));
			if (!attr->type->single)
				return x4;
			memcpy(&single, &x4, sizeof(single));
			return double_key(single);
		default:
			memcpy(&x8, bytes, sizeof(x8));
			return x8;
	}
}

void
grnnd_form_attrs(const GrnndAttrs *attrs, const Datum *values, const bool *isnull, uint8 *out)
{
	if (attrs->n == 0)
		return;
	memset(out, 0, attrs->bytes);
	for (uint32 i = 0; i < attrs->n; i++)
	{
		const GrnndAttr *a = &attrs->attr[i];

		if (isnull[i + 1])
			out[i / 8] |= (uint8) (1 << i % 8);
		else
			store_key(a, a->type->key(a, values[i + 1], a->input), out + a->offset);
	}
}

bool
grnnd_attr_key(const GrnndAttrs *attrs, uint32 i, const uint8 *values, int64 *key)
{
	if (values[i / 8] >> i % 8 & 1)
		return false;
	*key = load_key(&attrs->attr[i], values + attrs->attr[i].offset);
	return true;
}

#define NULL_RANK UINT32_MAX

uint32
grnnd_key_rank(const GrnSigBook *book, bool isnull, int64 key)
{
	uint64		h = (uint64) key * UINT64CONST(0x9E3779B97F4A7C15);

	if (isnull)
		return NULL_RANK;
	if (grnnd_is_ranked(book))
		return grn_sig_rank(book, key);
	h = (h ^ h >> 32) * UINT64CONST(0xD6E8FEB86659FD93);
	return (uint32) (h >> 32);
}

uint32
grnnd_attr_rank(const GrnndAttrs *attrs, const GrnSigBook *books, uint32 i, const uint8 *values)
{
	int64		key = 0;
	bool		there = grnnd_attr_key(attrs, i, values, &key);

	return grnnd_key_rank(&books[i], !there, key);
}

/*
 * Returns the signature of an array: each bit stands for eight bits of the key.  A byte with
 * all bits set says nothing.
 */
static uint8
sign_array(int64 key)
{
	uint8		byte = grn_sig_fold((uint64) key);

	return byte == GRN_SIG_NULL ? GRN_SIG_ANY : byte;
}

void
grnnd_sign(const GrnndAttrs *attrs, const GrnSigBook *books, const uint8 *values, uint8 *sig)
{
	for (uint32 i = 0; i < attrs->n; i++)
	{
		int64		key;

		if (!grnnd_attr_key(attrs, i, values, &key))
			sig[i] = GRN_SIG_NULL;
		else if (attrs->attr[i].type->kind == GRNND_ATTR_ARRAY)
			sig[i] = sign_array(key);
		else
			sig[i] = grn_sig_byte(&books[i], key);
	}
}

/* ---- books ---- */

void
grnnd_sample_row(const GrnndAttrs *attrs, uint32 column, const uint8 *values, GrnndBookSample *s)
{
	s->nkeys += s->nkeys < GRNND_BOOK_ROWS && grnnd_attr_key(attrs, column, values, &s->keys[s->nkeys]);
}

void
grnnd_fit_book(const GrnndAttr *attr, GrnndBookSample *s, bool ranks, GrnSigBook *book)
{
	bool		ordered = attr->type->kind == GRNND_ATTR_ORDER;

	if (!grnnd_has_list(attr))
		return;
	if (!ranks || (ordered && !(book->ordered == GRN_BOOK_ORDERED && book->count > 0)))
	{
		grn_sig_fit(book, ordered, s->keys, s->nkeys);
		if (ranks)
			book->ordered = GRN_BOOK_RANKS;
	}
}
