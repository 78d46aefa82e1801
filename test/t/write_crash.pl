# Crashes under load, half of them while indexes are built, with every replayed page compared
# with what was logged; unlogged tables; prepared transactions.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $node = PostgreSQL::Test::Cluster->new('write_crash');
$node->init;
$node->append_conf('postgresql.conf', q(
autovacuum = off
grnnd.build_device = cpu
wal_consistency_checking = 'generic'
max_wal_size = 2GB
max_prepared_transactions = 5
));
$node->start;
setup_grnnd($node, 64, 50);

$node->safe_psql('postgres', q(
	CREATE TABLE source (id int, v vector(64));
	INSERT INTO source SELECT * FROM points(1, 6000, 64, 1);
	CREATE UNIQUE INDEX ON source (id);
	CREATE TABLE t (id int PRIMARY KEY, v vector(64));
	INSERT INTO t SELECT * FROM source WHERE id <= 2000;
	CREATE INDEX t_idx ON t USING grnnd (v);
	CREATE TABLE wide (id serial, v vector(4000));
	INSERT INTO wide (v) SELECT v FROM points(1, 20, 4000, 1);
	CREATE INDEX wide_idx ON wide USING grnnd (v);
	CREATE TABLE same (id serial, v vector(64));
	CREATE INDEX same_idx ON same USING grnnd (v);
	CREATE TABLE committed (id int);
	CREATE UNLOGGED TABLE u (id int, v vector(64));
	INSERT INTO u SELECT * FROM source WHERE id <= 500;
	CREATE INDEX u_idx ON u USING grnnd (v)));

# Stops a backend in the middle of a build, in a phase of it, where it stays until the crash;
# returns the phase.
$node->safe_psql('postgres', q(
	CREATE FUNCTION stop_in(wanted text) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		p int;
		now text;
	BEGIN
		FOR i IN 1 .. 200000 LOOP
			PERFORM pg_stat_clear_snapshot();
			SELECT pid INTO p FROM pg_stat_progress_create_index WHERE phase LIKE '%' || wanted || '%';
			IF FOUND THEN
				EXECUTE format('COPY (SELECT 1) TO PROGRAM %L', 'cat >/dev/null; kill -STOP ' || p);
				PERFORM pg_stat_clear_snapshot();
				SELECT phase INTO now FROM pg_stat_progress_create_index WHERE pid = p;
				IF now LIKE 'building index: %' THEN
					RETURN now;
				END IF;
				EXECUTE format('COPY (SELECT 1) TO PROGRAM %L', 'cat >/dev/null; kill -CONT ' || p);
			END IF;
			PERFORM pg_sleep(0.001);
		END LOOP;
		RETURN 'none';
	END $$));

my @phases = ('collecting vectors', 'building graph', 'connecting graph', 'computing codes', 'writing pages');
my $rounds = $soak ? 50 : 10;
for my $round (1 .. $rounds)
{
	my $load = pgbench_start($node, [ '-c', 4, '-j', 1, '-T', 600 ],
		[ 6, "\\set s random(2001, 6000)\nINSERT INTO t SELECT * FROM source WHERE id = :s ON CONFLICT DO NOTHING;\n" ],
		[ 3, "\\set s random(1, 6000)\nDELETE FROM t WHERE id = :s;\n" ],
		[ 1, "INSERT INTO wide (v) SELECT v FROM wide ORDER BY random() LIMIT 1;\n" ],
		[ 2, "INSERT INTO same (v) SELECT v FROM source WHERE id <= 2;\n" ]);
	my $vacuum = pgbench_start($node, [ '-c', 1, '-T', 600 ], [ 1, "VACUUM t;\nVACUUM same;\n" ]);
	my $builds = $round % 2 == 0 ? undef : pgbench_start($node, [ '-c', 1, '-T', 600 ],
		[ 1, "CREATE INDEX IF NOT EXISTS built ON source USING grnnd (v);\nREINDEX INDEX same_idx;\nDROP INDEX built;\n" ]);
	sleep 0.2 + rand($builds ? 0.5 : 2);
	$node->safe_psql('postgres', 'CHECKPOINT') if $round % 3 == 0;
	# committed for sure before the crash
	$node->safe_psql('postgres', "INSERT INTO t SELECT 100000 + $round, v FROM source WHERE id = $round");
	if ($builds)
	{
		my $phase = number($node, sprintf "SELECT stop_in('%s')", $phases[ ($round - 1) / 2 % @phases ]);
		like($phase, qr/^building index: /, "crash $round: while an index is built ($phase)");
	}
	crash_server($node);
	pgbench_finish($load);
	pgbench_finish($vacuum);
	pgbench_finish($builds) if $builds;
	my @built = number($node, "SELECT relname FROM pg_class WHERE relname = 'built'");
	is(number($node, "SELECT count(*) FROM t WHERE id > 100000"), $round, "crash $round: committed rows are there");
	sound($node, $_, "crash $round, $_") for qw(t_idx wide_idx same_idx), grep { $_ } @built;
	missing($node, 't', "crash $round");
	$node->safe_psql('postgres', 'VACUUM t; VACUUM same; DELETE FROM same WHERE id % 3 = 0');
	sound($node, 't_idx', "crash $round, vacuumed");
	if ($round == 1)
	{
		is(number($node, 'SELECT count(*) FROM u'), 0, 'the unlogged table is empty');
		sound($node, 'u_idx', 'its index');
		$node->safe_psql('postgres', 'INSERT INTO u SELECT * FROM source WHERE id <= 300');
		missing($node, 'u', 'its index, filled again');
		sound($node, 'u_idx', 'its index, filled again');
	}
}
unlike(slurp_file($node->logfile), qr/inconsistent page|PANIC|TRAP/, 'replay gave the pages that were logged');

# a stop in order leaves unlogged rows
$node->safe_psql('postgres', 'TRUNCATE u; INSERT INTO u SELECT * FROM source WHERE id <= 300');
$node->restart;
is(number($node, 'SELECT count(*) FROM u'), 300, 'unlogged rows outlive a restart');
sound($node, 'u_idx', 'unlogged index after a restart');

# prepared transactions, one to be committed and one not
$node->safe_psql('postgres', q(
	BEGIN; INSERT INTO t SELECT 200000 + id, v FROM source WHERE id <= 100; PREPARE TRANSACTION 'yes'));
$node->safe_psql('postgres', q(
	BEGIN; INSERT INTO t SELECT 300000 + id, v FROM source WHERE id <= 100; PREPARE TRANSACTION 'no'));
$node->safe_psql('postgres', 'VACUUM t');
crash_server($node);
$node->safe_psql('postgres', "COMMIT PREPARED 'yes'");
$node->safe_psql('postgres', "ROLLBACK PREPARED 'no'");
is(number($node, 'SELECT count(*) FROM t WHERE id > 200000'), 100, 'prepared rows');
missing($node, 't', 'prepared transactions');
$node->safe_psql('postgres', 'VACUUM t');
sound($node, 't_idx', 'prepared transactions');
missing($node, 't', 'prepared transactions, vacuumed');
cmp_ok(recall($node, 't'), '>=', 0.95, 'recall after all that');

$node->stop;
done_testing();
