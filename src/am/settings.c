/*
 * settings.c - defines the settings, and chooses between grnnd.ef_search and hnsw.ef_search.
 *
 * Statements written for pgvector's hnsw set hnsw.ef_search.  This setting applies if it was set,
 * to any value, and grnnd.ef_search was not set.  All ways to set a setting count: SET, a
 * configuration file, ALTER ROLE, a function's SET clause.  pgvector defines its setting when its
 * library is loaded.  Until then hnsw.ef_search is a placeholder: an unchecked text.
 */
#include "am/grnnd.h"

#include <limits.h>

#include "utils/guc.h"
#include "utils/guc_tables.h"

int			grnnd_ef_search;
double		grnnd_target_recall;
/*
 * Initial values of enum settings must equal their defaults; servers with assertions check this.
 */
int			grnnd_iterative_scan = GRNND_ITERATIVE_STRICT;
int			grnnd_max_scan_tuples;
bool		grnnd_enable_bitmap = true;
bool		grnnd_sample_queries;
int			grnnd_build_device = GRN_DEVICE_AUTO;
int			grnnd_build_threads;
int			grnnd_build_memory_limit;
char	   *grnnd_gpu_devices;
int			grnnd_gpu_memory_limit;
int			grnnd_build_timeout;
char	   *grnnd_builder_path;
char	   *grnnd_build_server;
bool		grnnd_small_in_backend;
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

/*
 * Checks grnnd.gpu_devices: numbers separated by commas, at most as long as the field of
 * GrnBuildSpec.
 */
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
							 "Recall that searches are to reach; grnnd chooses the search width.",
							 "0: the width comes from grnnd.ef_search or from the index's storage parameters.",
							 &grnnd_target_recall, 0, 0, GRNND_MAX_TARGET,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("grnnd.iterative_scan",
							 "Behavior of a scan if the query needs more rows than one search found.",
							 "off: the scan ends; strict_order: the scan continues in order of distance, late rows last; "
							 "relaxed_order: the scan continues in approximate order.",
							 &grnnd_iterative_scan, GRNND_ITERATIVE_STRICT, iterative_names,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("grnnd.max_scan_tuples",
							"Number of index records after which an iterative scan ends.",
							"0: the scan continues until the query has its rows.",
							&grnnd_max_scan_tuples, 0, 0, INT_MAX,
							PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("grnnd.enable_bitmap",
							 "Whether the planner may give the bitmap of other indexes to a search.",
							 NULL,
							 &grnnd_enable_bitmap, true,
							 PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
	DefineCustomBoolVariable("grnnd.sample_queries",
							 "Whether a few of the session's query vectors may be kept in memory to measure recall with.",
							 "Only if shared_preload_libraries has grnnd, and never for tables with row security.",
							 &grnnd_sample_queries, true,
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
	DefineCustomIntVariable("grnnd.build_memory_limit",
							"Memory that a build may use, its files in the kernel's cache included.",
							"0: the free memory of the machine or of the server's cgroup.",
							&grnnd_build_memory_limit, 0, 0, INT_MAX,
							PGC_USERSET, GUC_UNIT_MB, NULL, NULL, NULL);
	DefineCustomStringVariable("grnnd.gpu_devices",
							   "GPUs that a build may use, by number.",
							   "Empty: the first one.",
							   &grnnd_gpu_devices, "",
							   PGC_SUSET, 0, check_gpu_devices, NULL, NULL);
	DefineCustomIntVariable("grnnd.gpu_memory_limit",
							"GPU memory that a build may use.",
							"0: all free memory.",
							&grnnd_gpu_memory_limit, 0, 0, INT_MAX,
							PGC_SUSET, GUC_UNIT_MB, NULL, NULL, NULL);
	DefineCustomIntVariable("grnnd.build_timeout",
							"Time without a message after which the builder process is killed.",
							NULL,
							&grnnd_build_timeout, 5000, 2 * GRN_BEAT_MS, INT_MAX,
							PGC_SUSET, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomStringVariable("grnnd.builder_path",
							   "The builder program.",
							   "Empty: grnnd_build_cuda in the server's package library directory, or else grnnd_build.",
							   &grnnd_builder_path, "",
							   PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomStringVariable("grnnd.build_server",
							   "Foreign server of the PostgreSQL that builds graphs, on another host.",
							   "Empty: this host builds.",
							   &grnnd_build_server, "",
							   PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("grnnd.build_in_backend",
							 "Whether a backend builds small indexes itself.",
							 "For tests of the builder process, which otherwise need many rows.",
							 &grnnd_small_in_backend, true,
							 PGC_USERSET, GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
}

static void
define_write_settings(void)
{
	/* for developers: tests must control when codes are fitted */
	DefineCustomBoolVariable("grnnd.background_fit",
							 "Whether inserts may start a background worker that fits an index's codes.",
							 "If off, VACUUM and grnnd_fit() fit codes.",
							 &grnnd_background_fit, true,
							 PGC_USERSET, GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
}

/* ---- settings that only superusers set ---- */

static const char *const superuser_settings[] = {
	"grnnd.build_device", "grnnd.gpu_devices", "grnnd.gpu_memory_limit", "grnnd.build_timeout",
	"grnnd.builder_path", "grnnd.build_server"
};

/* A superuser's setting that an option of the connection has reset to its default; NULL: none. */
static const char *taken_setting;

/* The server's entry for a setting, which may be a placeholder; NULL: none. */
static struct config_generic *
find_variable(const char *name)
{
#if PG_VERSION_NUM >= 160000
	return find_option(name, false, true, 0);
#else
	struct config_generic **all = get_guc_variables();
	int			n = GetNumConfigOptions();

	for (int i = 0; i < n; i++)
		if (pg_strcasecmp(all[i]->name, name) == 0)
			return all[i];
	return NULL;
#endif
}

static bool
is_set_by_client(const char *name)
{
	struct config_generic *variable = find_variable(name);

	return variable != NULL && variable->reset_source == PGC_S_CLIENT;
}

/*
 * Runs define(), which must define the `n` settings of these names.  Before a setting is
 * defined, an option of the connection may set a placeholder, and the server then forgets the
 * values of configuration files and of the role.  When the setting is defined, the server refuses
 * the option of a user without superuser rights, and the default would count.
 */
void
grnnd_define_superuser_settings(void (*define) (void), const char *const *names, int n)
{
	uint32		by_client = 0;

	for (int i = 0; i < n; i++)
		by_client |= (uint32) is_set_by_client(names[i]) << i;
	define();
	for (int i = 0; i < n; i++)
		if ((by_client >> i & 1) && !is_set_by_client(names[i]))
			taken_setting = names[i];
}

static void
define_all(void)
{
	define_query_settings();
	define_build_settings();
	define_write_settings();
}

void
grnnd_define_settings(void)
{
	grnnd_define_superuser_settings(define_all, superuser_settings, lengthof(superuser_settings));
}

void
grnnd_check_settings(void)
{
	if (taken_setting != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to build with the setting \"%s\" among the options of the connection",
						taken_setting),
				 errhint("Only superusers can set this setting. Connect without the option.")));
}

/* ---- ef_search ---- */

int
grnnd_session_ef_search(void)
{
	/* NULL: not found yet */
	static struct config_generic *own;
	static struct config_generic *of_hnsw;
	struct config_generic *hnsw = of_hnsw;
	const char *text;
	double		value;

	if (own == NULL)
		own = find_variable("grnnd.ef_search");
	if (own->source != PGC_S_DEFAULT)
		return grnnd_ef_search;
	if (hnsw == NULL)
		hnsw = find_variable("hnsw.ef_search");
	if (hnsw == NULL || hnsw->source == PGC_S_DEFAULT)
		return 0;
	/* do not keep a placeholder: pgvector's definition frees it */
	if (!(hnsw->flags & GUC_CUSTOM_PLACEHOLDER))
		of_hnsw = hnsw;
	text = GetConfigOption("hnsw.ef_search", true, false);
	return text != NULL && parse_real(text, &value, 0, NULL) && value >= 1 && value <= GRNND_MAX_EF ?
		(int) value : 0;
}
