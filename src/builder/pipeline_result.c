/*
 * pipeline_result.c - what a build hands to the leader: lists, rows and codes by node.
 */
#include "builder/pipeline_impl.h"

#include <string.h>

#include "graph/arena.h"

uint64_t
grn_pipeline_result_bytes(const GrnPipeline *p)
{
	return p->result->off_rows + grn_aligned(p->build->n * 4);
}

/* Copies lists, in node ids, and codes to their nodes' positions. */
static void
write_range(void *arg, int worker, size_t begin, size_t end)
{
	GrnPipeline *p = arg;
	const GrnBuildResult *r = p->result;
	uint32_t	degree = p->graph.degree;
	uint32_t   *ids = (uint32_t *) (p->out + r->off_ids);
	uint8_t    *counts = (uint8_t *) p->out + r->off_counts;
	size_t		code_bytes = grn_code_bytes(r->shape);

	(void) worker;
	for (size_t v = begin; v < end; v++)
	{
		size_t		node = p->position[v];
		const uint32_t *from = p->graph.ids + v * degree;
		uint32_t   *to = ids + node * degree;
		uint32_t	count = p->graph.counts[v];

		counts[node] = (uint8_t) count;
		for (uint32_t i = 0; i < count; i++)
			to[i] = p->position[from[i]];
		for (uint32_t i = count; i < degree; i++)
			to[i] = GRN_INVALID_ID;
		if (code_bytes > 0)
		{
			memcpy(p->out_codes + r->off_codes + node * code_bytes, p->codes + v * code_bytes,
				   code_bytes);
			((GrnFactor *) (p->out_codes + r->off_factors))[node] = p->factors[v];
		}
	}
}

static void
write_rows_range(void *arg, int worker, size_t begin, size_t end)
{
	GrnPipeline *p = arg;
	uint32_t   *start = (uint32_t *) (p->out + p->result->off_row_start);
	uint32_t   *rows = (uint32_t *) (p->out + p->result->off_rows);

	(void) worker;
	for (size_t r = begin; r < end; r++)
	{
		rows[p->position[p->vertex_of_rank[r]]] = p->build->order[r];
		start[r] = (uint32_t) r;
	}
}

/*
 * row_start and rows of the result: a counting sort of the ranks by node, which
 * without duplicates has nothing to count.
 */
void
grn_pipeline_write_rows(GrnPipeline *p)
{
	GrnBuild   *b = p->build;
	uint32_t   *start = (uint32_t *) (p->out + p->result->off_row_start);
	uint32_t   *rows = (uint32_t *) (p->out + p->result->off_rows);
	size_t		m = p->graph.n;

	if (m == b->n)
	{
		p->parallel->run(p->parallel, m, GRN_PIPELINE_GRAIN, write_rows_range, p);
		start[m] = (uint32_t) m;
		return;
	}
	/* start[i + 1] counts, then ends node i, while rows are written */
	memset(start, 0, (m + 1) * sizeof(*start));
	for (uint64_t r = 0; r < b->n; r++)
		start[p->position[p->vertex_of_rank[r]]]++;
	for (uint64_t i = 0, sum = 0; i <= m; i++)
	{
		uint32_t	count = start[i];

		start[i] = (uint32_t) sum;
		sum += count;
	}
	for (uint64_t r = 0; r < b->n; r++)
		rows[start[p->position[p->vertex_of_rank[r]]]++] = b->order[r];
	memmove(start + 1, start, m * sizeof(*start));
	start[0] = 0;
}

bool
grn_pipeline_write_result(GrnPipeline *p, GrnFailure *failure)
{
	GrnBuildResult *r = p->result;
	uint32_t	dims = grn_code_dims(r->shape);
	uint64_t	basis = 4 * (uint64_t) p->rows.dim * dims;

	grn_finish_order(&p->finish);
	grn_pipeline_phase(p, GRN_PHASE_CODES, 2, 3);
	p->out = grn_pipeline_need(p, GRN_SEG_RESULT, grn_pipeline_result_bytes(p), failure);
	if (!p->out)
		return false;
	if (grn_has_codes(&p->codec))
	{
		p->out_codes = grn_pipeline_need(p, GRN_SEG_CODES,
										 r->off_codec + 4 * grn_codec_floats(p->rows.dim, dims),
										 failure);
		if (!p->out_codes)
			return false;
	}
	if (dims > 0)
	{
		memcpy(p->out_codes + r->off_codec, p->codec.mean, 4 * (uint64_t) p->rows.dim);
		memcpy(p->out_codes + r->off_codec + 4 * (uint64_t) p->rows.dim, p->codec.basis, basis);
	}
	p->parallel->run(p->parallel, p->graph.n, GRN_PIPELINE_GRAIN, write_range, p);
	grn_pipeline_write_rows(p);
	for (uint32_t i = 0; i < r->nentries; i++)
		r->entries[i] = p->position[r->entries[i]];
	return true;
}
