/*
 * opclass.c - reads an index's operator class, and converts values of its column to stored
 * vectors.
 */
#include "am/index/opclass.h"

#include <float.h>
#include <math.h>

#include "access/genam.h"
#include "access/htup_details.h"
#include "catalog/pg_opclass.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/rel.h"
#include "utils/syscache.h"

/* The dimensions of an index's vector column; -1: not declared. */
static int
column_dim(Relation index)
{
	Form_pg_attribute column = TupleDescAttr(RelationGetDescr(index), 0);
	int32		typmod = column->atttypmod;

	(void) getBaseTypeAndTypmod(column->atttypid, &typmod);
	return typmod;
}

GrnndKey
grnnd_key(Relation index)
{
	GrnndKey	key = {NULL};
	const char *problem = NULL;

	if (!OidIsValid(index_getprocid(index, 1, GRNND_SUPPORT_TYPE)) &&
		!OidIsValid(index_getprocid(index, 1, GRNND_SUPPORT_METRIC)))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("first column of index \"%s\" must be of type vector, halfvec, bit or sparsevec",
						RelationGetRelationName(index)),
				 errhint("Put the vector column first, and filter columns after the vector column.")));
	/* CREATE OPERATOR CLASS accepts faults that amvalidate() would report */
	for (int number = 1; number <= GRNND_NUM_SUPPORT && problem == NULL; number++)
		problem = grnnd_support_problem(index_getprocid(index, 1, number), number,
										index->rd_opcintype[0], &key);
	if (problem == NULL && key.metric->normalized &&
		grn_form(key.type->form)->normalize == NULL)
		problem = psprintf("requires vectors of length 1, but vectors of type %s cannot be normalized",
						   key.type->name);
	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
				 errmsg("operator class of index \"%s\" %s",
						RelationGetRelationName(index), problem),
				 errhint("amvalidate() checks operator classes.")));
	grnnd_key_set_dim(&key, column_dim(index));
	return key;
}

void
grnnd_key_set_dim(GrnndKey *key, int dim)
{
	if (key->type->few != NULL && dim <= key->type->few_dim)
	{
		key->type = key->type->few;
		if (key->metric->of_numbers != 0)
			key->metric = grn_metric(key->metric->of_numbers);
	}
	key->words = GRNND_USUAL_WORDS;
}

/*
 * The operator class TYPE_METRIC_ops in the schema of the default operator class; InvalidOid:
 * none.
 */
static Oid
opclass_of_metric(Oid am, Oid type, Oid default_class, const char *metric)
{
	HeapTuple	tuple = SearchSysCache1(CLAOID, ObjectIdGetDatum(default_class));
	HeapTuple	type_tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	Oid			found = InvalidOid;

	if (HeapTupleIsValid(tuple) && HeapTupleIsValid(type_tuple))
	{
		NameData	name;

		snprintf(NameStr(name), NAMEDATALEN, "%s_%s_ops",
				 NameStr(((Form_pg_type) GETSTRUCT(type_tuple))->typname), metric);
		found = GetSysCacheOid3(CLAAMNAMENSP, Anum_pg_opclass_oid, ObjectIdGetDatum(am),
								NameGetDatum(&name),
								ObjectIdGetDatum(((Form_pg_opclass) GETSTRUCT(tuple))->opcnamespace));
	}
	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	if (HeapTupleIsValid(type_tuple))
		ReleaseSysCache(type_tuple);
	return found;
}

GrnndKey
grnnd_key_by_name(Oid type, text *name, Oid *family)
{
	Oid			am = get_am_oid("grnnd", false);
	Oid			class_oid = GetDefaultOpClass(type, am);
	Oid			of;
	GrnndKey	key = {NULL};
	const char *problem = NULL;

	if (name != NULL)
	{
		char	   *string = text_to_cstring(name);

		class_oid = opclass_of_metric(am, type, class_oid, string);
		if (!OidIsValid(class_oid))
#if PG_VERSION_NUM >= 160000
			class_oid = get_opclass_oid(am, stringToQualifiedNameList(string, NULL), true);
#else
			class_oid = get_opclass_oid(am, stringToQualifiedNameList(string), true);
#endif
		if (!OidIsValid(class_oid))
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_OBJECT),
					 errmsg("type %s has no metric or operator class \"%s\" for access method grnnd",
							format_type_be(type), string),
					 errhint("Metrics are l2, ip, cosine and l1, and for type bit hamming and jaccard. In psql, \\dAc grnnd lists operator classes.")));
	}
	/* operator classes of filter columns have no support functions */
	if (!OidIsValid(class_oid) || get_opclass_input_type(class_oid) != type ||
		(name == NULL && !OidIsValid(get_opfamily_proc(get_opclass_family(class_oid), type, type,
													   GRNND_SUPPORT_TYPE))))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("type %s does not have this operator class for access method grnnd",
						format_type_be(type)),
				 errhint("In psql, \\dAc grnnd lists operator classes.")));
	of = get_opclass_family(class_oid);
	for (int number = 1; number <= GRNND_NUM_SUPPORT && problem == NULL; number++)
		problem = grnnd_support_problem(get_opfamily_proc(of, type, type, number), number,
										type, &key);
	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
				 errmsg("operator class %s", problem),
				 errhint("amvalidate() checks operator classes.")));
	if (family != NULL)
		*family = of;
	return key;
}

/* Largest squared length, so that (|x| + |y|)^2 of two such vectors cannot overflow. */
#define MAX_SQUARED_LENGTH (FLT_MAX / 4)

/*
 * Raises the error for a vector that is not finite or too long.  dim: 0 for a sparse
 * row, whose type excludes numbers that are not finite.
 */
static GRNND_NORETURN void
refuse_vector(GrnForm form, const void *stored, int dim)
{
	for (int i = 0; i < dim; i++)
	{
		float		x;

		grn_form_piece(form, stored, i, 1, &x);
		if (!isfinite(x))
			ereport(ERROR,
					(errcode(ERRCODE_DATA_EXCEPTION),
					 errmsg("NaN and infinity are not allowed in a vector"),
					 errhint("Distances to such a vector have no order.")));
	}
	ereport(ERROR,
			(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
			 errmsg("the squared length of a vector is out of range"),
			 errhint("Scale the vectors down.")));
}

bool
grnnd_form_row(const GrnndKey *key, int dim, Datum value, void *out)
{
	GrnForm		form = key->type->form;
	Datum		plain = PointerGetDatum(PG_DETOAST_DATUM(value));
	int			value_dim = key->type->dim(plain);
	int			n = grnnd_graph_dim(key, dim);
	bool		indexed;

	if (value_dim != dim)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("expected %d dimensions, not %d", dim, value_dim),
				 errhint("Rows and queries of an index must have the same number of dimensions. Check that both come from the same embedding model.")));
	key->type->load(plain, n, grn_form_begin(form, out));
	indexed = !key->metric->normalized || grn_form_normalize(form, out, n);
	if (plain != value)
		pfree(DatumGetPointer(plain));
	/* the negated test also catches NaN */
	if (!(grn_form_norm2(form, out, n) <= MAX_SQUARED_LENGTH))
		refuse_vector(form, out, grn_form(form)->sparse ? 0 : n);
	return indexed;
}

bool
grnnd_form_vector(const GrnndKey *key, int dim, Datum value, float *out, void **row)
{
	GrnForm		form = key->type->form;
	int			n = grnnd_graph_dim(key, dim);
	void	   *stored = palloc(grn_form_bytes(form, n));
	bool		indexed = grnnd_form_row(key, dim, value, stored);

	if (grn_form(form)->sparse)
		memcpy(out, stored, n * sizeof(float));
	else
		grn_form_load(form, stored, n, out);
	if (row != NULL)
		*row = stored;
	else
		pfree(stored);
	return indexed;
}

float *
grnnd_form_query(const GrnndKey *key, int dim, Datum value)
{
	GrnndKey	whole = *key;
	float	   *q;

	if (key->type->words != NULL)
	{
		Datum		plain = PointerGetDatum(PG_DETOAST_DATUM(value));

		whole.words = key->type->words(plain);
		if (plain != value)
			pfree(DatumGetPointer(plain));
	}
	q = palloc(grnnd_graph_dim(&whole, dim) * sizeof(float));
	return grnnd_form_vector(&whole, dim, value, q, NULL) ? q : NULL;
}
