/*
 * test_builder.c - grnnd_build as its leader (leader.h) sees it: what builds bring back, and
 * how the process ends.
 *
 * The program is $GRNND_BUILD, or grnnd_build in the current directory or two above.
 */
#define _GNU_SOURCE
#include "leader.h"

static void
test_formats(void)
{
	static const struct
	{
		FillFn		fill;
		GrnForm		format;
	}			cases[] = {{fill_bytes, GRN_FORM_U8}, {fill_halves, GRN_FORM_F16}, {fill_normal, GRN_FORM_F32}};

	for (int i = 0; i < 3; i++)
	{
		Leader		l;

		start_builder(&l);
		build(&l, 1500, 24, cases[i].fill);
		check_codes(&l);
		CHECK(l.last.u.result.form == (uint32_t) cases[i].format, "case %d: %u", i,
			  l.last.u.result.form);
		CHECK(l.last.u.result.nodes == 1500, "%u", l.last.u.result.nodes);
		CHECK(l.last.u.result.params.r > 0 && l.last.u.result.params.t1 > 0 &&
			  l.last.u.result.params.rho > 0, "parameters as used");
		CHECK(l.notices == 0 && l.on_gpu == 0, "%s", l.notice);
		end_builder(&l);
		CHECK(WIFEXITED(l.status) && WEXITSTATUS(l.status) == 0, "status %d", l.status);
	}
}

/* Rows come as halves: codes and graphs are those of their values, by every metric. */
static void
test_halves(void)
{
	static const GrnMetric metrics[] = {GRN_L2, GRN_IP, GRN_COSINE};

	for (int i = 0; i < 6; i++)
	{
		Leader		l;

		start_builder(&l);
		l.spec.form = GRN_FORM_F16;
		l.spec.metric = metrics[i / 2];
		build(&l, 1500, 23, i % 2 ? fill_bytes : fill_halves);
		check_codes(&l);
		CHECK(l.last.u.result.form == (uint32_t) (i % 2 ? GRN_FORM_U8 : GRN_FORM_F16), "case %d: %u", i,
			  l.last.u.result.form);
		end_builder(&l);
		CHECK(WIFEXITED(l.status) && WEXITSTATUS(l.status) == 0, "status %d", l.status);
	}
}

/* Bits: signs, of a few rows and of more than there are different ones. */
static void
test_bits(void)
{
	static const uint32_t dims[] = {3, 8, 61, 200};

	for (int i = 0; i < 4; i++)
	{
		Leader		l;

		start_builder(&l);
		l.spec.form = GRN_FORM_BITS;
		l.spec.metric = GRN_HAMMING;
		l.spec.use_codes = dims[i] > 8;
		build(&l, 1500, dims[i], fill_signs);
		CHECK(l.last.u.result.nodes <= 1u << (dims[i] < 20 ? dims[i] : 20), "%u nodes", l.last.u.result.nodes);
		if (grn_code_dims(l.last.u.result.shape) > 0)
			check_codes(&l);
		CHECK(l.last.u.result.form == GRN_FORM_BITS, "%u", l.last.u.result.form);
		end_builder(&l);
		CHECK(WIFEXITED(l.status) && WEXITSTATUS(l.status) == 0, "status %d", l.status);
	}
}

static void
test_sizes(void)
{
	static const uint32_t sizes[] = {1, 2, 3, 10, 19, 22, 50, 130};
	static const FillFn fills[] = {fill_normal, fill_bytes, fill_same, fill_repeated, fill_clusters};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		for (size_t f = 0; f < sizeof(fills) / sizeof(*fills); f++)
		{
			Leader		l;

			start_builder(&l);
			build(&l, sizes[i], 3, fills[f]);
			end_builder(&l);
		}
}

static void
test_duplicates(void)
{
	Leader		l;

	start_builder(&l);
	build(&l, 2999, 10, fill_repeated);
	CHECK(l.last.u.result.nodes == 2000, "%u", l.last.u.result.nodes);
	check_codes(&l);
	end_builder(&l);

	start_builder(&l);
	build(&l, 5000, 10, fill_same);
	CHECK(l.last.u.result.nodes == 1, "%u", l.last.u.result.nodes);
	end_builder(&l);

	/* numbered as for a GPU, of which it then turns out that there is none */
	start_builder(&l);
	l.spec.device = GRN_DEVICE_AUTO;
	build(&l, 2999, 10, fill_repeated);
	CHECK(l.last.u.result.nodes == 2000, "%u", l.last.u.result.nodes);
	check_codes(&l);
	end_builder(&l);
}

static void
test_clusters(void)
{
	Leader		l;

	start_builder(&l);
	build(&l, 3001, 8, fill_clusters);
	/* by which neighbors could not be told apart */
	CHECK(grn_code_dims(l.last.u.result.shape) == 0 && l.last.u.result.held == 0, "%u",
		  grn_code_dims(l.last.u.result.shape));
	end_builder(&l);
}

/* Memory comes when the build has ended without it: its codes serve no search. */
static void
test_late_extent(void)
{
	Leader		l;

	start_builder(&l);
	l.withhold_codes = true;
	send_rows(&l, 3001, 8, fill_clusters, 7);
	CHECK(converse(&l, LIMIT_MS), "no answer");
	CHECK(l.last.type == GRN_MSG_DONE && l.codes_needed > 0, "message %u, %d bytes for codes", l.last.type,
		  (int) l.codes_needed);
	grow(&l, GRN_SEG_RESULT, l.codes_needed);
	say(&l, GRN_MSG_GRANT, GRN_SEG_RESULT, l.mapped[GRN_SEG_RESULT]);
	say(&l, GRN_MSG_RELEASE, 0, 0);
	CHECK(converse(&l, LIMIT_MS), "not released");
	CHECK(l.last.type == GRN_MSG_DONE, "%s", l.last.u.say.text);
	end_builder(&l);
	CHECK(WIFEXITED(l.status) && WEXITSTATUS(l.status) == 0, "status %d", l.status);
}

static void
test_inner_product(void)
{
	Leader		l;
	float		unit;
	uint32_t	shorter = 0;
	uint32_t	half = 0;

	start_builder(&l);
	l.spec.metric = GRN_IP;
	build(&l, 1501, 7, fill_normal);
	check_codes(&l);
	/* half of the rows are shorter than the unit, but for a factor of two */
	unit = l.last.u.result.norm_unit;
	for (uint32_t i = 0; i < 1501; i++)
	{
		float		norm = sqrtf(grn_dist->ip_f32(row_of(&l, i), row_of(&l, i), 7));
		float		place = powf(fmaxf(norm / unit, GRN_SHORTEST), -l.last.u.result.power);
		GrnScale	s;

		memcpy(&s, (const float *) row_of(&l, i) + 7, sizeof(s));
		CHECK(fabsf(s.scale * norm - place) < 1e-4f * place &&
			  fabsf(s.norm2 - place * place) < 1e-4f * place * place,
			  "row %u: %g %g", i, s.scale * norm, place);
		shorter += norm < unit;
		half += norm < unit / 2;
	}
	CHECK(2 * shorter >= 1501 && 2 * half < 1501, "%u %u", shorter, half);
	end_builder(&l);
}

/* None if none are wanted; 16 bytes of 64 Gaussian dimensions leave too many vertices poor. */
static void
test_code_bytes(void)
{
	for (int codes = 0; codes < 2; codes++)
	{
		Leader		l;

		start_builder(&l);
		l.spec.use_codes = (uint32_t) codes;
		build(&l, 9000, 64, fill_normal);
		CHECK(grn_code_bytes(l.last.u.result.shape) == (codes ? 24 : 0), "%u", grn_code_bytes(l.last.u.result.shape));
		end_builder(&l);
	}
}

/* Fewer rows than a fit wants get neither codes nor a curve of recall, whatever their values. */
static void
test_rows_to_fit(void)
{
	for (uint32_t n = 999; n <= 1000; n++)
	{
		Leader		l;

		start_builder(&l);
		l.spec.fit_rows = 1000;
		build(&l, n, 64, fill_normal);
		CHECK((grn_code_bytes(l.last.u.result.shape) > 0) == (n == 1000), "%u", n);
		CHECK((l.last.u.result.curve.queries > 0) == (n == 1000), "%u", n);
		end_builder(&l);
	}
}

static void
test_large_dimensions(void)
{
	static const uint32_t dims[] = {1, 2, 31, 129, 961, 2000, 16000};

	/* (the fit to the longest rows takes most of the time) */
	for (int i = 0; i < (unit_all() ? 7 : 6); i++)
	{
		Leader		l;

		start_builder(&l);
		l.spec.metric = i % 2 ? GRN_IP : GRN_L2;
		build(&l, 60, dims[i], fill_normal);
		end_builder(&l);
	}
}

/* Neither threads nor the order in which rows were collected change the graph. */
static void
test_deterministic(void)
{
	uint32_t   *ids = NULL;
	uint32_t   *ranks = NULL;
	uint32_t	n = 2003;

	for (int i = 0; i < 3; i++)
	{
		Leader		l;
		const GrnBuildResult *r = &l.last.u.result;
		uint32_t   *rank = malloc(n * 4);
		uint32_t   *of_node = malloc(n * 4);
		const uint32_t *order;
		const uint32_t *rows;

		start_builder(&l);
		l.spec.threads = i == 1 ? 1 : 4;
		l.spec.params.seed = 5;
		send_rows(&l, n, 12, fill_repeated, i == 2 ? 1001 : 7);
		CHECK(converse(&l, LIMIT_MS), "no answer");
		check_result(&l, n);
		order = (const uint32_t *) l.base[GRN_SEG_ORDER];
		rows = built_by(&l).rows;
		for (uint32_t k = 0; k < n; k++)
			rank[order[k]] = k;
		for (uint32_t k = 0; k < n; k++)
			of_node[k] = rank[rows[k]];
		if (i == 0)
		{
			ids = malloc(r->nodes * r->degree * 4);
			memcpy(ids, built_by(&l).ids, r->nodes * r->degree * 4);
			ranks = malloc(n * 4);
			memcpy(ranks, of_node, n * 4);
		}
		else
		{
			CHECK(memcmp(ids, built_by(&l).ids, r->nodes * r->degree * 4) == 0,
				  "graph %d differs", i);
			CHECK(memcmp(ranks, of_node, n * 4) == 0, "rows of graph %d differ", i);
		}
		free(rank);
		free(of_node);
		end_builder(&l);
	}
	free(ids);
	free(ranks);
}

/* One process builds again and again, with what a new one builds. */
static void
test_again(void)
{
	uint32_t	n = 1500;
	uint32_t   *ids = NULL;

	for (uint32_t dim = 8; dim <= 12; dim += 4)
	{
		Leader		l;

		start_builder(&l);
		l.spec.device = GRN_DEVICE_AUTO;
		for (int i = 0; i < 3; i++)
		{
			const GrnBuildResult *r = &l.last.u.result;

			if (i > 0)
			{
				int			beats = l.beats;

				drop_segments(&l);
				reserve_segments(&l);
				l.hellos = 0;
				CHECK(!converse(&l, 400) && l.beats <= beats + 1, "not silent in between");
				if (i == 2)
				{
					CHECK(bytes_mapped(l.pid, false) > 0, "nothing to release");
					say(&l, GRN_MSG_RELEASE, 0, 0);
					CHECK(converse(&l, LIMIT_MS), "not released");
				}
			}
			/* the middle one is another build */
			build(&l, i == 1 ? 400 : n, i == 1 ? 17 : dim, fill_normal);
			check_codes(&l);
			CHECK(l.devices == 1, "%d", l.devices);
			if (i == 0)
			{
				ids = malloc(r->nodes * r->degree * 4);
				memcpy(ids, built_by(&l).ids, r->nodes * r->degree * 4);
			}
			else if (i == 2 && !r->on_gpu)
				CHECK(memcmp(ids, built_by(&l).ids,
							 r->nodes * r->degree * 4) == 0, "another graph");
		}
		free(ids);
		end_builder(&l);
		CHECK(WIFEXITED(l.status) && WEXITSTATUS(l.status) == 0, "status %d", l.status);
	}
}

static void
fill_nan(float *x, uint32_t rank, uint32_t dim)
{
	fill_normal(x, rank, dim);
	if (rank == 100 || rank == 400)
		x[dim - 1] = rank == 100 ? NAN : INFINITY;
}

static void
expect_failure(Leader *l, const char *sqlstate, const char *text)
{
	CHECK(converse(l, 10000), "no answer");
	CHECK(l->last.type == GRN_MSG_FAILED, "message %u", l->last.type);
	CHECK(strcmp(l->last.sqlstate, sqlstate) == 0, "%s: %s", l->last.sqlstate, l->last.u.say.text);
	CHECK(strstr(l->last.u.say.text, text) != NULL, "%s", l->last.u.say.text);
	end_builder(l);
}

static void
test_not_finite(void)
{
	Leader		l;

	start_builder(&l);
	send_rows(&l, 500, 9, fill_nan, 1);
	expect_failure(&l, "22000", "row 101 ");
	CHECK(WIFEXITED(l.status) && WEXITSTATUS(l.status) == 1, "status %d", l.status);
}

static void
test_devices(void)
{
	Leader		l;
	bool		has_gpu;

	start_builder(&l);
	l.spec.device = GRN_DEVICE_AUTO;
	build(&l, 300, 9, fill_normal);
	has_gpu = l.on_gpu;
	CHECK(l.notices == 0, "%s", l.notice);
	end_builder(&l);

	/* a host without one says so where devices were named */
	start_builder(&l);
	l.spec.device = GRN_DEVICE_AUTO;
	strcpy(l.spec.gpu_devices, "0");
	build(&l, 300, 9, fill_normal);
	CHECK(has_gpu ? l.notices == 0 : l.notices == 1 && strstr(l.notice, "no usable GPU"), "%d notices: %s",
		  l.notices, l.notice);
	end_builder(&l);

	start_builder(&l);
	l.spec.device = GRN_DEVICE_GPU;
	if (has_gpu)
	{
		build(&l, 300, 9, fill_normal);
		CHECK(l.last.u.result.on_gpu == 1, "on the processor");
		end_builder(&l);
	}
	else
	{
		l.spec.dim = 9;
		l.spec.row_bytes = 48;
		say(&l, GRN_MSG_START, 0, 0);
		expect_failure(&l, "58000", "GPU");
	}
	if (!has_gpu)
		printf("# no GPU here: device gpu was seen to fail only\n");
}

static void
test_bad_messages(void)
{
	Leader		l;

	start_builder(&l);
	l.spec.row_bytes = 16;		/* dim 0 */
	say(&l, GRN_MSG_START, 0, 0);
	expect_failure(&l, "08P01", "START");

	start_builder(&l);
	l.spec.version = 99;
	l.spec.dim = 4;
	l.spec.row_bytes = 16;
	say(&l, GRN_MSG_START, 0, 0);
	expect_failure(&l, "08P01", "version");

	/* another host is for the client's program */
	start_builder(&l);
	l.spec.dim = 4;
	l.spec.row_bytes = 16;
	l.spec.remote = GRN_REMOTE_ANY;
	say(&l, GRN_MSG_START, 0, 0);
	expect_failure(&l, "08P01", "START");

	/* bits have no length 1 */
	start_builder(&l);
	l.spec.dim = 4;
	l.spec.row_bytes = 16;
	l.spec.form = GRN_FORM_BITS;
	l.spec.metric = GRN_COSINE;
	say(&l, GRN_MSG_START, 0, 0);
	expect_failure(&l, "08P01", "START");

	/* bytes are not what rows come as */
	start_builder(&l);
	l.spec.dim = 4;
	l.spec.row_bytes = 16;
	l.spec.form = GRN_FORM_U8;
	say(&l, GRN_MSG_START, 0, 0);
	expect_failure(&l, "08P01", "START");

	start_builder(&l);
	l.spec.dim = 4;
	l.spec.row_bytes = 24;
	say(&l, GRN_MSG_START, 0, 0);
	expect_failure(&l, "08P01", "START");

	start_builder(&l);
	build(&l, 100, 8, fill_normal);
	l.spec.threads++;
	say(&l, GRN_MSG_START, 0, 0);
	expect_failure(&l, "08P01", "START");

	start_builder(&l);
	(void) !send(l.fd, "hello", 5, MSG_NOSIGNAL);
	expect_failure(&l, "08P01", "size");

	start_builder(&l);
	say(&l, GRN_MSG_BUILD, 5, 0);
	expect_failure(&l, "08P01", "START");

	start_builder(&l);
	l.spec.dim = 4;
	l.spec.row_bytes = 16;
	say(&l, GRN_MSG_START, 0, 0);
	say(&l, GRN_MSG_BUILD, 5, 0);
	expect_failure(&l, "08P01", "rows");

	start_builder(&l);
	l.spec.dim = 4;
	l.spec.row_bytes = 16;
	l.spec.segment_max[GRN_SEG_VECTORS] = 65536;
	say(&l, GRN_MSG_START, 0, 0);
	grow(&l, GRN_SEG_VECTORS, 70000);
	expect_failure(&l, "08P01", "address space");

	start_builder(&l);
	l.spec.segment_max[GRN_SEG_WORK] = 65536;
	send_rows(&l, 1000, 8, fill_normal, 1);
	expect_failure(&l, "54000", "bytes");

	start_builder(&l);
	l.spec.params.degree = 97;
	send_rows(&l, 10, 8, fill_normal, 1);
	expect_failure(&l, "22023", "degree");
}

/* The builder ends when its leader closes the socket, whatever it is doing. */
static void
test_end_of_file(void)
{
	Leader		l;

	start_builder(&l);			/* before START */
	end_builder(&l);

	start_builder(&l);			/* before BUILD */
	l.spec.dim = 4;
	l.spec.row_bytes = 16;
	say(&l, GRN_MSG_START, 0, 0);
	usleep(20000);
	end_builder(&l);

	for (useconds_t ms = 0; ms <= 160; ms += 20)	/* while building */
	{
		start_builder(&l);
		send_rows(&l, 20000, 32, fill_normal, 1);
		CHECK(!converse(&l, 1 + ms), "built too fast for this test");
		end_builder(&l);
	}

	start_builder(&l);			/* while it waits for memory */
	send_rows(&l, 500, 8, fill_normal, 1);
	usleep(50000);
	end_builder(&l);
}

static void
test_beats(void)
{
	Leader		l;

	start_builder(&l);
	l.withhold_ms = 1600;
	build(&l, 500, 8, fill_normal);
	CHECK(l.beats >= 3, "%d beats in 1.6 seconds", l.beats);
	end_builder(&l);
}

/*
 * A leader that sends much and reads nothing is listened to all the same, whatever the
 * builder wants to say meanwhile: each size of its buffer stops it at another message.
 */
static void
test_leader_reads_late(void)
{
	for (int i = 0; i < 8; i++)
	{
		Leader		l;
		GrnMsg		rows = {.type = GRN_MSG_ROWS, .arg = {2000}};
		struct pollfd p = {.events = POLLOUT};
		int			sent = 0;

		start_builder_with(&l, 2304 + i * 600);
		send_rows(&l, 2000, 8, fill_normal, 1);
		usleep(300000);
		p.fd = l.fd;
		while (sent < 1000 && poll(&p, 1, 5000) == 1 &&
			   send(l.fd, &rows, sizeof(rows), MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(rows))
			sent++;
		CHECK(sent == 1000, "buffer %d: %d messages were taken", 2304 + i * 600, sent);
		CHECK(converse(&l, LIMIT_MS), "no answer");
		check_result(&l, 2000);
		end_builder(&l);
	}
}

/* Memory that was granted and is not there when threads touch it. */
static void
test_no_memory(void)
{
	Leader		l;

	start_builder(&l);
	l.no_memory = true;
	send_rows(&l, 5000, 8, fill_normal, 1);
	CHECK(converse(&l, LIMIT_MS), "no answer");
	CHECK(l.last.type == GRN_MSG_FAILED && strcmp(l.last.sqlstate, "53200") == 0, "message %u: %s",
		  l.last.type, l.last.u.say.text);
	end_builder(&l);
	CHECK(WIFEXITED(l.status), "status %d", l.status);
}

/* Waits for a first message: the builder's signals are set before it. */
static bool
await_word(const Leader *l)
{
	struct pollfd p = {l->fd, POLLIN, 0};

	return poll(&p, 1, LIMIT_MS) == 1;
}

/* Cancel in psql interrupts the whole process group: not the builder's business. */
static void
test_interrupt(void)
{
	Leader		l;

	start_builder(&l);
	send_rows(&l, 5000, 16, fill_normal, 1);
	CHECK(await_word(&l), "no greeting");
	kill(l.pid, SIGINT);
	CHECK(converse(&l, LIMIT_MS), "no answer");
	check_result(&l, 5000);
	end_builder(&l);
}

/* A killed leader takes its builder along, even if its socket stays open elsewhere. */
static void
test_leader_killed(void)
{
	int			keep[2];
	int			pids[2];
	pid_t		leader;
	pid_t		builder = 0;
	int			status;
	int			waited = 0;

	/* not for the builder to inherit: it would hold its own leader's end */
	if (pipe2(pids, O_CLOEXEC) != 0 ||
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, keep) != 0)
		abort();
	leader = fork();
	if (leader == 0)
	{
		Leader		l;
		struct iovec iov = {"x", 1};
		union
		{
			struct cmsghdr align;
			char		space[CMSG_SPACE(sizeof(int))];
		}			control = {0};
		struct msghdr head = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
			.msg_controllen = sizeof(control)};
		struct cmsghdr *c = CMSG_FIRSTHDR(&head);

		start_builder(&l);
		/* the test keeps a copy of the socket: no end of file */
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &l.fd, sizeof(int));
		send_rows(&l, 1000, 8, fill_normal, 1);
		if (!await_word(&l))
			_exit(1);
		(void) !sendmsg(keep[0], &head, 0);
		(void) !write(pids[1], &l.pid, sizeof(l.pid));
		usleep(60 * 1000 * 1000);
		_exit(0);
	}
	close(pids[1]);
	CHECK(read(pids[0], &builder, sizeof(builder)) == sizeof(builder), "no builder");
	CHECK(kill(builder, 0) == 0, "the builder is not there");
	kill(leader, SIGKILL);
	waitpid(leader, &status, 0);
	/* nobody here reaps it: gone, or waiting for whoever does */
	for (;;)
	{
		char		path[64];
		char		state = 'X';
		FILE	   *f;

		snprintf(path, sizeof(path), "/proc/%d/stat", (int) builder);
		f = fopen(path, "r");
		if (f)
		{
			if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
				state = 'X';
			fclose(f);
		}
		if (state == 'X' || state == 'Z' || waited >= 1000)
		{
			CHECK(state == 'X' || state == 'Z', "the builder lives on, state %c", state);
			break;
		}
		usleep(10000);
		waited += 10;
	}
	close(keep[0]);
	close(keep[1]);
	close(pids[0]);
}

static void
test_killable_first(void)
{
	Leader		l;
	char		path[64];
	int			adj = 0;

	start_builder(&l);
	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int) l.pid);
	/* a busy machine starts the program late */
	for (int tries = 0; adj < 500 && tries < 6000; tries++)
	{
		FILE	   *f = fopen(path, "r");

		if (!f || fscanf(f, "%d", &adj) != 1)
			adj = 0;
		if (f)
			fclose(f);
		usleep(10000);
	}
	CHECK(adj >= 500, "%d", adj);
	end_builder(&l);
}

int
main(void)
{
	if (!find_builder("test_builder"))
		return 1;
	grn_dist_init();
	RUN(test_formats);
	RUN(test_halves);
	RUN(test_bits);
	RUN(test_sizes);
	RUN(test_duplicates);
	RUN(test_clusters);
	RUN(test_late_extent);
	RUN(test_inner_product);
	RUN(test_code_bytes);
	RUN(test_rows_to_fit);
	RUN(test_large_dimensions);
	RUN(test_deterministic);
	RUN(test_again);
	RUN(test_not_finite);
	RUN(test_devices);
	RUN(test_bad_messages);
	RUN(test_end_of_file);
	RUN(test_beats);
	RUN(test_leader_reads_late);
	RUN(test_no_memory);
	RUN(test_interrupt);
	RUN(test_leader_killed);
	RUN(test_killable_first);
	UNIT_END();
}
