/*
 * halfvec.c - pgvector's type halfvec: binary16.
 */
#include "am/index/opclass.h"

#include "fmgr.h"
#include "vector.h"
#include "halfvec.h"

static int
halfvec_dim(Datum value)
{
	return ((const HalfVector *) DatumGetPointer(value))->dim;
}

static void
halfvec_load(Datum value, int dim, void *out)
{
	memcpy(out, ((const HalfVector *) DatumGetPointer(value))->x, (Size) dim * sizeof(half));
}

static const GrnndType halfvec = {
	.name = "halfvec",
	.max_dim = HALFVEC_MAX_DIM,
	.dim = halfvec_dim,
	.form = GRN_FORM_F16,
	.load = halfvec_load
};

PG_FUNCTION_INFO_V1(grnnd_internal_type_halfvec);
Datum
grnnd_internal_type_halfvec(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(&halfvec);
}
