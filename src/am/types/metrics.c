/*
 * metrics.c - support function 2 of operator classes: for each entry of GRN_METRICS a function
 * grnnd_internal_metric_name() that returns the entry.
 */
#include "am/index/opclass.h"

#include "fmgr.h"

#define SUPPORT_FUNCTION(NAME, number, name) \
	PG_FUNCTION_INFO_V1(grnnd_internal_metric_##name); \
	Datum \
	grnnd_internal_metric_##name(PG_FUNCTION_ARGS) \
	{ \
		PG_RETURN_POINTER(grn_metric(GRN_##NAME)); \
	}

GRN_METRICS(SUPPORT_FUNCTION)
