/*
 * group_lists.c - rows of lists go into groups on the GPU that has built the graph.
 *
 * The leader knows which rows have which values, and has put the long lists into WORK.  Their
 * groups come back as numbers, by which it places the rows itself (stored/group.h).
 */
#include "builder/group_lists.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/metric.h"
#include "graph/stored/codec.h"
#include "graph/stored/group.h"

static const GrnListToGroup *
lists_of(const GrnGroupRequest *r)
{
	return (const GrnListToGroup *) r->work;
}

bool
grn_group_request_sound(const GrnGroupRequest *r)
{
	GrnGroupPlaces places = grn_group_places(r->lists, r->rows);
	const uint32_t *members = (const uint32_t *) (r->work + places.members);
	uint64_t	rows = 0;

	if (r->result->moved || grn_code_bytes(r->result->shape) == 0 || r->lists > UINT32_MAX ||
		r->rows > r->work_bytes || places.bytes > r->work_bytes || r->room < 1 || r->room > UINT32_MAX)
		return false;
	for (uint64_t i = 0; i < r->lists; i++)
	{
		const GrnListToGroup *list = &lists_of(r)[i];

		if (list->first != rows || list->n < 1 || list->n > r->rows - rows || list->groups < 1 ||
			list->groups > list->n || list->groups * r->room < list->n)
			return false;
		rows += list->n;
	}
	for (uint64_t i = 0; i < rows; i++)
		if (members[i] >= r->result->nodes)
			return false;
	return rows == r->rows;
}

/*
 * About how many bytes of device memory a row takes while its group is chosen: its numbers in
 * binary16, its code, and 128 for what else there is of a row (GroupsLayout in cuda/groups.cu).
 * What groups take is a tenth more.
 */
static uint64_t
row_bytes(const GrnGpuCodes *codes)
{
	return (2 * codes->used + codes->bytes + 128) * 11 / 10;
}

/*
 * Whether the longest row is at most 2 ^ LONGEST times as long as the geometric mean of all.  The
 * GPU divides rows by the longest one and rounds them to binary16, in which much shorter ones would
 * become equal.  A row's length is what its code is multiplied with.
 */
#define LONGEST 10

static bool
are_even(const GrnGroupRequest *r, const GrnFactor *factors, const uint32_t *members)
{
	int			longest = INT_MIN;
	double		sum = 0;
	uint64_t	n = 0;

	for (uint64_t i = 0; i < r->rows; i++)
	{
		float		scale = grn_factor_length(factors[members[i]]) * (float) grn_factor_alpha(factors[members[i]]);
		int			power;

		if (!(scale > 0))
			continue;
		(void) frexpf(scale, &power);
		longest = power > longest ? power : longest;
		sum += power;
		n++;
	}
	return n == 0 || longest - sum / (double) n <= LONGEST;
}

/* How many lists, from `first` on, a call takes: as there is memory for, and one at least. */
static uint64_t
lists_at_once(const GrnGroupRequest *r, uint64_t first, uint64_t most_rows)
{
	uint64_t	rows = lists_of(r)[first].n;
	uint64_t	n = 1;

	while (first + n < r->lists && rows + lists_of(r)[first + n].n <= most_rows)
		rows += lists_of(r)[first + n++].n;
	return n;
}

bool
grn_group_lists(const GrnGroupRequest *r, GrnGpu *gpu, GrnGpuError *err)
{
	const GrnBuildResult *result = r->result;
	GrnGroupPlaces places = grn_group_places(r->lists, r->rows);
	const float *floats = (const float *) (r->codes + result->off_codec);
	GrnCodec	codec = {.dim = r->spec->dim, .shape = result->shape, .norm_unit = result->norm_unit,
		.mean = floats, .basis = floats + r->spec->dim};
	GrnGpuGrouping g = {.room = (uint32_t) r->room};
	uint64_t	limit;

	memset(err, 0, sizeof(*err));
	memcpy(codec.steps, result->steps, sizeof(codec.steps));
	grn_codec_set_metric(&codec, grn_metric(r->spec->metric), result->norm_unit);
	g.codes.used = grn_group_refined_dims(&codec);
	if (gpu == NULL || g.codes.used == 0)
	{
		snprintf(err->text, sizeof(err->text), "no GPU makes such groups");
		return false;
	}
	g.members = (const uint32_t *) (r->work + places.members);
	g.codes.factors = (const uint32_t *) (r->codes + result->off_factors);
	if (!are_even(r, (const GrnFactor *) g.codes.factors, g.members))
	{
		snprintf(err->text, sizeof(err->text), "some rows are far longer than others");
		return false;
	}
	g.codes.codes = (const uint8_t *) r->codes + result->off_codes;
	g.codes.bytes = grn_code_bytes(result->shape);
	for (int b = 0; b < GRN_CODE_BLOCKS; b++)
	{
		g.codes.bits[b] = grn_block_bits(b);
		g.codes.dims[b] = result->shape.dims[b];
		g.codes.steps[b] = result->steps[b];
	}
	g.chosen = (uint32_t *) (r->work + places.chosen);
	g.copied = (uint32_t *) (r->work + places.copied);
	grn_gpu_end(gpu);
	if (grn_gpu_limit(gpu, r->spec->gpu_memory_limit, &limit, err) != GRN_GPU_OK)
		return false;
	for (uint64_t first = 0; first < r->lists; first += g.nlists)
	{
		g.lists = lists_of(r) + first;
		g.nlists = (uint32_t) lists_at_once(r, first, limit / row_bytes(&g.codes));
		if (grn_gpu_group(gpu, &g, r->spec->gpu_memory_limit, err) != GRN_GPU_OK)
			return false;
	}
	return true;
}
