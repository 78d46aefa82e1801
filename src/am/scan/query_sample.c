/*
 * query_sample.c - a sample of the queries of scans, in shared memory.
 *
 * Each of the INDEXES indexes scanned last has a reservoir of queries.  The first queries fill the
 * reservoir.  Each later query then replaces a random one, with the probability that keeps the
 * sample uniform over the last REMEMBERED queries, about.
 *
 * No function returns a sampled query, and no message shows one.  Only measurements of recall read
 * the sample.  An index is known by its database and the random number of its build, so a rebuilt
 * index, whose column may have another type, begins a new sample.
 */
#include "am/scan/scan.h"

#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#define INDEXES 32
#define REMEMBERED 4096
#define SAMPLE_BYTES (256 * 1024)	/* for each index: 64 queries of 1,000 floats */
#define TRANCHE "grnnd"
/* Recall is measured with a full sample, and again after so many times the queries. */
#define MEASURE_AGAIN 4

typedef struct QuerySample
{
	Oid			database;		/* InvalidOid: not in use */
	uint64		build_id;		/* GrnndMeta's */
	uint64		seen;			/* number of queries, estimated from those drawn */
	uint64		measured;		/* `seen` at the last measurement */
	uint64		used;			/* the order in which samples last got a query */
	uint32		place_bytes;	/* room for a query */
	uint32		places;
	uint32		count;
	char		queries[SAMPLE_BYTES];	/* [places][place_bytes] */
} QuerySample;

typedef struct QuerySamples
{
	LWLock	   *lock;
	uint64		uses;
	QuerySample samples[INDEXES];
} QuerySamples;

static QuerySamples *shared;	/* NULL: the library is not preloaded */
static shmem_request_hook_type next_request;
static shmem_startup_hook_type next_startup;

static void
request(void)
{
	if (next_request != NULL)
		next_request();
	RequestAddinShmemSpace(MAXALIGN(sizeof(QuerySamples)));
	RequestNamedLWLockTranche(TRANCHE, 1);
}

static void
startup(void)
{
	bool		found;

	if (next_startup != NULL)
		next_startup();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	shared = ShmemInitStruct("grnnd queries", sizeof(QuerySamples), &found);
	if (!found)
	{
		shared->lock = &GetNamedLWLockTranche(TRANCHE)->lock;
		shared->uses = 0;
		for (int i = 0; i < INDEXES; i++)
			shared->samples[i].database = InvalidOid;
	}
	LWLockRelease(AddinShmemInitLock);
}

void
grnnd_request_query_sample(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	next_request = shmem_request_hook;
	shmem_request_hook = request;
	next_startup = shmem_startup_hook;
	shmem_startup_hook = startup;
}

/* The sample of an index; NULL: none.  Without the lock the answer may be out of date. */
static QuerySample *
find(const GrnndMeta *meta)
{
	for (int i = 0; shared != NULL && i < INDEXES; i++)
		if (shared->samples[i].database == MyDatabaseId &&
			shared->samples[i].build_id == meta->build_id)
			return &shared->samples[i];
	return NULL;
}

/* The sample of an index, begun in place of the one least recently used if there is none. */
static QuerySample *
find_or_begin(const GrnndMeta *meta, Size query_bytes)
{
	QuerySample *s = find(meta);

	if (s != NULL)
		return s;
	s = &shared->samples[0];
	for (int i = 1; i < INDEXES; i++)
		if (OidIsValid(s->database) && (!OidIsValid(shared->samples[i].database) ||
										shared->samples[i].used < s->used))
			s = &shared->samples[i];
	s->database = MyDatabaseId;
	s->build_id = meta->build_id;
	s->seen = s->measured = 0;
	s->count = 0;
	/* sparse queries vary in size */
	s->place_bytes = (uint32) Max(MAXALIGN(query_bytes), SAMPLE_BYTES / GRNND_SAMPLED_QUERIES);
	s->places = SAMPLE_BYTES / s->place_bytes;
	return s;
}

static bool
has_row_security(Oid relation)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relation));
	bool		result = !HeapTupleIsValid(tuple) || ((Form_pg_class) GETSTRUCT(tuple))->relrowsecurity;

	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	return result;
}

/* May queries of the table be kept?  A parent table's row security applies to its queries. */
static bool
may_keep(Relation heap)
{
	ListCell   *lc;

	if (heap->rd_rel->relrowsecurity)
		return false;
	if (!heap->rd_rel->relispartition)
		return !has_superclass(RelationGetRelid(heap));
	foreach(lc, get_partition_ancestors(RelationGetRelid(heap)))
		if (has_row_security(lfirst_oid(lc)))
		return false;
	return true;
}

static bool
is_due(const QuerySample *s)
{
	return s->count == s->places && s->places >= GRNND_LEAST_SAMPLE &&
		s->seen >= MEASURE_AGAIN * s->measured;
}

bool
grnnd_offer_query(IndexScanDesc scan, const GrnndIndex *ix)
{
	QuerySample *s;
	struct varlena *query;
	uint64		window;
	uint32		at;
	bool		due;

	if (shared == NULL || !grnnd_sample_queries || scan->heapRelation == NULL ||
		RelationUsesLocalBuffers(scan->indexRelation))
		return false;
	s = find(&ix->meta);
	window = s == NULL ? 0 : Min(s->seen, REMEMBERED);
	if (window >= GRNND_SAMPLED_QUERIES &&
		pg_prng_uint64_range(&pg_global_prng_state, 0, window - 1) >= GRNND_SAMPLED_QUERIES)
		return false;
	if (!may_keep(scan->heapRelation))
		return false;
	query = PG_DETOAST_DATUM(scan->orderByData[0].sk_argument);
	if (VARSIZE(query) > SAMPLE_BYTES || !LWLockConditionalAcquire(shared->lock, LW_EXCLUSIVE))
		return false;
	s = find_or_begin(&ix->meta, VARSIZE(query));
	due = VARSIZE(query) <= s->place_bytes;
	if (due)
	{
		at = s->count < s->places ? s->count++
			: (uint32) pg_prng_uint64_range(&pg_global_prng_state, 0, s->places - 1);
		memcpy(s->queries + (Size) at * s->place_bytes, query, VARSIZE(query));
		s->seen += Max(window / GRNND_SAMPLED_QUERIES, 1);
		s->used = ++shared->uses;
		due = is_due(s);
	}
	LWLockRelease(shared->lock);
	return due;
}

int
grnnd_sampled_queries(Relation heap, const GrnndIndex *ix, Datum *queries)
{
	char	   *copy;
	const QuerySample *s;
	uint32		place_bytes = 0;
	int			n = 0;

	if (shared == NULL || !may_keep(heap))
		return 0;
	copy = palloc(SAMPLE_BYTES);
	LWLockAcquire(shared->lock, LW_SHARED);
	s = find(&ix->meta);
	if (s != NULL)
	{
		place_bytes = s->place_bytes;
		n = (int) Min(s->count, GRNND_SAMPLED_QUERIES);
		memcpy(copy, s->queries, (Size) n * place_bytes);
	}
	LWLockRelease(shared->lock);
	for (int i = 0; i < n; i++)
		queries[i] = PointerGetDatum(copy + (Size) i * place_bytes);
	return n;
}

bool
grnnd_query_sample_due(const GrnndMeta *meta)
{
	const QuerySample *s;
	bool		due;

	if (shared == NULL)
		return false;
	LWLockAcquire(shared->lock, LW_SHARED);
	s = find(meta);
	due = s != NULL && is_due(s);
	LWLockRelease(shared->lock);
	return due;
}

void
grnnd_query_sample_done(const GrnndMeta *meta)
{
	QuerySample *s;

	if (shared == NULL)
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	s = find(meta);
	if (s != NULL)
		s->measured = s->seen;
	LWLockRelease(shared->lock);
}
