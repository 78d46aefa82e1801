/*
 * options.c - the storage parameters of an index: WITH (degree = ...).
 */
#include "grnnd.h"

#include "access/reloptions.h"

/*
 * Bounds of the build parameters.  Where the user gives none, GrnndOptions holds
 * 0, which lies outside these bounds, and the builder chooses.
 */
#define MIN_POOL 8
#define MAX_POOL 256
#define MAX_ITERATIONS 100
#define MIN_RHO 0.01

static relopt_kind kind;

void
grnnd_init_options(void)
{
	/* They matter to the next build only, so no query has to wait. */
	LOCKMODE	lock = ShareUpdateExclusiveLock;

	kind = add_reloption_kind();
	add_int_reloption(kind, "degree", "Largest number of neighbours that a record keeps",
					  0, GRN_MIN_DEGREE, GRN_MAX_DEGREE, lock);
	add_int_reloption(kind, "r", "Capacity of a vertex's pool during the descent (R)",
					  0, MIN_POOL, MAX_POOL, lock);
	add_int_reloption(kind, "s", "Initial random neighbours (S)",
					  0, 1, MAX_POOL, lock);
	add_int_reloption(kind, "t1", "Outer iterations (T1)", 0, 1, MAX_ITERATIONS, lock);
	add_int_reloption(kind, "t2", "Inner iterations (T2)", 0, 1, MAX_ITERATIONS, lock);
	add_real_reloption(kind, "rho", "Share of reverse edges that are sampled",
					   0, MIN_RHO, 1, lock);
	add_int_reloption(kind, "seed", "Seed of the build's random numbers",
					  0, 0, INT_MAX, lock);
	add_bool_reloption(kind, "codes", "Keep compact codes of the neighbours in each record",
					   true, lock);
}

bytea *
grnnd_options(Datum reloptions, bool validate)
{
	static const relopt_parse_elt tab[] = {
		{"degree", RELOPT_TYPE_INT, offsetof(GrnndOptions, degree)},
		{"r", RELOPT_TYPE_INT, offsetof(GrnndOptions, r)},
		{"s", RELOPT_TYPE_INT, offsetof(GrnndOptions, s)},
		{"t1", RELOPT_TYPE_INT, offsetof(GrnndOptions, t1)},
		{"t2", RELOPT_TYPE_INT, offsetof(GrnndOptions, t2)},
		{"rho", RELOPT_TYPE_REAL, offsetof(GrnndOptions, rho)},
		{"seed", RELOPT_TYPE_INT, offsetof(GrnndOptions, seed)},
		{"codes", RELOPT_TYPE_BOOL, offsetof(GrnndOptions, codes)},
	};
	GrnndOptions *opts = (GrnndOptions *)
		build_reloptions(reloptions, validate, kind, sizeof(GrnndOptions),
						 tab, lengthof(tab));

	if (validate && opts != NULL && opts->s > 0 && opts->r > 0 && opts->s > opts->r)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("storage parameter \"s\" must not be larger than \"r\""),
				 errdetail("%d initial neighbours do not fit a pool of %d.",
						   opts->s, opts->r)));
	return (bytea *) opts;
}
