/*
 * options.c - the storage parameters of an index: WITH (degree = ...).
 */
#include "am/index/index.h"

#include <limits.h>

#include "access/reloptions.h"
#include "utils/rel.h"

#include "am/grnnd.h"

/*
 * Bounds of the build parameters.  GrnndOptions holds 0, outside these bounds, for a parameter
 * that is not given; the builder then chooses.
 */
#define MIN_POOL 8
#define MAX_POOL GRN_MAX_DEGREE
#define MAX_ITERATIONS 100
#define MIN_RHO 0.01

/*
 * Bounds of hnsw's parameters, as in pgvector.  m links in each layer, and twice as many in the
 * lowest layer, become the degree.  More than MAX_DEGREE_OF_M neighbors are not worth their
 * bytes: src/store/README, "Degrees instead of hnsw's m".
 */
#define MIN_M 2
#define MAX_M 100
#define DEFAULT_M 16
#define MIN_EF_CONSTRUCTION 4
#define MAX_EF_CONSTRUCTION 1000
#define MAX_DEGREE_OF_M 48

static relopt_kind kind;

static relopt_enum_elt_def layouts[] =
{
	{
		"default", GRN_KEEP_DEFAULT
	},
	{
		"exact", GRN_KEEP_EXACT
	},
	{
		"compact", GRN_KEEP_COMPACT
	},
	{
		NULL
	}
};

const char *
grnnd_layout_name(const GrnndOptions *options)
{
	int			layout = options != NULL ? (int) options->layout : GRN_KEEP_DEFAULT;

	for (const relopt_enum_elt_def * l = layouts; l->string_val != NULL; l++)
		if (l->symbol_val == layout)
			return l->string_val;
	pg_unreachable();
}

void
grnnd_init_options(void)
{
	/* The parameters affect only later builds and plans, so queries need not wait. */
	LOCKMODE	lock = ShareUpdateExclusiveLock;

	kind = add_reloption_kind();
	add_int_reloption(kind, "degree", "Largest number of neighbors that a record keeps",
					  0, GRN_MIN_DEGREE, GRN_MAX_DEGREE, lock);
#ifdef GRNND_TEST_POINTS
	add_int_reloption(kind, "t1", "Outer iterations", 0, 1, MAX_ITERATIONS, lock);
	add_int_reloption(kind, "t2", "Inner iterations", 0, 1, MAX_ITERATIONS, lock);
#endif
	add_int_reloption(kind, "seed", "Seed of the build's random numbers",
					  0, 0, INT_MAX, lock);
	add_bool_reloption(kind, "codes", "Keep compact codes of the neighbors in each record",
					   true, lock);
	add_enum_reloption(kind, "layout", "How records keep their vectors", layouts,
					   GRN_KEEP_DEFAULT,
					   gettext_noop("Valid values are \"default\", \"exact\" and \"compact\"."),
					   lock);
	add_int_reloption(kind, "m", "hnsw's number of links: the degree becomes twice as large",
					  0, MIN_M, MAX_M, lock);
	add_int_reloption(kind, "ef_construction", "Parameter of hnsw without effect",
					  0, MIN_EF_CONSTRUCTION, MAX_EF_CONSTRUCTION, lock);
	add_int_reloption(kind, "ef_search", "Candidates that a search keeps, if the session sets no number",
					  0, 1, GRNND_MAX_EF, lock);
	add_real_reloption(kind, "target_recall",
					   "Recall that searches are to reach, if the session sets neither width nor recall",
					   0, 0, GRNND_MAX_TARGET, lock);
}

/* 0 stands for the builder's choice.  NaN is outside all bounds. */
static bool
is_within(double value, double low, double high)
{
	return value == 0 || (value >= low && value <= high);
}

bool
grnnd_params_are_valid(const GrnGraphParams *params)
{
	return is_within(params->degree, GRN_MIN_DEGREE, GRN_MAX_DEGREE) &&
		is_within(params->r, MIN_POOL, MAX_POOL) && is_within(params->s, 1, MAX_POOL) &&
		is_within(params->t1, 1, MAX_ITERATIONS) && is_within(params->t2, 1, MAX_ITERATIONS) &&
		is_within(params->rho, MIN_RHO, 1) && params->seed <= INT_MAX &&
		(params->r == 0 || params->s <= params->r);
}

/*
 * The maximum number of neighbors of a record: `degree`, else from m, else the default for these
 * dimensions and columns.  hnsw's own default of m counts as not given, because clients send it
 * unasked.  A larger m never lowers the degree below the default.
 */
uint32
grnnd_option_degree(const GrnndOptions *opts, bool codes, GrnKeep keep, const GrnLayoutSpec *rows)
{
	GrnLayoutSpec records = *rows;
	uint32		by_default;
	uint32		by_m;

	if (opts->degree > 0)
		return (uint32) opts->degree;
	records.form = grn_layout_form(keep, rows->dim, 0, codes, rows->form, rows->payload);
	records.degree = grn_default_degree(rows->dim, records.form, codes, rows->payload);
	by_default = codes ? grn_degree_beside_columns(&records) : records.degree;
	/* clients that send m unasked do not want a larger index */
	if (opts->m == 0 || opts->m == DEFAULT_M || grn_is_compact(records.form, rows->dim))
		return by_default;
	by_m = Min(Max(2 * (uint32) opts->m, GRN_MIN_DEGREE), MAX_DEGREE_OF_M);
	return opts->m > DEFAULT_M ? Max(by_m, by_default) : by_m;
}

bytea *
grnnd_options(Datum reloptions, bool validate)
{
	static const relopt_parse_elt tab[] = {
		{"degree", RELOPT_TYPE_INT, offsetof(GrnndOptions, degree)},
#ifdef GRNND_TEST_POINTS
		{"t1", RELOPT_TYPE_INT, offsetof(GrnndOptions, t1)},
		{"t2", RELOPT_TYPE_INT, offsetof(GrnndOptions, t2)},
#endif
		{"seed", RELOPT_TYPE_INT, offsetof(GrnndOptions, seed)},
		{"codes", RELOPT_TYPE_BOOL, offsetof(GrnndOptions, codes)},
		{"m", RELOPT_TYPE_INT, offsetof(GrnndOptions, m)},
		{"ef_construction", RELOPT_TYPE_INT, offsetof(GrnndOptions, ef_construction)},
		{"layout", RELOPT_TYPE_ENUM, offsetof(GrnndOptions, layout)},
		{"ef_search", RELOPT_TYPE_INT, offsetof(GrnndOptions, ef_search)},
		{"target_recall", RELOPT_TYPE_REAL, offsetof(GrnndOptions, target_recall)},
	};

	return (bytea *) build_reloptions(reloptions, validate, kind, sizeof(GrnndOptions), tab, lengthof(tab));
}
