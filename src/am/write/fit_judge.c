/*
 * fit_judge.c - judges whether codes tell neighbors apart, as builds do: by nodes spread over the
 * index, each with its neighbors' distances and estimates.
 */
#include "am/write/fit_impl.h"

#include "utils/memutils.h"

typedef struct Probe
{
	Fit		   *f;
	uint32		count;
	uint32		ids[GRN_MAX_DEGREE];
} Probe;

static void
take_node(void *arg, const GrnRecord *rec, const void *vec)
{
	Probe	   *probe = arg;

	grnnd_fit_take_row(probe->f, rec, vec);
	probe->count = rec->count;
	memcpy(probe->ids, grn_rec_ids(&probe->f->ix.layout, rec), rec->count * sizeof(uint32));
}

/* Counts the pairs of one node's neighbors; none if the node is gone. */
static void
probe_node(Fit *f, uint32 id, GrnJudgment *judgment)
{
	uint32		dim = f->ix.meta.dim;
	Probe		probe = {.f = f};
	GrnndPoint	p;
	GrnndPoint	other;
	float	   *own = palloc(dim * sizeof(float));
	float	   *place = palloc(dim * sizeof(float));
	float		distances[GRN_MAX_DEGREE];
	float		estimates[GRN_MAX_DEGREE];
	uint32		n = 0;

	if (!f->store.base.visit(&f->store.base, id, take_node, &probe))
		return;
	grnnd_place(&f->ix, f->x, own);
	grnnd_make_point(&f->ix, f->x, f->error, &p);
	for (uint32 i = 0; i < probe.count; i++)
	{
		if (!f->store.base.visit(&f->store.base, probe.ids[i], grnnd_fit_take_row, f))
			continue;
		grnnd_place(&f->ix, f->x, place);
		distances[n] = grn_dist->l2_f32(own, place, dim);
		grnnd_make_point(&f->ix, f->x, f->error, &other);
		grn_estimate(p.query, other.code, &other.factor, 1, &estimates[n++]);
	}
	grn_judge_neighbors(distances, estimates, n, judgment);
}

bool
grnnd_fit_judge_codes(Fit *f)
{
	uint32		probes = Min(f->limit, GRN_JUDGED_VERTICES);
	GrnJudgment judgment = {0};
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "grnnd probe",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);

	for (uint32 i = 0; i < probes; i++)
	{
		grnnd_fit_check_interrupts(f);
		probe_node(f, (uint32) ((uint64) f->limit * i / probes), &judgment);
		MemoryContextReset(context);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return grn_codes_serve(&judgment, grn_is_long(f->ix.layout.form, f->ix.layout.dim));
}
