/*
 * libpq.h - PostgreSQL's client library, loaded where a build needs it, so that all others go
 * without one.
 *
 * The declarations are our own: libpq.so.5 has kept these since PostgreSQL 14.
 */
#ifndef GRN_LIBPQ_H
#define GRN_LIBPQ_H

#include "builder/host.h"

typedef struct GrnPqConnection GrnPqConnection; /* PGconn */
typedef struct GrnPqResult GrnPqResult; /* PGresult */

/* ConnStatusType, ExecStatusType and field codes that are needed here */
#define GRN_PQ_CONNECTION_OK 0
#define GRN_PQ_COMMAND_OK 1
#define GRN_PQ_TUPLES_OK 2
#define GRN_PQ_SQLSTATE 'C'
#define GRN_PQ_MESSAGE 'M'
#define GRN_PQ_HINT 'H'

/* function, what it returns, its arguments */
#define GRN_PQ_FUNCTIONS(X) \
	X(PQconnectdbParams, GrnPqConnection *, (const char *const *, const char *const *, int)) \
	X(PQstatus, int, (const GrnPqConnection *)) \
	X(PQerrorMessage, char *, (const GrnPqConnection *)) \
	X(PQconnectionUsedPassword, int, (const GrnPqConnection *)) \
	X(PQsocket, int, (const GrnPqConnection *)) \
	X(PQfinish, void, (GrnPqConnection *)) \
	X(PQsetnonblocking, int, (GrnPqConnection *, int)) \
	X(PQenterPipelineMode, int, (GrnPqConnection *)) \
	X(PQsendQueryParams, int, (GrnPqConnection *, const char *, int, const unsigned int *, \
							   const char *const *, const int *, const int *, int)) \
	X(PQsendPrepare, int, (GrnPqConnection *, const char *, const char *, int, const unsigned int *)) \
	X(PQsendQueryPrepared, int, (GrnPqConnection *, const char *, int, const char *const *, \
								 const int *, const int *, int)) \
	X(PQsendFlushRequest, int, (GrnPqConnection *)) \
	X(PQflush, int, (GrnPqConnection *)) \
	X(PQconsumeInput, int, (GrnPqConnection *)) \
	X(PQisBusy, int, (GrnPqConnection *)) \
	X(PQgetResult, GrnPqResult *, (GrnPqConnection *)) \
	X(PQresultStatus, int, (const GrnPqResult *)) \
	X(PQresultErrorField, char *, (const GrnPqResult *, int)) \
	X(PQntuples, int, (const GrnPqResult *)) \
	X(PQnfields, int, (const GrnPqResult *)) \
	X(PQgetisnull, int, (const GrnPqResult *, int, int)) \
	X(PQgetlength, int, (const GrnPqResult *, int, int)) \
	X(PQgetvalue, char *, (const GrnPqResult *, int, int)) \
	X(PQclear, void, (GrnPqResult *)) \
	X(PQsetNoticeReceiver, void *, (GrnPqConnection *, void (*) (void *, const GrnPqResult *), void *))

typedef struct GrnLibpq
{
#define GRN_PQ_POINTER(name, type, arguments) type (*name) arguments;
	GRN_PQ_FUNCTIONS(GRN_PQ_POINTER)
#undef GRN_PQ_POINTER
} GrnLibpq;

/* The library; NULL where there is none, or too old a one: 0A000. */
extern const GrnLibpq *grn_libpq(GrnFailure *failure);

#endif							/* GRN_LIBPQ_H */
