# Filter columns under load: rows that come, go, and change a filter column alone, crashes,
# builds beside writers, and a standby.  Every condition gives the rows that a sequential scan
# gives, and grnnd_check() finds no value that the table has not.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $node = PostgreSQL::Test::Cluster->new('filters');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', q(
autovacuum = off
grnnd.build_device = cpu
wal_consistency_checking = 'generic'
max_wal_size = 2GB
wal_keep_size = 2GB
));
$node->start;
setup_grnnd($node, 32, 20);
$node->safe_psql('postgres', q(
	CREATE TABLE source AS SELECT id, v FROM points(1, 4000, 32, 1);
	CREATE UNIQUE INDEX ON source (id);
	CREATE TABLE t (id int PRIMARY KEY, tenant int, kind text, at timestamptz, price numeric, tags int[], v vector(32));
	INSERT INTO t SELECT id, id % 50, 'kind ' || id % 7, timestamptz '2026-01-01' + id * interval '1 minute',
		id % 100 / 4.0, ARRAY[id % 10, id % 33], v FROM source WHERE id <= 2000;
	-- lists come with codes, and others under the load
	CREATE TABLE filled AS SELECT * FROM t;
	TRUNCATE t;
	CREATE INDEX t_idx ON t USING grnnd (v, tenant, kind, at, price, tags);
	INSERT INTO t SELECT * FROM filled WHERE id <= 700;
	SELECT grnnd_fit('t_idx');
	INSERT INTO t SELECT * FROM filled WHERE id > 700));

my @conditions = ('tenant = 7', "kind = 'kind 3' AND tenant < 20", "kind = 'new'", 'tenant IS NULL',
	"at BETWEEN '2026-01-01 10:00' AND '2026-01-01 11:00'", 'price > 20 AND price <= 21.5', 'price IS NULL',
	"tags @> '{4,5}'", "tags && '{31}'", 'tenant IN (7, 8, 60)', 'tenant >= 100');

# Rows that only one of index and sequential scan gives, for all conditions.
sub compare
{
	my ($server, $name) = @_;
	my $sql = '';
	for my $condition (@conditions)
	{
		my $query = "SELECT array_agg(id ORDER BY id) FROM (SELECT id FROM t WHERE $condition "
		  . 'ORDER BY v <-> (SELECT v FROM queries LIMIT 1) LIMIT 100000) q';
		$sql .= "BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL enable_indexscan = off; $query; "
		  . "SET LOCAL enable_indexscan = on; SET LOCAL enable_seqscan = off; $query; COMMIT;\n";
	}
	my @answers = split(/\n/, number($server, $sql), -1);
	is(scalar(@answers), 2 * @conditions, "$name: answers");
	for my $i (0 .. $#conditions)
	{
		is($answers[2 * $i + 1], $answers[2 * $i], "$name: $conditions[$i]");
	}
}

my $explained = number($node, 'SET enable_seqscan = off; EXPLAIN SELECT id FROM t WHERE tenant = 7 '
	  . 'ORDER BY v <-> (SELECT v FROM queries LIMIT 1) LIMIT 100000');
like($explained, qr/Index Scan using t_idx.*Index Cond: \(tenant = 7\)/s, 'conditions go to the index');
my $analyzed = number($node, 'SET enable_seqscan = off; EXPLAIN (ANALYZE, COSTS off) SELECT id FROM t WHERE tenant = 7 '
	  . 'ORDER BY v <-> (SELECT v FROM queries LIMIT 1) LIMIT 3');
if (number($node, 'SHOW server_version_num') >= 180000)
{
	like($analyzed, qr/Search Method: (list|graph)\n\s*ef_search: 40\n\s*Records Visited: \d+\n\s*Index Pages Read: [1-9]/,
		'EXPLAIN says which way a scan went');
	my $loop = number($node, 'SET enable_seqscan = off; SET enable_material = off; EXPLAIN (ANALYZE, COSTS off) '
		  . 'SELECT q.id, n.id FROM (SELECT * FROM queries LIMIT 2) q, LATERAL (SELECT id FROM t ORDER BY t.v <-> q.v LIMIT 3) n');
	my ($visits) = $loop =~ /ef_search: 40\n\s*Records Visited: (\d+)/;
	cmp_ok($visits, '>=', 80, 'all scans of a node count') or diag($loop);
}
unlike(number($node, 'EXPLAIN (ANALYZE, COSTS off) SELECT id FROM t WHERE id = 7'), qr/Search Method/, 'but of no other');
compare($node, 'filled');
sound($node, 't_idx', 'filled');

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('filters_standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;

sub load_start
{
	return pgbench_start($node, [ '-c', 3, '-j', 1, '-T', 60 ],
		[ 4, "\\set s random(2001, 4000)\nINSERT INTO t SELECT id, id % 50, 'kind ' || id % 7, now(), id % 9, ARRAY[id % 10], v "
			  . "FROM source WHERE id = :s ON CONFLICT DO NOTHING;\n" ],
		[ 4, "\\set s random(1, 4000)\n\\set n random(0, 60)\nUPDATE t SET tenant = :n, kind = 'new' WHERE id = :s;\n" ],
		[ 2, "\\set s random(1, 4000)\nUPDATE t SET tenant = NULL, price = NULL, tags = '{4,5,31}' WHERE id = :s;\n" ],
		# identical vectors whose rows differ
		[ 2, "\\set s random(1, 1000000000)\n\\set n random(100, 110)\nINSERT INTO t SELECT 10000 + :s, :n, 'same', now(), 1, '{}', v "
			  . "FROM source WHERE id <= 2 ON CONFLICT DO NOTHING;\n" ],
		[ 3, "\\set s random(1, 4000)\nDELETE FROM t WHERE id = :s;\n" ],
		[ 1, "\\set n random(100, 110)\nDELETE FROM t WHERE tenant = :n;\n" ]);
}

for my $round (1 .. 2)
{
	my $load = load_start();
	my $vacuum = pgbench_start($node, [ '-c', 1, '-T', 60 ], [ 1, "VACUUM t;\n" ]);
	sleep 0.5 + rand(1);
	crash_server($node);
	pgbench_finish($load);
	pgbench_finish($vacuum);
	sound($node, 't_idx', "crash $round");
	compare($node, "crash $round");
	$node->safe_psql('postgres', 'VACUUM t');
	sound($node, 't_idx', "crash $round, vacuumed");
	compare($node, "crash $round, vacuumed");
	$node->wait_for_catchup($standby);
	sound($standby, 't_idx', "crash $round, standby");
	compare($standby, "crash $round, standby");
}

# an index that is built beside writers, and built anew
my $load = load_start();
$node->safe_psql('postgres', 'CREATE INDEX CONCURRENTLY t_new ON t USING grnnd (v, tags, price, at, kind, tenant)');
$node->safe_psql('postgres', 'REINDEX INDEX CONCURRENTLY t_new');
pgbench_stop($node, $load);
sound($node, 't_new', 'built beside writers');
$node->safe_psql('postgres', 'DROP INDEX t_idx');
compare($node, 'built beside writers');
unlike(slurp_file($node->logfile), qr/inconsistent page|PANIC|TRAP/, 'replay gave the pages that were logged');
unlike(slurp_file($standby->logfile), qr/inconsistent page|PANIC|TRAP/, 'so did that of the standby');
$standby->stop;
$node->stop;
done_testing();
