/*
 * opclass.h - what an index's operator class says of its column.
 */
#ifndef GRNND_OPCLASS_H
#define GRNND_OPCLASS_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "utils/relcache.h"

#include "am/compat.h"
#include "graph/form.h"
#include "graph/metric.h"

/*
 * What an operator class says of its column: the type, by support function 1, and the
 * metric, by support function 2.  Both are f(internal) returns internal (src/am/types).
 */
#define GRNND_SUPPORT_TYPE 1
#define GRNND_SUPPORT_METRIC 2
#define GRNND_NUM_SUPPORT 2
#define GRNND_DISTANCE_STRATEGY 1

typedef struct GrnndType
{
	const char *name;			/* "vector" */
	int			max_dim;
	/* dimensions of a detoasted value */
	int			(*dim) (Datum value);
	GrnForm		form;			/* that holds every value exactly, as the type itself does */
	/* writes a detoasted value's [dim] numbers, as that form has them */
	void		(*load) (Datum value, int dim, void *out);
} GrnndType;

typedef struct GrnndKey
{
	const GrnndType *type;
	const GrnMetricInfo *metric;
} GrnndKey;

/* ---- opclass.c ---- */

/* What its operator class says; an error where that is not sound (not for hot paths). */
extern GrnndKey grnnd_key(Relation index);
/*
 * A column value as the metric compares it: a stored vector in the form of the type,
 * grn_form_bytes() at any address.  Errors: 22000 for other dimensions, NaN and infinity;
 * 22003 for vectors so long that distances would overflow.  False: not indexed (zero under
 * cosine).
 */
extern bool grnnd_form_row(const GrnndKey *key, int dim, Datum value, void *out);
/* The same as [dim] floats, and in *row, unless row is NULL, that stored vector (palloc'd). */
extern bool grnnd_form_vector(const GrnndKey *key, int dim, Datum value, float *out,
							  void **row);

/* ---- validate.c ---- */

extern bool grnnd_validate(Oid opclass);
/*
 * What is wrong with the support function of that number of an operator class for a type,
 * or NULL; then *key has what it returned.
 */
extern const char *grnnd_support_problem(Oid function, int number, Oid type, GrnndKey *key);
extern void grnnd_adjustmembers(Oid opfamily, Oid opclass, List *operators,
								List *functions);

#endif							/* GRNND_OPCLASS_H */
