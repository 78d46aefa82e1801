/*
 * metrics.c - the metrics as operator classes name them, by support function 2.
 */
#include "am/opclass.h"

#include "fmgr.h"

PG_FUNCTION_INFO_V1(grnnd_metric_l2);
Datum
grnnd_metric_l2(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(grn_metric(GRN_L2));
}

PG_FUNCTION_INFO_V1(grnnd_metric_ip);
Datum
grnnd_metric_ip(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(grn_metric(GRN_IP));
}

PG_FUNCTION_INFO_V1(grnnd_metric_hamming);
Datum
grnnd_metric_hamming(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(grn_metric(GRN_HAMMING));
}

PG_FUNCTION_INFO_V1(grnnd_metric_cosine);
Datum
grnnd_metric_cosine(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(grn_metric(GRN_COSINE));
}

PG_FUNCTION_INFO_V1(grnnd_metric_l1);
Datum
grnnd_metric_l1(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(grn_metric(GRN_L1));
}

PG_FUNCTION_INFO_V1(grnnd_metric_jaccard);
Datum
grnnd_metric_jaccard(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(grn_metric(GRN_JACCARD));
}
