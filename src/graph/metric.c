/*
 * metric.c - the table of metrics.
 */
#include "graph/metric.h"

#include <math.h>
#include <string.h>

#include "graph/space.h"

static double
root(double stored)
{
	return sqrt(stored > 0 ? stored : 0);
}

static double
same(double stored)
{
	return stored;
}

/* |x - y|^2 = 2 - 2 cos for vectors of length 1 */
static double
half(double stored)
{
	return stored / 2;
}

static const GrnMetricInfo metrics[] = {
	{
		.id = GRN_L2,
		.name = "l2",
		.embedding = GRN_EMBED_ROW,
		.codes = GRN_CODES_ROWS,
		.comparison = GRN_COMPARE_L2,
		.fill = 8,
		.value = root
	},
	/*
	 * Long rows lie in the middle of the graph's space (space.h), near all others.  They
	 * occlude most other neighbours, so the rule alone would leave an inserted row few.
	 */
	{
		.id = GRN_IP,
		.name = "ip",
		.embedding = GRN_EMBED_SCALED,
		.codes = GRN_CODES_DIRECTIONS,
		.comparison = GRN_COMPARE_IP,
		.long_entries = GRN_MAX_ENTRIES / 2,
		.fill = 15,
		.value = same
	},
	{
		.id = GRN_COSINE,
		.name = "cosine",
		.normalised = true,
		.embedding = GRN_EMBED_ROW,
		.codes = GRN_CODES_ROWS,
		.comparison = GRN_COMPARE_L2,
		.fill = 8,
		.value = half
	}
};

#define NMETRICS (sizeof(metrics) / sizeof(metrics[0]))

const GrnMetricInfo *
grn_metric(uint32_t id)
{
	for (size_t i = 0; i < NMETRICS; i++)
		if (metrics[i].id == id)
			return &metrics[i];
	return NULL;
}

bool
grn_is_metric(const void *p)
{
	for (size_t i = 0; i < NMETRICS; i++)
		if (p == &metrics[i])
			return true;
	return false;
}

const GrnMetricInfo *
grn_metric_named(const char *name)
{
	for (size_t i = 0; i < NMETRICS; i++)
		if (strcmp(metrics[i].name, name) == 0)
			return &metrics[i];
	return NULL;
}

size_t
grn_row_floats(const GrnMetricInfo *metric, uint32_t dim)
{
	return metric->embedding == GRN_EMBED_SCALED ? dim + sizeof(GrnScale) / sizeof(float) : dim;
}

bool
grn_metric_form(const GrnMetricInfo *metric, float *x, size_t n)
{
	double		norm = 0;

	if (!metric->normalised)
		return true;
	for (size_t i = 0; i < n; i++)
		norm += (double) x[i] * x[i];
	if (norm == 0)
		return false;
	norm = sqrt(norm);
	for (size_t i = 0; i < n; i++)
		x[i] = (float) (x[i] / norm);
	return true;
}
