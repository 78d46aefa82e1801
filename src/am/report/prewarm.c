/*
 * prewarm.c - grnnd_prewarm(): reads an index into shared buffers before the first queries, for
 * example after a restart or on a new standby.
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/acl.h"
#include "utils/rel.h"
#include "utils/spccache.h"

#include "am/index/index.h"

/* A GrnndRightFn: owners of the index and readers of the table may. */
static void
must_own_or_read(Oid index, Oid table)
{
	if (!grnnd_owns(index) && pg_class_aclcheck(table, GetUserId(), ACL_SELECT) != ACLCHECK_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to read index %s into memory",
						grnnd_name_of(index)),
				 errhint("The owner of the index and roles with the SELECT privilege on its table can call the function.")));
}

/*
 * grnnd_prewarm(index): reads all pages in order.  Returns their number, including pages that were
 * in shared buffers already.
 */
PG_FUNCTION_INFO_V1(grnnd_prewarm);
Datum
grnnd_prewarm(PG_FUNCTION_ARGS)
{
	Relation	heap;
	Relation	index;
	BlockNumber blocks;
	int			ahead;

	/* raise an error, so that a script that warms nothing does not go unnoticed */
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("index must not be null"),
				 errhint("Pass the name of an index.")));
	index = grnnd_open_index(PG_GETARG_OID(0), must_own_or_read, AccessShareLock, false, &heap);
	(void) grnnd_index_anew(index);
	blocks = RelationGetNumberOfBlocks(index);
	ahead = get_tablespace_io_concurrency(index->rd_rel->reltablespace);
	for (BlockNumber block = 0; block < blocks; block++)
	{
		CHECK_FOR_INTERRUPTS();
		if (ahead > 0 && blocks - block > (BlockNumber) ahead)
			PrefetchBuffer(index, MAIN_FORKNUM, block + ahead);
		ReleaseBuffer(ReadBuffer(index, block));
	}
	grnnd_close_index(index, heap);
	PG_RETURN_INT64(blocks);
}
