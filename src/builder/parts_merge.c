/*
 * parts_merge.c - merges the lists of all parts into a graph, on the processor's cores.
 *
 * The merge compares each row with its neighbors in two parts, and these neighbors with each
 * other.  The neighbors of text embeddings are spread over all rows.  If such rows are floats on a
 * disk, memory cannot hold the neighbors of even a few rows, and the disk would be read many times
 * over.  So the merge compares projections of a few bytes a row, like the descent
 * (graph/projection.c), because memory holds the projections of many more rows.
 */
#include "builder/parts_impl.h"

#include "graph/cut.h"
#include "graph/descent.h"
#include "memory/memory.h"

/*
 * Rows that test whether bytes tell neighbors apart.  10,000 sentences in parts by 8 MB: the same
 * recall with half and twice, as two builds differ.
 */
#define COARSE_SAMPLE 1024

/* Rows projected to bytes. */
typedef struct Bytes
{
	const GrnRows *rows;
	const GrnProject *project;
	size_t		stride;
	int8_t	   *bytes;			/* [n][stride] */
	int32_t    *terms;			/* [n][2], tile.h */
} Bytes;

static size_t
lay_out_bytes(Bytes *b, void *workspace)
{
	const GrnRows *rows = b->rows;
	GrnArena	a = grn_arena(workspace);

	b->bytes = grn_take(&a, rows->n, grn_tile_stride(grn_project_max_dims(rows->dim)));
	b->terms = grn_take(&a, rows->n, 2 * sizeof(int32_t));
	return grn_arena_bytes(&a);
}

size_t
grn_parts_merge_workspace(const GrnRows *rows)
{
	Bytes		b = {.rows = rows};

	return lay_out_bytes(&b, NULL);
}

static void
project_range(void *arg, int worker, size_t begin, size_t end)
{
	const Bytes *b = arg;

	(void) worker;
	grn_prefetch_rows(b->rows, begin, end);
	grn_project_rows(b->project, b->rows, begin, end, b->stride, b->bytes + begin * b->stride,
					 b->terms + 2 * begin);
}

/* Whether bytes tell the nearest neighbors of a sample of rows apart (grn_least_fine()). */
static bool
bytes_are_fine(const GrnPartsBuild *p, const GrnTile *tile, uint32_t dims)
{
	size_t		n = p->job->rows->n;
	size_t		degree = p->job->graph->degree;
	size_t		trials = n < COARSE_SAMPLE ? n : COARSE_SAMPLE;
	size_t		close = 0;

	for (size_t i = 0; i < trials; i++)
	{
		size_t		v = n * i / trials;
		const uint32_t *list = p->lists + p->parts.home[v] * degree;
		uint32_t	distances[GRN_PANEL_ROWS + 3];
		uint32_t	least = UINT32_MAX;
		GrnPanel	panel;

		panel.count = 0;
		while (panel.count < degree && list[panel.count] != GRN_INVALID_ID)
			grn_panel_add(&panel, tile, list[panel.count]);
		if (panel.count > 0)
			grn_tile_dists(tile, (uint32_t) v, &panel, distances);
		for (uint32_t j = 0; j < panel.count; j++)
			least = distances[j] < least ? distances[j] : least;
		close += least < grn_least_fine(dims);
	}
	return close <= trials / GRN_MOST_COARSE;
}

void
grn_parts_merge_on_cores(GrnPartsBuild *p, const GrnProject *project, void *workspace)
{
	Bytes		b = {.rows = p->job->rows, .project = project};
	GrnTile		tile;

	if (project)
	{
		lay_out_bytes(&b, workspace);
		b.stride = grn_tile_stride(project->dims);
		p->parallel->run(p->parallel, b.rows->n, GRN_PREFETCH_PIECE / b.rows->row_bytes + 1, project_range, &b);
		grn_tile_bytes(&tile, b.bytes, b.terms, b.stride);
	}
	if (!project || !bytes_are_fine(p, &tile, project->dims))
		grn_tile_floats(&tile, p->job->rows);
	grn_parts_merge(&tile, &p->parts, p->lists, p->parallel, p->job->graph);
}
