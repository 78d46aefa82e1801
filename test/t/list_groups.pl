# Groups of lists that a GPU chooses while pages are written, with the stand-in of test/unit for a GPU: with workers
# and without, parked for another build, where it cannot, where it sends nonsense, and where it is gone.
use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$FindBin::Bin/../lib";
use GrnndTest;

my $dir = PostgreSQL::Test::Utils::tempdir;
chmod 0755, $dir;
compile_standin("$dir/builder");

my $node = PostgreSQL::Test::Cluster->new('groups');
$node->init;
$node->append_conf('postgresql.conf', qq(
grnnd.builder_path = '$dir/builder'
grnnd.build_device = gpu
grnnd.build_threads = 2
maintenance_work_mem = 64MB
autovacuum = off
max_parallel_maintenance_workers = 2
min_parallel_table_scan_size = 1MB
));

# starts the server with stand-ins that this says of (gpu_standin.c)
sub restart
{
	$ENV{GRNND_STANDIN} = shift;
	$node->stop;
	$node->start;
}

$ENV{GRNND_STANDIN} = '1 0 0';
$node->start;
setup_grnnd($node, 16, 20);
# c: ten values of a tenth of the rows; d: 200 of a two-hundredth; every 20th row twice
$node->safe_psql('postgres', q(
	CREATE TABLE t (id int, v vector(16), c int, d int);
	INSERT INTO t SELECT id, v, id % 10, id % 200 FROM points(1, 20000, 16, 1);
	INSERT INTO t SELECT id + 20000, v, c, d FROM t WHERE id % 20 = 0;
	CREATE TABLE p (id int, v vector(16), c int) PARTITION BY RANGE (id);
	CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10001);
	CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10001) TO (30001);
	INSERT INTO p SELECT id, v, c FROM t WHERE id <= 20000;
	ANALYZE t, p));

my $by_gpu = qr/lists grouped by the GPU/;

# builds an index; what was logged, once it is sound and finds the rows of a value by its list
sub build
{
	my ($name, $set, $with) = @_;
	my $log;
	$node->psql('postgres', "$set SET client_min_messages = debug1; CREATE INDEX i ON t USING grnnd (v, c, d) " . ($with // ''), stderr => \$log);
	is($node->safe_psql('postgres', q(SELECT count(*) FROM grnnd_check('i', true))), '0', "$name: sound");
	my ($found, $ways) = split /\|/, $node->safe_psql('postgres', q(
		SET enable_seqscan = off; SET enable_bitmapscan = off; SET grnnd.ef_search = 200;
		CREATE TEMP TABLE a (found int, way text);
		DO $$ DECLARE q vector; n int; BEGIN
			FOR q IN SELECT v FROM queries LOOP
				SELECT count(*) INTO n FROM (SELECT id FROM t WHERE c = 3 ORDER BY v <-> q LIMIT 10) x
					WHERE id IN (SELECT id FROM (SELECT id FROM t WHERE c = 3 ORDER BY (v <-> q) + 0 LIMIT 10) y);
				INSERT INTO a SELECT n, way FROM grnnd_last_filter();
			END LOOP;
		END $$;
		SELECT avg(found), string_agg(DISTINCT way, ' ') FROM a));
	cmp_ok($found, '>=', 9, "$name: nine of ten rows of a value are found ($ways)");
	$node->safe_psql('postgres', 'DROP INDEX i');
	return $log;
}

# of enough pages for workers
my $said = build('leader and workers', '', 'WITH (layout = exact, degree = 96)');
like($said, $by_gpu, 'leader and workers: by the GPU');
like($said, qr/workers \d and [12],/, 'workers have written pages');
like(build('leader alone', 'SET max_parallel_maintenance_workers = 0;'), $by_gpu, 'leader alone: by the GPU');
like(build('compact', '', 'WITH (layout = compact)'), $by_gpu, 'compact: by the GPU');
like(build('little memory of the GPU', "SET grnnd.gpu_memory_limit = '2MB';"), $by_gpu, 'little memory of the GPU: list by list');
unlike(build('on cores', 'SET grnnd.build_device = cpu;'), $by_gpu, 'on cores: by cores');
unlike(build('without codes', '', 'WITH (codes = off)'), $by_gpu, 'without codes there are no groups');
unlike(build('beyond memory', "SET grnnd.build_memory_limit = '1MB';"), $by_gpu, 'beyond memory: by cores');

# the builder is parked for a transaction's next build once it has chosen groups
my $log;
$node->psql('postgres', 'SET client_min_messages = debug1; CREATE INDEX ON p USING grnnd (v, c)', stderr => \$log);
my $times = () = $log =~ /$by_gpu/g;
my %processes = map { $_ => 1 } $log =~ /index builder process (\d+) works/g;
is($times, 2, 'two partitions: both by the GPU');
is(scalar(keys %processes), 1, 'by one process');
is($node->safe_psql('postgres', q(SELECT count(*) FROM grnnd_check('p1_v_c_idx', true)) . ' UNION ALL ' .
		q(SELECT count(*) FROM grnnd_check('p2_v_c_idx', true))), "0\n0", 'both are sound');

# rows of which some are far longer: units of the longest leave nothing of the others
$node->safe_psql('postgres', q(CREATE TABLE long AS SELECT v, c FROM t;
	INSERT INTO long SELECT (SELECT array_agg(1e7 * j) FROM generate_series(1, 16) j)::vector(16), 3));
$node->psql('postgres', 'SET client_min_messages = debug1; CREATE INDEX l ON long USING grnnd (v, c)', stderr => \$log);
unlike($log, $by_gpu, 'a row that is far longer than all others: by cores');
is($node->safe_psql('postgres', q(SELECT count(*) FROM grnnd_check('l', true))), '0', 'they are sound');

# an insert, and a vacuum, of an index whose groups it has chosen
$node->safe_psql('postgres', q(CREATE INDEX i ON t USING grnnd (v, c);
	INSERT INTO t SELECT id + 30000, v, c, d FROM t WHERE id <= 500; DELETE FROM t WHERE id % 7 = 1));
$node->safe_psql('postgres', 'VACUUM t');
is($node->safe_psql('postgres', q(SELECT count(*) FROM grnnd_check('i', true))), '0', 'written to: sound');
$node->safe_psql('postgres', 'DROP INDEX i');

restart('1 0 0 0 1');
$log = build('a GPU without memory for groups', '');
unlike($log, $by_gpu, 'a GPU without memory for groups: by cores');
like($log, qr/no memory for groups/, 'it says why');
like($log, qr/device gpu/, 'and has built the graph');

# one that sends what is no group, or too many rows of one: nothing is written that is wrong
for my $wrong (2, 3)
{
	restart("1 0 0 0 $wrong");
	$node->psql('postgres', 'CREATE INDEX i ON t USING grnnd (v, c)', stderr => \$log);
	like($log, qr/ERROR:  the index builder's result is invalid: a group of a list/, "groups that cannot be ($wrong)");
	is($node->safe_psql('postgres', q(SELECT count(*) FROM pg_class WHERE relname = 'i')), '0', 'no index is left');
}

# one that ends meanwhile, or says no more: all that cores need is there
restart('1 0 0 0 4');
$log = build('a builder that ends', '');
unlike($log, $by_gpu, 'a builder that ends: by cores');
like($log, qr/has not put lists into groups: it has ended/, 'a builder that ends: the log says so');
restart('1 0 0 0 5');
{
	my $build = psql_start($node, "SET client_min_messages = log; SET grnnd.build_timeout = '2s'; CREATE INDEX i ON t USING grnnd (v, c)");
	# the leader writes pages once the builder has its lists, and then waits
	$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_progress_create_index p JOIN pg_stat_activity USING (pid)
		WHERE phase ~ 'writing' AND wait_event_type = 'Extension'") or die 'no build waits for groups';
	kill 'STOP', grep { (readlink("/proc/$_/exe") // '') eq "$dir/builder" } map { m!/proc/(\d+)! } glob('/proc/[0-9]*');
	like(psql_finish($build), qr/has not put lists into groups: it is silent/, 'a builder that is silent: the log says so');
	is($node->safe_psql('postgres', q(SELECT count(*) FROM grnnd_check('i', true))), '0', 'a builder that is silent: sound');
	$node->safe_psql('postgres', 'DROP INDEX i');
}

# a GPU that has failed is not kept for the transaction's next build.  All its calls fail from one on that is behind
# those of the graph.
my $failed = 0;
for (my $call = 6; $call < 30 && !$failed; $call++)
{
	restart("1 0 $call 0 0");
	$node->psql('postgres', 'SET client_min_messages = log; BEGIN; CREATE INDEX i ON t USING grnnd (v, c);
		CREATE INDEX j ON t USING grnnd (v, c); COMMIT', stderr => \$log);
	$failed = () = $log =~ /has not put lists into groups: a fault for the test/g;
}
is($failed, 2, 'a GPU that fails: two builds have made their groups on cores');
unlike($log, qr/ERROR/, 'a GPU that fails: no error');
is($node->safe_psql('postgres', q(SELECT count(*) FROM grnnd_check('j', true))), '0', 'a GPU that fails: sound');
$node->safe_psql('postgres', 'DROP INDEX i, j');

# a cancel while groups are awaited
restart('1 0 0 0 5');
$node->psql('postgres', "SET statement_timeout = '3s'; CREATE INDEX i ON t USING grnnd (v, c)", stderr => \$log);
like($log, qr/ERROR:  canceling statement due to statement timeout/, 'a cancel while groups are awaited');
$node->stop;
done_testing();
