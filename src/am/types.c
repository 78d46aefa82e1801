/*
 * types.c - the column types that can be indexed, as support function 1 of an
 * operator class describes them: for now pgvector's vector.
 */
#include "grnnd.h"

#include <math.h>

#include "fmgr.h"
#include "vector.h"

static int
vector_dim(Datum value)
{
	return ((const Vector *) DatumGetPointer(value))->dim;
}

static bool
vector_load(Datum value, int dim, float *out)
{
	const Vector *v = (const Vector *) DatumGetPointer(value);

	memcpy(out, v->x, (Size) dim * sizeof(float));
	return true;
}

static bool
vector_load_normalised(Datum value, int dim, float *out)
{
	double		norm = 0;

	vector_load(value, dim, out);
	for (int i = 0; i < dim; i++)
		norm += (double) out[i] * out[i];
	if (norm == 0)
		return false;
	norm = sqrt(norm);
	for (int i = 0; i < dim; i++)
		out[i] = (float) (out[i] / norm);
	return true;
}

static const GrnndType vector_l2 = {
	"vector", GRN_L2, VECTOR_MAX_DIM, vector_dim, vector_load
};
static const GrnndType vector_ip = {
	"vector", GRN_IP, VECTOR_MAX_DIM, vector_dim, vector_load
};
static const GrnndType vector_cosine = {
	"vector", GRN_COSINE, VECTOR_MAX_DIM, vector_dim, vector_load_normalised
};

PG_FUNCTION_INFO_V1(grnnd_vector_l2);
Datum
grnnd_vector_l2(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(&vector_l2);
}

PG_FUNCTION_INFO_V1(grnnd_vector_ip);
Datum
grnnd_vector_ip(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(&vector_ip);
}

PG_FUNCTION_INFO_V1(grnnd_vector_cosine);
Datum
grnnd_vector_cosine(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(&vector_cosine);
}
