# Which queries hnsw's users find answered by the index, and how its scans go on and end, with
# USING grnnd in its place: choices of the planner, iterative scans, kinds of tables.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use Migration;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = migration_node('plans');
my $sql = sub { return number($node, join('; ', @_)) };
my $forced = 'SET enable_seqscan = off';

# ---- filters ----

# 10,000 rows of 3 random dimensions: reading them all takes little, so the planner's choice
# hangs on what the filter lets through.
$node->safe_psql('postgres', qq(
	CREATE TABLE shop (id int, v vector(3), kind int, note text);
	INSERT INTO shop SELECT i, ARRAY[unit(i, 1, 3), unit(i, 2, 3), unit(i, 3, 3)], i % 50, 'note of ' || i
	FROM generate_series(1, 10000) i;
	CREATE TABLE kinds (kind int PRIMARY KEY, name text, sold boolean);
	INSERT INTO kinds SELECT i, 'kind ' || i, i % 4 = 0 FROM generate_series(0, 49) i;
	CREATE INDEX i_shop ON shop USING $method (v vector_l2_ops);
	ANALYZE shop, kinds));
my $near = "v <-> '[0.3,0.6,0.2]'";
my $by_index = qr/Index Scan using i_shop/;
my $by_table = qr/^Seq Scan on shop$/;
my @plans = (
	[ 'no filter', "SELECT id FROM shop ORDER BY $near LIMIT 20", $by_index ],
	[ 'few rows pass', "SELECT id FROM shop WHERE kind = 7 ORDER BY $near LIMIT 20", $by_table ],
	[ 'few rows fail', "SELECT id FROM shop WHERE kind <> 7 ORDER BY $near LIMIT 20", $by_index ],
	[ 'few rows fail a comparison', "SELECT id FROM shop WHERE kind > 1 ORDER BY $near LIMIT 20", $by_index ],
	[ 'few rows pass a comparison', "SELECT id FROM shop WHERE kind < 1 ORDER BY $near LIMIT 20", $by_table ],
	[ 'most rows match a pattern', "SELECT id FROM shop WHERE note LIKE '%note%' ORDER BY $near LIMIT 20", $by_index ],
	[ 'no row matches a pattern', "SELECT id FROM shop WHERE note LIKE '%sold out%' ORDER BY $near LIMIT 20", $by_table ],
	[ 'within a distance', "SELECT id FROM shop WHERE $near < 0.8 ORDER BY $near LIMIT 20", $by_index ],
	[ 'beyond a distance', "SELECT id FROM shop WHERE $near > 0.2 ORDER BY $near LIMIT 20", $by_index ],
	[ 'a distance without order', "SELECT id FROM shop WHERE $near < 0.8", $by_table ],
	[ 'a distance without LIMIT', "SELECT id FROM shop WHERE $near < 0.8 ORDER BY $near", $by_table ],
	[ 'farthest first', "SELECT id FROM shop ORDER BY $near DESC LIMIT 20", $by_table ],
	[ 'an expression of the distance', "SELECT id FROM shop ORDER BY 1 - ($near) LIMIT 20", $by_table ],
	[ 'joined', "SELECT name FROM shop JOIN kinds USING (kind) ORDER BY $near LIMIT 20", $by_index ],
	[ 'joined and filtered', "SELECT name FROM shop JOIN kinds USING (kind) WHERE sold ORDER BY $near LIMIT 20", $by_index ]);
like(plan_of($node, $_->[1]), $_->[2], "plan: $_->[0]") for @plans;
$node->safe_psql('postgres', 'CREATE INDEX i_kind ON shop (kind)');
like(plan_of($node, $plans[1][1]), qr/i_kind/, 'plan: an index of what is filtered');
$node->safe_psql('postgres', "CREATE INDEX i_part ON shop USING $method (v vector_l2_ops) WHERE kind = 7");
like(plan_of($node, $plans[1][1]), qr/Index Scan using i_part/, 'plan: a partial index');
is($sql->($forced, $plans[1][1]), $sql->('SET enable_indexscan = off', $plans[1][1]), 'a partial index answers as the table');

# Random rows of many dimensions, in the table or beside it in TOAST, from 2,000 rows on.
for my $dim (384, 1536)
{
	$node->safe_psql('postgres', qq(
		CREATE TABLE wide (id int, v vector($dim));
		SELECT setseed(0.3);
		INSERT INTO wide SELECT i, ARRAY(SELECT random() FROM generate_series(1, $dim) WHERE i > 0) FROM generate_series(1, 2000) i;
		CREATE INDEX i_wide ON wide USING $method (v vector_l2_ops);
		ANALYZE wide));
	my $q = "'" . number($node, 'SELECT v FROM wide WHERE id = 9') . "'";
	like(plan_of($node, "SELECT id FROM wide ORDER BY v <-> $q LIMIT 10"), qr/i_wide/, "plan: 2,000 random rows of $dim dimensions");
	$node->safe_psql('postgres', 'DROP TABLE wide');
}

# ---- scans that go on ----

# A filter that one in 2,000 rows passes: every one of them comes, whatever ef_search; with
# max_scan_tuples the share of them that was read.
$node->safe_psql('postgres', qq(
	CREATE TABLE dots (id int PRIMARY KEY, v vector(3));
	INSERT INTO dots SELECT i, ARRAY[unit(i, 1, 7), unit(i, 2, 7), unit(i, 3, 7)] FROM generate_series(1, 20000) i;
	CREATE INDEX i_dots ON dots USING $method (v vector_l2_ops);
	ANALYZE dots));
my $relaxed = "$forced; SET $method.iterative_scan = relaxed_order; SET hnsw.scan_mem_multiplier = 100";
my $rare = sub { "SELECT count(*) FROM (SELECT id FROM dots WHERE id % 2000 = 0
	ORDER BY v <-> (SELECT v FROM dots WHERE id = $_[0]) LIMIT 11) x" };
is($sql->("$relaxed; SET $method.max_scan_tuples = 20000", $rare->(1)), 10, 'every row that passes');
for my $most (4000, 10000, 14000)
{
	my $found = 0;
	$found += $_ for split(/\n/, $sql->("$relaxed; SET $method.max_scan_tuples = $most", map { $rare->($_) } 1 .. 20));
	my $expected = 20 * $most / 2000;
	ok($found > $expected * 0.6 && $found < $expected * 1.4, "max_scan_tuples = $most: about that share of the rows")
	  or diag("$found of $expected");
}
my $whole = "SELECT count(*) FROM (SELECT id FROM dots ORDER BY v <-> (SELECT v FROM dots WHERE id = 5) LIMIT 20000) x";
is($sql->("$relaxed; SET $method.max_scan_tuples = 20000; SET enable_sort = off", $whole), 20000,
	'a scan to its end brings every row');
is($sql->("$forced; SET $method.iterative_scan = off; SET hnsw.ef_search = 60", $whole), 60, 'iterative_scan = off');

# Recall where one row in 50 and in 500 passes, in both modes.
for my $class (grep { have($_) } qw(vector_l2_ops vector_cosine_ops))
{
	my $queries = 'ARRAY(SELECT (ARRAY[unit(i, 1, 8), unit(i, 2, 8), unit(i, 3, 8)]::vector)::text FROM generate_series(1, 20) i)';
	$node->safe_psql('postgres', "DROP INDEX i_dots; CREATE INDEX i_dots ON dots USING $method (v $class)");
	for my $mode ('strict_order', 'relaxed_order')
	{
		answers_well($node, $class, 'dots', 20, 0.99, "one row in $_ passes, $mode", queries => $queries,
			filter => "id % $_ = 0", relaxed => $mode eq 'relaxed_order',
			set => [ "SET $method.iterative_scan = $mode" ]) for 50, 500;
	}
}

# ---- kinds of tables and of indexes ----

my $class = 'vector_l2_ops';
my $rows = 'SELECT id, kind, subvector(v, 1, 16) AS v FROM base';
$node->safe_psql('postgres', qq(
	CREATE UNLOGGED TABLE unlogged (id int, kind int, v vector(16));
	INSERT INTO unlogged $rows;
	CREATE INDEX i_unlogged ON unlogged USING $method (v $class);
	CREATE TABLE part (id int, kind int, v vector(16)) PARTITION BY LIST (kind);
	CREATE TABLE part_3 PARTITION OF part FOR VALUES IN (3);
	CREATE TABLE part_rest PARTITION OF part DEFAULT;
	CREATE INDEX i_part_all ON part USING $method (v $class) WITH (m = 16, ef_construction = 64);
	INSERT INTO part $rows;
	CREATE TABLE plain (id int, kind int, v vector(16));
	INSERT INTO plain $rows;
	CREATE MATERIALIZED VIEW view AS SELECT id, kind, v FROM plain;
	CREATE INDEX i_view ON view USING $method (v $class);
	CREATE TABLE items (id int, kind int, v vector);
	INSERT INTO items $rows;
	INSERT INTO items SELECT id, 100, subvector(v, 1, 5) FROM base WHERE id <= 500;
	CREATE INDEX i_items ON items USING $method ((v::vector(16)) $class) WHERE (kind < 100);
	CREATE INDEX i_five ON items USING $method ((v::vector(5)) $class) WHERE (kind = 100);
	CREATE INDEX i_sum ON plain USING $method (((v + v)::vector(16)) $class);
	ANALYZE));
$node->safe_psql('postgres', "CREATE INDEX CONCURRENTLY i_plain ON plain USING $method (v $class)");
answers_well($node, $class, $_, 10, 0.95, $_) for qw(unlogged plain view);
answers_well($node, $class, 'part', 10, 0.95, 'partitions', index => 'part_3_v_idx');
answers_well($node, $class, 'part', 10, 0.95, 'one partition', filter => 'kind = 3', index => 'part_3_v_idx');
answers_well($node, $class, 'items', 10, 0.95, 'an expression of some rows', expression => 'v::vector(16)',
	filter => 'kind < 100', index => 'i_items');
answers_well($node, $class, 'items', 10, 0.95, 'other rows of other dimensions', expression => 'v::vector(5)',
	filter => 'kind = 100', index => 'i_five', queries => 'ARRAY(SELECT subvector(v, 1, 5)::text FROM queries ORDER BY id)');
answers_well($node, $class, 'plain', 10, 0.95, 'a computed vector', expression => '(v + v)::vector(16)', index => 'i_sum');
$node->safe_psql('postgres', "$_; VACUUM ANALYZE plain")
  for 'REINDEX INDEX i_plain', 'REINDEX TABLE CONCURRENTLY plain', "UPDATE plain SET kind = kind + 1",
  'UPDATE plain SET v = v + v WHERE id < 100', 'VACUUM FULL plain';
answers_well($node, $class, 'plain', 10, 0.95, 'after REINDEX, UPDATE and VACUUM FULL');
answers_well($node, $class, 'view', 10, 0.95, 'after REFRESH',
	set => [ 'REFRESH MATERIALIZED VIEW view' ]);

# temporary tables
like($sql->(qq(SET client_min_messages = error; CREATE TEMP TABLE scratch AS $rows;
		ALTER TABLE scratch ALTER v TYPE vector(16); CREATE INDEX ON scratch USING $method (v $class);
		ANALYZE scratch; SET enable_seqscan = off;
		SELECT id FROM scratch ORDER BY v <-> (SELECT v FROM scratch WHERE id = 77) LIMIT 1)), qr/^77$/, 'a temporary table');

# of an unlogged table nothing is left after a crash, but the index works
crash_server($node);
is($sql->($forced, "INSERT INTO unlogged $rows WHERE id <= 9", "SELECT count(*) FROM (SELECT id FROM unlogged
	ORDER BY v <-> (SELECT v FROM plain WHERE id = 500) LIMIT 20) x"), 9, 'an unlogged table after a crash');

# ---- settings and options ----

for my $bad ('m = 1', 'm = 101', 'ef_construction = 3', 'ef_construction = 1001')
{
	my ($status, undef, $error) = $node->psql('postgres', "CREATE INDEX ON plain USING $method (v $class) WITH ($bad)");
	like($error, qr/ERROR:.*out of bounds/, "WITH ($bad) is refused");
}
for my $bad ('ef_search = 0', 'ef_search = 1001', 'iterative_scan = on', 'max_scan_tuples = 0', 'scan_mem_multiplier = 0')
{
	my ($status, undef, $error) = $node->psql('postgres', "SELECT '[1]'::vector; SET hnsw.$bad");
	like($error, qr/ERROR:/, "hnsw.$bad is refused");
}
if ($method eq 'grnnd')
{
	sound($node, $_, $_) for qw(i_shop i_dots i_unlogged part_3_v_idx part_rest_v_idx i_plain i_view i_items i_five i_sum);
}

done_testing();
