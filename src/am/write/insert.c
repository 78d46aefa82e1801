/*
 * insert.c - aminsert: adds a row to the graph.
 *
 * A search finds nodes near the row. The insert chooses the row's neighbors among these nodes,
 * writes the row's record, and gives neighbors links back to the row (link.h). If the index has
 * the same vector already, the row's TID is added to the existing record and the graph does not
 * change.
 */
#include "am/callbacks.h"

#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "am/filter/filter.h"
#include "am/index/index.h"
#include "am/index/page_store.h"
#include "am/test_point.h"
#include "am/write/link.h"
#include "am/write/write.h"
#include "store/prune.h"

/*
 * Inner product: a row longer than the typical row by this factor is long, and a second search
 * gives the row links from shorter rows. 12,000 sentences times log-normal lengths, three quarters
 * deleted and inserted again, recall at ef 40: .979 without the second search, .988 at 1.1 to 2; at
 * 1.25 the second search is rare if all rows are about equally long.
 */
#define LONG_ROW 1.25f
/*
 * Width of the search if an update is known to have kept the vector. This width nearly always finds
 * the record; a smaller width causes more second searches.  With 4, 8 and 16 an update takes
 * equally long (20,000 rows).
 */
#define UNCHANGED_EF 8
/* Far edges taken from a twin, at most. */
#define FAR_EDGES(degree) ((degree) * 3 / 4)
/* Attempts after which "vacuum killed every neighbor first" must be a bug. */
#define MAX_ATTEMPTS 100

typedef struct Insert
{
	Relation	index;
	Relation	heap;
	const GrnndIndex *ix;
	ItemPointer tid;
	uint8	   *attrs;			/* filter values of the row */
	uint8		sig[GRN_MAX_SIG_BYTES]; /* signature of attrs */
	uint32		columns_missing;	/* bits: columns whose lists must get the row's node */
	uint8	   *unlisted_values;	/* [n_unlisted_values] values of the node's other TIDs, perhaps
									 * in no list */
	uint32		n_unlisted_values;
	GrnndStore	store;
	GrnndPoint	p;
	GrnRecord  *rec;			/* [record_bytes] the new row's record */
	uint32		id;				/* of the new record, if any */
	uint32		links;			/* links back to the record */
	uint32		ntwins;			/* nodes of the same vector that cannot take the row */
	uint32		twins[GRNND_MOST_SIGNED + 1];	/* the nearest of these nodes */
} Insert;

/* ---- more TIDs for a node ---- */

/*
 * Writes the row's TID as number i of a record, with the filter values. The lists of these values
 * already have the node.
 */
static void
put_tid(const Insert *in, GrnRecord *rec, uint32 i)
{
	const GrnLayout *l = &in->ix->layout;

	rec->flags = 0;
	memcpy(GRN_REC_PTR(rec, l->off_tids + i * GRN_TID_BYTES), in->tid, GRN_TID_BYTES);
	if (l->attr_bytes > 0)
		memcpy(grn_rec_attrs(l, rec) + i * l->attr_bytes, in->attrs, l->attr_bytes);
}

/* Adds the TID to the first chained record of node id, if the record has room. */
static bool
add_to_chain(Insert *in, uint32 chain, uint32 id, uint16 version)
{
	const GrnLayout *l = &in->ix->layout;
	GrnndEdit	e;
	bool		added = false;

	grnnd_edit_begin(&e, in->index, in->ix, chain);
	/* an empty record belongs to vacuum, which will free the record */
	if (grn_tids_owned_by(e.rec, id, version) &&
		e.rec->ntids16 > 0 && e.rec->ntids16 < l->chain_tids)
	{
		GrnRecord  *rec = grnnd_edit_change(&e);

		put_tid(in, rec, rec->ntids16++);
		added = true;
	}
	grnnd_edit_end(&e);
	return added;
}

/* Puts a new chained record in front of the chain of node id. Returns false if the node is gone. */
static bool
prepend_chain(Insert *in, uint32 next, uint32 id, uint16 version)
{
	const GrnLayout *l = &in->ix->layout;
	GrnRecord  *rec = palloc0(l->record_bytes);
	uint32		chain;
	bool		done = false;
	bool		gone = false;

	rec->state = GRN_TIDS;
	rec->ntids16 = 1;
	rec->next = next;
	grn_tids_set_owner(rec, id, version);
	put_tid(in, rec, 0);
	chain = grnnd_new_record(in->index, in->heap, in->ix, rec);
	pfree(rec);
	grnnd_test_point("chain-written");

	while (!done && !gone)
	{
		GrnndEdit	e;
		uint32		now;

		grnnd_edit_begin(&e, in->index, in->ix, id);
		now = e.rec->next;
		if (e.rec->state != GRN_NODE || e.rec->version != version)
			gone = true;
		else if (now == next)
		{
			grnnd_edit_change(&e)->next = chain;
			done = true;
		}
		grnnd_edit_end(&e);
		if (done)
			break;

		/* no other backend knows the new record yet: change its `next`, or free the record */
		grnnd_edit_begin(&e, in->index, in->ix, chain);
		if (gone)
			grnnd_free_slot(grnnd_edit_change(&e), InvalidFullTransactionId);
		else
			grnnd_edit_change(&e)->next = next = now;
		grnnd_edit_end(&e);
	}
	if (gone)
		grnnd_note_room(in->index, grnnd_node_block(in->ix, chain), GRNND_ROOM);
	return done;
}

/*
 * Determines which lists a node must be added to before the node gets the row's TID: lists of
 * values that none of the node's own TIDs has, or all lists if the insert that wrote the node may
 * have added the node to no list. Returns false for no list.
 */
static bool
note_values(Insert *in, const GrnRecord *rec)
{
	const GrnLayout *l = &in->ix->layout;
	const GrnndAttrs *columns = in->ix->attrs;
	bool		listed = (rec->flags & GRN_UNLISTED) == 0;

	in->columns_missing = 0;
	in->n_unlisted_values = listed ? 0 : rec->ntids;
	for (uint32 c = 0; c < columns->n; c++)
	{
		uint32		rank = grnnd_attr_rank(columns, in->ix->books, c, in->attrs);
		bool		known = false;

		for (uint32 i = 0; i < rec->ntids && listed && !known; i++)
			known = grnnd_attr_rank(columns, in->ix->books, c,
									grn_rec_attrs(l, rec) + i * l->attr_bytes) == rank;
		if (!known && grnnd_has_list(&columns->attr[c]))
			in->columns_missing |= UINT32_C(1) << c;
	}
	if (in->n_unlisted_values > 0)
		memcpy(in->unlisted_values, grn_rec_attrs(l, rec), in->n_unlisted_values * l->attr_bytes);
	return in->columns_missing != 0;
}

/* Adds a node to the lists of values [attr_bytes] marked in in->columns_missing. */
static void
add_to_lists(Insert *in, const GrnEdge *node, const uint8 *values)
{
	const GrnndIndex *ix = in->ix;

	for (uint32 c = 0; c < ix->attrs->n && grnnd_keeps_lists(&ix->meta); c++)
	{
		GrnListRow	row = {node->id, grnnd_attr_rank(ix->attrs, ix->books, c, values), node->factor,
			node->code, node->sig};

		if ((in->columns_missing >> c & 1) != 0 && grnnd_has_list(&ix->attrs->attr[c]))
			grnnd_list_add(in->index, in->heap, ix, grn_list_bucket(ix->meta.list_buckets, c, row.rank), &row, 1);
	}
}

/*
 * Adds the TID to a node. The lists come first, because the TID tells later inserts that the lists
 * have the node. An insert that fails in between leaves a stale row in a list.
 */
static bool
add_tid(Insert *in, const GrnEdge *node, uint16 version)
{
	const GrnLayout *l = &in->ix->layout;
	GrnndEdit	e;
	bool		added = false;
	uint32		next;

	for (bool listed = !grnnd_keeps_lists(&in->ix->meta);; listed = true)
	{
		grnnd_edit_begin(&e, in->index, in->ix, node->id);
		if (e.rec->state != GRN_NODE || e.rec->version != version)
		{
			grnnd_edit_end(&e);
			return false;
		}
		if (listed || !note_values(in, e.rec))
			break;
		grnnd_edit_end(&e);
		add_to_lists(in, node, in->attrs);
		for (uint32 i = 0; i < in->n_unlisted_values; i++)
			add_to_lists(in, node, in->unlisted_values + (Size) i * l->attr_bytes);
		grnnd_test_point("tid-listed");
	}
	next = e.rec->next;
	if (e.rec->ntids < l->tids_max)
	{
		GrnRecord  *rec = grnnd_edit_change(&e);

		put_tid(in, rec, rec->ntids++);
		added = true;
	}
	grnnd_edit_end(&e);
	if (added)
		return true;
	if (next != GRN_INVALID_ID && add_to_chain(in, next, node->id, version))
		return true;
	return prepend_chain(in, next, node->id, version);
}

/*
 * Returns whether a row with this signature may join a record. Edges keep the record's signature
 * for good.
 */
static bool
sig_serves(const GrnLayout *l, const uint8_t *of_record, const uint8_t *sig)
{
	for (uint32 c = 0; c < l->sig_bytes; c++)
		if (of_record[c] != GRN_SIG_ANY && of_record[c] != sig[c])
			return false;
	return true;
}

/*
 * Searches the found nodes for the row's vector. Vectors that round to the same bytes with the same
 * error may share a record, because the bound that a scan returns holds for both. If the row needs
 * its own record, sets the record's signature.
 */
static bool
add_to_identical(Insert *in, GrnSearch *search, uint32 nfound)
{
	const GrnLayout *l = &in->ix->layout;
	const GrnFound *found = grn_search_found(search);
	const void *vec = GRN_REC_PTR(in->rec, l->off_vec);
	uint32		nsigned = 0;

	in->ntwins = 0;
	for (uint32 i = 0; i < nfound; i++)
	{
		GrnEdge		own = {.id = found[i].id};

		if (found[i].state != GRN_NODE || found[i].error != in->rec->error ||
			memcmp(grn_search_vector(search, i), vec, l->vec_bytes) != 0)
			continue;
		own.code = grn_search_code(search, i, &own.factor);
		own.sig = own.code + l->code_bytes;
		if (!sig_serves(l, own.sig, in->sig))
		{
			if (nsigned < lengthof(in->twins))
				in->twins[in->ntwins++] = found[i].id;
			nsigned++;
		}
		else if (add_tid(in, &own, found[i].version))
			return true;
	}
	if (nsigned < GRNND_MOST_SIGNED)
		memcpy(GRN_REC_PTR(in->rec, l->off_sig), in->sig, l->sig_bytes);
	else
		memset(GRN_REC_PTR(in->rec, l->off_sig), GRN_SIG_ANY, l->sig_bytes);
	return false;
}

/* ---- the insert itself ---- */

/*
 * Takes back a written node to which no neighbor links, so that the row can be inserted again.
 * Returns false if the node has got another TID or another list, because other nodes may then rely
 * on it. (A changed list alone may come from an insert that found the node, or from vacuum, which
 * drops dead neighbors.)
 */
static bool
withdraw(Insert *in, uint32 id, uint16 version)
{
	const GrnLayout *l = &in->ix->layout;
	GrnndEdit	e;
	bool		alone;

	grnnd_edit_begin(&e, in->index, in->ix, id);
	alone = e.rec->state == GRN_NODE && e.rec->version == version &&
		e.rec->ntids == 1 && e.rec->next == GRN_INVALID_ID &&
		e.rec->count == in->rec->count &&
		memcmp(grn_rec_ids(l, e.rec), grn_rec_ids(l, in->rec),
			   e.rec->count * sizeof(uint32)) == 0;
	if (alone)
	{
		GrnRecord  *rec = grnnd_edit_change(&e);

		rec->state = GRN_DEAD;
		rec->flags = 0;
		rec->ntids = 0;
		rec->count = 0;
	}
	grnnd_edit_end(&e);
	return alone;
}

/* Adds the edge from a row to entries[0], in place of the last edge if the list is full. */
static void
add_first_edge(const Insert *in, const GrnndEntries *entries, GrnRecord *rec)
{
	static const uint8_t any[GRN_MAX_SIG_BYTES];	/* GRN_SIG_ANY */
	const GrnLayout *l = &in->ix->layout;
	GrnEdge		edge = {.id = entries->ids[0], .factor = entries->factors[0], .code = entries->codes, .sig = any};

	rec->count = Min(rec->count, l->degree - 1);
	grn_add_edge(l, rec, &edge);
}

/*
 * Makes the written row entries[0], with an edge to the previous entries[0]: live rows may be
 * reachable through dead nodes alone, and vacuum drops the edge before it frees a dead node.
 * Returns false if another row has become entries[0].
 */
static bool
become_first(Insert *in, const GrnndEntries *entries)
{
	const GrnLayout *l = &in->ix->layout;
	uint32		expected = entries->count > 0 ? entries->ids[0] : GRN_INVALID_ID;
	GrnndEdit	e;

	if (expected == in->id)
		return true;
	grnnd_edit_begin(&e, in->index, in->ix, in->id);
	if (expected != GRN_INVALID_ID && grn_find_id(grn_rec_ids(l, e.rec), e.rec->count, expected) < 0)
		add_first_edge(in, entries, grnnd_edit_change(&e));
	grnnd_edit_end(&e);
	return grnnd_put_first_entry(in->index, in->ix, in->id, in->p.code, in->p.factor, expected);
}

/* Returns whether a vacuum relies on lists that it has read before. */
static bool
survey_runs(const Insert *in)
{
	return grnnd_is_locked(in->index, GRNND_SURVEY_LOCK, ShareLock);
}

/*
 * Gives the written row, which cannot be taken back, links from other neighbors: the first choice
 * has refused the row or is gone.
 */
static void
link_anew(Insert *in)
{
	int			attempts = 0;

	for (bool linked = false; !linked;)
	{
		GrnndEntries *entries = grnnd_get_entries(in->index, in->ix);
		bool		alone;

		CHECK_FOR_INTERRUPTS();
		if (++attempts == MAX_ATTEMPTS)
			grnnd_corrupt(in->index, in->ix->meta.entry_block, "no node takes an edge to a row");
		linked = grnnd_link_anew(&in->store, &in->p, entries, in->id, in->rec->version, survey_runs(in), &alone) ||
			(alone && become_first(in, entries));
	}
}

/*
 * For an index without a live node or entry point: the row becomes entries[0], with an edge to the
 * previous entries[0]. Only one insert runs this at a time, and the next insert finds the row.
 */
static bool
insert_first(Insert *in)
{
	GrnndEntries *entries;
	GrnndNear  *near;
	uint32		nfound;
	bool		done = false;

	grnnd_test_point("insert-first");
	grnnd_lock(in->index, GRNND_FIRST_LOCK, ExclusiveLock);
	entries = grnnd_get_entries(in->index, in->ix);
	near = grnnd_find_near(&in->store, &in->p, grnnd_insert_ef(in->ix), entries);
	(void) grnnd_near_search(near, &nfound);
	grnnd_near_end(near);
	if (nfound == 0)
	{
		in->rec->count = 0;
		/* written with the row, so that withdraw() finds the record as it was written */
		if (entries->count > 0)
			add_first_edge(in, entries, in->rec);
		in->id = grnnd_new_record(in->index, in->heap, in->ix, in->rec);
		done = become_first(in, entries);
		if (!done && !withdraw(in, in->id, in->rec->version))
		{
			link_anew(in);
			done = true;
		}
	}
	grnnd_unlock(in->index, GRNND_FIRST_LOCK, ExclusiveLock);
	return done;
}

/*
 * Inner product: a row longer than usual lies nearer to all long rows than to any short row. But
 * searches by inner product reach the row through short rows of the same direction. So a second
 * search finds the neighbors that a row of typical length would choose there, and these nodes link
 * to the row as well. Writes their ids to from [degree] and returns the number.
 */
static uint32
choose_shorter(Insert *in, const GrnndEntries *entries, const GrnndList *list, uint32 *from)
{
	const GrnndIndex *ix = in->ix;
	float		length = grn_factor_length(in->p.factor);
	float		typical = grnnd_typical_length(ix, entries);
	float	   *x;
	GrnndPoint	p;
	GrnndList	shorter;
	GrnndNear  *near;
	uint32		n = 0;

	if (!(typical > 0) || length <= LONG_ROW * typical)
		return 0;
	x = palloc(ix->meta.dim * sizeof(float));
	for (uint32 i = 0; i < ix->meta.dim; i++)
		x[i] = in->p.x[i] * (typical / length);
	grnnd_make_point(ix, x, 0, &p);
	near = grnnd_find_near(&in->store, &p, grnnd_insert_ef(ix), entries);
	grnnd_choose_neighbors(near, GRN_INVALID_ID, &shorter);
	grnnd_near_end(near);
	for (uint32 i = 0; i < shorter.near; i++)
		if (LONG_ROW * grn_factor_length(shorter.factors[i]) < length &&
			grn_find_id(list->ids, list->count, shorter.ids[i]) < 0)
			from[n++] = shorter.ids[i];
	return n;
}

/* The row has its own node: adds the node to the sample and to the lists. */
static void
note_node(Insert *in)
{
	GrnEdge		own = grn_own_edge(&in->ix->layout, in->rec, in->id);

	grnnd_offer_sample(in->index, in->ix, in->id, in->rec);
	grnnd_test_point("node-unlisted");
	in->columns_missing = PG_UINT32_MAX;
	add_to_lists(in, &own, in->attrs);
}

/* Adds an edge to the row's record, unless the record has the edge, or `most` edges. */
static void
add_edge(Insert *in, const GrnEdge *edge, uint32 most)
{
	const GrnLayout *l = &in->ix->layout;

	if (in->rec->count < most && grn_find_id(grn_rec_ids(l, in->rec), in->rec->count, edge->id) < 0)
		grn_add_edge(l, in->rec, edge);
}

/*
 * Finds live neighbors of the row's twin that are far from the twin: the search has not found them.
 * Writes the positions of at most `most` of them, from the end, to far, and returns the number.
 */
static uint32
far_edges(Insert *in, GrnSearch *search, uint32 nfound, const GrnRecord *twin, uint32 most, uint32 *far)
{
	const GrnFound *found = grn_search_found(search);
	GrnRecord  *scratch = palloc(grnnd_copy_bytes(in->ix));
	uint32		n = 0;

	for (uint32 i = twin->count; i-- > 0 && n < most;)
	{
		uint32		id = grn_rec_ids(&in->ix->layout, twin)[i];
		uint32		at = 0;

		while (at < nfound && found[at].id != id)
			at++;
		if (at == nfound && grnnd_copy_record(in->index, in->ix, id, scratch, NULL) == GRN_NODE)
			far[n++] = i;
	}
	pfree(scratch);
	return n;
}

/*
 * Makes the list of a row that has a twin, a node with the same vector and other filter values: the
 * twin, the row's chosen neighbors, and far neighbors of the twin, as many as fit. Where rows
 * lie in clusters, far edges lead to other clusters; a search around the row does not see
 * their ends, or the rule refuses them. So far edges have priority, but come last in the list,
 * which is nearest first.
 */
static void
join_twin(Insert *in, GrnSearch *search, uint32 nfound, const GrnndList *list)
{
	const GrnLayout *l = &in->ix->layout;
	GrnRecord  *twin = palloc(grnnd_copy_bytes(in->ix));
	uint32		far[GRN_MAX_DEGREE];
	uint32		nfar = 0;
	GrnEdge		edge;

	if (grnnd_copy_record(in->index, in->ix, in->twins[0], twin, NULL) == GRN_NODE)
	{
		nfar = far_edges(in, search, nfound, twin, FAR_EDGES(l->degree), far);
		edge = grn_own_edge(l, twin, in->twins[0]);
		grn_add_edge(l, in->rec, &edge);
	}
	for (uint32 i = 0; i < list->near; i++)
	{
		edge = grnnd_list_edge(in->ix, list, i);
		add_edge(in, &edge, l->degree - nfar);
	}
	while (nfar > 0)
	{
		edge = grn_get_edge(l, twin, far[--nfar]);
		add_edge(in, &edge, l->degree);
	}
	pfree(twin);
}

/* Makes one attempt. Returns false if the found neighbors were gone when needed. */
static bool
insert_once(Insert *in, uint32 ef, bool only_identical)
{
	const GrnndIndex *ix = in->ix;
	GrnndEntries *entries = grnnd_get_entries(in->index, ix);
	GrnndNear  *near;
	GrnSearch  *search;
	GrnndList	list;
	uint32		from[GRNND_MOST_SIGNED + 1 + 2 * GRN_MAX_DEGREE];
	GrnndLinkPlan plan = {.chosen = &list};
	GrnndLink  *link;
	uint32		nfound;
	bool		done;

	grnnd_test_point("insert-entries");
	near = grnnd_find_near(&in->store, &in->p, ef, entries);
	search = grnnd_near_search(near, &nfound);
	done = add_to_identical(in, search, nfound);
	if (done || only_identical || nfound == 0)
	{
		grnnd_near_end(near);
		if (!done && !only_identical && insert_first(in))
		{
			note_node(in);
			done = true;
		}
		return done;
	}
	/* while an index is filling, the twin's edges may have no codes yet */
	if (ix->meta.fit_state != GRNND_FILLING)
		plan.ntwins = in->ntwins;
	grnnd_choose_neighbors(near, GRN_INVALID_ID, &list);
	in->rec->count = 0;
	if (plan.ntwins > 0)
	{
		join_twin(in, search, nfound, &list);
		memcpy(from, in->twins, in->ntwins * sizeof(uint32));
	}
	plan.near = near;
	plan.by_self = survey_runs(in);
	grnnd_test_point("insert-chosen");
	memcpy(from + plan.ntwins, list.ids, list.count * sizeof(uint32));
	plan.from = from;
	plan.nchosen = list.count;
	plan.nfrom = plan.ntwins + list.count;
	plan.nfrom += choose_shorter(in, entries, &list, from + plan.nfrom);
	link = grnnd_plan_links(in->index, ix, &plan, in->rec, GRN_INVALID_ID);
	in->id = grnnd_new_record(in->index, in->heap, ix, in->rec);
	grnnd_test_point("insert-written");
	in->links = grnnd_make_links(link, in->id, in->rec->version);
	grnnd_near_end(near);
	if (in->links == 0)
	{
		if (withdraw(in, in->id, in->rec->version))
			return false;
		link_anew(in);
	}
	grnnd_offer_entry(in->index, ix, in->id, &in->p, entries);
	note_node(in);
	return true;
}

static void
insert_row(Insert *in, float *x, const void *row, bool unchanged)
{
	const GrnLayout *l = &in->ix->layout;
	GrnRecordSource source = {.x = x, .tids = (uint8_t *) in->tid, .attrs = in->attrs, .sig = in->sig,
		.ntids = 1, .next = GRN_INVALID_ID};
	float		error = 0;

	if (l->form == in->ix->key.type->form)
		source.stored = row;
	in->rec = palloc_extended(l->record_bytes, MCXT_ALLOC_ZERO);
	grn_record_write(l, &source, in->rec);
	/*
	 * while an index is filling, all codes of a row must be equal, so they are made from the stored
	 * vector
	 */
	if (in->ix->meta.fit_state != GRNND_FITTED)
	{
		grn_own_load(l, GRN_REC_PTR(in->rec, l->off_vec), x);
		error = grnnd_rounding_error(in->ix, in->rec);
	}
	grnnd_make_point(in->ix, x, error, &in->p);
	if (error == 0 && !grn_is_scaled(in->ix->key.metric->embedding))
		in->p.error2 = grnnd_rounding_error(in->ix, in->rec) * grnnd_rounding_error(in->ix, in->rec);
	in->rec->factor = in->p.factor;
	memcpy(GRN_REC_PTR(in->rec, l->off_code), in->p.code, l->code_bytes);
	if (grnnd_keeps_lists(&in->ix->meta))
		in->rec->flags = GRN_UNLISTED;
	in->p.rec = in->rec;
	in->unlisted_values = palloc((Size) l->tids_max * l->attr_bytes + 1);

	grnnd_store_init(&in->store, in->index, in->ix, CurrentMemoryContext);
	if (!unchanged || !insert_once(in, UNCHANGED_EF, true))
	{
		int			attempts = 0;

		while (!insert_once(in, grnnd_insert_ef(in->ix), false))
		{
			CHECK_FOR_INTERRUPTS();
			if (++attempts == MAX_ATTEMPTS)
				grnnd_corrupt(in->index, in->ix->meta.entry_block, "no entry point leads to a node");
		}
	}
}

/*
 * Takes GRNND_WRITERS_LOCK in the mode that says whether this insert writes codes, and returns the
 * mode: vacuum.c and fit_codes.c wait for inserts by mode. The state of lists is read from the
 * metapage under the lock.
 */
static LOCKMODE
begin_writing(Insert *in)
{
	for (;;)
	{
		LOCKMODE	mode;

		in->ix = grnnd_index(in->index);
		mode = in->ix->meta.fit_state == GRNND_UNFITTED ? RowExclusiveLock : RowShareLock;
		grnnd_lock(in->index, GRNND_WRITERS_LOCK, mode);
		/* no index becomes unfitted, but this index may have been fitted just now */
		if (grnnd_renews_lists(&in->ix->meta) && !grnnd_lists_current(in->index, in->ix))
			in->ix = grnnd_index_anew(in->index);
		else if (mode == RowExclusiveLock)
			in->ix = grnnd_index(in->index);
		if (mode == RowShareLock || in->ix->meta.fit_state == GRNND_UNFITTED)
			return mode;
		grnnd_unlock(in->index, GRNND_WRITERS_LOCK, mode);
	}
}

bool
grnnd_insert(Relation index, Datum *values, bool *isnull, ItemPointer tid,
			 Relation heap, IndexUniqueCheck unique, bool unchanged, IndexInfo *info)
{
	MemoryContext context;
	MemoryContext old;
	Insert		in = {.index = index, .heap = heap, .tid = tid};
	LOCKMODE	mode;
	uint32		last;
	float	   *x;
	void	   *row;

	if (isnull[0])
		return false;
	context = AllocSetContextCreate(CurrentMemoryContext, "grnnd insert",
									ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);
	/* keep the lock until the links are made */
	mode = begin_writing(&in);
	x = palloc(in.ix->meta.dim * sizeof(float));
	if (grnnd_form_vector(&in.ix->key, in.ix->meta.column_dim, values[0], x, &row))
	{
		in.attrs = palloc(Max(in.ix->attrs->bytes, 1));
		grnnd_form_attrs(in.ix->attrs, values, isnull, in.attrs);
		if (in.ix->books != NULL)
			grnnd_sign(in.ix->attrs, in.ix->books, in.attrs, in.sig);
		insert_row(&in, x, row, unchanged);
		grnnd_count_insert(index, in.links);
	}
	grnnd_unlock(index, GRNND_WRITERS_LOCK, mode);
	/* use the last id of the page, as the worker and VACUUM do, because they count pages */
	last = in.id - in.id % in.ix->layout.per_page + in.ix->layout.per_page - 1;
	if (grnnd_fit_due(&in.ix->meta, last))
		grnnd_request_fit(index, heap, last);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return false;
}
