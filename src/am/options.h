/*
 * options.h - the storage parameters of an index: WITH (degree = ...).
 */
#ifndef GRNND_OPTIONS_H
#define GRNND_OPTIONS_H

#include "postgres.h"

#include "utils/relcache.h"

#include "graph/stored/record.h"

typedef struct GrnndOptions
{
	int32		vl_len_;
	int			degree;			/* 0: by m or by dimension */
#ifdef GRNND_TEST_POINTS
	int			t1,
				t2;				/* rounds of the build, for tests that want it long; 0: the default */
#endif
	int			seed;
	bool		codes;
	int			m;				/* hnsw's; 0: not given */
	int			ef_construction;	/* hnsw's; not used */
	int			layout;			/* GrnKeep */
	int			ef_search;		/* of scans; 0: not given */
	double		target_recall;	/* the same */
} GrnndOptions;

extern bytea *grnnd_options(Datum reloptions, bool validate);
/*
 * The degree by these options, or by default for rows of that dimension and form beside columns of
 * so many bytes.  keep: how the build keeps vectors, which may follow from more than opts->layout.
 */
extern uint32 grnnd_option_degree(const GrnndOptions *opts, GrnKeep keep, const GrnLayoutSpec *rows);
/* Are numbers of a graph within the bounds of the storage parameters of their names? */
extern bool grnnd_params_are_valid(const GrnGraphParams *params);
extern void grnnd_init_options(void);

#endif							/* GRNND_OPTIONS_H */
