/*
 * find_server.c - finds the foreign server of grnnd.build_server and the user mapping.  The options
 * of both become a connection string, which the client gets by its socket and never in its
 * arguments or environment.
 */
#include "am/create/create.h"

#include "access/reloptions.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_user_mapping.h"
#include "commands/defrem.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"

#include "am/grnnd.h"

#define SERVER_OPTION 1
#define MAPPING_OPTION 2
#define SUPERUSER_OPTION 4		/* a file that the server's system user reads: for superusers */
#define OWN_OPTION 8			/* no option of libpq */

/* Options of libpq for the connection of a build. */
static const struct
{
	const char *name;
	int			where;
}			options[] =

{
	{"host", SERVER_OPTION},
	{"hostaddr", SERVER_OPTION},
	{"port", SERVER_OPTION},
	{"dbname", SERVER_OPTION},
	{"options", SERVER_OPTION},
	{"application_name", SERVER_OPTION},
	{"connect_timeout", SERVER_OPTION},
	{"target_session_attrs", SERVER_OPTION},
	{"load_balance_hosts", SERVER_OPTION},
	{"keepalives", SERVER_OPTION},
	{"keepalives_idle", SERVER_OPTION},
	{"keepalives_interval", SERVER_OPTION},
	{"keepalives_count", SERVER_OPTION},
	{"tcp_user_timeout", SERVER_OPTION},
	{"sslmode", SERVER_OPTION},
	{"sslnegotiation", SERVER_OPTION},
	{"sslcompression", SERVER_OPTION},
	{"sslrootcert", SERVER_OPTION},
	{"sslcrl", SERVER_OPTION},
	{"sslcrldir", SERVER_OPTION},
	{"sslsni", SERVER_OPTION},
	{"ssl_min_protocol_version", SERVER_OPTION},
	{"ssl_max_protocol_version", SERVER_OPTION},
	{"channel_binding", SERVER_OPTION},
	{"require_auth", SERVER_OPTION},
	{"gssencmode", SERVER_OPTION},
	{"krbsrvname", SERVER_OPTION},
	{"gsslib", SERVER_OPTION},
	{"user", MAPPING_OPTION},
	{"password", MAPPING_OPTION},
	{"sslcert", MAPPING_OPTION | SUPERUSER_OPTION},
	{"sslkey", MAPPING_OPTION | SUPERUSER_OPTION},
	{"sslpassword", MAPPING_OPTION},
	{"password_required", MAPPING_OPTION | SUPERUSER_OPTION | OWN_OPTION},
};

/* Returns where an option may stand, or 0 for an unknown option. */
static int
place_of(const char *name)
{
	for (int i = 0; i < lengthof(options); i++)
		if (strcmp(options[i].name, name) == 0)
			return options[i].where;
	return 0;
}

/* The validator of the foreign-data wrapper grnnd_build. */
PG_FUNCTION_INFO_V1(grnnd_internal_build_validator);
Datum
grnnd_internal_build_validator(PG_FUNCTION_ARGS)
{
	List	   *given = untransformRelOptions(PG_GETARG_DATUM(0));
	Oid			catalog = PG_GETARG_OID(1);
	int			wanted = catalog == ForeignServerRelationId ? SERVER_OPTION :
		catalog == UserMappingRelationId ? MAPPING_OPTION : 0;
	ListCell   *cell;

	foreach(cell, given)
	{
		DefElem    *option = lfirst_node(DefElem, cell);
		int			where = place_of(option->defname);

		if ((where & wanted) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
					 errmsg("invalid option \"%s\"", option->defname),
					 where == 0 ? errhint("Options are those of libpq's connections, such as host, port, dbname and sslmode.") :
					 errhint("The option belongs to the %s.", where & SERVER_OPTION ? "server" : "user mapping")));
		if ((where & SUPERUSER_OPTION) && !superuser())
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("permission denied to set the option \"%s\"", option->defname),
					 errhint("Only superusers can set this option.")));
		if (where & OWN_OPTION)
			(void) defGetBoolean(option);
	}
	PG_RETURN_VOID();
}

/* Appends an option to a connection string. */
static void
add_option(StringInfo connection, const char *name, const char *value)
{
	appendStringInfo(connection, "%s='", name);
	for (; *value; value++)
	{
		if (*value == '\'' || *value == '\\')
			appendStringInfoChar(connection, '\\');
		appendStringInfoChar(connection, *value);
	}
	appendStringInfoString(connection, "' ");
}

/* A GrnndFindServerFn, which grnnd.so looks up by name. */
extern PGDLLEXPORT char *grnnd_find_build_server(const char *name, GrnBuildSpec *spec);
char *
grnnd_find_build_server(const char *name, GrnBuildSpec *spec)
{
	ForeignServer *server = GetForeignServerByName(name, true);
	UserMapping *mapping;
	StringInfoData connection;
	bool		has_password = false;
	bool		required = true;
	ListCell   *cell;

	if (server == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("server \"%s\" does not exist", name),
				 errhint("grnnd.build_server names the server. CREATE SERVER ... FOREIGN DATA WRAPPER grnnd_build creates a server.")));
	mapping = GetUserMapping(GetUserId(), server->serverid);
	initStringInfo(&connection);
	foreach(cell, list_concat_copy(server->options, mapping->options))
	{
		DefElem    *option = lfirst_node(DefElem, cell);
		int			where = place_of(option->defname);

		if (strcmp(option->defname, "password") == 0)
			has_password = defGetString(option)[0] != '\0';
		else if (strcmp(option->defname, "password_required") == 0)
			required = defGetBoolean(option);
		/* servers of other wrappers, such as postgres_fdw, have further options */
		if (where != 0 && !(where & OWN_OPTION))
			add_option(&connection, option->defname, defGetString(option));
	}
	/* as in postgres_fdw: without a password the server's own system user would count */
	required = required && !superuser();
	if (required && !has_password)
		ereport(ERROR,
				(errcode(ERRCODE_S_R_E_PROHIBITED_SQL_STATEMENT_ATTEMPTED),
				 errmsg("the user mapping for server \"%s\" has no password", server->servername),
				 errdetail("Users without superuser rights need a password."),
				 errhint("Use ALTER USER MAPPING ... OPTIONS (ADD password '...'), or let a superuser set password_required to false.")));
	spec->remote = required ? GRN_REMOTE_PASSWORD : GRN_REMOTE_ANY;
	return connection.data;
}
