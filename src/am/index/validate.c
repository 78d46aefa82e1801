/*
 * validate.c - checks operator classes: amvalidate() reports all faults; grnnd_adjustmembers()
 * refuses the worst faults at creation.
 */
#include "am/filter/attribute.h"
#include "am/index/opclass.h"

#include "access/amapi.h"
#include "access/amvalidate.h"
#include "access/htup_details.h"
#include "catalog/pg_amop.h"
#include "catalog/pg_amproc.h"
#include "catalog/pg_opclass.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/syscache.h"

/* An operator class under validation, and the verdict so far. */
typedef struct Validation
{
	const char *family;			/* name for messages */
	bool		sound;
} Validation;

static char *
family_name(Oid family)
{
	HeapTuple	tuple = SearchSysCache1(OPFAMILYOID, ObjectIdGetDatum(family));
	char	   *name;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for operator family %u", family);
	name = pstrdup(NameStr(((Form_pg_opfamily) GETSTRUCT(tuple))->opfname));
	ReleaseSysCache(tuple);
	return name;
}

static void
report_fault(Validation *v, const char *what)
{
	ereport(INFO,
			(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
			 errmsg("operator family \"%s\" of access method grnnd %s", v->family, what)));
	v->sound = false;
}

/* A support function is f(internal) returns internal; number 1 must describe the type. */
const char *
grnnd_support_problem(Oid function, int number, Oid type, GrnndKey *key)
{
	HeapTuple	tuple;
	const void *result;
	bool		same;

	if (!OidIsValid(function))
		return psprintf("has no support function %d", number);
	if (!check_amproc_signature(function, INTERNALOID, true, 1, 1, INTERNALOID))
		return psprintf("contains function %s with wrong signature for support number %d",
						format_procedure_qualified(function), number);
	result = DatumGetPointer(OidFunctionCall1(function, PointerGetDatum(NULL)));
	if (number == GRNND_SUPPORT_METRIC)
	{
		key->metric = result;
		if (grn_is_metric(result))
			return NULL;
		return psprintf("contains function %s, which returns no metric, as support number %d",
						format_procedure_qualified(function), number);
	}
	key->type = result;
	if (grn_is_metric(result))
		return psprintf("contains function %s, which returns a metric, as support number %d",
						format_procedure_qualified(function), number);
	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for type %u", type);
	same = strcmp(NameStr(((Form_pg_type) GETSTRUCT(tuple))->typname), key->type->name) == 0;
	ReleaseSysCache(tuple);
	if (same)
		return NULL;
	return psprintf("contains function %s, which describes type %s, for type %s",
					format_procedure_qualified(function), key->type->name,
					format_type_be_qualified(type));
}

static void
validate_function(Validation *v, Form_pg_amproc proc)
{
	char	   *name = format_procedure(proc->amproc);
	GrnndKey	key;
	const char *problem;

	if (proc->amproclefttype != proc->amprocrighttype)
		report_fault(v, psprintf("contains function %s for two different types", name));
	if (proc->amprocnum < 1 || proc->amprocnum > GRNND_NUM_SUPPORT)
	{
		report_fault(v, psprintf("contains function %s with invalid support number %d",
								 name, proc->amprocnum));
		return;
	}
	problem = grnnd_support_problem(proc->amproc, proc->amprocnum, proc->amproclefttype, &key);
	if (problem != NULL)
		report_fault(v, problem);
}

/* Checks an operator for conditions on filter columns. */
static void
validate_search_operator(Validation *v, Form_pg_amop op, const char *name)
{
	if (!grnnd_attr_answers(op->amoplefttype, op->amoprighttype, op->amopstrategy))
		report_fault(v, psprintf("contains operator %s with invalid strategy number %d",
								 name, op->amopstrategy));
	else if (!grnnd_attr_is_operator(op->amopopr, op->amoplefttype, op->amoprighttype, op->amopstrategy))
		report_fault(v, psprintf("contains operator %s, which does not compare as strategy number %d does",
								 name, op->amopstrategy));
	if (!check_amop_signature(op->amopopr, BOOLOID, op->amoplefttype, op->amoprighttype))
		report_fault(v, psprintf("contains operator %s, which does not return boolean", name));
	if (OidIsValid(get_opfamily_proc(op->amopfamily, op->amoplefttype, op->amoplefttype,
									 GRNND_SUPPORT_TYPE)))
		report_fault(v, psprintf("contains operator %s, which is not FOR ORDER BY", name));
}

/* Checks an operator.  An ordering operator is number 1, of type float8 with float8's order. */
static void
validate_operator(Validation *v, Form_pg_amop op)
{
	char	   *name = format_operator(op->amopopr);

	if (op->amoppurpose == AMOP_SEARCH)
	{
		validate_search_operator(v, op, name);
		return;
	}
	if (op->amopstrategy != GRNND_DISTANCE_STRATEGY)
		report_fault(v, psprintf("contains operator %s with invalid strategy number %d",
								 name, op->amopstrategy));
	if (!check_amop_signature(op->amopopr, FLOAT8OID, op->amoplefttype, op->amoprighttype))
		report_fault(v, psprintf("contains operator %s, which does not return double precision",
								 name));
	if (!opfamily_can_sort_type(op->amopsortfamily, FLOAT8OID))
		report_fault(v, psprintf("contains operator %s with a sort family that is not for double precision",
								 name));
	if (op->amoplefttype != op->amoprighttype)
		report_fault(v, psprintf("contains operator %s for two different types", name));
}

/*
 * Is this a group of a filter column?  Such groups have neither distances nor support functions.
 */
static bool
is_filter_group(const OpFamilyOpFuncGroup *group)
{
	return group->functionset == 0 &&
		(group->operatorset & UINT64CONST(1) << GRNND_DISTANCE_STRATEGY) == 0;
}

/*
 * Checks that groups are complete.  A vector type needs all operators and functions; a filter
 * column's type needs =, or @> for arrays.  The operator class's own type must have members.
 */
static void
validate_groups(Validation *v, CatCList *ops, CatCList *procs, Oid intype)
{
	const uint64 op_needed = UINT64CONST(1) << GRNND_DISTANCE_STRATEGY;
	bool		own = false;
	ListCell   *lc;

	foreach(lc, identify_opfamily_groups(ops, procs))
	{
		OpFamilyOpFuncGroup *group = (OpFamilyOpFuncGroup *) lfirst(lc);

		if (group->lefttype == intype && group->righttype == intype)
			own = true;
		if (is_filter_group(group))
		{
			int			least = grnnd_attr_answers(group->lefttype, group->lefttype,
												   GRNND_EQUAL_STRATEGY)
				? GRNND_EQUAL_STRATEGY : GRNND_CONTAINS_STRATEGY;

			if ((group->operatorset & UINT64CONST(1) << least) == 0)
				report_fault(v, psprintf("is missing operator %d for type %s", least,
										 format_type_be(group->lefttype)));
			continue;
		}
		if ((group->operatorset & op_needed) == 0)
			report_fault(v, psprintf("is missing operator %d for type %s",
									 GRNND_DISTANCE_STRATEGY, format_type_be(group->lefttype)));
		for (int number = 1; number <= GRNND_NUM_SUPPORT; number++)
			if ((group->functionset & UINT64CONST(1) << number) == 0)
				report_fault(v, psprintf("is missing support function %d for type %s", number,
										 format_type_be(group->lefttype)));
	}
	if (!own)
		report_fault(v, psprintf("has no members for type %s", format_type_be(intype)));
}

bool
grnnd_validate(Oid opclass)
{
	Validation	v = {.sound = true};
	HeapTuple	class_tuple;
	Form_pg_opclass class_form;
	CatCList   *ops;
	CatCList   *procs;

	class_tuple = SearchSysCache1(CLAOID, ObjectIdGetDatum(opclass));
	if (!HeapTupleIsValid(class_tuple))
		elog(ERROR, "cache lookup failed for operator class %u", opclass);
	class_form = (Form_pg_opclass) GETSTRUCT(class_tuple);
	v.family = family_name(class_form->opcfamily);

	if (OidIsValid(class_form->opckeytype) && class_form->opckeytype != class_form->opcintype)
		report_fault(&v, "declares a STORAGE type");

	ops = SearchSysCacheList1(AMOPSTRATEGY, ObjectIdGetDatum(class_form->opcfamily));
	procs = SearchSysCacheList1(AMPROCNUM, ObjectIdGetDatum(class_form->opcfamily));
	for (int i = 0; i < procs->n_members; i++)
		validate_function(&v, (Form_pg_amproc) GETSTRUCT(&procs->members[i]->tuple));
	for (int i = 0; i < ops->n_members; i++)
		validate_operator(&v, (Form_pg_amop) GETSTRUCT(&ops->members[i]->tuple));
	validate_groups(&v, ops, procs, class_form->opcintype);

	ReleaseCatCacheList(procs);
	ReleaseCatCacheList(ops);
	ReleaseSysCache(class_tuple);
	return v.sound;
}

/* Is a type of the family a vector, or will it be one with these functions? */
static bool
is_vector(Oid opfamily, Oid type, List *functions)
{
	ListCell   *lc;

	foreach(lc, functions)
		if (((OpFamilyMember *) lfirst(lc))->lefttype == type)
		return true;
	return OidIsValid(get_opfamily_proc(opfamily, type, type, GRNND_SUPPORT_TYPE));
}

/* Raises the error for an operator that cannot be what `as` says. */
static GRNND_NORETURN void
refuse(const OpFamilyMember *op, const char *as, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
			 errmsg("operator %s cannot be %s of access method grnnd", format_operator(op->object), as),
			 errhint("%s", hint)));
}

/*
 * Refuses operators that an index would use wrongly.  Operators and functions keep the
 * dependencies set by PostgreSQL's core: a hard dependency on the operator class if created with
 * it, and a soft one on the family if added later.
 */
void
grnnd_adjustmembers(Oid opfamily, Oid opclass, List *operators, List *functions)
{
	ListCell   *lc;

	foreach(lc, operators)
	{
		OpFamilyMember *op = (OpFamilyMember *) lfirst(lc);

		if (OidIsValid(op->sortfamily))
		{
			if (op->number != GRNND_DISTANCE_STRATEGY)
				refuse(op, psprintf("an ordering operator %d", op->number),
					   psprintf("The distance is operator %d.", GRNND_DISTANCE_STRATEGY));
			continue;
		}
		if (op->number == GRNND_DISTANCE_STRATEGY || is_vector(opfamily, op->lefttype, functions))
			refuse(op, "a search operator", "Declare the operator FOR ORDER BY float_ops.");
		/* the index would treat it as another operator, and queries would miss rows */
		if (!grnnd_attr_answers(op->lefttype, op->righttype, op->number))
			refuse(op, psprintf("search operator %d", op->number),
				   "Numbers and times have operators 2 to 6, arrays have operators 7 and 8, and other types have operator 4, each of the type with itself.");
		if (!grnnd_attr_is_operator(op->object, op->lefttype, op->righttype, op->number))
			refuse(op, psprintf("search operator %d", op->number),
				   "Operators 2 to 6 are <, <=, =, >= and > of the type's default btree or hash operator class. Operators 7 and 8 are PostgreSQL's && and @> of arrays.");
	}
}
