/*
 * qps.c - measures nearest-neighbor queries of a PostgreSQL server: recall,
 * queries a second, latency and buffers touched, with vectors sent as binary
 * parameters of a prepared statement, as are the bounds of a filter.
 *
 * Each client is a process with one connection, so nothing is shared between
 * them.  With --pin and one client, client and server process share one core:
 * waking each other across cores would cost more than the query.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <libpq-fe.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_LATENCIES (1 << 20) /* of one client in one run */

typedef struct Matrix			/* .fbin or .ibin: int32 rows, int32 columns, rows */
{
	int32_t		rows,
				columns;
	void	   *data;			/* [rows][columns] of 4 bytes */
}			Matrix;

typedef struct Totals			/* of one client, in shared memory */
{
	uint64_t	queries;
	uint64_t	hits;			/* true neighbors among the first k answers */
	uint64_t	answers;		/* rows returned */
	double		seconds;		/* that the measured queries took */
	double		processor;		/* seconds of the server's process, of those; 0: it is not here */
	uint32_t	nlatencies;
	float		latency[MAX_LATENCIES]; /* seconds */
}			Totals;

typedef struct Run
{
	const char *conninfo;
	const char *setup;			/* SQL run on every new connection */
	const char *query;			/* with $1 */
	bool		by_id;			/* $1 is an int4 row number, not a vector: the floor */
	bool		filtered;		/* the columns of bounds are $2, $3 and so on, int4 */
	bool		pin;
	double		seconds;
	int			clients;
	int			buffers;		/* queries to sum EXPLAIN's buffers over */
	int			queries;		/* each client stops after so many; 0: none */
	int			warmup;			/* unmeasured queries before, */
	double		warm;			/* and so many seconds of them */
	int			first;			/* row of the first client's first query */
	int			k;				/* neighbors asked for, for recall */
	Matrix		vectors;
	Matrix		truth;
	Matrix		bounds;			/* of a filter, a row for each query */
} Run;

#define MOST_BOUNDS 4

static void
die(const char *what, const char *detail)
{
	fprintf(stderr, "qps: %s: %s\n", what, detail);
	exit(1);
}

static Matrix
read_matrix(const char *path)
{
	Matrix		m;
	FILE	   *f = fopen(path, "rb");
	size_t		bytes;

	if (f == NULL || fread(&m.rows, 4, 1, f) != 1 || fread(&m.columns, 4, 1, f) != 1)
		die(path, f ? "too short" : strerror(errno));
	bytes = (size_t) m.rows * m.columns * 4;
	m.data = malloc(bytes);
	if (m.data == NULL || fread(m.data, 1, bytes, f) != bytes)
		die(path, "cut short");
	fclose(f);
	return m;
}

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

/* pgvector's binary form: int16 dimensions, int16 0, big-endian floats. */
static int
put_vector(const Matrix * m, int row, char *out)
{
	const uint32_t *x = (const uint32_t *) m->data + (size_t) row * m->columns;
	uint16_t	head[2] = {htons(m->columns), 0};

	memcpy(out, head, 4);
	for (int i = 0; i < m->columns; i++)
	{
		uint32_t	v = htonl(x[i]);

		memcpy(out + 4 + 4 * (size_t) i, &v, 4);
	}
	return 4 + 4 * m->columns;
}

static void
execute(PGconn * conn, const char *sql)
{
	PGresult   *res = PQexec(conn, sql);

	if (PQresultStatus(res) != PGRES_COMMAND_OK && PQresultStatus(res) != PGRES_TUPLES_OK)
		die(sql, PQerrorMessage(conn));
	PQclear(res);
}

static PGconn *
open_connection(const Run *run)
{
	PGconn	   *conn = PQconnectdb(run->conninfo);

	if (PQstatus(conn) != CONNECTION_OK)
		die("connection", PQerrorMessage(conn));
	if (run->setup != NULL)
		execute(conn, run->setup);
	return conn;
}

/* The parameters of a query: the vector or its number, and the bounds. */
typedef struct Parameters
{
	int			n;
	const char *values[1 + MOST_BOUNDS];
	int			lengths[1 + MOST_BOUNDS];
	int			formats[1 + MOST_BOUNDS];
	uint32_t	bounds[MOST_BOUNDS];
}			Parameters;

/* buffer: room for the vector. */
static void
set_parameters(const Run *run, int row, char *buffer, Parameters * p)
{
	uint32_t	id = htonl(row);

	p->n = 1;
	p->values[0] = buffer;
	p->lengths[0] = run->by_id ? 4 : put_vector(&run->vectors, row, buffer);
	p->formats[0] = 1;
	if (run->by_id)
		memcpy(buffer, &id, 4);
	for (int i = 0; run->filtered && i < run->bounds.columns; i++, p->n++)
	{
		p->bounds[i] = htonl(((const uint32_t *) run->bounds.data)[(size_t) row * run->bounds.columns + i]);
		p->values[p->n] = (const char *) &p->bounds[i];
		p->lengths[p->n] = 4;
		p->formats[p->n] = 1;
	}
}

static PGresult *
ask(PGconn * conn, const Run *run, int row, char *buffer)
{
	Parameters	p;
	PGresult   *res;

	set_parameters(run, row, buffer, &p);
	res = PQexecPrepared(conn, "q", p.n, p.values, p.lengths, p.formats, 1);
	if (PQresultStatus(res) != PGRES_TUPLES_OK)
		die("query", PQerrorMessage(conn));
	return res;
}

/* Seconds of processor time that a process has taken; 0 where this system does not say. */
static double
processor_time(int pid)
{
	char		path[64];
	FILE	   *f;
	uint64_t	ns = 0;

	snprintf(path, sizeof(path), "/proc/%d/schedstat", pid);
	f = fopen(path, "r");
	if (f != NULL)
	{
		if (fscanf(f, "%" SCNu64, &ns) != 1)
			ns = 0;
		fclose(f);
	}
	return ns * 1e-9;
}

static void
client(const Run *run, int number, Totals * t)
{
	PGconn	   *conn = open_connection(run);
	char	   *buffer = malloc(8 + 4 * (size_t) run->vectors.columns);
	PGresult   *res = PQprepare(conn, "q", run->query, 0, NULL);
	double		start,
				stop;
	int			n = run->vectors.rows;
	int			row = (int) ((run->first + (int64_t) n * number / run->clients) % n);

	if (PQresultStatus(res) != PGRES_COMMAND_OK)
		die("prepare", PQerrorMessage(conn));
	PQclear(res);
	if (run->pin)
	{
		cpu_set_t	set;

		CPU_ZERO(&set);
		CPU_SET(number % sysconf(_SC_NPROCESSORS_ONLN), &set);
		if (sched_setaffinity(0, sizeof set, &set) != 0 ||
			sched_setaffinity(PQbackendPID(conn), sizeof set, &set) != 0)
			fprintf(stderr, "qps: could not pin client %d: %s\n", number, strerror(errno));
	}
	/* plan cache, catalog caches, index cache; the queries before row, backwards */
	start = now();
	for (int i = 1; i <= run->warmup || now() - start < run->warm; i++)
		PQclear(ask(conn, run, (row + n - i % n) % n, buffer));
	t->processor = -processor_time(PQbackendPID(conn));
	start = now();
	stop = start + run->seconds;
	while (now() < stop && (run->queries == 0 || t->queries < (uint64_t) run->queries))
	{
		double		begin = now();

		res = ask(conn, run, row, buffer);
		if (t->nlatencies < MAX_LATENCIES)
			t->latency[t->nlatencies++] = (float) (now() - begin);
		t->queries++;
		t->answers += PQntuples(res);
		if (run->truth.data != NULL)
		{
			const int32_t *truth = (const int32_t *) run->truth.data +
				(size_t) row * run->truth.columns;

			for (int i = 0; i < PQntuples(res) && i < run->k; i++)
			{
				uint32_t	id;

				memcpy(&id, PQgetvalue(res, i, 0), 4);
				for (int j = 0; j < run->k; j++)
					t->hits += truth[j] == (int32_t) ntohl(id);
			}
		}
		PQclear(res);
		row = (row + 1) % n;
	}
	t->seconds = now() - start;
	t->processor += processor_time(PQbackendPID(conn));
	PQfinish(conn);
	exit(0);
}

/* Sums one counter of EXPLAIN's top node, which includes its children. */
static double
counter(const char *json, const char *name)
{
	const char *p = strstr(json, name);

	return p ? atof(p + strlen(name) + 2) : 0;
}

static void
measure_buffers(const Run *run, double *hit, double *read)
{
	PGconn	   *conn = open_connection(run);
	char	   *buffer = malloc(8 + 4 * (size_t) run->vectors.columns);
	char	   *sql;

	if (asprintf(&sql, "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) %s", run->query) < 0)
		die("memory", "none");
	*hit = *read = 0;
	for (int i = -5; i < run->buffers; i++) /* five to fill the session's caches */
	{
		int			row = (run->first + (i < 0 ? -i : i)) % run->vectors.rows;
		Parameters	p;
		PGresult   *res;
		const char *json;

		set_parameters(run, row, buffer, &p);
		res = PQexecParams(conn, sql, p.n, NULL, p.values, p.lengths, p.formats, 0);
		if (PQresultStatus(res) != PGRES_TUPLES_OK)
			die("explain", PQerrorMessage(conn));
		json = PQgetvalue(res, 0, 0);
		if (i == 0 && strstr(json, "Index Scan") == NULL)
			fprintf(stderr, "qps: warning: the plan has no index scan\n");
		if (i >= 0)
		{
			*hit += counter(json, "\"Shared Hit Blocks\"");
			*read += counter(json, "\"Shared Read Blocks\"");
		}
		PQclear(res);
	}
	*hit /= run->buffers;
	*read /= run->buffers;
	free(sql);
	PQfinish(conn);
}

static int
by_value(const void *a, const void *b)
{
	float		x = *(const float *) a,
				y = *(const float *) b;

	return (x > y) - (x < y);
}

int
main(int argc, char **argv)
{
	Run			run = {.seconds = 3, .clients = 1, .warmup = 200, .k = 10};
	const char *vectors = NULL,
			   *truth = NULL,
			   *bounds = NULL;
	Totals	   *totals;
	uint64_t	queries = 0,
				hits = 0,
				answers = 0;
	size_t		n = 0;
	float	   *all;
	double		qps = 0,
				processor = 0,
				hit = 0,
				read = 0;

	for (int i = 1; i < argc; i++)
	{
		const char *a = argv[i];
		const char *v = i + 1 < argc ? argv[i + 1] : "";

		if (strcmp(a, "--by-id") == 0)
			run.by_id = true;
		else if (strcmp(a, "--pin") == 0)
			run.pin = true;
		else if (i++, strcmp(a, "--conn") == 0)
			run.conninfo = v;
		else if (strcmp(a, "--setup") == 0)
			run.setup = v;
		else if (strcmp(a, "--query") == 0)
			run.query = v;
		else if (strcmp(a, "--vectors") == 0)
			vectors = v;
		else if (strcmp(a, "--truth") == 0)
			truth = v;
		else if (strcmp(a, "--bounds") == 0)
			bounds = v;
		else if (strcmp(a, "--clients") == 0)
			run.clients = atoi(v);
		else if (strcmp(a, "--seconds") == 0)
			run.seconds = atof(v);
		else if (strcmp(a, "--buffers") == 0)
			run.buffers = atoi(v);
		else if (strcmp(a, "--queries") == 0)
			run.queries = atoi(v);
		else if (strcmp(a, "--warmup") == 0)
			run.warmup = atoi(v);
		else if (strcmp(a, "--warm") == 0)
			run.warm = atof(v);
		else if (strcmp(a, "--k") == 0)
			run.k = atoi(v);
		else if (strcmp(a, "--first") == 0)
			run.first = atoi(v);
		else
			die("unknown option", a);
	}
	if (run.conninfo == NULL || run.query == NULL || vectors == NULL)
		die("usage", "qps --conn C --query SQL --vectors Q.fbin [--truth GT.ibin | --by-id] "
			"[--bounds B.ibin] [--setup SQL] [--clients N] [--seconds S] [--pin] [--buffers QUERIES] "
			"[--queries N] [--warmup N] [--warm S] [--first ROW] [--k N]");
	run.vectors = read_matrix(vectors);
	if (truth != NULL)
	{
		run.truth = read_matrix(truth);
		if (run.truth.rows < run.vectors.rows || run.truth.columns < run.k)
			die(truth, "fewer rows than queries, or fewer than K columns");
	}
	if (bounds != NULL)
	{
		run.filtered = true;
		run.bounds = read_matrix(bounds);
		if (run.bounds.rows < run.vectors.rows || run.bounds.columns > MOST_BOUNDS)
			die(bounds, "fewer rows than queries, or too many columns");
	}
	if (run.buffers > 0)
		measure_buffers(&run, &hit, &read);

	totals = mmap(NULL, sizeof(Totals) * run.clients, PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (totals == MAP_FAILED)
		die("mmap", strerror(errno));
	for (int i = 0; i < run.clients; i++)
		if (fork() == 0)
			client(&run, i, &totals[i]);
	for (int i = 0; i < run.clients; i++)
	{
		int			status;

		if (wait(&status) < 0 || status != 0)
			die("client", "failed");
	}
	all = malloc(sizeof(float) * MAX_LATENCIES * run.clients);
	for (int i = 0; i < run.clients; i++)
	{
		queries += totals[i].queries;
		qps += totals[i].queries / totals[i].seconds;
		hits += totals[i].hits;
		answers += totals[i].answers;
		processor += totals[i].processor;
		memcpy(all + n, totals[i].latency, sizeof(float) * totals[i].nlatencies);
		n += totals[i].nlatencies;
	}
	if (n == 0)
		die("queries", "none finished");
	qsort(all, n, sizeof(float), by_value);
	printf("{\"qps\": %.1f, \"recall\": %.4f, \"rows\": %.2f, \"p50_us\": %.1f, "
		   "\"p99_us\": %.1f, \"processor_us\": %.2f, \"hit\": %.1f, \"read\": %.1f, \"queries\": %llu}\n",
		   qps, (double) hits / ((double) queries * run.k),
		   (double) answers / queries, all[n / 2] * 1e6, all[n * 99 / 100] * 1e6,
		   processor / queries * 1e6, hit, read, (unsigned long long) queries);
	return 0;
}
