# Queries of an index that does not fit into shared buffers: the same rows in the same order from
# the same pages, whether or not pages of index and table are asked for ahead.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('prefetch');
$node->init;
$node->append_conf('postgresql.conf', q(
autovacuum = off
fsync = off
shared_buffers = 1MB
grnnd.build_device = cpu
grnnd.background_fit = off
max_parallel_workers_per_gather = 0
max_parallel_maintenance_workers = 0
));
$node->start;
$node->safe_psql('postgres', q(
	CREATE EXTENSION grnnd CASCADE;
	CREATE TABLE t (id int, g int, v vector(24));
	SELECT setseed(.5);
	INSERT INTO t SELECT i, i % 10, array_agg(random() + i % 7)::vector FROM generate_series(1, 4000) i, generate_series(1, 24) j
		GROUP BY i;
	VACUUM (FREEZE, ANALYZE) t;
));

# What a query returns, and the buffers that its scan touches and reads.
sub asked
{
	my ($width, $query) = @_;
	my $set = "SET enable_seqscan = off; SET enable_sort = off; SET effective_io_concurrency = $width;";
	my $rows = $node->safe_psql('postgres', "$set SELECT string_agg(id::text, ' ') FROM ($query) q");
	my $plan = $node->safe_psql('postgres',
		"$set EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) $query");
	my ($buffers) = $plan =~ /Index Scan.*?Buffers: shared ([^\n]*)/s;
	my $touched = 0;

	$touched += $_ for $buffers =~ /(?:hit|read)=(\d+)/g;
	my ($read) = $buffers =~ /read=(\d+)/;
	return ($rows, $touched, $read // 0);
}

my @queries = ('SELECT id FROM t ORDER BY v <-> (SELECT v FROM t WHERE id = 77) LIMIT 10',
	'SELECT id FROM t ORDER BY v <-> (SELECT v FROM t WHERE id = 78) LIMIT 300',
	'SELECT id FROM t WHERE g = 3 ORDER BY v <-> (SELECT v FROM t WHERE id = 79) LIMIT 20');
for my $index ('(v)', '(v) WITH (layout = compact)', '(v) WITH (codes = off)', '(v, g)')
{
	$node->safe_psql('postgres', "CREATE INDEX i ON t USING grnnd $index; CHECKPOINT");
	for my $query (@queries)
	{
		my ($rows, $touched) = asked(0, $query);
		my $read = 0;
		my @differ;

		for my $width (1, 16, 1000)
		{
			my ($other, $other_touched, $other_read) = asked($width, $query);

			push @differ, $width if $other ne $rows || $other_touched != $touched;
			$read += $other_read;
		}
		is("@differ", '', "$index: the same rows from as many buffers at any effective_io_concurrency");
		cmp_ok($read, '>', 0, "$index: pages were missing");
	}
	$node->safe_psql('postgres', 'DROP INDEX i');
}

# A session that goes on remembers in which buffers pages were, while they come and go: it returns
# what others do that ask once, from as many buffers.
sub nearest { return map { "SELECT id FROM $_[0] ORDER BY v <-> (SELECT v FROM $_[0] WHERE id = $_) LIMIT 20" } @_[1 .. $#_] }
my @ids = map { 97 * $_ } 1 .. 20;
for my $index ('(v)', '(v) WITH (layout = exact)')
{
	$node->safe_psql('postgres', "CREATE INDEX i ON t USING grnnd $index; CHECKPOINT");
	my $set = 'SET enable_seqscan = off; SET enable_sort = off;';
	my @queries = nearest('t', @ids);
	my @once = map { $node->safe_psql('postgres', "$set $_") } @queries;
	my $twice = $node->safe_psql('postgres', "$set " . join('; ', @queries, @queries));
	is($twice, join("\n", @once, @once), "$index: a session that goes on finds the same rows");

	my $plans = $node->safe_psql('postgres',
		"$set " . ("EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) $queries[0]; SELECT count(v) FROM t;" x 3));
	my @touched;

	while ($plans =~ /Index Scan.*?Buffers: shared ([^\n]*)/sg)
	{
		my $n = 0;

		$n += $_ for $1 =~ /(?:hit|read)=(\d+)/g;
		push @touched, $n;
	}
	is("@touched", "$touched[0] " x 2 . $touched[0], "$index: from as many buffers");
	$node->safe_psql('postgres', 'DROP INDEX i');
}

# The same while a table is rewritten, shortened, and is a temporary one.
my $expected = join("\n", ('t') x 5);
for my $kind ('', 'TEMP')
{
	my $same = "SELECT (SELECT array_agg(id) FROM (SELECT id FROM s ORDER BY v <-> (SELECT v FROM t WHERE id = 5) LIMIT 30) q) = " .
		"(SELECT array_agg(id) FROM (SELECT id FROM s ORDER BY l2_distance(v, (SELECT v FROM t WHERE id = 5)) LIMIT 30) q)";
	is($node->safe_psql('postgres', "SET enable_seqscan = off; SET grnnd.ef_search = 1000; SET client_min_messages = warning;
		CREATE $kind TABLE s AS SELECT * FROM t; ALTER TABLE s ADD CHECK (id > 0);
		CREATE INDEX ON s USING grnnd (v); $same; VACUUM FULL s; $same;
		DELETE FROM s WHERE id > 2000; VACUUM s; $same; INSERT INTO s SELECT * FROM t WHERE id > 2000; $same;
		BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT id FROM s ORDER BY v <-> (SELECT v FROM t WHERE id = 5) LIMIT 30;
		FETCH 3 FROM c \\; SAVEPOINT a; UPDATE s SET g = g + 1 WHERE id < 50; $same; ROLLBACK; DROP TABLE s") =~ s/^\d+\n//gmr,
		$expected, "a $kind table that changes");
}

done_testing();
