# Records whose rows scans have found to be dead are marked.  Beside updates, inserts into
# freed places and vacuum, and after a crash, no such record has a row.  A standby gets the
# marks, but its older snapshots still see the rows; once promoted it goes by the marks.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $primary = PostgreSQL::Test::Cluster->new('killed_primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', q(
autovacuum = off
fsync = off
grnnd.build_device = cpu
wal_consistency_checking = 'generic'
wal_keep_size = 2GB
));
$primary->start;
setup_grnnd($primary, 16, 20);
# heap TIDs that the index brings for one query
$primary->safe_psql('postgres', q(
	CREATE FUNCTION tids(name text, n int) RETURNS bigint LANGUAGE plpgsql
	SET enable_seqscan = off SET enable_sort = off AS $$
	DECLARE
		before bigint := pg_stat_get_xact_tuples_returned((name || '_idx')::regclass);
	BEGIN
		EXECUTE format('SELECT id FROM %I ORDER BY v <-> (SELECT v FROM queries LIMIT 1) LIMIT %s', name, n);
		RETURN pg_stat_get_xact_tuples_returned((name || '_idx')::regclass) - before;
	END $$));
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('killed_standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
# replay waits for no snapshot but the one that has to end
$standby->append_conf('postgresql.conf', q(
hot_standby_feedback = off
max_standby_streaming_delay = -1
));
$standby->start;

# ---- a snapshot of the standby that is older than the marks ----

# so much room on the table's pages that no query prunes them: replay of that would wait
$primary->safe_psql('postgres', q(
	CREATE TABLE s (id int, v vector(16)) WITH (fillfactor = 50);
	INSERT INTO s SELECT * FROM points(1, 1000, 16, 1);
	CREATE INDEX s_idx ON s USING grnnd (v)));
$primary->wait_for_catchup($standby);
my $query = 'SELECT count(*), sum(id) FROM (SELECT id FROM s ORDER BY v <-> (SELECT v FROM queries LIMIT 1) LIMIT 300) x';
my $old = $standby->background_psql('postgres');
$old->query('SET enable_seqscan = off; SET enable_sort = off; SET grnnd.ef_search = 100; BEGIN ISOLATION LEVEL REPEATABLE READ');
my $seen = $old->query($query);
like($seen, qr/^300\|/, 'the standby sees the rows');
$primary->safe_psql('postgres', 'DELETE FROM s WHERE id % 10 <> 0');
my $tids;
for (1 .. 1000)
{
	$tids = number($primary, q(SELECT tids('s', 1000)));
	last if $tids == 100;
	sleep 0.1;
}
is($tids, 100, 'the primary has marked what is dead');
$primary->wait_for_catchup($standby);
is($old->query($query), $seen, 'an older snapshot of the standby sees the rows all the same');
$old->query('COMMIT');
is($old->query('SELECT count(*) FROM (SELECT id FROM s ORDER BY v <-> (SELECT v FROM queries LIMIT 1) LIMIT 300) x'),
	100, 'a newer one does not');
cmp_ok(number($standby, q(SELECT tids('s', 1000))), '>', 100, 'nor does it go by the marks');
sound($standby, 's_idx', 'standby');

# ---- updates, inserts, vacuum ----

$primary->safe_psql('postgres', q(
	CREATE TABLE t (id int PRIMARY KEY, v vector(16));
	INSERT INTO t SELECT * FROM points(1, 2000, 16, 1);
	CREATE INDEX t_idx ON t USING grnnd (v)));
my $change = "\\set id random(1, 2000)\n\\set s random(1, 3000)\n";
my @scripts = (
	[ 4, $change . "UPDATE t SET v = (SELECT p.v FROM points(:s, :s, 16, 1) p) WHERE id = :id;\n" ],
	[ 1, $change . "DELETE FROM t WHERE id = :id;\n" ],
	[ 1, $change . "INSERT INTO t SELECT :id, v FROM points(:s, :s, 16, 1) ON CONFLICT DO NOTHING;\n" ],
	[ 6, $change . "SET enable_seqscan = off;\nSELECT id FROM t ORDER BY v <-> (SELECT p.v FROM points(:s, :s, 16, 1) p) LIMIT 20;\n" ]);
for my $round (1 .. 3)
{
	my $load = pgbench_start($primary, [ '-c', 4, '-t', $soak ? 20000 : 700 ], @scripts);
	my $vacuum = pgbench_start($primary, [ '-c', 1, '-t', 20 ], [ 1, "VACUUM t;\n\\sleep 50 ms\n" ]);
	if ($round == 3)
	{
		sleep 0.7;
		crash_server($primary);
		pgbench_finish($_) for $load, $vacuum;
	}
	else
	{
		is(join('', map { pgbench_finish($_) } $load, $vacuum), '', "round $round: no error");
	}
	sound($primary, 't_idx', "round $round");
	missing($primary, 't', "round $round");
	cmp_ok(recall($primary, 't'), '>=', 0.9, "round $round: recall");
}

# ---- promotion ----

$primary->wait_for_catchup($standby);
sound($standby, 't_idx', 'standby');
missing($standby, 't', 'standby');
$old->quit;
$primary->stop;
unlike(slurp_file($standby->logfile), qr/inconsistent page|PANIC|TRAP/, 'replay gave the pages that were logged');
$standby->promote;
is(number($standby, q(SELECT tids('s', 1000))), 100, 'promoted: it goes by the marks');
sound($standby, "${_}_idx", 'promoted') for 's', 't';
$standby->safe_psql('postgres', 'VACUUM s, t; INSERT INTO s SELECT * FROM points(2001, 3000, 16, 1)');
missing($standby, $_, 'promoted') for 's', 't';
sound($standby, "${_}_idx", 'promoted and vacuumed') for 's', 't';

$standby->stop;
done_testing();
