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

	if (!OidIsValid(index_getprocid(index, 1, GRNND_SUPPORT_TYPE)) &&
		!OidIsValid(index_getprocid(index, 1, GRNND_SUPPORT_METRIC)))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the first column of index \"%s\" is no vector",
						RelationGetRelationName(index)),
				 errhint("A grnnd index begins with a vector, and columns to filter by follow it.")));
	/* CREATE OPERATOR CLASS lets through what amvalidate() would report */
	for (int number = 1; number <= GRNND_NUM_SUPPORT && problem == NULL; number++)
		problem = grnnd_support_problem(index_getprocid(index, 1, number), number,
										index->rd_opcintype[0], &key);
	if (problem == NULL && key.metric->normalised &&
		grn_form(key.type->form)->normalise == NULL)
		problem = psprintf("wants vectors of length 1, which those of type %s cannot be",
						   key.type->name);
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

/* dim: 0 for a stand-in, whose numbers overflow where the row's own do not. */
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

/* The share of its length by which a stand-in may be rounded. */
#define SHORTENED 0.001

/*
 * Rounds a stand-in x [n] to binary16, so that records can keep it in half the space.  What it
 * stands for is farther away than that, unless its numbers are so small or large that
 * binary16 is too coarse: then it stays.
 */
static void
shorten(float *x, int n)
{
	uint16	   *half = palloc(n * sizeof(uint16));
	float	   *rounded = palloc(n * sizeof(float));

	grn_dist->f16_store(x, n, half);
	grn_dist->f16_load(half, n, rounded);
	if (grn_dist->l2_f32(x, rounded, n) <= SHORTENED * SHORTENED * grn_dist->ip_f32(x, x, n))
		memcpy(x, rounded, n * sizeof(float));
	pfree(half);
	pfree(rounded);
}

bool
grnnd_form_row(const GrnndKey *key, int dim, Datum value, void *out)
{
	GrnForm		form = key->type->form;
	Datum		plain = PointerGetDatum(PG_DETOAST_DATUM(value));
	int			value_dim = key->type->dim(plain);
	int			n = grnnd_graph_dim(key->type, dim);
	bool		indexed;

	if (value_dim != dim)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("the vector has %d dimensions where %d are expected",
						value_dim, dim),
				 errhint("The index is of a column or an expression with a fixed number of dimensions.")));
	key->type->load(plain, dim, grn_form_begin(form, out));
	indexed = !key->metric->normalised || grn_form_normalise(form, out, n);
	if (n != dim)
		shorten(out, n);
	if (plain != value)
		pfree(DatumGetPointer(plain));
	/* not "larger than": so it catches NaN */
	if (!(grn_form_norm2(form, out, n) <= MAX_SQUARED_LENGTH))
		refuse_vector(form, out, grnnd_has_stand_ins(key->type) ? 0 : n);
	return indexed;
}

bool
grnnd_form_vector(const GrnndKey *key, int dim, Datum value, float *out, void **row)
{
	GrnForm		form = key->type->form;
	int			n = grnnd_graph_dim(key->type, dim);
	void	   *stored = palloc(grn_form_bytes(form, n));
	bool		indexed = grnnd_form_row(key, dim, value, stored);

	grn_form_load(form, stored, n, out);
	if (row != NULL)
		*row = stored;
	else
		pfree(stored);
	return indexed;
}
