/*
 * pipeline_result.c - writes the result of a build for the leader: lists, rows and codes, by node.
 */
#include "builder/pipeline_impl.h"

#include <string.h>

#include "memory/memory.h"

GrnResultArrays
grn_pipeline_place_result(const GrnPipeline *p, void *segment)
{
	return grn_result_arrays(p->result, p->build->n, p->rows.dim, p->build->spec->near.k > 0, segment);
}

/* Copies a vertex's list, in node ids, and the vertex's code to the arrays of its node. */
static void
write_node(GrnPipeline *p, size_t node, size_t v)
{
	uint32_t	degree = p->result->degree;
	size_t		code_bytes = grn_code_bytes(p->result->shape);
	const uint32_t *from = p->graph.ids + v * p->graph.degree;
	uint32_t   *to = p->out.ids + node * degree;
	uint32_t	count = p->graph.counts[v];

	p->out.counts[node] = (uint8_t) count;
	for (uint32_t i = 0; i < count; i++)
		to[i] = p->position[from[i]];
	for (uint32_t i = count; i < degree; i++)
		to[i] = GRN_INVALID_ID;
	if (code_bytes > 0)
	{
		memcpy(p->out.codes + node * code_bytes, p->codes + v * code_bytes, code_bytes);
		p->out.factors[node] = p->factors[v];
	}
}

static void
write_vertices_range(void *arg, int worker, size_t begin, size_t end)
{
	GrnPipeline *p = arg;

	(void) worker;
	for (size_t v = begin; v < end; v++)
		write_node(p, p->position[v], v);
}

static void
find_vertices_range(void *arg, int worker, size_t begin, size_t end)
{
	GrnPipeline *p = arg;
	uint32_t   *moved = p->out.moved;

	(void) worker;
	for (size_t v = begin; v < end; v++)
		moved[p->position[v]] = (uint32_t) v;
}

static void
write_nodes_range(void *arg, int worker, size_t begin, size_t end)
{
	GrnPipeline *p = arg;
	uint32_t   *moved = p->out.moved;

	(void) worker;
	for (size_t node = begin; node < end; node++)
	{
		uint32_t	v = moved[node];

		write_node(p, node, v);
		if ((!p->own || p->plan.regime == GRN_ROUNDED) && p->rows.order)
			moved[node] = p->rows.order[v];
	}
}

/*
 * Writes lists and codes by node.  Beyond memory the loop goes by node, so each page of the result
 * is written once and in order, and only vertices are read at random.
 */
static void
write_lists(GrnPipeline *p)
{
	if (p->result->moved)
	{
		p->parallel->run(p->parallel, p->graph.n, GRN_GRAIN, find_vertices_range, p);
		p->parallel->run(p->parallel, p->graph.n, GRN_GRAIN, write_nodes_range, p);
	}
	else
		p->parallel->run(p->parallel, p->graph.n, GRN_GRAIN, write_vertices_range, p);
}

/* Writes rows and row_start if all rows are distinct. */
static void
write_rows_range(void *arg, int worker, size_t begin, size_t end)
{
	GrnPipeline *p = arg;
	uint32_t   *start = p->out.row_start;
	uint32_t   *rows = p->out.rows;

	(void) worker;
	for (size_t r = begin; r < end; r++)
	{
		rows[p->position[p->vertex_of_rank[r]]] = p->build->order[r];
		start[r] = (uint32_t) r;
	}
}

/*
 * Writes row_start and rows of the result, with equal rows by a counting sort of the ranks by node.
 */
void
grn_pipeline_write_rows(GrnPipeline *p)
{
	GrnBuild   *b = p->build;
	uint32_t   *start = p->out.row_start;
	size_t		m = p->graph.n;

	if (m == b->n)
	{
		p->parallel->run(p->parallel, m, GRN_GRAIN, write_rows_range, p);
		start[m] = (uint32_t) m;
		return;
	}
	memset(start, 0, (m + 1) * sizeof(*start));
	for (uint64_t r = 0; r < b->n; r++)
		start[p->position[p->vertex_of_rank[r]]]++;
	for (uint64_t i = 0, sum = 0; i < m; i++)
	{
		uint32_t	count = start[i];

		start[i] = (uint32_t) sum;
		sum += count;
	}
	/* The start of each node becomes the node's end. */
	for (uint64_t r = 0; r < b->n; r++)
		p->out.rows[start[p->position[p->vertex_of_rank[r]]]++] = b->order[r];
	memmove(start + 1, start, m * sizeof(*start));
	start[0] = 0;
}

bool
grn_pipeline_write_result(GrnPipeline *p, GrnFailure *failure)
{
	GrnBuildResult *r = p->result;
	uint32_t	dims = grn_code_dims(r->shape);
	void	   *out;

	grn_finish_order(&p->finish);
	out = grn_pipeline_need(p, GRN_SEG_RESULT, grn_pipeline_place_result(p, NULL).bytes, failure);
	if (out == NULL)
		return false;
	p->out = grn_pipeline_place_result(p, out);
	if (r->centered)
		memcpy(p->out.center, p->center, p->rows.dim * sizeof(float));
	if (dims > 0)
	{
		memcpy(p->out.codec, p->codec.mean, p->rows.dim * sizeof(float));
		memcpy(p->out.codec + p->rows.dim, p->codec.basis, (size_t) p->rows.dim * dims * sizeof(float));
	}
	write_lists(p);
	grn_pipeline_write_rows(p);
	for (uint32_t i = 0; i < r->nentries; i++)
		r->entries[i] = p->position[r->entries[i]];
	return true;
}
