/*
 * owner.c - opens indexes for functions, checks privileges, and switches to a table's owner.
 */
#include "am/index/index.h"

#include "access/amapi.h"
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "access/xlog.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_namespace.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "am/callbacks.h"
#include "am/compat.h"

bool
grnnd_owns(Oid relation)
{
#if PG_VERSION_NUM >= 160000
	return object_ownercheck(RelationRelationId, relation, GetUserId());
#else
	return pg_class_ownercheck(relation, GetUserId());
#endif
}

const char *
grnnd_existing_name(Oid relation)
{
	const char *name = get_rel_name(relation);

	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relation)));
	return name;
}

const char *
grnnd_name_of(Oid relation)
{
	const char *name = get_rel_name(relation);

	return name != NULL ? quote_identifier(name) : psprintf("%u", relation);
}

/* Is this relation an index of ours?  *valid: the index is ours and valid. */
static bool
is_our_index(Form_pg_index entry, bool *valid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(entry->indexrelid));
	bool		ours = false;

	if (HeapTupleIsValid(tuple))
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);
		IndexAmRoutine *routine = form->relkind != RELKIND_INDEX ? NULL :
			(IndexAmRoutine *) GetIndexAmRoutineByAmId(form->relam, true);

		ours = routine != NULL && routine->aminsert == grnnd_insert;
		ReleaseSysCache(tuple);
	}
	*valid = ours && entry->indisvalid;
	return ours;
}

static GRNND_NORETURN void
refuse_several(Oid table, List *indexes)
{
	StringInfoData names;
	ListCell   *lc;

	initStringInfo(&names);
	list_sort(indexes, list_oid_cmp);
	foreach(lc, indexes)
		appendStringInfo(&names, "%s%s", names.len > 0 ? ", " : "", grnnd_name_of(lfirst_oid(lc)));
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("table %s has several grnnd indexes", grnnd_name_of(table)),
			 errhint("Pass one of the indexes: %s.", names.data)));
}

/*
 * The index for a function's argument: the relation itself, or a table's only index of ours.  An
 * invalid index counts if the table has no valid one.  Error: 42809 for a table with several.
 */
static Oid
index_of(Oid oid)
{
	char		kind = get_rel_relkind(oid);
	Oid			found = InvalidOid;
	List	   *good = NIL;
	Relation	catalog;
	SysScanDesc scan;
	ScanKeyData key;
	HeapTuple	tuple;

	if (kind != RELKIND_RELATION && kind != RELKIND_MATVIEW)
		return oid;
	catalog = table_open(IndexRelationId, AccessShareLock);
	ScanKeyInit(&key, Anum_pg_index_indrelid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(oid));
	scan = systable_beginscan(catalog, IndexIndrelidIndexId, true, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_index entry = (Form_pg_index) GETSTRUCT(tuple);
		bool		valid;

		if (!is_our_index(entry, &valid) || (!valid && OidIsValid(found)))
			continue;
		found = entry->indexrelid;
		if (valid)
			good = lappend_oid(good, found);
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	if (list_length(good) > 1)
		refuse_several(oid, good);
	return OidIsValid(found) ? found : oid;
}

void
grnnd_must_own(Oid index, Oid table)
{
	if (!grnnd_owns(index))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of index %s", grnnd_name_of(index))));
}

static AclResult
schema_usage(Oid schema)
{
#if PG_VERSION_NUM >= 160000
	return object_aclcheck(NamespaceRelationId, schema, GetUserId(), ACL_USAGE);
#else
	return pg_namespace_aclcheck(schema, GetUserId(), ACL_USAGE);
#endif
}

void
grnnd_must_read(Oid relation)
{
	const char *name = get_rel_name(relation);
	Oid			schema = get_rel_namespace(relation);

	if (name == NULL || !OidIsValid(schema))
		return;
	if (schema_usage(schema) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_SCHEMA, get_namespace_name(schema));
	if (pg_class_aclcheck(relation, GetUserId(), ACL_SELECT) != ACLCHECK_OK &&
		pg_attribute_aclcheck_all(relation, GetUserId(), ACL_SELECT, ACLMASK_ANY) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, get_relkind_objtype(get_rel_relkind(relation)), name);
}

static GRNND_NORETURN void
refuse_relation(Oid oid)
{
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("relation %s is not a grnnd index", grnnd_name_of(oid)),
			 get_rel_relkind(oid) == RELKIND_PARTITIONED_INDEX
			 ? errhint("Pass an index of a partition.")
			 : errhint("The view grnnd_indexes lists all grnnd indexes.")));
}

Relation
grnnd_open_index(Oid oid, GrnndRightFn right, LOCKMODE mode, bool gone_ok, Relation *heap)
{
	Oid			table = InvalidOid;
	Relation	index = NULL;

	oid = index_of(oid);
	if (get_rel_relkind(oid) == RELKIND_INDEX)
		table = IndexGetRelation(oid, true);
	if (OidIsValid(table))
		right(oid, table);
	*heap = OidIsValid(table) ? try_table_open(table, mode) : NULL;
	if (*heap != NULL)
		index = try_relation_open(oid, AccessShareLock);
	if (index == NULL)
	{
		/* either relation may have been dropped during the wait for its lock */
		if (!gone_ok || get_rel_name(oid) != NULL)
			refuse_relation(oid);
		if (*heap != NULL)
			table_close(*heap, NoLock);
		return NULL;
	}
	if (index->rd_rel->relkind != RELKIND_INDEX || index->rd_index->indrelid != table ||
		index->rd_indam->aminsert != grnnd_insert)
		refuse_relation(oid);
	right(oid, table);
	if (RELATION_IS_OTHER_TEMP(index))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot read temporary indexes of other sessions"),
				 errhint("Call the function in the session that created the index.")));
	if (RecoveryInProgress() && index->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot read indexes of unlogged tables during recovery"),
				 errhint("Call the function on the primary server.")));
	if (!index->rd_index->indisvalid && !gone_ok)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("index %s is not valid",
						quote_identifier(RelationGetRelationName(index))),
				 errhint("REINDEX the index, or drop the index.")));
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
grnnd_restore_user(const GrnndUser *before)
{
	AtEOXact_GUC(false, before->guc_level);
	SetUserIdAndSecContext(before->user, before->context);
}
