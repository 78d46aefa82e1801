# Whatever a statement is doing, it ends soon when it is canceled, its session is terminated or
# its builder dies: within half a second, with the builder's death within one, of time in which
# somebody who looks on gets to run.  Nothing is left behind.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $dir = PostgreSQL::Test::Utils::tempdir;
compile_standin("$dir/bad", "$FindBin::Bin/build_bad.c -Wl,--wrap=grn_form_pages", 1);
chmod 0755, $dir;

my $node = PostgreSQL::Test::Cluster->new('cancel');
$node->init;
$node->append_conf('postgresql.conf', q(
autovacuum = off
grnnd.background_fit = off
grnnd.build_device = cpu
grnnd.build_in_backend = off
grnnd.build_timeout = 1s
# its compiler knows no interrupts
jit = off
));
$node->start;
setup_grnnd($node, 64, 5, 'grnnd_tools');
$node->safe_psql('postgres', q(
	CREATE TABLE t (id int, v vector(64));
	INSERT INTO t SELECT * FROM points(1, 8000, 64, 1);
	CREATE INDEX t_idx ON t USING grnnd (v);
	CREATE TABLE small (v vector(64));
	INSERT INTO small SELECT v FROM t LIMIT 500;

	-- Waits until the statement of another session is that far, does something, and returns the
	-- milliseconds until that statement is over.  Of the time between two looks no more than
	-- 5 ms count: if the machine is busy, or was stopped, the statement had no more either.
	CREATE FUNCTION ends_after(met text, act text) RETURNS float8 LANGUAGE plpgsql AS $$
	DECLARE
		p int;
		last timestamptz;
		now timestamptz;
		ms float8 := 0;
	BEGIN
		FOR i IN 1 .. 8000 LOOP
			PERFORM pg_stat_clear_snapshot();
			EXECUTE 'SELECT pid FROM pg_stat_activity a WHERE ' || met INTO p;
			EXIT WHEN p IS NOT NULL;
			PERFORM pg_sleep(0.001);
		END LOOP;
		IF p IS NULL THEN
			RAISE 'not met: %', met;
		END IF;
		EXECUTE replace(act, 'PID', p::text);
		last := clock_timestamp();
		LOOP
			PERFORM pg_stat_clear_snapshot();
			EXIT WHEN NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = p AND state = 'active');
			PERFORM pg_sleep(0.001);
			now := clock_timestamp();
			ms := ms + least(5, extract(epoch FROM now - last) * 1000);
			last := now;
		END LOOP;
		RETURN ms;
	END $$));

# Processes other than PostgreSQL's own that run in the data directory.
sub strangers
{
	my $data = $node->data_dir;
	my @found;
	for my $proc (glob '/proc/[0-9]*')
	{
		next unless (readlink("$proc/cwd") // '') eq $data;
		my $exe = readlink("$proc/exe") // next;
		push @found, $exe unless $exe =~ m{/postgres$};
	}
	return "@found";
}

# Runs a statement in another session until it has got so far, and ends it; says how soon it was over.
sub ended
{
	my ($name, $limit, $sql, $met, $act, $expected) = @_;
	my $running = psql_start($node, "SET application_name = 'victim'; $sql");
	my $ms = number($node, sprintf(q(SELECT ends_after($met$application_name = 'victim' AND state = 'active' AND
		%s$met$, $act$%s$act$)), $met, $act));
	eval { $running->{run}->finish };
	cmp_ok($ms, "<=", $limit, sprintf "%s: over after %.0f ms", $name, $ms);
	like(${ $running->{err} }, $expected, "$name: error");
}

my $canceled = qr/canceling statement due to user request/;
my $terminated = qr/terminating connection due to administrator command/;

# ---- builds, in each phase: canceled, terminated, and without their builder ----

my %phase = (2 => 'preparing vectors', 3 => 'building graph', 4 => 'connecting graph', 5 => 'computing codes');
my $builder = q(EXECUTE format('COPY (SELECT 1) TO PROGRAM %L', 'cat >/dev/null; kill -SIG `cat /proc/PID/task/PID/children`'));
for my $number (sort keys %phase)
{
	my $script = "$dir/phase$number";
	append_to_file($script, "#!/bin/sh\nexec $dir/bad phase$number\n");
	chmod 0755, $script;
	my $sql = "SET grnnd.builder_path = '$script'; CREATE INDEX lost ON small USING grnnd (v)";
	my $met = "EXISTS (SELECT FROM pg_stat_progress_create_index c WHERE c.pid = a.pid AND phase = 'building index: $phase{$number}')";
	my $do = sub { return "DO \$do\$BEGIN $_[0]; END\$do\$"; };
	for my $case (
		[ 'canceled', 500, 'SELECT pg_cancel_backend(PID)', $canceled ],
		[ 'terminated', 500, 'SELECT pg_terminate_backend(PID)', $terminated ],
		[ 'builder killed', 1000, $do->($builder =~ s/SIG/KILL/r), qr/ended unexpectedly.*signal 9/s ],
		[ 'builder crashed', 1000, $do->($builder =~ s/SIG/SEGV/r), qr/ended unexpectedly.*signal 11/s ],
		# build_timeout first
		[ 'builder stopped', 2500, $do->($builder =~ s/SIG/STOP/r), qr/does not respond/ ])
	{
		my ($how, $limit, $act, $expected) = @$case;
		ended("$phase{$number}, $how", $limit, $sql, $met, $act, $expected);
	}
}
is(number($node, q(SELECT (SELECT count(*) FROM pg_class WHERE relname = 'lost') + (SELECT count(*) FROM pg_ls_tmpdir()))),
	'0', 'no index, no file');
is(strangers(), '', 'no builder left');

# ---- everything else, after any time ----

my $slow = q(SET enable_seqscan = off; SET enable_memoize = off; SET grnnd.ef_search = 4000;
	SELECT count(*) FROM queries q, generate_series(1, 100) i,
		LATERAL (SELECT id FROM t WHERE id <> -i ORDER BY v <-> q.v LIMIT 8000) x);
my $long = q(
	INSERT INTO t SELECT * FROM points(10001, 60000, 64, 1));
for my $case (
	[ 'scan', $slow ],
	[ 'insert', $long ],
	[ 'equal rows', 'INSERT INTO t SELECT 0, v FROM queries, generate_series(1, 100000) WHERE queries.id = (SELECT min(id) FROM queries)' ],
	[ 'vacuum', q(INSERT INTO t SELECT * FROM points(70001, 71000, 64, 1); DELETE FROM t WHERE id % 8 <> 0;
		SET vacuum_cost_delay = '2ms'; SET vacuum_cost_limit = 100; VACUUM t) ],
	[ 'check', q(DO 'BEGIN FOR i IN 1 .. 1000 LOOP PERFORM grnnd_check(''t_idx'', true); END LOOP; END') ],
	[ 'build', q(DO 'BEGIN FOR i IN 1 .. 1000 LOOP REINDEX INDEX t_idx; END LOOP; END') ],
	[ 'graph', q(DO 'BEGIN FOR i IN 1 .. 1000 LOOP PERFORM count(*) FROM grnnd_graph(''t'', ''v'');
		PERFORM count(*) FROM grnnd_graph(''t'', ''v'', 100, exact => true); END LOOP; END') ])
{
	my ($name, $sql) = @$case;
	for my $how ('cancel', 'terminate')
	{
		my $after = int rand($name eq 'vacuum' ? 150 : 400);
		my $last = $name =~ /check|build|graph/ ? 'DO' : uc((split ' ', (split /; */, $sql)[-1])[0]);
		ended("$name, $how after $after ms", 500, $sql,
			"query LIKE '$last%' AND clock_timestamp() > query_start + interval '$after ms'",
			"SELECT pg_${how}_backend(PID)", $how eq 'cancel' ? $canceled : $terminated);
	}
	sound($node, 't_idx', $name);
}
is(strangers(), '', 'no builder left');
is(number($node, 'SELECT count(*) FROM pg_ls_tmpdir()'), '0', 'no file left');
$node->safe_psql('postgres', 'VACUUM t');
sound($node, 't_idx', 'after all that and vacuum');

# ---- limits of time ----

$node->safe_psql('postgres', q(
	DROP INDEX t_idx;
	TRUNCATE t;
	INSERT INTO t SELECT * FROM points(1, 8000, 64, 1);
	CREATE INDEX t_idx ON t USING grnnd (v)));
for my $sql ($slow, $long, q(DO 'BEGIN FOR i IN 1 .. 1000 LOOP REINDEX INDEX t_idx; END LOOP; END'))
{
	my ($rc, $out, $err) = $node->psql('postgres', "SET statement_timeout = '150ms'; $sql");
	like($err, qr/canceling statement due to statement timeout/, 'statement_timeout: ' . substr($sql =~ s/^\s+//r, 0, 40));
}
sound($node, 't_idx', 'statement_timeout');
missing($node, 't', 'statement_timeout');
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|process .* was terminated by signal/, 'the server never went down');
$node->stop;
done_testing();
