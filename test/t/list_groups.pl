# Groups of lists that the builder makes while pages are written: with workers and without, on cores and where a GPU
# (the stand-in of test/unit) has built the graph, parked for another build, in the backend, and where the builder
# is gone.
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
compile_standin("$dir/builder", "$FindBin::Bin/../unit/bad_groups.c -Wl,--wrap=grn_group_rows");

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

# starts the server with a builder whose groups have this fault (bad_groups.c)
sub restart
{
	$ENV{GRNND_GROUPS} = shift;
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

my $grouped = qr/\d+ groups of lists/;

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
				INSERT INTO a SELECT n, method FROM grnnd_last_scan();
			END LOOP;
		END $$;
		SELECT avg(found), string_agg(DISTINCT way, ' ') FROM a));
	cmp_ok($found, '>=', 9, "$name: nine of ten rows of a value are found ($ways)");
	$node->safe_psql('postgres', 'DROP INDEX i');
	return $log;
}

# of enough pages for workers
my $said = build('leader and workers', '', 'WITH (layout = exact, degree = 96)');
like($said, $grouped, 'leader and workers: groups are made');
like($said, qr/workers \d and [12],/, 'workers have written pages');
like(build('leader alone', 'SET max_parallel_maintenance_workers = 0;'), $grouped, 'leader alone');
like(build('on cores', 'SET grnnd.build_device = cpu;'), $grouped, 'on cores');
unlike(build($_, '', "WITH ($_)"), $grouped, "$_: without codes there are no groups") for 'codes = off', 'layout = compact';
like(build('beyond memory', "SET grnnd.build_memory_limit = '1MB';"), $grouped, 'beyond memory');

# the builder is parked for a transaction's next build once it has made groups
my $log;
$node->psql('postgres', 'SET client_min_messages = debug1; CREATE INDEX ON p USING grnnd (v, c)', stderr => \$log);
my $times = () = $log =~ /$grouped/g;
my %processes = map { $_ => 1 } $log =~ /index builder process (\d+) works/g;
is($times, 2, 'two partitions: both have groups');
is(scalar(keys %processes), 1, 'by one process');
is($node->safe_psql('postgres', q(SELECT count(*) FROM grnnd_check('p1_v_c_idx', true)) . ' UNION ALL ' .
		q(SELECT count(*) FROM grnnd_check('p2_v_c_idx', true))), "0\n0", 'both are sound');

# few rows, whose graph the backend builds
$node->safe_psql('postgres', q(SET grnnd.build_device = auto; CREATE TABLE few AS SELECT v, c FROM t LIMIT 2000;
	UPDATE few SET c = c % 5; CREATE INDEX few_i ON few USING grnnd (v, c)));
is($node->safe_psql('postgres', q(SELECT count(*) FROM grnnd_check('few_i', true))), '0', 'in the backend: sound');

# an insert, and a vacuum
$node->safe_psql('postgres', q(CREATE INDEX i ON t USING grnnd (v, c);
	INSERT INTO t SELECT id + 30000, v, c, d FROM t WHERE id <= 500; DELETE FROM t WHERE id % 7 = 1));
$node->safe_psql('postgres', 'VACUUM t');
is($node->safe_psql('postgres', q(SELECT count(*) FROM grnnd_check('i', true))), '0', 'written to: sound');
$node->safe_psql('postgres', 'DROP INDEX i');

# a builder that ends meanwhile, or says no more
restart('exit');
$node->psql('postgres', 'CREATE INDEX i ON t USING grnnd (v, c)', stderr => \$log);
like($log, qr/ERROR:  the index builder process (exited|ended|has ended)/, 'a builder that ends');
restart('stuck');
{
	my $build = psql_start($node, "SET grnnd.build_timeout = '2s'; CREATE INDEX i ON t USING grnnd (v, c)");
	# the leader writes pages once the builder has its lists, and then waits
	$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_progress_create_index p JOIN pg_stat_activity USING (pid)
		WHERE phase ~ 'writing' AND wait_event_type = 'Extension'") or die 'no build waits for groups';
	kill 'STOP', grep { (readlink("/proc/$_/exe") // '') eq "$dir/builder" } map { m!/proc/(\d+)! } glob('/proc/[0-9]*');
	like(psql_finish($build), qr/the index builder process does not respond/, 'a builder that is silent');
}

# a cancel while groups are awaited
restart('stuck');
$node->psql('postgres', "SET statement_timeout = '3s'; CREATE INDEX i ON t USING grnnd (v, c)", stderr => \$log);
like($log, qr/ERROR:  canceling statement due to statement timeout/, 'a cancel while groups are awaited');
is($node->safe_psql('postgres', q(SELECT count(*) FROM pg_class WHERE relname = 'i')), '0', 'no index is left by any');
$node->stop;
done_testing();
