/*
 * opclass.h - the type and metric of an index's column, from its operator class.
 */
#ifndef GRNND_OPCLASS_H
#define GRNND_OPCLASS_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "utils/relcache.h"

#include "am/compat.h"
#include "space/form.h"
#include "space/metric.h"

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
	GrnForm		form;			/* form that holds every value exactly */
	/* writes a detoasted value in that form: its dimensions, or n words of GRN_FORM_SPARSE */
	void		(*load) (Datum value, int n, void *out);
	/*
	 * The following fields are NULL for types of numbers.  Rows of GRN_FORM_SPARSE vary in size, and an
	 * index has a number of words for each.  A row that needs more is rounded.
	 */
	/* returns the words that a detoasted value needs */
	int			(*words) (Datum value);
	/* the type of columns of at most few_dim dimensions */
	const struct GrnndType *few;
	int			few_dim;
} GrnndType;

/* Do scans read rows of the table for distances (rerank.c), because records may be rounded? */
static inline bool
grnnd_reranks(const GrnndType *type, GrnForm form)
{
	return type->words != NULL || (form != type->form && !grn_form(form)->lossless);
}

/* The type and metric of an index's vector column. */
typedef struct GrnndKey
{
	const GrnndType *type;
	const GrnMetricInfo *metric;
	uint32		words;			/* of rows of GRN_FORM_SPARSE */
} GrnndKey;

/* Dimensions of stored vectors for a column of dim dimensions. */
static inline int
grnnd_graph_dim(const GrnndKey *key, int dim)
{
	return key->type->words == NULL ? dim : (int) key->words;
}

/*
 * Words of sparse rows that are not known yet: 128 elements.  3,000 made SPLADE rows and keywords
 * in indexes created empty, recall at ef 40: .756 and .905, with half .734 and .881 in .55 of the
 * bytes, with twice .736 and .912 in twice the bytes.
 */
#define GRNND_USUAL_WORDS 260

/* Bounds of what an index may have; 1,536: 1,022 elements below column 65,536. */
#define GRNND_LEAST_WORDS 32
#define GRNND_MOST_WORDS 1536

static inline bool
grnnd_words_sound(uint32 words)
{
	return words >= GRNND_LEAST_WORDS && words <= GRNND_MOST_WORDS;
}

/* Sets the type of a column of dim dimensions. */
extern PGDLLEXPORT void grnnd_key_set_dim(GrnndKey *key, int dim);

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
 * grnnd_graph_dim() numbers or words in the form of the type, out: grn_form_bytes() at any address.
 * Errors: 22000 for other dimensions, NaN and infinity; 22003 for vectors so long that distances
 * would overflow.  Returns false if the value is not indexed (zero under cosine).
 */
extern PGDLLEXPORT bool grnnd_form_row(const GrnndKey *key, int dim, Datum value, void *out);
/*
 * grnnd_form_row() with floats as the result.  *row (unless row is NULL) becomes the stored
 * vector, palloc'd.
 */
/* Returns a query for searches as grnnd_form_vector() does, palloc'd, of any length; or NULL. */
extern float *grnnd_form_query(const GrnndKey *key, int dim, Datum value);
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
