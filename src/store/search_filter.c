/*
 * search_filter.c - a search for rows that pass a filter, by signatures beside the codes.
 *
 * Candidates whose signatures pass are on the list, as in any search.  Candidates whose signatures
 * fail are in a heap, because they may lead to nodes that pass.  The search expands the nearest
 * candidate of both.  If few rows pass the filter, most nodes near the query fail, and expanding
 * all of them would cost about as much as a search without signatures.  Three rules bound this
 * cost:
 *   - A failing node is not expanded once more than MOST_LISTINGS visited records list it.
 *     Its surroundings are then known.
 *   - A run is dry after many failing nodes that showed no useful candidate (dry_limit).
 *     A dry run expands no further failing nodes.
 *   - A failing node is not expanded if it is farther than a part of the full list
 *     (failing_bound()).
 */
#include "store/search_impl.h"

#include <math.h>

/*
 * On a million SIFT descriptors this limit reads 1.3 times fewer pages where a tenth of the rows
 * pass, and 2.6 times fewer where a hundredth pass.  Skipping nodes at random does no better.
 * 20,000 sentences and image patches, a fifth of them with an element: half takes 5% fewer visits
 * for .0035 less recall and the same recall, twice 7% more for no more recall.
 */
#define MOST_LISTINGS 2

/*
 * Failing nodes must be nearer than the candidate at this part of the list of ef.  On 300,000 SIFT
 * descriptors at recall 0.95 and 10% passing rows, .4 reads 125 buffers, .5 reads 138 and .3 reads
 * 128; with smaller parts recall comes near the recall of a search without a filter at the same ef
 * (test/bench/decisions.md).
 */
#define FAILING_BOUND 0.4
/*
 * Number of candidates to prefetch, from the list and from the heap's top three, by distance.  On
 * 300,000 SIFT descriptors this prefetches 1.1 to 1.2 times the records that get visited.  While
 * visits wait for a disk, the search prefetches the heap's top beside the list's window.
 */
#define AHEAD 3

/*
 * Failing nodes that a run may visit before a candidate passes.  If the share passes at random,
 * about 1 / share failing nodes show one passing node.  With 8, 16 and 32 as the summand recall
 * is .989, .990 and .990 where 70% of 20,000 sentences pass, all in one region.
 */
#define DRY_LIMIT(share) (16 + 1 / (share))
#define MAX_DRY_LIMIT 1e9

/*
 * Lower bound of the part of shown candidates that pass by their values.
 *
 * The share counts signatures.  Some rows with a passing signature fail by their values: the
 * condition's range ends within a signature's range, or a signature stands for several values.
 * Only a part of the shown candidates is therefore useful, and the dry limit is divided by this
 * part.  If most rows near the query fail and all passing rows are elsewhere, the limit would grow
 * with each failing node, and no run would become dry.  So the part has a lower bound.  For the
 * farthest tenth of the rows, recall is .942 by 2,439 visits; without the division .883, with a
 * 32nd .951 by 3,713 visits (test/bench/decisions.md).
 */
#define LEAST_RIGHT 0.125

void
grn_filter_record(GrnSearch *s, const GrnRecord *rec)
{
	const GrnLayout *l = s->p.layout;
	const GrnFilter *f = s->p.filter;
	uint8_t    *to = s->copies.tids + s->copies.ntids * GRN_TID_BYTES;
	uint8_t		n = 0;

	/* a record has one signature for all of its TIDs */
	if (!grn_sig_passes(f, GRN_REC_PTR(rec, l->off_sig)))
	{
		s->visit.now.ntids = 0;
		s->visit.now.next = GRN_INVALID_ID;
	}
	for (uint32_t i = 0; i < s->visit.now.ntids; i++)
	{
		const uint8_t *tid = GRN_REC_PTR(rec, l->off_tids) + i * GRN_TID_BYTES;

		if (grn_row_passes(f, tid, grn_rec_attrs(l, rec) + i * l->attr_bytes))
			memcpy(to + n++ * GRN_TID_BYTES, tid, GRN_TID_BYTES);
	}
	s->visit.now.ntids = n;
	grn_sigs_pass(f, grn_rec_sigs(l, rec), l->sig_bytes, s->visit.count, s->visit.passing);
}

/* ---- failing candidates ---- */

static uint64_t *
listings_of(const Failing *f, uint32_t id)
{
	size_t		i = hash_slot(id, f->size);

	while (f->listings[i] != UINT64_MAX && f->listings[i] >> 8 != id)
		i = (i + 1) & (f->size - 1);
	return &f->listings[i];
}

static void
grow_listings(GrnSearch *s)
{
	Failing    *f = &s->failing;
	uint64_t   *old = f->listings;
	size_t		size = f->size;

	f->size = size == 0 ? GRN_LEAST_SLOTS : 2 * size;
	f->listings = s->store->alloc(s->store, f->size * sizeof(uint64_t));
	memset(f->listings, 0xFF, f->size * sizeof(uint64_t));
	for (size_t i = 0; i < size; i++)
		if (old[i] != UINT64_MAX)
			*listings_of(f, (uint32_t) (old[i] >> 8)) = old[i];
	if (old != NULL)
		s->store->free(s->store, old);
}

/* Adds a failing candidate to the heap, or counts one more record that lists the candidate. */
void
grn_offer_failing(GrnSearch *s, Key key)
{
	Failing    *f = &s->failing;
	uint64_t   *listings;

	if (2 * f->used >= f->size)
		grow_listings(s);
	listings = listings_of(f, KEY_ID(key));
	if (*listings != UINT64_MAX)
	{
		*listings += (*listings & 0xFF) <= MOST_LISTINGS;
		return;
	}
	*listings = (uint64_t) KEY_ID(key) << 8 | 1;
	f->used++;
	heap_add(s, &f->heap, key);
}

/*
 * Failing candidates beyond this bound are not expanded by this run.  The bound falls during a
 * run, except when a node leaves the list.  nearest_failing() then brings back the candidates in
 * `far`.
 */
static Key
failing_bound(const GrnSearch *s)
{
	if (s->list.n < s->list.room)
		return UINT64_MAX;
	return s->list.keys[(uint32_t) (FAILING_BOUND * s->list.room)] | KEY_EXPANDED;
}

/* Moves the candidates in `far` into the heap. */
static void
take_far(GrnSearch *s)
{
	Failing    *f = &s->failing;

	for (size_t i = 0; i < f->far.n; i++)
		grn_offer_failing(s, raw_key(f->far.keys[i]));
	f->far.n = 0;
	f->far_bound = UINT64_MAX;
}

/* Key of the nearest failing candidate worth an expansion before `than`, or UINT64_MAX. */
static Key
nearest_failing(GrnSearch *s, Key than)
{
	Failing    *f = &s->failing;

	if (f->far_bound < than && (f->heap.n == 0 || f->far_bound < f->heap.keys[0]))
		take_far(s);
	while (f->heap.n > 0 && f->heap.keys[0] < than &&
		   (*listings_of(f, KEY_ID(f->heap.keys[0])) & 0xFF) > MOST_LISTINGS)
		heap_pop(&f->heap);
	return f->heap.n > 0 && f->heap.keys[0] < than ? f->heap.keys[0] : UINT64_MAX;
}

/* ---- expansion ---- */

/*
 * The greatest distance that comes before the key.  UINT64_MAX, the key of no bound, decodes to
 * NaN and gives infinity.  An estimate of NaN counts as near, because make_key() orders NaN too.
 */
static float
farthest_before(Key key)
{
	float		distance = key_distance(key);

	return distance != distance ? INFINITY : distance;
}

/*
 * With a set of rows: tests those neighbors of the node just visited whose signatures pass.
 * Neighbors farther than the whole of a full list are not tested, and count as failing until their
 * visit.
 */
static void
test_neighbors(GrnSearch *s)
{
	float		farthest = farthest_before(list_bound(s));
	uint32_t	ids[GRN_MAX_DEGREE];
	bool		may[GRN_MAX_DEGREE];
	uint32_t	n = 0;
	uint32_t	j = 0;

	if (s->p.filter->has == NULL || s->store->test == NULL)
		return;
	for (uint32_t i = 0; i < s->visit.count; i++)
	{
		s->visit.passing[i] &= !(s->visit.estimates[i] > farthest) && !set_has(&s->failing.tested, s->visit.neighbors[i]);
		if (s->visit.passing[i])
			ids[n++] = s->visit.neighbors[i];
	}
	s->failing.tests += n;
	if (n > 0)
		s->store->test(s->store, s->p.filter, ids, n, may);
	for (uint32_t i = 0; j < n; i++)
		if (s->visit.passing[i])
		{
			s->visit.passing[i] = may[j++];
			if (!s->visit.passing[i])
				(void) grn_set_add(s, &s->failing.tested, s->visit.neighbors[i]);
		}
}

/*
 * Offers the neighbors of the node just visited.  Most neighbors are farther than the run's
 * bounds and are kept unsorted.  One loop without branches separates the four kinds: where half of
 * the rows pass, half of all branches would be mispredicted.  Returns true if a neighbor got onto
 * the list.
 */
static bool
offer_neighbors(GrnSearch *s)
{
	Failing    *f = &s->failing;
	uint32_t	listed = s->list.n;
	Key			last = listed > 0 ? s->list.keys[listed - 1] : 0;
	Key			bound = failing_bound(s);
	float		farthest[2] = {farthest_before(bound), farthest_before(list_bound(s))};
	uint64_t	failing[GRN_MAX_DEGREE];
	uint64_t	passing[GRN_MAX_DEGREE];
	uint64_t	rejected[GRN_MAX_DEGREE];
	uint64_t   *far;
	uint32_t	nfailing = 0;
	uint32_t	npassing = 0;
	uint32_t	nrejected = 0;
	uint32_t	nfar = 0;

	if (s->p.closed)
		return false;
	reserve_keys(s, &f->far, s->visit.count);
	far = f->far.keys + f->far.n;
	for (uint32_t i = 0; i < s->visit.count; i++)
	{
		uint64_t	raw = raw_candidate(s->visit.estimates[i], s->visit.neighbors[i]);
		uint32_t	pass = s->visit.passing[i];
		uint32_t	is_far = s->visit.estimates[i] > farthest[pass];

		failing[nfailing] = passing[npassing] = rejected[nrejected] = far[nfar] = raw;
		npassing += pass & ~is_far;
		nrejected += pass & is_far;
		nfailing += ~pass & ~is_far & 1;
		nfar += ~pass & is_far;
	}
	f->far.n += nfar;
	if (nfar > 0 && bound < f->far_bound)
		f->far_bound = bound;
	grn_reject_far(s, rejected, nrejected);
	for (uint32_t i = 0; i < npassing; i++)
		grn_offer(s, raw_key(passing[i]));
	for (uint32_t i = 0; i < nfailing; i++)
		grn_offer_failing(s, raw_key(failing[i]));
	return s->list.n > listed || (listed == s->list.room && s->list.keys[listed - 1] != last);
}

static void
prefetch_nearest(GrnSearch *s)
{
	const Failing *f = &s->failing;
	Key			bound = failing_bound(s);
	uint32_t	ids[AHEAD];
	uint32_t	n = 0;
	uint32_t	i = s->list.cursor;
	size_t		j = 0;

	if (s->store->ahead > 0)
	{
		grn_prefetch_ahead(s);
		if (f->heap.n > 0)
			grn_add_prefetch(s, f->heap.keys[0], ids, &n);
	}
	else
	{
		for (uint32_t seen = 0; seen < AHEAD; seen++)
		{
			Key			key = UINT64_MAX;
			Key			failing = UINT64_MAX;

			while (i < s->list.n && (s->list.keys[i] & KEY_EXPANDED))
				i++;
			if (i < s->list.n)
				key = s->list.keys[i];
			if (j < f->heap.n && f->heap.keys[j] <= bound)
				failing = f->heap.keys[j];
			if (key == UINT64_MAX && failing == UINT64_MAX)
				break;
			grn_add_prefetch(s, failing < key ? failing : key, ids, &n);
			if (failing < key)
				j++;
			else
				i++;
		}
	}
	if (n > 0)
		s->store->prefetch(s->store, ids, n);
}

static void
set_dry_limit(GrnSearch *s)
{
	Failing    *f = &s->failing;
	double		right = (double) (f->nright + 1) / (double) (f->nright + f->nwrong + 1);
	double		limit = s->p.share > 0
		? DRY_LIMIT(s->p.share) / (right > LEAST_RIGHT ? right : LEAST_RIGHT) : MAX_DRY_LIMIT;

	f->dry_limit = (uint32_t) (limit < MAX_DRY_LIMIT ? limit : MAX_DRY_LIMIT);
}

/*
 * Counts a node that failed.  listed: its signature passed and its values failed.  If a signature
 * stands for several values, such nodes can show each other without end.  A shown candidate
 * therefore resets the count for good only when a node has passed.
 */
static void
count_failed(GrnSearch *s, bool listed, bool showed)
{
	Failing    *f = &s->failing;

	f->nwrong += listed;
	if (f->nwrong > 0)
		set_dry_limit(s);
	f->dry_at_least++;
	if (listed)
		f->dry = f->dry_at_least;
	else
		f->dry = showed ? 0 : f->dry + 1;
}

static void
expand(GrnSearch *s, Key key, bool listed)
{
	bool		found;

	if (!grn_set_add(s, &s->set, KEY_ID(key)))
		return;
	if (!grn_visit(s, KEY_ID(key)))
	{
		if (listed)
			grn_unlist(s, key);
		return;
	}
	found = s->visit.now.state == GRN_NODE && has_rows(&s->visit.now);
	if (!s->p.closed)
		test_neighbors(s);
	if (found)
	{
		grn_add_found(s, &s->visit.now);
		s->failing.nright++;
		s->failing.dry_at_least = s->failing.dry;
		if (!listed)
			grn_list_found(s, key);
		offer_neighbors(s);
	}
	else
	{
		grn_forget_visit(s);
		if (listed)
			grn_unlist(s, key);
		count_failed(s, listed, offer_neighbors(s));
	}
	if (s->store->prefetch != NULL)
		prefetch_nearest(s);
}

/* Expands the nearest candidate.  Returns false if no candidate is worth an expansion. */
static bool
expand_nearest(GrnSearch *s)
{
	Failing    *f = &s->failing;
	Key			key = next_listed(s);
	Key			bound = failing_bound(s);
	Key			failing;

	failing = f->dry < f->dry_limit ? nearest_failing(s, bound < key ? bound : key) : UINT64_MAX;
	if (failing != UINT64_MAX)
	{
		heap_pop(&f->heap);
		expand(s, failing, false);
		return true;
	}
	if (key == UINT64_MAX)
		return false;
	s->list.keys[s->list.cursor++] |= KEY_EXPANDED;
	expand(s, key, true);
	return true;
}

void
grn_expand_filtered(GrnSearch *s)
{
	s->failing.dry = 0;
	s->failing.dry_at_least = 0;
	set_dry_limit(s);
	do
		while (!grn_at_limit(s) && expand_nearest(s))
			if (grn_has_spent(s))
				s->truncated = true;
	/* nodes that failed by their values left free places on the list */
	while (!s->truncated && s->list.n < s->list.room && has_rejected(s) && grn_take_rejected(s));
}

bool
grn_search_dry(const GrnSearch *s)
{
	const Failing *f = &s->failing;

	Key			first = s->list.n == 0 ? UINT64_MAX : s->list.keys[0];

	if (f->dry_limit == 0 || f->dry < f->dry_limit)
		return false;
	if (f->heap.n > 0 && f->heap.keys[0] < first)
		return true;
	for (size_t i = 0; i < f->far.n; i++)
		if (raw_key(f->far.keys[i]) < first)
			return true;
	return false;
}

void
grn_search_sample(GrnSearch *s, const uint32_t *ids, const uint8_t *codes,
				  const GrnFactor *factors, uint32_t count)
{
	if (!s->codes || s->p.filter == NULL)
		return;
	for (uint32_t first = 0; first < count; first += GRN_MAX_DEGREE)
	{
		uint32_t	n = count - first < GRN_MAX_DEGREE ? count - first : GRN_MAX_DEGREE;

		grn_estimate(&s->query.code, codes + (size_t) first * s->p.layout->code_bytes,
					 factors + first, n, s->visit.estimates);
		s->visit.count = n;
		memcpy(s->visit.neighbors, ids + first, n * sizeof(uint32_t));
		memset(s->visit.passing, true, n * sizeof(bool));
		test_neighbors(s);
		for (uint32_t i = 0; i < n; i++)
			if (s->visit.passing[i])
				grn_offer(s, make_key(s->visit.estimates[i], s->visit.neighbors[i]));
	}
}
