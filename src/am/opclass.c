/*
 * opclass.c - an index's operator class: what it says of the column, and the column's
 * values in the form in which it compares them.
 */
#include "am/opclass.h"

#include <float.h>
#include <math.h>

#include "access/genam.h"
#include "fmgr.h"
#include "utils/rel.h"


GrnndKey
grnnd_key(Relation index)
{
	GrnndKey	key = {NULL, NULL};
	const char *problem = NULL;

	/* CREATE OPERATOR CLASS lets through what amvalidate() would report */
	for (int number = 1; number <= GRNND_NUM_SUPPORT && problem == NULL; number++)
		problem = grnnd_support_problem(index_getprocid(index, 1, number), number,
										index->rd_opcintype[0], &key);
	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
				 errmsg("operator class of index \"%s\" %s",
						RelationGetRelationName(index), problem),
				 errhint("amvalidate() checks an operator class.")));
	return key;
}

/*
 * Largest squared length: distances of two such vectors, (|x| + |y|)^2 at most,
 * cannot overflow either.
 */
#define MAX_SQUARED_LENGTH (FLT_MAX / 4)

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
	bool		indexed;

	if (value_dim != dim)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("the vector has %d dimensions where %d are expected",
						value_dim, dim)));
	key->type->load(plain, dim, grn_form_begin(form, out));
	indexed = !key->metric->normalised || grn_form_normalise(form, out, dim);
	if (plain != value)
		pfree(DatumGetPointer(plain));
	/* not "larger than": so it catches NaN */
	if (!(grn_form_norm2(form, out, dim) <= MAX_SQUARED_LENGTH))
		refuse_vector(form, out, dim);
	return indexed;
}

bool
grnnd_form_vector(const GrnndKey *key, int dim, Datum value, float *out, void **row)
{
	GrnForm		form = key->type->form;
	void	   *stored = palloc(grn_form_bytes(form, dim));
	bool		indexed = grnnd_form_row(key, dim, value, stored);

	grn_form_load(form, stored, dim, out);
	if (row != NULL)
		*row = stored;
	else
		pfree(stored);
	return indexed;
}
