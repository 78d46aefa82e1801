/*
 * check_own.c - compares the vectors in records with the rows of the table, for grnnd_check().
 *
 * Comparing digests is enough for nearly all rows.  Digests of equal vectors may differ, because
 * processors may round differently, and because a record of several rows that are equal by the
 * metric keeps the first row's vector.
 */
#include "am/report/check_impl.h"

#include <float.h>
#include <math.h>

#include "catalog/index.h"
#include "common/hashfn.h"
#include "executor/executor.h"
#include "nodes/execnodes.h"

/*
 * Tolerances for another processor's arithmetic.  LENGTH_TOLERANCE, a share of the vector's
 * length: normalizing and rounding a row rounds each number a few times, by 6e-8 each; 16 times
 * are allowed.  ERROR_TOLERANCE, a share of the error: the error is the root of a sum of at most
 * 16,000 squares, each rounded by 6e-8, in an order that depends on the processor.
 */
#define LENGTH_TOLERANCE (16 * FLT_EPSILON / 2)
#define ERROR_TOLERANCE (GRN_MAX_DIM * FLT_EPSILON / 2)
/*
 * Differences below 4e-23 have squares that underflow in single precision.  16,000 of them are a
 * distance of 5e-21.  The tolerance is larger, because squares near the limit have few digits.
 */
#define LEAST_TOLERANCE 1e-19f

struct GrnndOwn
{
	Relation	index;
	const GrnndIndex *ix;
	float	   *x;				/* [dim] a row, as the metric compares rows */
	void	   *row;			/* the row in the form of the type */
	void	   *vec;			/* [vec_bytes] the row as records store it */
	/* set by the first call of grnnd_own_matches() */
	IndexInfo  *info;
	EState	   *estate;
};

GrnndOwn *
grnnd_own_begin(Relation index, const GrnndIndex *ix)
{
	GrnndOwn   *own = palloc0(sizeof(GrnndOwn));

	own->index = index;
	own->ix = ix;
	own->x = palloc(ix->meta.dim * sizeof(float));
	own->row = palloc(grn_form_bytes(ix->key.type->form, ix->meta.dim));
	own->vec = palloc(ix->layout.vec_bytes);
	return own;
}

void
grnnd_own_end(GrnndOwn *own)
{
	if (own->estate != NULL)
	{
		FreeExecutorState(own->estate);
		own->info->ii_ExpressionsState = NIL;
	}
}

/* Computes own->x and own->row.  Returns false if the row is not indexed. */
static bool
form_row(GrnndOwn *own, Datum value)
{
	const GrnndIndex *ix = own->ix;
	bool		indexed = grnnd_form_row(&ix->key, ix->meta.column_dim, value, own->row);

	grn_form_load(ix->key.type->form, own->row, ix->meta.dim, own->x);
	return indexed;
}

uint64
grnnd_own_digest(GrnndOwn *own, const void *vec, float error)
{
	uint32		bits;
	uint32		h = hash_bytes(vec, (int) own->ix->layout.vec_bytes);

	memcpy(&bits, &error, sizeof(bits));
	return (uint64) (h | 1) << 32 | bits;
}

bool
grnnd_own_wanted(GrnndOwn *own, Datum value, uint64 *digest)
{
	const GrnLayout *l = &own->ix->layout;
	const void *stored = l->form == own->ix->key.type->form ? own->row : NULL;

	if (!form_row(own, value))
		return false;
	*digest = grnnd_own_digest(own, own->vec, grn_own_store(l, own->x, stored, own->vec));
	return true;
}

bool
grnnd_own_matches(GrnndOwn *own, TupleTableSlot *row, const void *vec, float error)
{
	const GrnLayout *l = &own->ix->layout;
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];
	bool		matches;

	if (own->estate == NULL)
	{
		own->info = BuildIndexInfo(own->index);
		own->estate = CreateExecutorState();
	}
	GetPerTupleExprContext(own->estate)->ecxt_scantuple = row;
	FormIndexDatum(own->info, row, own->estate, values, isnull);
	/* the scan of the table has found the row indexed */
	matches = !isnull[0] && form_row(own, values[0]);
	if (matches)
	{
		float		length = sqrtf(grn_dist->ip_f32(own->x, own->x, l->dim));
		float		wanted = grn_own_error(l, own->x, vec);

		matches = fabsf(wanted - error) <=
			ERROR_TOLERANCE * fminf(wanted, error) + LENGTH_TOLERANCE * length + LEAST_TOLERANCE;
	}
	ResetPerTupleExprContext(own->estate);
	return matches;
}
