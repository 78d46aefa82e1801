# CREATE INDEX: the builder killed, stopped and missing, cancels and time limits,
# memory limits, progress, and the same bytes whoever did the work.
use strict;
use warnings;

use FindBin;
use IPC::Run;
use lib "$FindBin::Bin/../lib";
use GrnndTest qw(pages);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = PostgreSQL::Test::Cluster->new('build');
$node->init;
$node->append_conf('postgresql.conf', q(
grnnd.build_device = cpu
grnnd.build_threads = 1
grnnd.build_timeout = 1min
log_temp_files = 0
autovacuum = off
restart_after_crash = on
));
$node->start;
$node->safe_psql('postgres', q(
	CREATE EXTENSION grnnd CASCADE;
	CREATE TABLE t (id int, e vector(24));
	SELECT setseed(0.5);
	INSERT INTO t SELECT i, (SELECT array_agg(random())::vector
	FROM generate_series(1, 24) WHERE i > 0) FROM generate_series(1, 20000) i;
	-- every tenth row twice, and some with no place in the index
	INSERT INTO t SELECT id + 20000, e FROM t WHERE id % 10 = 0;
	INSERT INTO t SELECT i, NULL FROM generate_series(1, 10) i));

# Long enough to be met at any moment.
my $slow = 'CREATE INDEX slow ON t USING grnnd (e vector_l2_ops) WITH (t1 = 100, t2 = 100)';
my $limit = $PostgreSQL::Test::Utils::timeout_default;	# seconds; cancel.pl measures how soon builds end
my $verbose = "\\set VERBOSITY verbose\n";

# ---- helpers ----

# Pids of builders of this cluster: not PostgreSQL, in its data directory.
sub builders
{
	my $data = $node->data_dir;
	my @found;
	for my $proc (glob '/proc/[0-9]*')
	{
		next unless (readlink("$proc/cwd") // '') eq $data;
		my $exe = readlink("$proc/exe") // next;
		push @found, $proc =~ /(\d+)/ unless $exe =~ m{/postgres$};
	}
	return @found;
}

sub wait_until
{
	my ($what, $test) = @_;
	my $until = time() + $limit;
	while (time() < $until)
	{
		return 1 if $test->();
		sleep 0.005;
	}
	diag("waited in vain until $what");
	return 0;
}

sub phase
{
	return $node->safe_psql('postgres', 'SELECT phase FROM pg_stat_progress_create_index');
}

# Starts the script in a psql of its own.
my $scripts = 0;
sub start
{
	my ($sql) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir . '/' . $scripts++ . '.sql';
	my %run = (out => '', err => '');
	append_to_file($file, $verbose . $sql);
	$run{handle} = IPC::Run::start(
		[ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-f', $file ],
		'<', \undef, '>', \$run{out}, '2>', \$run{err}, IPC::Run::timeout($limit));
	return \%run;
}

sub finish
{
	my ($run) = @_;
	eval { $run->{handle}->finish; 1 } or $run->{handle}->kill_kill;
	return $run->{err};
}

# What every failed build must leave: nothing.
sub clean
{
	my ($name) = @_;
	ok(wait_until("no builder", sub { !builders() }), "$name: no process left");
	is($node->safe_psql('postgres', "SELECT count(*) FROM pg_class WHERE relname = 'slow'"),
		'0', "$name: no index left");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_ls_tmpdir()'),
		'0', "$name: no temporary file left");
}

# ---- no builder ----

my ($stdout, $stderr);
my $plain = 'CREATE INDEX slow ON t USING grnnd (e vector_l2_ops)';
for my $case (
	[ '/nowhere/grnnd_build', qr/58P01: could not find the index builder "\/nowhere\/grnnd_build".*HINT/s ],
	[ '/etc/passwd', qr/42501: the index builder "\/etc\/passwd" is not an executable file.*HINT/s ],
	[ $node->data_dir, qr/42501: the index builder ".*" is not an executable file/ ],
	[ '/bin/false', qr/58000: the index builder process ended unexpectedly.*status 1/s ])
{
	$node->psql('postgres', "${verbose}SET grnnd.builder_path = '$case->[0]'; $plain",
		stderr => \$stderr);
	like($stderr, $case->[1], "builder_path = $case->[0]");
	clean("builder_path = $case->[0]");
}

# An executable that is no program.
my $garbage = PostgreSQL::Test::Utils::tempdir . '/garbage';
append_to_file($garbage, "\x7fELF garbage");
chmod 0755, $garbage;
$node->psql('postgres', "${verbose}SET grnnd.builder_path = '$garbage'; $plain",
	stderr => \$stderr);
like($stderr, qr/58000: (could not start the index builder|the index builder process ended)/,
	'corrupted builder');

# ---- the builder killed in each phase that lasts ----

for my $at ('at once', 'building index: building graph')
{
	for my $signal ('KILL', 'SEGV', 'TERM')
	{
		my $run = start($slow);
		wait_until('a builder', sub { builders() });
		wait_until($at, sub { phase() eq $at }) unless $at eq 'at once';
		kill $signal, builders();
		like(finish($run), qr/58000: the index builder process ended unexpectedly.*terminated by signal/s,
			"$signal $at: error");
		clean("$signal $at");
	}
	my $run = start("SET grnnd.build_timeout = '2s'; $slow");
	wait_until('a builder', sub { builders() });
	wait_until($at, sub { phase() eq $at }) unless $at eq 'at once';
	kill 'STOP', builders();
	like(finish($run), qr/58000: the index builder process does not respond.*sent nothing for 2000 ms/s,
		"STOP $at: error");
	clean("STOP $at");
}

# ---- progress; a stopped builder holds the phase ----

{
	my $run = start('CREATE INDEX shown ON t ' .
		'USING grnnd (e vector_l2_ops) WITH (t1 = 20, t2 = 5); SELECT 1;');
	wait_until('rounds', sub { $node->safe_psql('postgres',
		q(SELECT phase = 'building index: building graph' AND tuples_done > 0
		FROM pg_stat_progress_create_index)) eq 't' });
	my ($builder) = builders();
	kill 'STOP', $builder;
	like($node->safe_psql('postgres', q(SELECT command, relid::regclass, phase,
		tuples_done BETWEEN 1 AND tuples_total,
		blocks_total = pg_relation_size('t') / current_setting('block_size')::int,
		blocks_done = blocks_total * tuples_done / tuples_total AND blocks_done < blocks_total
		FROM pg_stat_progress_create_index)),
		qr/^CREATE INDEX\|t\|building index: building graph\|t\|t\|t$/, 'progress is shown, by blocks too');
	kill 'CONT', $builder;
	is(finish($run), '', 'and the build goes on');
	is($node->safe_psql('postgres', q(SELECT reltuples FROM pg_class WHERE relname = 'shown')),
		'22000', 'rows of the index are counted');
	$node->safe_psql('postgres', 'DROP INDEX shown');
}

# ---- cancel, time limit, lost connection ----

{
	my $run = start("SET statement_timeout = '700ms'; $slow");
	like(finish($run), qr/57014: canceling statement due to statement timeout/, 'statement_timeout');
	clean('statement_timeout');
}
for my $how ('cancel', 'terminate')
{
	my $run = start($slow);
	wait_until('building graph', sub { phase() eq 'building index: building graph' });
	$node->safe_psql('postgres',
		"SELECT pg_${how}_backend(pid) FROM pg_stat_progress_create_index");
	like(finish($run), $how eq 'cancel' ? qr/57014: canceling statement due to user request/
		: qr/57P01: terminating connection due to administrator command/, $how);
	clean($how);
}
{
	my $run = start("BEGIN; SAVEPOINT s; $slow; ROLLBACK TO s; SELECT count(*) FROM t; COMMIT;");
	wait_until('building graph', sub { phase() eq 'building index: building graph' });
	kill 'KILL', builders();
	finish($run);
	is($run->{out}, "22010\n", 'the transaction goes on after its savepoint');
	clean('savepoint');
}

# ---- time limits at all moments of a build, from the first to the last ----

{
	my $build = 'SET min_parallel_table_scan_size = 0; SET max_parallel_maintenance_workers = 1;' .
	  " SET maintenance_work_mem = '4MB'; ALTER TABLE t SET (parallel_workers = 1);" .
	  ' CREATE INDEX slow ON t USING grnnd (e vector_l2_ops) WITH (t1 = 1, t2 = 1)';
	my ($canceled, $strange, $whole) = (0, '', 0);
	# until there is time for all of it
	for (my $limit_ms = 4; !$whole; $limit_ms = int($limit_ms * 1.4))
	{
		$node->psql('postgres', "SET statement_timeout = $limit_ms; $build", stderr => \$stderr);
		$stderr =~ /canceling statement due to statement timeout/ ? $canceled++ : $whole++;
		$strange .= $stderr if $stderr =~ /ERROR|FATAL|PANIC/ && $stderr !~ /canceling statement due to/;
		$node->safe_psql('postgres', 'DROP INDEX IF EXISTS slow');
		$strange .= " builder left at $limit_ms ms" unless wait_until('no builder', sub { !builders() });
	}
	is($strange, '', 'time limits: nothing but cancels');
	cmp_ok($canceled, '>=', 3, 'time limits: some cancels');
	clean('time limits');
}

# ---- memory ----

my %built;
for my $case (
	[ alone => "SET max_parallel_maintenance_workers = 0; SET maintenance_work_mem = '64MB'" ],
	[ small => "SET max_parallel_maintenance_workers = 0; SET maintenance_work_mem = '1MB'" ],
	[ workers => "SET maintenance_work_mem = '64MB'; SET min_parallel_table_scan_size = 0;" .
	  ' SET max_parallel_maintenance_workers = 2; SET grnnd.build_threads = 2' ])
{
	my ($name, $settings) = @$case;
	my $log = -s $node->logfile;
	$node->safe_psql('postgres', $name eq 'workers' ?
		'ALTER TABLE t SET (parallel_workers = 2)' : 'ALTER TABLE t RESET (parallel_workers)');
	$node->psql('postgres', "$settings; SET client_min_messages = debug1;" .
		"CREATE INDEX i_$name ON t USING grnnd (e vector_l2_ops)", stderr => \$stderr);
	like($stderr, $name eq 'workers' ? qr/workers 2 and/ : qr/workers 0 and 0/, "$name: workers");
	$built{$name} = pages($node, "i_$name");
	$node->safe_psql('postgres', "$settings; CREATE INDEX i_columns ON t USING grnnd (e vector_l2_ops, id)");
	$built{"$name, columns"} = pages($node, 'i_columns');
	$node->safe_psql('postgres', 'DROP INDEX i_columns');
	my $temp = slurp_file($node->logfile, $log) =~ /temporary file: path "[^"]*", size (\d+)/ ? $1 : 0;
	if ($name eq 'small')
	{
		cmp_ok($temp, '>', 2_000_000, 'what is beyond maintenance_work_mem lies in a temporary file');
	}
	else
	{
		is($temp, 0, "$name: no temporary file");
	}
}
is($node->safe_psql('postgres', "SELECT count(*) FROM grnnd_check('i_workers', true)"), '0',
	'the index is sound');
ok($built{alone} eq $built{small}, 'a temporary file makes no difference to the index');
ok($built{alone} eq $built{workers}, 'workers make no difference to the index');
ok($built{'alone, columns'} eq $built{"$_, columns"}, "with a filter column: $_ makes no difference to the index") for qw(small workers);

# a table of few pages, which have fewer rows than a process takes on at a time
$node->psql('postgres', q(
	CREATE TABLE few (e vector(2)) WITH (parallel_workers = 2, fillfactor = 10);
	INSERT INTO few SELECT ARRAY[i, 1]::vector FROM generate_series(1, 200) i;
	CREATE FUNCTION slowly(vector) RETURNS vector LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
		AS 'BEGIN PERFORM pg_sleep(0.01); RETURN $1; END';
	SET client_min_messages = debug1;
	SET grnnd.build_in_backend = off;
	CREATE INDEX ON few USING grnnd ((slowly(e)::vector(2)))), stderr => \$stderr);
like($stderr, qr/rows 200, nodes 200, .*workers 2 and/, 'a few pages among several processes');

$node->psql('postgres', $verbose . "SET maintenance_work_mem = '1MB';" .
	" SET temp_file_limit = '1MB'; $plain", stderr => \$stderr);
like($stderr, qr/53400: temporary file size exceeds "?temp_file_limit.*HINT:  Raise temp_file_limit, or raise maintenance_work_mem/s,
	'temp_file_limit');
clean('temp_file_limit');

# ---- few rows: the session builds them itself, and writes what a builder would ----

$node->safe_psql('postgres', q(
	CREATE TABLE small AS SELECT id, id % 5 AS kind, e, e::halfvec(24) AS h, e::sparsevec AS s,
		binary_quantize((e - array_fill(0.5, ARRAY[24])::vector)::vector(24))::bit(24) AS b,
		(SELECT array_agg(sin(id * j + j * j)) FROM generate_series(1, 300) j)::vector(300) AS wide
		FROM t WHERE id <= 1100 AND e IS NOT NULL;
	ALTER TABLE small ALTER e TYPE vector(24), ALTER s TYPE sparsevec(24);
	CREATE TABLE parts (id int, e vector(24)) PARTITION BY HASH (id);
	SELECT format('CREATE TABLE parts_%s PARTITION OF parts FOR VALUES WITH (MODULUS 20, REMAINDER %s)', i, i)
		FROM generate_series(0, 19) i \gexec
	INSERT INTO parts SELECT id, e FROM t WHERE id <= 600));
for my $of ('e vector_l2_ops', 'e vector_ip_ops, kind', 'h halfvec_cosine_ops', 's sparsevec_l2_ops', 'b bit_hamming_ops',
	'wide vector_l2_ops', 'wide vector_cosine_ops, kind', 'e vector_l1_ops) WITH (layout = compact', 'e) WITH (codes = off')
{
	$node->psql('postgres', "SET client_min_messages = debug1; SET grnnd.builder_path = '/bin/false';
		CREATE INDEX here ON small USING grnnd ($of)", stderr => \$stderr);
	like($stderr, qr/grnnd build: rows 1100,.* device cpu, workers 0 and 0/, "$of: without a builder");
	$node->safe_psql('postgres', "SET grnnd.build_in_backend = off; CREATE INDEX there ON small USING grnnd ($of)");
	ok(pages($node, 'here') eq pages($node, 'there'), "$of: the bytes of a builder's index");
	is($node->safe_psql('postgres', q(SELECT count(*) FROM grnnd_check('here', true))), '0', "$of: sound");
	next if $of ne 'wide vector_l2_ops';
	$node->psql('postgres', "SET client_min_messages = debug1; SET maintenance_work_mem = '1MB'; SET grnnd.builder_path = '/bin/false';
		SET max_parallel_maintenance_workers = 0; CREATE INDEX tight ON small USING grnnd ($of)", stderr => \$stderr);
	like($stderr, qr/grnnd build: rows 1100,.* temporary file [1-9]/, 'a session with little memory takes a file');
	ok(pages($node, 'here') eq pages($node, 'tight'), 'a session with little memory writes the same index');
}
continue
{
	$node->safe_psql('postgres', 'DROP INDEX IF EXISTS here, there, tight');
}
$node->psql('postgres', "SET grnnd.builder_path = '/bin/false'; CREATE INDEX ON parts USING grnnd (e)",
	stderr => \$stderr);
is($stderr, '', 'partitions of few rows');
is($node->safe_psql('postgres', q(SELECT count(*), sum(s.estimated_rows),
	bool_and(s.mean_degree = least(s.estimated_rows - 1, 32)) FILTER (WHERE s.estimated_rows <= 32) FROM pg_class c, grnnd_stats(c.oid) s
	WHERE c.relname LIKE 'parts%idx' AND c.relkind = 'i')), '20|600|t', 'with all of them, and all possible edges');
$node->psql('postgres', "${verbose}SET grnnd.build_device = gpu; SET grnnd.builder_path = '/bin/false';
	CREATE INDEX here ON small USING grnnd (e)", stderr => \$stderr);
like($stderr, qr/58000: the index builder process ended unexpectedly/, 'few rows where a GPU is demanded');

# ---- the server's death ends the builder; the index is gone ----

{
	my $run = start($slow);
	wait_until('building graph', sub { phase() eq 'building index: building graph' });
	$node->stop('immediate');
	finish($run);
	ok(wait_until('no builder', sub { !builders() }), 'immediate shutdown: no process left');
	$node->start;
	clean('immediate shutdown');
}
{
	my $run = start($slow);
	wait_until('building graph', sub { phase() eq 'building index: building graph' });
	my $backend = $node->safe_psql('postgres', 'SELECT pid FROM pg_stat_progress_create_index');
	my $logged = -s $node->logfile;
	kill 'KILL', $backend;
	finish($run);
	ok(wait_until('no builder', sub { !builders() }), 'backend killed: no process left');
	# from the log: psql that is refused would not read what it is asked
	$node->wait_for_log(qr/database system is ready to accept connections/, $logged);
	clean('backend killed');
}

# ---- and after all that a build works, and has survived a crash ----

$node->safe_psql('postgres', "$plain; CHECKPOINT; REINDEX INDEX slow");
$node->stop('immediate');
$node->start;
is($node->safe_psql('postgres', q(SET enable_seqscan = off;
	SELECT id FROM t ORDER BY e <-> (SELECT e FROM t WHERE id = 77) LIMIT 1)), '77',
	'the index survives a crash');
ok(pages($node, 'slow') eq $built{alone}, 'with the same bytes');

# ---- the disk's side of it: CONCURRENTLY, and an aborted build's file ----

$node->safe_psql('postgres', 'DROP INDEX slow');
$node->append_conf('postgresql.conf', 'min_parallel_table_scan_size = 0');
$node->reload;
{
	local $ENV{PGOPTIONS} = '-c client_min_messages=debug1';
	$node->psql('postgres', 'CREATE INDEX CONCURRENTLY slow ON t USING grnnd (e vector_l2_ops)',
		stderr => \$stderr);
}
like($stderr, qr/workers 2 and/, 'CONCURRENTLY: workers');
ok(pages($node, 'slow') eq $built{alone}, 'CONCURRENTLY: the same bytes');
is($node->safe_psql('postgres', q(SELECT indisvalid FROM pg_index
	WHERE indexrelid = 'slow'::regclass)), 't', 'CONCURRENTLY: valid');

# ---- without WAL (wal_level = minimal), and unlogged: a crash must lose nothing ----

$node->append_conf('postgresql.conf', "wal_level = minimal\nmax_wal_senders = 0\n");
$node->restart;
$node->safe_psql('postgres', q(
	DROP INDEX slow, i_small, i_workers;
	CREATE INDEX slow ON t USING grnnd (e vector_l2_ops);
	CREATE UNLOGGED TABLE u AS SELECT * FROM t LIMIT 1000;
	CREATE INDEX u_e ON u USING grnnd (e);
	CHECKPOINT));
$node->safe_psql('postgres', q(
	CREATE INDEX late ON t USING grnnd (e vector_l2_ops);
	BEGIN; CREATE TABLE v AS SELECT * FROM t WHERE id < 1000;
	CREATE INDEX v_e ON v USING grnnd (e); COMMIT));
$node->stop('immediate');
$node->start;
ok(pages($node, 'slow') eq $built{alone}, 'wal_level = minimal: the same bytes');
ok(pages($node, 'late') eq $built{alone}, 'wal_level = minimal, no checkpoint since: the same bytes');
is($node->safe_psql('postgres', q(SELECT (SELECT count(*) FROM grnnd_check('v_e', true)),
	(SELECT count(*) FROM grnnd_check('u_e', true)), (SELECT count(*) FROM u))), '0|0|0',
	'wal_level = minimal: a table of the same transaction; an unlogged one is empty');
$node->safe_psql('postgres', q(INSERT INTO u SELECT * FROM t LIMIT 100));
is($node->safe_psql('postgres', q(SELECT count(*) FROM grnnd_check('u_e', true))), '0',
	'an unlogged index can be used after the crash');

$node->stop;
done_testing();
