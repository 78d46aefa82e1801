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
	GrnForm		form;			/* that holds every value exactly, or every stand-in */
	/* writes a detoasted value's [grnnd_graph_dim()] numbers, as that form has them */
	void		(*load) (Datum value, int dim, void *out);

	/*
	 * The rest is NULL where the numbers are the row's own.  Where it is not, they are a
	 * stand-in of the row: a vector whose distances are near the operator's.  The metric then
	 * says how stand-ins compare, and a scan reads the table's rows and computes their
	 * distances by the operator (rerank.c).
	 */
	/* dimensions of the stand-ins of a column of so many */
	int			(*graph_dim) (int dim);
	/*
	 * The operator's value that the row whose stand-in compared so has likely at least; errors:
	 * the share of those that are likely, 1 or less.
	 */
	double		(*likely_bound) (const GrnMetricInfo *metric, const GrnBound *b, int dim,
								 double errors);
	/* stand-ins of columns of so many dimensions at most are the rows themselves */
	int			most_exact;
} GrnndType;

/* Dimensions of the vectors that an index keeps of a column of so many. */
static inline int
grnnd_graph_dim(const GrnndType *type, int dim)
{
	return type->graph_dim == NULL ? dim : type->graph_dim(dim);
}

/* Whether the numbers of a type are a stand-in of the row. */
static inline bool
grnnd_has_stand_ins(const GrnndType *type)
{
	return type->likely_bound != NULL;
}

/* Whether the numbers of a column of so many dimensions are the rows themselves. */
static inline bool
grnnd_keeps_rows(const GrnndType *type, int dim)
{
	return !grnnd_has_stand_ins(type) || dim <= type->most_exact;
}

/*
 * Whether scans rank rows by what they read of the table (rerank.c), as records keep them in a
 * form that may round some.
 */
static inline bool
grnnd_reranks(const GrnndType *type, GrnForm form)
{
	return grnnd_has_stand_ins(type) || (form != type->form && !grn_form(form)->lossless);
}

/* What is known of an index's vector column by its operator class. */
typedef struct GrnndKey
{
	const GrnndType *type;
	const GrnMetricInfo *metric;
} GrnndKey;

/* ---- opclass.c ---- */

/* What its operator class says; an error where that is not sound (not for hot paths). */
extern GrnndKey grnnd_key(Relation index);
/*
 * The same of an operator class for a type, and in *family its family, unless that is NULL.  It is
 * given by its name, or by that of a metric alone, as in TYPE_METRIC_ops beside the default one,
 * which NULL stands for.  Errors: 42804 where there is none.
 */
extern GrnndKey grnnd_key_by_name(Oid type, text *name, Oid *family);
/*
 * The vector that an index keeps of a value of a column of dim dimensions, as the metric
 * compares it: a stored vector of grnnd_graph_dim() numbers in the form of the type,
 * grn_form_bytes() at any address.  Errors: 22000 for other dimensions, NaN and infinity;
 * 22003 for vectors so long that distances would overflow.  False: not indexed (zero under
 * cosine).
 */
extern bool grnnd_form_row(const GrnndKey *key, int dim, Datum value, void *out);
/* The same as floats, and in *row, unless row is NULL, that stored vector (palloc'd). */
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
