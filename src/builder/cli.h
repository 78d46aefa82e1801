/*
 * cli.h - what the command line's parts share.
 */
#ifndef GRN_CLI_H
#define GRN_CLI_H

#include "builder/gpus.h"
#include "graph/build/graph.h"
#include "graph/metric.h"

#define GRN_MAX_BEAMS 16		/* widths of searches that one call evaluates */
#define GRN_MAX_GRAPHS 64		/* graphs that it does so for */

typedef struct GrnCli
{
	const char *vectors;
	const char *graph;
	const GrnMetricInfo *metric;
	size_t		rows;			/* 0: all */
	uint32_t	threads;
	GrnDeviceChoice choice;
	const char *of_paper;		/* an option given that --mode paper alone has */
	GrnGraphParams params;
	uint32_t	repeat;
	bool		times;
	bool		fill;
	const char *evaluate[GRN_MAX_GRAPHS];
	uint32_t	ngraphs;
	const char *query;
	const char *truth;
	uint32_t	beams[GRN_MAX_BEAMS];
	uint32_t	nbeams;
	uint32_t	queries;
} GrnCli;

/* cli_files.c.  Each says what is wrong, naming the file, and returns false. */
typedef struct GrnVectors
{
	float	   *base;			/* [n][stride], zero padded */
	size_t		n;
	size_t		stride;			/* multiple of 4, >= grn_row_floats() */
	uint32_t	dim;
} GrnVectors;

/* The first `most` rows (0: all), normalised for cosine, with room for grn_row_floats(). */
extern bool grn_read_vectors(const char *path, const GrnMetricInfo *metric, size_t most,
							 GrnVectors *out);
extern void grn_free_vectors(GrnVectors *v);
/* int32 rows, int32 columns, then the rows. */
extern bool grn_read_ibin(const char *path, int32_t **values, size_t *rows, size_t *columns);
extern bool grn_write_graph(const char *path, const GrnGraph *graph);

extern void grn_cli_error(const char *format,...) __attribute__((format(printf, 1, 2)));

/* The programs: exit statuses. */
extern int	grn_command_line(int argc, char **argv);
extern int	grn_build_file(const GrnCli *cli);
extern int	grn_evaluate(const GrnCli *cli);

#endif							/* GRN_CLI_H */
