/*
 * sparsevec.c - pgvector's type sparsevec: up to 16,000 non-zero elements of any number of
 * dimensions.
 *
 * A column of few dimensions has rows of numbers, as a column of type vector.  Otherwise records
 * keep the elements themselves (space/sparse.c), in a number of words that the index has chosen by
 * its rows.
 */
#include "am/index/opclass.h"

#include "fmgr.h"
#include "sparsevec.h"

/* The most dimensions of rows of numbers. */
#define MOST_NUMBERS 512

static int
sparsevec_dim(Datum value)
{
	return ((const SparseVector *) DatumGetPointer(value))->dim;
}

static void
numbers_load(Datum value, int n, void *stored)
{
	float	   *out = stored;
	SparseVector *v = (SparseVector *) DatumGetPointer(value);
	const float *x = SPARSEVEC_VALUES(v);

	memset(out, 0, n * sizeof(float));
	for (int i = 0; i < v->nnz; i++)
		out[v->indices[i]] = x[i];
}

static const GrnndType numbers = {
	.name = "sparsevec",
	.max_dim = SPARSEVEC_MAX_DIM,
	.dim = sparsevec_dim,
	.form = GRN_FORM_F32,
	.load = numbers_load
};

static void
elements_load(Datum value, int words, void *stored)
{
	SparseVector *v = (SparseVector *) DatumGetPointer(value);

	(void) grn_sparse_store(v->indices, SPARSEVEC_VALUES(v), v->nnz, words, stored);
}

static int
elements_words(Datum value)
{
	const		SparseVector *v = (const SparseVector *) DatumGetPointer(value);

	return (int) grn_sparse_words(v->nnz, v->nnz > 0 ? (uint32) v->indices[v->nnz - 1] + 1 : 0);
}

static const GrnndType elements = {
	.name = "sparsevec",
	.max_dim = SPARSEVEC_MAX_DIM,
	.dim = sparsevec_dim,
	.form = GRN_FORM_SPARSE,
	.load = elements_load,
	.words = elements_words,
	.few = &numbers,
	.few_dim = MOST_NUMBERS
};

PG_FUNCTION_INFO_V1(grnnd_internal_type_sparsevec);
Datum
grnnd_internal_type_sparsevec(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(&elements);
}
