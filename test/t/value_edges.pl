# Edges of frequent values: which columns get some, and that searches with conditions find their rows
# by them, also when rows have come and gone since.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('value_edges');
$node->init;
$node->append_conf('postgresql.conf', q(
autovacuum = off
fsync = off
grnnd.build_device = cpu
# pages without LSNs, so that those of two builds can be compared
wal_level = minimal
max_wal_senders = 0
));
$node->start;
setup_grnnd($node, 24, 40);
# category: ten of a tenth each; half: of half the rows; few: of a thousandth; gone: mostly NULL
$node->safe_psql('postgres', q(
	CREATE TABLE t AS SELECT id, (hashint4(id) & 1023) % 10 AS category, hashint4(id + 1) % 2 = 0 AS half, id % 1000 AS few,
		CASE WHEN id % 5 = 0 THEN id % 3 END AS gone, v::vector(24) FROM points(1, 15000, 24, 1);
	ALTER TABLE t SET (parallel_workers = 2)));

# Edges that a build has given to rows of a value.
sub edges
{
	my ($columns, $options) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', "DROP INDEX IF EXISTS t_idx; SET client_min_messages = debug1; "
		  . "CREATE INDEX t_idx ON t USING grnnd (v vector_l2_ops$columns)" . ($options // ''));
	is($rc, 0, "built:$columns") or diag($err);
	my ($workers, $edges) = $err =~ /, workers (\d+) .*, value edges (\d+)/;
	return wantarray ? ($edges, $workers) : $edges;
}

# Of all pages but the first one, which says when and how fast they were made.
sub pages
{
	return $node->safe_psql('postgres', q(
		CHECKPOINT;
		SELECT md5(pg_read_binary_file(pg_relation_filepath('t_idx'), 8192, pg_relation_size('t_idx') - 8192))));
}

is(edges(''), 0, 'without columns');
is(edges(', few, half'), 0, 'rare values have lists, and cores make none for half of the rows');
is(edges(', category', ' WITH (layout = exact, degree = 8)'), 0, 'eight edges are few');
cmp_ok(edges(', category, gone'), '>=', 3, 'two columns, one of NULLs for the most part');
my $all = edges(', few, category');
cmp_ok($all, '>', 4, 'a sixth of the edges of one column, whose codes are short');

# Rows that only one of index and sequential scan gives, and recall of the ten nearest.
sub compare
{
	my $name = shift;
	is(number($node, q(SELECT count(*) FROM grnnd_check('t_idx', heapallindexed => true))), 0, "$name: sound");
	for my $condition ('category = 3', 'category IN (1, 7)', 'category = 5 AND few < 300', 'category IS NOT NULL')
	{
		my $rows = "SELECT count(*), sum(id) FROM (SELECT id FROM t WHERE $condition ORDER BY v <-> (SELECT v FROM queries LIMIT 1)) q";
		is(number($node, "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off; $rows"),
			number($node, "SET enable_indexscan = off; $rows"), "$name: all rows, $condition");
		my $near = "SELECT id FROM t WHERE $condition ORDER BY t.v <-> q.v LIMIT 10";
		my $recall = number($node, "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off; SET grnnd.ef_search = 100; "
			  . "CREATE TEMP TABLE found AS SELECT q.id AS query, n.id FROM queries q, LATERAL ($near) n; "
			  . "SET enable_sort = on; SET enable_seqscan = on; SET enable_indexscan = off; "
			  . "SELECT avg((f.id IS NOT NULL)::int) FROM queries q CROSS JOIN LATERAL ($near) n "
			  . "LEFT JOIN found f ON f.query = q.id AND f.id = n.id");
		cmp_ok($recall, '>', 0.9, "$name: recall, $condition");
	}
}

compare('built');
$node->safe_psql('postgres', q(
	INSERT INTO t SELECT id, id % 10, id % 2 = 0, id % 1000, NULL, v FROM points(15001, 20000, 24, 1);
	DELETE FROM t WHERE id % 4 = 1;
	UPDATE t SET category = (category + 1) % 10 WHERE id % 7 = 0));
compare('changed');
$node->safe_psql('postgres', 'VACUUM t');
compare('vacuumed');

# the same rows, built by workers and alone, with hardly any memory for it
my @by_workers = edges(', few, category');
is($by_workers[0], $all, 'built anew');
cmp_ok($by_workers[1], '>', 0, 'by workers as well');
my $made = pages();
$node->safe_psql('postgres', q(ALTER SYSTEM SET max_parallel_maintenance_workers = 0; ALTER SYSTEM SET maintenance_work_mem = '1MB'));
$node->reload;
is_deeply([edges(', few, category')], [$all, 0], 'built alone, with little memory');
is(pages(), $made, 'the same pages');
compare('built alone');
$node->stop;
done_testing();
