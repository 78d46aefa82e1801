/*
 * opclass.h - the type and metric of an index's column, from its operator class.
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
 * An operator class names the type of its column by support function 1, and the metric by support
 * function 2.  Both are f(internal) returns internal (src/am/types).
 */
#define GRNND_SUPPORT_TYPE 1
#define GRNND_SUPPORT_METRIC 2
#define GRNND_NUM_SUPPORT 2
#define GRNND_DISTANCE_STRATEGY 1

typedef struct GrnndType
{
	const char *name;			/* "vector" */
	int			max_dim;
	/* returns the dimensions of a detoasted value */
	int			(*dim) (Datum value);
	GrnForm		form;			/* form that holds every value, or every stand-in, exactly */
	/* writes the [grnnd_graph_dim()] numbers of a detoasted value in that form */
	void		(*load) (Datum value, int dim, void *out);

	/*
	 * The following fields are NULL if the numbers are the row's own.  Otherwise the numbers are a
	 * stand-in of the row: a vector whose distances are near the operator's.  The metric compares
	 * stand-ins, and a scan reads the table's rows and computes their distances by the operator
	 * (rerank.c).
	 */
	/* returns the dimensions of stand-ins for a column of dim dimensions */
	int			(*graph_dim) (int dim);
	/*
	 * Returns a likely lower bound of the operator's value, from the comparison of a stand-in.
	 * errors: share (at most 1) of the likely error that is subtracted.
	 */
	double		(*likely_bound) (const GrnMetricInfo *metric, const GrnBound *b, int dim,
								 double errors);
	/* up to this number of dimensions, stand-ins are the rows themselves */
	int			most_exact;
} GrnndType;

/* Dimensions of an index's vectors for a column of dim dimensions. */
static inline int
grnnd_graph_dim(const GrnndType *type, int dim)
{
	return type->graph_dim == NULL ? dim : type->graph_dim(dim);
}

/* Are the numbers of this type stand-ins of rows? */
static inline bool
grnnd_has_stand_ins(const GrnndType *type)
{
	return type->likely_bound != NULL;
}

/* Are the numbers of a column of dim dimensions the rows themselves? */
static inline bool
grnnd_keeps_rows(const GrnndType *type, int dim)
{
	return !grnnd_has_stand_ins(type) || dim <= type->most_exact;
}

/* Do scans read rows of the table for distances, because records may be rounded or stand-ins? */
static inline bool
grnnd_reranks(const GrnndType *type, GrnForm form)
{
	return grnnd_has_stand_ins(type) || (form != type->form && !grn_form(form)->lossless);
}

/* The type and metric of an index's vector column. */
typedef struct GrnndKey
{
	const GrnndType *type;
	const GrnMetricInfo *metric;
} GrnndKey;

/* ---- opclass.c ---- */

/*
 * Reads the operator class of an index.  Raises an error if the operator class is not valid.
 * Slow: not for every scan or insert.
 */
extern GrnndKey grnnd_key(Relation index);
/*
 * Finds an operator class for a type; *family (unless family is NULL) becomes its operator family.
 * name: the operator class's name, a metric's name as in TYPE_METRIC_ops, or NULL for the default
 * operator class.  Errors: 42704 for an unknown name, 42804 if the type has no such operator
 * class.
 */
extern PGDLLEXPORT GrnndKey grnnd_key_by_name(Oid type, text *name, Oid *family);
/*
 * Converts a value of a column of dim dimensions to the stored vector that the metric compares:
 * grnnd_graph_dim() numbers in the form of the type, out: grn_form_bytes() at any address.
 * Errors: 22000 for other dimensions, NaN and infinity; 22003 for vectors so long that distances
 * would overflow.  Returns false if the value is not indexed (zero under cosine).
 */
extern PGDLLEXPORT bool grnnd_form_row(const GrnndKey *key, int dim, Datum value, void *out);
/* grnnd_form_row() with floats as result.  *row, unless NULL: the stored vector, palloc'd. */
extern bool grnnd_form_vector(const GrnndKey *key, int dim, Datum value, float *out,
							  void **row);

/* ---- validate.c ---- */

extern bool grnnd_validate(Oid opclass);
/*
 * Checks support function `number` of an operator class for a type.  Returns NULL and stores the
 * function's result in *key, or returns a text that describes the problem.
 */
extern const char *grnnd_support_problem(Oid function, int number, Oid type, GrnndKey *key);
extern void grnnd_adjustmembers(Oid opfamily, Oid opclass, List *operators,
								List *functions);

#endif							/* GRNND_OPCLASS_H */
