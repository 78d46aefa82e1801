/*
 * test_cli.c - the command line of grnnd_paper, which builds graphs of files, as an index has them
 * or as the paper has them, and evaluates graphs; for each kind of bad input a message that names
 * the input.  The program is $GRNND_PAPER.
 */
#include "unit.h"

#include <stdint.h>
#include <sys/wait.h>

static const char *program;
static char dir[] = "/tmp/grnnd_cli_XXXXXX";
static char output[8192];

/*
 * Runs the program with these arguments, in which $D stands for the directory, and with --index
 * unless an argument is --evaluate or the arguments begin with "paper ", which is left out.
 */
static int
run(const char *arguments)
{
	bool		is_paper = strncmp(arguments, "paper ", 6) == 0;
	char		command[2048];
	size_t		got;
	FILE	   *f;
	int			status;

	snprintf(command, sizeof(command), "D=%s; %s %s %s 2>&1", dir, program,
			 is_paper || strstr(arguments, "--evaluate") ? "" : "--index", arguments + (is_paper ? 6 : 0));
	f = popen(command, "r");
	if (!f)
		abort();
	got = fread(output, 1, sizeof(output) - 1, f);
	output[got] = '\0';
	status = pclose(f);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static FILE *
create(const char *name)
{
	char		path[256];
	FILE	   *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "wb");
	if (!f)
		abort();
	return f;
}

static void
put(FILE *f, const void *data, size_t bytes)
{
	if (fwrite(data, 1, bytes, f) != bytes)
		abort();
}

static void
put_int(FILE *f, int32_t value)
{
	put(f, &value, sizeof(value));
}

#define ROWS 1200
#define DIM 10

static float
value(uint64_t set, uint32_t row, uint32_t j)
{
	return (float) (grn_random(set, row, j) % 100);
}

/* The same rows as floats or bytes, with a head or with counts before rows. */
static void
write_rows(const char *name, uint64_t set, uint32_t rows, bool bytes, bool counts)
{
	FILE	   *f = create(name);

	if (!counts)
	{
		put_int(f, (int32_t) rows);
		put_int(f, DIM);
	}
	for (uint32_t i = 0; i < rows; i++)
	{
		if (counts)
			put_int(f, DIM);
		for (uint32_t j = 0; j < DIM; j++)
		{
			float		x = value(set, i, j);
			uint8_t		b = (uint8_t) x;

			put(f, bytes ? (void *) &b : (void *) &x, bytes ? 1 : 4);
		}
	}
	fclose(f);
}

/* The 10 nearest rows of each of 40 queries. */
static void
write_truth(const char *name)
{
	FILE	   *f = create(name);

	put_int(f, 40);
	put_int(f, 10);
	for (uint32_t q = 0; q < 40; q++)
	{
		static float distance[ROWS];

		for (uint32_t i = 0; i < ROWS; i++)
		{
			distance[i] = 0;
			for (uint32_t j = 0; j < DIM; j++)
				distance[i] += (value(2, q, j) - value(1, i, j)) * (value(2, q, j) - value(1, i, j));
		}
		for (int k = 0; k < 10; k++)
		{
			uint32_t	best = 0;

			for (uint32_t i = 1; i < ROWS; i++)
				if (distance[i] < distance[best])
					best = i;
			put_int(f, (int32_t) best);
			distance[best] = 1e30f;
		}
	}
	fclose(f);
}

static void
test_build_and_evaluate(void)
{
	static const char *const names[] = {"a.fbin", "a.u8bin", "a.fvecs", "a.bvecs"};

	for (int i = 0; i < 4; i++)
	{
		char		arguments[512];
		double		recall = 0;
		const char *at;

		snprintf(arguments, sizeof(arguments), "--device cpu --threads 2 --times $D/%s $D/%d.ibin",
				 names[i], i);
		CHECK(run(arguments) == 0, "%s: %s", names[i], output);
		CHECK(strstr(output, "1200 rows of 10 dimensions") != NULL, "%s", output);
		snprintf(arguments, sizeof(arguments),
				 "--evaluate $D/%d.ibin --query $D/q.fbin --truth $D/t.ibin --beam 64 $D/%s", i, names[i]);
		CHECK(run(arguments) == 0, "%s", output);
		at = strstr(output, "recall@10 ");
		CHECK(at && sscanf(at, "recall@10 %lf", &recall) == 1 && recall > 0.97, "%s", output);
		CHECK(strstr(output, "reachable from the entries 1.000000") != NULL, "%s", output);
	}
	/* the same rows: the same graph, whatever file they came from */
	for (int i = 1; i < 4; i++)
	{
		char		command[512];

		snprintf(command, sizeof(command), "cmp %s/0.ibin %s/%d.ibin", dir, dir, i);
		CHECK(system(command) == 0, "graph %d", i);
	}
	/* several at once, in their order */
	CHECK(run("--evaluate $D/1.ibin --evaluate $D/0.ibin --query $D/q.fbin --truth $D/t.ibin --beam 64,32 $D/a.fbin") == 0,
		  "%s", output);

	const char *second = strstr(output, "/0.ibin");

	CHECK(second && strstr(output, "/1.ibin") < second && strstr(second, "L 64") && strstr(second, "L 32"), "%s", output);
}

static void
test_options(void)
{
	CHECK(run("--device cpu --degree 8 --metric cosine --rows 50 --fill $D/a.fbin $D/o.ibin") == 0,
		  "%s", output);
	/* without --device, where there is no GPU as well */
	CHECK(run("--threads 2 $D/a.fbin $D/o.ibin") == 0 && strstr(output, "1200 rows"), "%s", output);
	CHECK(run("--device cpu --metric ip --threads 1 $D/a.fbin $D/o.ibin") == 0, "%s", output);
	CHECK(run("--device cpu --rows 1 $D/a.fbin $D/o.ibin") == 0, "%s", output);
	CHECK(run("--device cpu --rows 2 $D/a.fbin $D/o.ibin") == 0, "%s", output);
	CHECK(run("--help") == 0 && strstr(output, "usage:"), "%s", output);
	CHECK(strstr(output, "distance: l2, ip, ") && strstr(output, " (default l2)\n"), "%s", output);
}

/* The program must exit with status and name what is wrong. */
static void
refused(int status, const char *arguments, const char *named)
{
	int			got = run(arguments);

	CHECK(got == status, "%s: exit status %d", arguments, got);
	CHECK(strstr(output, named) != NULL, "%s: %s", arguments, output);
}

static void
test_bad_options(void)
{
	refused(2, "", "file of vectors");
	refused(2, "$D/a.fbin", "file of vectors");
	refused(2, "--degree 7 $D/a.fbin $D/o.ibin", "--degree");
	refused(2, "--degree 97 $D/a.fbin $D/o.ibin", "--degree");
	refused(2, "--degree 3x $D/a.fbin $D/o.ibin", "--degree");
	refused(2, "--rho 1.5 $D/a.fbin $D/o.ibin", "--rho");
	refused(2, "--rho nan $D/a.fbin $D/o.ibin", "--rho");
	refused(2, "--t1 0 $D/a.fbin $D/o.ibin", "--t1");
	refused(2, "--repeat -1 $D/a.fbin $D/o.ibin", "--repeat");
	refused(2, "--overlap 0 $D/a.fbin $D/o.ibin", "--overlap");
	refused(2, "--memory-limit 0 $D/a.fbin $D/o.ibin", "--memory-limit");
	refused(2, "--metric l3 $D/a.fbin $D/o.ibin", "--metric");
	refused(2, "--device tpu $D/a.fbin $D/o.ibin", "--device");
	refused(2, "--nonsense $D/a.fbin $D/o.ibin", "--help");
	refused(2, "--beam 10,x --evaluate $D/0.ibin --query $D/q.fbin --truth $D/t.ibin $D/a.fbin", "--beam");
	refused(2, "--evaluate $D/0.ibin --truth $D/t.ibin $D/a.fbin", "--query");
	refused(2, "--serve", "--serve");
	refused(2, "paper $D/a.fbin", "file of vectors");
	refused(2, "paper --order sideways $D/a.fbin $D/o.ibin", "--order");
	refused(2, "paper --pairs 0 $D/a.fbin $D/o.ibin", "--pairs");
	refused(2, "paper --r 129 $D/a.fbin $D/o.ibin", "--r");
	/* no graph but by a GPU; on a machine with a GPU the program builds */
	CHECK(run("paper --reverse nearest --pairs 100 $D/a.fbin $D/o.ibin") == 0 || strstr(output, "GPU"), "%s", output);
}

static void
test_bad_files(void)
{
	FILE	   *f;
	float		x = 1;

	refused(1, "--device cpu $D/none.fbin $D/o.ibin", "none.fbin");
	refused(1, "--device cpu $D $D/o.ibin", "grnnd_cli");
	refused(1, "--device cpu /dev/null $D/o.ibin", "/dev/null");
	refused(1, "--device cpu $D/a.fbin $D/no/o.ibin", "no/o.ibin");

	f = create("empty.fbin");
	fclose(f);
	refused(1, "--device cpu $D/empty.fbin $D/o.ibin", "empty.fbin");
	f = create("empty.fvecs");
	fclose(f);
	refused(1, "--device cpu $D/empty.fvecs $D/o.ibin", "empty.fvecs");
	f = create("norows.fbin");
	put_int(f, 0);
	put_int(f, 4);
	fclose(f);
	refused(1, "--device cpu $D/norows.fbin $D/o.ibin", "no rows");
	f = create("dims.fbin");
	put_int(f, 1);
	put_int(f, -4);
	fclose(f);
	refused(1, "--device cpu $D/dims.fbin $D/o.ibin", "-4 dimensions");
	f = create("short.fbin");
	put_int(f, 3);
	put_int(f, 4);
	for (int i = 0; i < 11; i++)
		put(f, &x, 4);
	fclose(f);
	refused(1, "--device cpu $D/short.fbin $D/o.ibin", "holds 2 of 3 rows");
	f = create("short.fvecs");
	put_int(f, 4);
	for (int i = 0; i < 7; i++)
		put(f, &x, 4);
	fclose(f);
	refused(1, "--device cpu $D/short.fvecs $D/o.ibin", "short.fvecs");
	f = create("mixed.fvecs");
	for (int dim = 1; dim <= 3; dim += 2)
	{
		put_int(f, dim);
		for (int i = 0; i < dim; i++)
			put(f, &x, 4);
	}
	fclose(f);
	refused(1, "--device cpu $D/mixed.fvecs $D/o.ibin", "row 2 has other dimensions");
	f = create("nan.fbin");
	put_int(f, 2);
	put_int(f, 1);
	put(f, &x, 4);
	x = NAN;
	put(f, &x, 4);
	fclose(f);
	refused(1, "--device cpu $D/nan.fbin $D/o.ibin", "row 2 holds a value");
	f = create("zero.fbin");
	put_int(f, 1);
	put_int(f, 1);
	x = 0;
	put(f, &x, 4);
	fclose(f);
	refused(1, "--device cpu --metric cosine $D/zero.fbin $D/o.ibin", "row 1 is zero");
	refused(1, "--device cpu $D/a.txt $D/o.ibin", "a.txt");
}

static void
test_bad_evaluations(void)
{
	FILE	   *f;

	refused(1, "--evaluate $D/0.ibin --query $D/q.fbin --truth $D/t.ibin --rows 100 $D/a.fbin", "0.ibin");
	refused(1, "--evaluate $D/0.ibin --query $D/nan.fbin --truth $D/t.ibin $D/a.fbin", "nan.fbin");
	f = create("other.fbin");
	put_int(f, 1);
	put_int(f, 1);
	put_int(f, 0);
	fclose(f);
	refused(1, "--evaluate $D/0.ibin --query $D/other.fbin --truth $D/t.ibin $D/a.fbin", "other.fbin: has 1 dimensions");
	f = create("few.ibin");
	put_int(f, 1);
	put_int(f, 1);
	put_int(f, 0);
	fclose(f);
	refused(1, "--evaluate $D/0.ibin --query $D/q.fbin --truth $D/few.ibin $D/a.fbin", "few.ibin");
	f = create("far.ibin");
	put_int(f, ROWS);
	put_int(f, 1);
	for (int i = 0; i < ROWS; i++)
		put_int(f, i == 17 ? ROWS : 0);
	fclose(f);
	refused(1, "--evaluate $D/far.ibin --query $D/q.fbin --truth $D/t.ibin $D/a.fbin", "row 18 names vertex 1200");
	f = create("cut.ibin");
	put_int(f, ROWS);
	put_int(f, 2);
	put_int(f, 1);
	fclose(f);
	refused(1, "--evaluate $D/cut.ibin --query $D/q.fbin --truth $D/t.ibin $D/a.fbin", "cut short");
}

int
main(void)
{
	char		command[128];

	program = getenv("GRNND_PAPER");
	if (!program)
		program = access("./grnnd_paper", X_OK) == 0 ? "./grnnd_paper" : "../../grnnd_paper";
	if (access(program, X_OK) != 0 || !mkdtemp(dir))
	{
		printf("# %s is not there: build it, or set GRNND_PAPER\nnot ok test_cli\n", program);
		return 1;
	}
	write_rows("a.fbin", 1, ROWS, false, false);
	write_rows("a.u8bin", 1, ROWS, true, false);
	write_rows("a.fvecs", 1, ROWS, false, true);
	write_rows("a.bvecs", 1, ROWS, true, true);
	write_rows("a.txt", 1, ROWS, true, true);
	write_rows("q.fbin", 2, 40, false, false);
	write_truth("t.ibin");
	RUN(test_build_and_evaluate);
	RUN(test_options);
	RUN(test_bad_options);
	RUN(test_bad_files);
	RUN(test_bad_evaluations);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	if (system(command) != 0)
		return 1;
	UNIT_END();
}
