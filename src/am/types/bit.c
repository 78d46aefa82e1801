/*
 * bit.c - PostgreSQL's type bit.  The first bit of a value is the highest bit of its first byte.
 */
#include "am/index/opclass.h"

#include "fmgr.h"
#include "utils/varbit.h"

/* the limit of pgvector's index methods */
#define BIT_MAX_DIM 64000

static int
bit_dim(Datum value)
{
	return VARBITLEN((VarBit *) DatumGetPointer(value));
}

static void
bit_load(Datum value, int dim, void *out)
{
	uint8	   *bytes = out;
	Size		n = ((Size) dim + BITS_PER_BYTE - 1) / BITS_PER_BYTE;

	memcpy(bytes, VARBITS((VarBit *) DatumGetPointer(value)), n);
	/* clear the unused bits behind the last bit */
	if (dim % BITS_PER_BYTE != 0)
		bytes[n - 1] &= (uint8) (BITMASK << (BITS_PER_BYTE - dim % BITS_PER_BYTE));
}

static const GrnndType bit = {
	.name = "bit",
	.max_dim = BIT_MAX_DIM,
	.dim = bit_dim,
	.form = GRN_FORM_BITS,
	.load = bit_load
};

PG_FUNCTION_INFO_V1(grnnd_internal_type_bit);
Datum
grnnd_internal_type_bit(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(&bit);
}
