/*
 * handler.c - the entry points of the library: the access method's handler, and the initialization
 * at load time.
 */
#include "am/callbacks.h"

#include "commands/vacuum.h"
#include "fmgr.h"
#include "utils/guc.h"

#include "am/grnnd.h"
#include "am/index/index.h"
#include "am/index/opclass.h"
#include "am/scan/scan.h"
#include "am/test_point.h"

#ifdef PG_MODULE_MAGIC_EXT
PG_MODULE_MAGIC_EXT(.name = "grnnd", .version = "0.1.0");
#else
PG_MODULE_MAGIC;
#endif

extern PGDLLEXPORT void _PG_init(void);

void
_PG_init(void)
{
	grn_dist_init();
	grnnd_define_settings();
	grnnd_define_test_point();
	grnnd_install_executor_hook();
	grnnd_explain_scans();
	grnnd_install_bitmap_scan();
	MarkGUCPrefixReserved("grnnd");
	grnnd_init_options();
	grnnd_request_query_sample();
}

/* Answers pg_index_column_has_property(..., 'distance_orderable'). */
static bool
grnnd_property(Oid index_oid, int attno, IndexAMProperty prop,
			   const char *propname, bool *res, bool *isnull)
{
	if (prop != AMPROP_DISTANCE_ORDERABLE || attno == 0)
		return false;
	*res = attno == 1;
	return true;
}

PG_FUNCTION_INFO_V1(grnnd_internal_handler);
Datum
grnnd_internal_handler(PG_FUNCTION_ARGS)
{
	/*
	 * The relcache frees the handler's result, so it cannot be a static constant before PostgreSQL
	 * 19.  makeNode() zeroes all fields not set here.
	 */
	IndexAmRoutine *am = makeNode(IndexAmRoutine);

	am->amstrategies = GRNND_NUM_STRATEGIES;
	am->amsupport = GRNND_NUM_SUPPORT;
	am->amcanorderbyop = true;
	am->amcanmulticol = true;
	am->amoptionalkey = true;
	am->amsearcharray = true;
	am->amsearchnulls = true;
	am->amusemaintenanceworkmem = true; /* for each index of a parallel vacuum */
	am->amparallelvacuumoptions = VACUUM_OPTION_PARALLEL_BULKDEL;
	am->amkeytype = InvalidOid;

	am->ambuild = grnnd_build;
	am->ambuildempty = grnnd_buildempty;
	am->aminsert = grnnd_insert;
	am->ambulkdelete = grnnd_bulkdelete;
	am->amvacuumcleanup = grnnd_vacuumcleanup;
	am->amcostestimate = grnnd_costestimate;
	am->amoptions = grnnd_options;
	am->amproperty = grnnd_property;
	am->ambuildphasename = grnnd_buildphasename;
	am->amvalidate = grnnd_validate;
	am->amadjustmembers = grnnd_adjustmembers;
	am->ambeginscan = grnnd_beginscan;
	am->amrescan = grnnd_rescan;
	am->amgettuple = grnnd_gettuple;
	am->amendscan = grnnd_endscan;

	PG_RETURN_POINTER(am);
}
