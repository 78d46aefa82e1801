/*
 * lists.c - makes neighbor lists of the result of a descent: survivors of the last prune,
 * reverse edges, and neighbors of neighbors, nearest first.
 *
 * A record has room for `degree` neighbors whether the list is full or not, and a search step
 * estimates the distances of all neighbors from the one page that the step reads.  Edges that
 * the RNG rule refused therefore cost a query almost nothing, and save search steps: 100,000
 * SIFT descriptors of average degree 23 needed 35 steps for recall@10 = .95; with lists filled
 * to 32 they needed 28.  The GPU fills lists by the same rule.
 *
 * By inner product a query wants the rows that reach farthest in its direction.  Where all rows
 * lie on one side of the origin, these are at the edge of their neighborhood, and nearest to few
 * rows.  So the added neighbors have the largest products instead of the least distances (on
 * cores, not on a GPU).  10,000 rows, recall at ef 40 and of LIMIT 100 at ef 200: clusters of
 * unequal spread .991 and .997 instead of .830 and .966, days that drift .998 and 1.000 instead of
 * .977 and .999, rows far from the origin 1.000 and .997 instead of 1.000 and .939; seven other
 * sets the same.
 *
 * Lists are made by position, in the memory of the inboxes, which are no longer needed.  The
 * last step writes the lists in the order of vertices.
 */
#include "graph/descent_impl.h"

#include <string.h>

/*
 * SOURCES, recall at ef 40 of 20,000 sentences and image patches: half .001 more and .004 less,
 * twice the same and .001 less.
 */
#define SOURCES 6				/* neighbors whose neighbors may fill a list */
/*
 * Survivors' share of a list that cannot hold all reverse edges as well.  By inner product long
 * rows survive in most lists, and short rows in few, so short rows need reverse edges.  Recall at
 * ef 40 of 100,000 rows with half, this share and all of the degree: tokens .980, .973, .965,
 * Pareto lengths .997, .998, .996, log-normal lengths .887, .892, .878; of 10,000 normal rows .793,
 * .800, .788; sentences and uniform rows equal.  A GPU's lists have no such share: there two
 * builds of one version differ by more than the share changes.
 */
#define SURVIVORS(degree) ((degree) * 3 / 4)
#define SEEN 2048				/* slots of the table of seen vertices, a power of 2 */

_Static_assert(sizeof(Inbox) >= GRN_MAX_DEGREE * sizeof(uint32_t), "a list fits an inbox");
_Static_assert(SEEN >= 2 * (SOURCES + 1) * GRN_MAX_DEGREE, "the table stays half empty");

/* Return the list of a position, and the vertices that fill adds to the list. */
static uint32_t *
list_of(const Descent *d, size_t v)
{
	return (uint32_t *) &d->read[v];
}

static uint32_t *
additions_of(const Descent *d, size_t v)
{
	return (uint32_t *) &d->write[v];
}

/* Writes the list of a position, sorted, into the memory of its inbox. */
static void
put_list(Descent *d, size_t v, const uint64_t *keys, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		list_of(d, v)[i] = KEY_ID(keys[i]);
	d->counts[v] = (uint8_t) count;
	d->graph->counts[v] = 0;	/* counts additions_of() until the end */
}

/*
 * Makes lists of survivors and, up to the degree, the nearest vertices that chose this vertex.  If
 * there are more of both than a list holds, survivors get SURVIVORS of it.
 */
static void
list_range(void *arg, int worker, size_t begin, size_t end)
{
	Descent    *d = arg;
	uint32_t	degree = d->graph->degree;

	(void) worker;
	for (size_t v = begin; v < end; v++)
	{
		const uint64_t *pool = d->pools + v * d->params.r;
		Inbox	   *inbox = &d->read[v];
		uint64_t	keys[MAX_POOL];
		uint32_t	own = d->counts[v] < degree ? d->counts[v] : degree;
		uint32_t	count = 0;
		uint32_t	ninbox = grn_sort_distinct(inbox->keys, inbox->count);
		uint32_t	nreverse = 0;
		uint64_t	reverse[INBOX];

		for (uint32_t i = 0; i < ninbox; i++)
		{
			bool		known = false;

			for (uint32_t j = 0; j < own && !known; j++)
				known = (pool[j] | KEY_NEW) == inbox->keys[i];
			if (!known)
				reverse[nreverse++] = inbox->keys[i];
		}
		while (own > SURVIVORS(degree) && own + nreverse > degree)
			own--;
		for (uint32_t i = 0; i < own; i++)
			keys[count++] = pool[i] | KEY_NEW;
		for (uint32_t i = 0; i < nreverse && count < degree; i++)
			keys[count++] = reverse[i];
		grn_sort_few_keys(keys, count);
		put_list(d, v, keys, count);
	}
}

/* Inserts id into the table.  Returns false if the table has the id already. */
static bool
insert_id(uint32_t *table, uint32_t id)
{
	uint32_t	slot = (id * UINT32_C(0x9E3779B1)) & (SEEN - 1);

	while (table[slot] != GRN_INVALID_ID)
	{
		if (table[slot] == id)
			return false;
		slot = (slot + 1) & (SEEN - 1);
	}
	table[slot] = id;
	return true;
}

/* The ordinals of negative inner products with a panel. */
static void
negative_products(const Descent *d, size_t v, const GrnPanel *panel, uint32_t *out)
{
	float		scratch[GRN_MOST_DIMS];
	const float *x = grn_row_values(&d->rows, grn_row(&d->rows, v), scratch);

	for (uint32_t i = 0; i < panel->count; i++)
		out[i] = grn_ordinal(-grn_form_ip(d->rows.form, x, grn_row(&d->rows, panel->ids[i]), d->rows.dim));
}

/* Offers a panel of candidates to the `room` smallest keys, sorted.  Returns their number. */
static uint32_t
offer(const Descent *d, size_t v, GrnPanel *panel, uint64_t *nearest, uint32_t count,
	  uint32_t room)
{
	uint32_t	distances[GRN_PANEL_ROWS + 3];

	if (grn_fills_by_products(d->rows.embedding, d->rows.comparison, d->rows.form))
		negative_products(d, v, panel, distances);
	else if (panel->count > 0)
		grn_tile_dists(&d->tile, (uint32_t) v, panel, distances);
	for (uint32_t i = 0; i < panel->count; i++)
	{
		uint64_t	key = KEY(distances[i], panel->ids[i]);
		uint32_t	j;

		if (count == room && key >= nearest[count - 1])
			continue;
		if (count < room)
			count++;
		for (j = count - 1; j > 0 && nearest[j - 1] > key; j--)
			nearest[j] = nearest[j - 1];
		nearest[j] = key;
	}
	panel->count = 0;
	return count;
}

static void
fill_range(void *arg, int worker, size_t begin, size_t end)
{
	Descent    *d = arg;
	uint32_t	degree = d->graph->degree;
	uint32_t	table[SEEN];
	GrnPanel	panel;

	(void) worker;
	panel.count = 0;
	for (size_t v = begin; v < end; v++)
	{
		const uint32_t *own = list_of(d, v);
		uint32_t	count = d->counts[v];
		uint32_t	room = degree - count;
		uint64_t	nearest[MAX_POOL];
		uint32_t	nnearest = 0;

		if (room == 0)
			continue;
		memset(table, 0xFF, sizeof(table));
		insert_id(table, (uint32_t) v);
		for (uint32_t i = 0; i < count; i++)
			insert_id(table, own[i]);
		for (uint32_t i = 0; i < count && i < SOURCES; i++)
		{
			const uint32_t *theirs = list_of(d, own[i]);

			for (uint32_t j = 0; j < d->counts[own[i]]; j++)
				if (insert_id(table, theirs[j]))
				{
					grn_tile_prefetch(&d->tile, theirs[j]);
					grn_panel_add(&panel, &d->tile, theirs[j]);
					if (panel.count == GRN_PANEL_ROWS)
						nnearest = offer(d, v, &panel, nearest, nnearest, room);
				}
		}
		nnearest = offer(d, v, &panel, nearest, nnearest, room);
		for (uint32_t i = 0; i < nnearest; i++)
			additions_of(d, v)[i] = KEY_ID(nearest[i]);
		d->graph->counts[v] = (uint8_t) nnearest;
	}
}

/* Appends the added vertices to each list.  Counts and additions are by position. */
static void
count_range(void *arg, int worker, size_t begin, size_t end)
{
	Descent    *d = arg;

	(void) worker;
	for (size_t v = begin; v < end; v++)
	{
		uint32_t	count = d->counts[v];

		memcpy(list_of(d, v) + count, additions_of(d, v),
			   d->graph->counts[v] * sizeof(uint32_t));
		d->counts[v] = (uint8_t) (count + d->graph->counts[v]);
	}
}

/* Computes the distances of a list's vertices, exactly even if the descent compared projections. */
static void
exact_keys(const Descent *d, size_t v, const uint32_t *ids, uint32_t count, uint64_t *keys)
{
	uint32_t	distances[GRN_PANEL_ROWS + 3];
	GrnPanel	panel;

	if (d->use_bytes && d->not_bytes)
	{
		const void *x = grn_row(&d->rows, v);

		for (uint32_t i = 0; i < count; i++)
		{
			float		distance = grn_row_distance(&d->rows, x, grn_row(&d->rows, ids[i]));

			memcpy(&distances[i], &distance, sizeof(distance));
		}
	}
	else if (count > 0)
	{
		panel.count = 0;
		for (uint32_t i = 0; i < count; i++)
			grn_panel_add(&panel, &d->tile, ids[i]);
		grn_tile_dists(&d->tile, (uint32_t) v, &panel, distances);
	}
	for (uint32_t i = 0; i < count; i++)
		keys[i] = KEY(distances[i], ids[i]);
}

static void
write_range(void *arg, int worker, size_t begin, size_t end)
{
	Descent    *d = arg;
	uint32_t	degree = d->graph->degree;

	(void) worker;
	for (size_t v = begin; v < end; v++)
	{
		uint64_t	keys[MAX_POOL];
		uint32_t	count = d->counts[v];
		uint32_t   *ids = d->graph->ids + (size_t) d->vertex[v] * degree;

		exact_keys(d, v, list_of(d, v), count, keys);
		grn_sort_few_keys(keys, count);
		for (uint32_t i = 0; i < count; i++)
			ids[i] = d->vertex[KEY_ID(keys[i])];
		d->graph->counts[d->vertex[v]] = (uint8_t) count;
	}
}

void
grn_write_lists(Descent *d, GrnParallel *parallel, bool fill)
{
	size_t		n = d->rows.n;

	parallel->run(parallel, n, GRN_GRAIN, list_range, d);
	if (fill)
	{
		parallel->run(parallel, n, GRN_GRAIN, fill_range, d);
		parallel->run(parallel, n, GRN_GRAIN, count_range, d);
	}
	parallel->run(parallel, n, GRN_GRAIN, write_range, d);
}
