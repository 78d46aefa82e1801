/*
 * owner.c - indexes that functions are asked about: opening them, who owns a relation, and acting
 * as a table's owner.
 */
#include "am/owner.h"

#include "access/relation.h"
#include "access/table.h"
#include "access/xlog.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "am/compat.h"
#include "am/handler.h"

bool
grnnd_owns(Oid relation)
{
#if PG_VERSION_NUM >= 160000
	return object_ownercheck(RelationRelationId, relation, GetUserId());
#else
	return pg_class_ownercheck(relation, GetUserId());
#endif
}

void
grnnd_must_own(Oid index)
{
	const char *name = get_rel_name(index);

	if (name != NULL && get_rel_relkind(index) == RELKIND_INDEX && !grnnd_owns(index))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of index %s", quote_identifier(name))));
}

static GRNND_NORETURN void
refuse(Oid oid)
{
	const char *name = get_rel_name(oid);

	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("relation %s is not a grnnd index",
					name != NULL ? quote_identifier(name) : psprintf("%u", oid)),
			 get_rel_relkind(oid) == RELKIND_PARTITIONED_INDEX
			 ? errhint("Ask for the indexes of its partitions.")
			 : errhint("The view grnnd_indexes lists those that there are.")));
}

Relation
grnnd_open_index(Oid oid, LOCKMODE mode, bool gone_ok, Relation *heap)
{
	Oid			table = InvalidOid;
	Relation	index = NULL;

	if (get_rel_relkind(oid) == RELKIND_INDEX)
		table = IndexGetRelation(oid, true);
	*heap = OidIsValid(table) ? try_table_open(table, mode) : NULL;
	if (*heap != NULL)
		index = try_relation_open(oid, AccessShareLock);
	if (index == NULL)
	{
		/* either may have gone while we waited for its lock */
		if (!gone_ok || get_rel_name(oid) != NULL)
			refuse(oid);
		if (*heap != NULL)
			table_close(*heap, NoLock);
		return NULL;
	}
	if (index->rd_rel->relkind != RELKIND_INDEX || index->rd_index->indrelid != table ||
		index->rd_indam->aminsert != grnnd_insert)
		refuse(oid);
	if (RELATION_IS_OTHER_TEMP(index))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot read temporary indexes of other sessions"),
				 errhint("Ask in the session that has created it.")));
	if (RecoveryInProgress() && index->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot read indexes of unlogged tables during recovery"),
				 errhint("Ask on the primary server.")));
	if (!index->rd_index->indisvalid && gone_ok)
	{
		grnnd_close_index(index, *heap);
		return NULL;
	}
	if (!index->rd_index->indisvalid)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("index %s is not valid",
						quote_identifier(RelationGetRelationName(index))),
				 errhint("REINDEX or drop it.")));
	return index;
}

void
grnnd_close_index(Relation index, Relation heap)
{
	index_close(index, NoLock);
	table_close(heap, NoLock);
}

void
grnnd_become_owner(Relation heap, GrnndUser *before)
{
	before->guc_level = NewGUCNestLevel();
	GetUserIdAndSecContext(&before->user, &before->context);
	SetUserIdAndSecContext(heap->rd_rel->relowner,
						   before->context | SECURITY_RESTRICTED_OPERATION);
#if PG_VERSION_NUM >= 170000
	RestrictSearchPath();
#endif
}

void
grnnd_become_again(const GrnndUser *before)
{
	AtEOXact_GUC(false, before->guc_level);
	SetUserIdAndSecContext(before->user, before->context);
}
