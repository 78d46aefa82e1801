/*
 * options.h - the storage parameters of an index: WITH (degree = ...).
 */
#ifndef GRNND_OPTIONS_H
#define GRNND_OPTIONS_H

#include "postgres.h"

#include "graph/form.h"

/* How records keep their own vectors. */
typedef enum GrnndLayout
{
	GRNND_LAYOUT_DEFAULT = 0,	/* in 8 bits where that saves pages, else as EXACT */
	GRNND_LAYOUT_EXACT			/* in the smallest form that holds all rows exactly */
} GrnndLayout;

typedef struct GrnndOptions
{
	int32		vl_len_;
	int			degree;			/* 0: by m or by dimension */
	int			r,
				s,
				t1,
				t2;				/* 0: the builder's default */
	double		rho;			/* 0: the builder's default */
	int			seed;
	bool		codes;
	int			m;				/* hnsw's; 0: not given */
	int			ef_construction;	/* hnsw's; not used */
	int			layout;			/* GrnndLayout */
} GrnndOptions;

extern bytea *grnnd_options(Datum reloptions, bool validate);
extern uint32 grnnd_option_degree(const GrnndOptions *opts, GrnForm form, uint32 dim);
extern void grnnd_init_options(void);

#endif							/* GRNND_OPTIONS_H */
