/*
 * options.h - the storage parameters of an index: WITH (degree = ...).
 */
#ifndef GRNND_OPTIONS_H
#define GRNND_OPTIONS_H

#include "postgres.h"

#include "utils/relcache.h"

#include "store/record.h"

typedef struct GrnndOptions
{
	int32		vl_len_;
	int			degree;			/* 0: from m, or the default */
#ifdef GRNND_TEST_POINTS
	int			t1,
				t2;				/* rounds of the build, for tests that need long builds; 0: the
								 * default */
#endif
	int			seed;
	bool		codes;
	int			m;				/* hnsw's parameter; 0: not given */
	int			ef_construction;	/* hnsw's parameter; ignored */
	int			layout;			/* GrnKeep */
	int			ef_search;		/* width of scans; 0: not given */
	double		target_recall;	/* 0: not given */
} GrnndOptions;

extern PGDLLEXPORT bytea *grnnd_options(Datum reloptions, bool validate);
/*
 * The degree from the storage parameters, or the default degree.  keep: how the build keeps
 * vectors, which may differ from opts->layout.  rows: dimension, form and filter columns of the
 * rows.
 */
extern uint32 grnnd_option_degree(const GrnndOptions *opts, GrnKeep keep, const GrnLayoutSpec *rows);
/* Are the parameters within the bounds of the storage parameters? */
extern PGDLLEXPORT bool grnnd_params_are_valid(const GrnGraphParams *params);
/* The name of the storage parameter layout's value. */
extern const char *grnnd_layout_name(const GrnndOptions *options);
extern void grnnd_init_options(void);

#endif							/* GRNND_OPTIONS_H */
