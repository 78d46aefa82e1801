/*
 * files.h - files of vectors and graphs.  Each function prints an error that names the file,
 * and returns false, if the file is wrong.
 */
#ifndef GRN_FILES_H
#define GRN_FILES_H

#include "graph/graph.h"
#include "space/metric.h"

typedef struct GrnVectors
{
	float	   *base;			/* [n][stride], padded with zeroes */
	size_t		n;
	size_t		stride;			/* multiple of 4, >= grn_row_floats() */
	uint32_t	dim;
} GrnVectors;

/* Reads the first `most` rows (0: all), with room for grn_row_floats(); normalized for cosine. */
extern bool grn_read_vectors(const char *path, const GrnMetricInfo *metric, size_t most,
							 GrnVectors *out);
extern void grn_free_vectors(GrnVectors *v);
/* The file has int32 rows, int32 columns, then the rows. */
extern bool grn_read_ibin(const char *path, int32_t **values, size_t *rows, size_t *columns);
/* Writes a graph as .ibin: each list has `degree` numbers, -1 after the last neighbor. */
extern bool grn_write_graph(const char *path, const GrnGraph *graph);

/* Parses the value of --metric into a const GrnMetricInfo *; a GrnOption.take function. */
extern bool grn_take_metric(void *target, const char *name);

/* Lines of help texts that describe the files. */
#define GRN_HELP_FILES \
"VECTORS and --query: .fvecs .bvecs (an int32 count before each row) or .fbin .u8bin\n" \
"(int32 rows, int32 columns, then the rows).  A graph is .ibin: int32 rows, int32\n" \
"columns (the degree), then each row's neighbors, nearest first, -1 after the last.\n"

#endif							/* GRN_FILES_H */
