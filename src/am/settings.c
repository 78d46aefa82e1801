/*
 * settings.c - the settings of a scan that count: grnnd's own, or hnsw's.
 *
 * Statements written for pgvector's hnsw set hnsw.ef_search and its siblings.  Each of
 * these counts where it has been set, to whatever value, and grnnd's setting of the same
 * name has not.  "Set" means by any of the usual ways: SET, a configuration file,
 * ALTER ROLE, a function's SET clause.
 *
 * pgvector defines its settings when its library is loaded.  Until then a setting of
 * that name is a placeholder: a text that was not checked.
 */
#include "am/grnnd.h"

#include <limits.h>

#include "utils/guc.h"
#include "utils/guc_tables.h"

/* A setting that both access methods have. */
typedef struct Shared
{
	const char *own;			/* both names */
	const char *hnsw;
	struct config_generic *own_variable;	/* NULL: not looked up yet */
	struct config_generic *hnsw_variable;	/* NULL: not defined when last looked for */
} Shared;

static Shared ef_search = {"grnnd.ef_search", "hnsw.ef_search"};
static Shared iterative_scan = {"grnnd.iterative_scan", "hnsw.iterative_scan"};
static Shared max_scan_tuples = {"grnnd.max_scan_tuples", "hnsw.max_scan_tuples"};
static Shared scan_mem_multiplier = {"grnnd.scan_mem_multiplier", "hnsw.scan_mem_multiplier"};

/* The server's entry for a setting, a placeholder too; NULL where there is none. */
static struct config_generic *
find_variable(const char *name)
{
#if PG_VERSION_NUM >= 160000
	return find_option(name, false, true, 0);
#else
	struct config_generic **all = get_guc_variables();
	int			n = GetNumConfigOptions();

	for (int i = 0; i < n; i++)
		if (all[i]->name[0] == name[0] && strcmp(all[i]->name, name) == 0)
			return all[i];
	return NULL;
#endif
}

/* Where grnnd's own setting was set. */
static GucSource
own_source(Shared *shared)
{
	if (shared->own_variable == NULL)
		shared->own_variable = find_variable(shared->own);
	return shared->own_variable != NULL ? shared->own_variable->source : PGC_S_DEFAULT;
}

/*
 * hnsw's value of a setting, as text; NULL where grnnd's own counts.  The text is good
 * until the next call.
 */
static const char *
hnsw_value(Shared *shared)
{
	struct config_generic *hnsw = shared->hnsw_variable;

	if (!grnnd_use_hnsw_settings)
		return NULL;
	if (own_source(shared) != PGC_S_DEFAULT || shared->own_variable == NULL)
		return NULL;
	if (hnsw == NULL)
	{
		hnsw = find_variable(shared->hnsw);
		if (hnsw == NULL)
			return NULL;
		/* a placeholder is freed when pgvector defines the variable, which then stays */
		if (!(hnsw->flags & GUC_CUSTOM_PLACEHOLDER))
			shared->hnsw_variable = hnsw;
	}
	if (hnsw->source == PGC_S_DEFAULT)
		return NULL;
	return GetConfigOption(shared->hnsw, true, false);
}

/*
 * hnsw's value as a number, if it counts and is one from least to most (a placeholder
 * may be anything), else own.
 */
static double
number(Shared *shared, double own, double least, double most)
{
	const char *text = hnsw_value(shared);
	double		value;

	if (text == NULL || !parse_real(text, &value, 0, NULL) ||
		!(value >= least && value <= most))
		return own;
	return value;
}

int
grnnd_session_ef_search(GucSource *source)
{
	int			ef = (int) number(&ef_search, 0, 1, GRNND_MAX_EF);

	if (ef > 0)
	{
		*source = find_variable(ef_search.hnsw)->source;
		return ef;
	}
	*source = own_source(&ef_search);
	return *source == PGC_S_DEFAULT ? 0 : grnnd_ef_search;
}

double
grnnd_session_target_recall(GucSource *source)
{
	static Shared target_recall = {"grnnd.target_recall", ""};

	*source = own_source(&target_recall);
	return *source == PGC_S_DEFAULT ? 0 : grnnd_target_recall;
}

int
grnnd_effective_iterative_scan(void)
{
	const char *text = hnsw_value(&iterative_scan);
	int			value;

	/* hnsw's names for the choices are those of grnnd */
	if (text == NULL ||
		!config_enum_lookup_by_name(GRNND_ENUM_SETTING(iterative_scan.own_variable), text, &value))
		return grnnd_iterative_scan;
	return value;
}

int
grnnd_effective_max_scan_tuples(void)
{
	return (int) number(&max_scan_tuples, grnnd_max_scan_tuples, 1, INT_MAX);
}

double
grnnd_effective_scan_mem_multiplier(void)
{
	return number(&scan_mem_multiplier, grnnd_scan_mem_multiplier, 1, GRNND_MAX_MEM_MULTIPLIER);
}
