/*
 * handler.c - the access method's handler and its settings.
 */
#include "am/handler.h"

#include <limits.h>

#include "commands/vacuum.h"
#include "fmgr.h"
#include "utils/guc.h"

#include "am/grnnd.h"
#include "am/opclass.h"
#include "am/options.h"
#include "am/scan.h"
#include "am/test_point.h"

#ifdef PG_MODULE_MAGIC_EXT
PG_MODULE_MAGIC_EXT(.name = "grnnd", .version = "0.1.0");
#else
PG_MODULE_MAGIC;
#endif

int			grnnd_ef_search;
double		grnnd_target_recall;
/* Enum settings begin at their defaults, as servers with assertions demand. */
int			grnnd_iterative_scan = GRNND_ITERATIVE_STRICT;
int			grnnd_max_scan_tuples;
double		grnnd_scan_mem_multiplier;
bool		grnnd_use_hnsw_settings;
int			grnnd_build_device = GRN_DEVICE_AUTO;
int			grnnd_build_threads;
char	   *grnnd_gpu_devices;
int			grnnd_gpu_memory_limit;
int			grnnd_build_timeout;
char	   *grnnd_builder_path;
bool		grnnd_background_fit;

static const struct config_enum_entry iterative_names[] = {
	{"off", GRNND_ITERATIVE_OFF, false},
	{"strict_order", GRNND_ITERATIVE_STRICT, false},
	{"relaxed_order", GRNND_ITERATIVE_RELAXED, false},
	{NULL, 0, false}
};

static const struct config_enum_entry device_names[] = {
	{"auto", GRN_DEVICE_AUTO, false},
	{"gpu", GRN_DEVICE_GPU, false},
	{"cpu", GRN_DEVICE_CPU, false},
	{NULL, 0, false}
};

extern PGDLLEXPORT void _PG_init(void);

/* grnnd.gpu_devices: numbers separated by commas, as GrnBuildSpec has room for. */
static bool
check_gpu_devices(char **newval, void **extra, GucSource source)
{
	const char *s = *newval;
	bool		digit = false;

	if (strlen(s) >= sizeof(((GrnBuildSpec *) NULL)->gpu_devices))
	{
		GUC_check_errdetail("The list is longer than %zu characters.",
							sizeof(((GrnBuildSpec *) NULL)->gpu_devices) - 1);
		return false;
	}
	for (const char *p = s; *p; p++)
	{
		bool		was_digit = digit;

		digit = *p >= '0' && *p <= '9';
		if (!digit && !(*p == ',' && was_digit))
			break;
		if (p[1] == '\0' && digit)
			return true;
	}
	if (*s == '\0')
		return true;
	GUC_check_errdetail("Device numbers separated by commas are expected, such as \"0,1\".");
	return false;
}

static void
define_query_settings(void)
{
	DefineCustomIntVariable("grnnd.ef_search",
							"Number of nearest candidates that a search keeps.",
							"More gives better recall and slower queries.",
							&grnnd_ef_search, GRNND_DEFAULT_EF, 1, GRNND_MAX_EF,
							PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomRealVariable("grnnd.target_recall",
							 "Recall for which searches are made as wide as the index's build has measured.",
							 "0: grnnd.ef_search and the index's storage parameters say how wide.",
							 &grnnd_target_recall, 0, 0, GRNND_MAX_TARGET,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("grnnd.iterative_scan",
							 "How a scan goes on when the query wants more rows than one search found.",
							 "off: it ends; strict_order: rows keep coming in order of distance; "
							 "relaxed_order: in roughly that order.",
							 &grnnd_iterative_scan, GRNND_ITERATIVE_STRICT, iterative_names,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("grnnd.max_scan_tuples",
							"Number of index records after which an iterative scan ends.",
							"0: it goes on until the query has its rows.",
							&grnnd_max_scan_tuples, 0, 0, INT_MAX,
							PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomRealVariable("grnnd.scan_mem_multiplier",
							 "Memory that the search of an iterative scan may use, as a multiple of work_mem.",
							 "Beyond it the rest is read in the order of pages and sorted.",
							 &grnnd_scan_mem_multiplier, 1, 1, GRNND_MAX_MEM_MULTIPLIER,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("grnnd.use_hnsw_settings",
							 "hnsw's settings of a scan count where grnnd's own are not set.",
							 "hnsw.ef_search, hnsw.iterative_scan, hnsw.max_scan_tuples, "
							 "hnsw.scan_mem_multiplier.",
							 &grnnd_use_hnsw_settings, true,
							 PGC_USERSET, 0, NULL, NULL, NULL);
}

static void
define_build_settings(void)
{
	DefineCustomEnumVariable("grnnd.build_device",
							 "Where the graph of an index is built.",
							 "auto: on a GPU if there is one, else on CPU cores; gpu: a GPU is required.",
							 &grnnd_build_device, GRN_DEVICE_AUTO, device_names,
							 PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("grnnd.build_threads",
							"Threads of the builder process.",
							"0: max_parallel_maintenance_workers + 1.",
							&grnnd_build_threads, 0, 0, 1024,
							PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomStringVariable("grnnd.gpu_devices",
							   "GPUs that a build may use, by number.",
							   "Empty: the first one.",
							   &grnnd_gpu_devices, "",
							   PGC_SUSET, 0, check_gpu_devices, NULL, NULL);
	DefineCustomIntVariable("grnnd.gpu_memory_limit",
							"GPU memory that a build may use.",
							"0: what is free.",
							&grnnd_gpu_memory_limit, 0, 0, INT_MAX,
							PGC_SUSET, GUC_UNIT_MB, NULL, NULL, NULL);
	DefineCustomIntVariable("grnnd.build_timeout",
							"Time without a sign of life after which the builder process is killed.",
							NULL,
							&grnnd_build_timeout, 5000, 2 * GRN_BEAT_MS, INT_MAX,
							PGC_SUSET, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomStringVariable("grnnd.builder_path",
							   "The builder program.",
							   "Empty: grnnd_build in the server's package library directory.",
							   &grnnd_builder_path, "",
							   PGC_SUSET, 0, NULL, NULL, NULL);
}

static void
define_write_settings(void)
{
	DefineCustomBoolVariable("grnnd.background_fit",
							 "Whether inserts may start a background worker that fits an index's codes.",
							 "Where not, VACUUM and grnnd_fit() do.",
							 &grnnd_background_fit, true,
							 PGC_USERSET, 0, NULL, NULL, NULL);
}

void
_PG_init(void)
{
	grn_dist_init();
	define_query_settings();
	define_build_settings();
	define_write_settings();
	grnnd_define_test_point();
	grnnd_watch_thresholds();
	grnnd_explain_scans();
	MarkGUCPrefixReserved("grnnd");
	grnnd_init_options();
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

PG_FUNCTION_INFO_V1(grnnd_handler);
Datum
grnnd_handler(PG_FUNCTION_ARGS)
{
	/*
	 * The relcache frees what a handler returns, so the routine cannot be a
	 * static constant before PostgreSQL 19.  makeNode() zeroes: what is not
	 * named here is false, 0 or absent.
	 */
	IndexAmRoutine *am = makeNode(IndexAmRoutine);

	am->amstrategies = GRNND_NUM_STRATEGIES;
	am->amsupport = GRNND_NUM_SUPPORT;
	am->amcanorderbyop = true;
	am->amcanmulticol = true;
	am->amoptionalkey = true;
	am->amsearcharray = true;
	am->amsearchnulls = true;
	am->amusemaintenanceworkmem = true; /* each index's part of a parallel vacuum */
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
