/*
 * vector.c - pgvector's type vector: 32-bit floats.
 */
#include "am/index/opclass.h"

#include "fmgr.h"
#include "vector.h"

static int
vector_dim(Datum value)
{
	return ((const Vector *) DatumGetPointer(value))->dim;
}

static void
vector_load(Datum value, int dim, void *out)
{
	memcpy(out, ((const Vector *) DatumGetPointer(value))->x, (Size) dim * sizeof(float));
}

static const GrnndType vector = {
	.name = "vector",
	.max_dim = VECTOR_MAX_DIM,
	.dim = vector_dim,
	.form = GRN_FORM_F32,
	.load = vector_load
};

PG_FUNCTION_INFO_V1(grnnd_internal_type_vector);
Datum
grnnd_internal_type_vector(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(&vector);
}
