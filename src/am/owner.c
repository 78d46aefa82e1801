/*
 * owner.c - who owns a relation, and acting as a table's owner.
 */
#include "am/owner.h"

#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/guc.h"
#include "utils/rel.h"

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
