/*
 * metrics.c - the metrics as operator classes name them, by support function 2: for each of
 * GRN_METRICS a function grnnd_metric_name() that returns its entry.
 */
#include "am/opclass.h"

#include "fmgr.h"

#define SUPPORT_FUNCTION(NAME, number, name) \
	PG_FUNCTION_INFO_V1(grnnd_metric_##name); \
	Datum \
	grnnd_metric_##name(PG_FUNCTION_ARGS) \
	{ \
		PG_RETURN_POINTER(grn_metric(GRN_##NAME)); \
	}

GRN_METRICS(SUPPORT_FUNCTION)
