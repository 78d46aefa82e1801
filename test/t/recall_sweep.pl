# Recall at many sizes, near multiples of the degree above all (others' bug: recall of 0.17
# at such sizes), of several builds each, with and without duplicates: never low, and
# the same whatever the seed.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use List::Util qw(min max);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('recall_sweep');
$node->init;
$node->append_conf('postgresql.conf', q(
autovacuum = off
fsync = off
grnnd.build_device = cpu
grnnd.build_threads = 1
grnnd.ef_search = 16
max_parallel_workers_per_gather = 0
));
$node->start;

my $degree = 32;
my $most = 64 * $degree + 1;
my @sizes = (1, 10, map { ($degree * $_ - 1, $degree * $_, $degree * $_ + 1) } $all ? (1, 2, 3, 8, 32, 64) : (1, 3, 64));
my $builds = $soak ? 20 : 5;

# What a table holds, from source (id, v).
my %kinds = (
	different => 'SELECT id, v FROM source WHERE id <= %d',
	'each ten times' => 'SELECT id, (SELECT v FROM source s WHERE s.id = 1 + t.id / 10) FROM source t WHERE id <= %d',
	'half the same' => 'SELECT id, (SELECT v FROM source s WHERE s.id = t.id * (t.id %% 2) + 1) FROM source t WHERE id <= %d');

setup_grnnd($node, 16, 25);
for my $dim (16, 128)
{
	$node->safe_psql('postgres', qq(
		DROP TABLE IF EXISTS source, t, queries;
		CREATE TABLE source AS SELECT * FROM points(1, $most + 1, $dim, $seed);
		ALTER TABLE source ADD PRIMARY KEY (id);
		CREATE TABLE queries AS SELECT * FROM points(1000001, 1000025, $dim, $seed);
		CREATE TABLE t (id int, v vector($dim))));
	for my $kind (sort keys %kinds)
	{
		my ($lowest, $widest, $where) = (1, 0, 'none');
		for my $n (@sizes)
		{
			my @recalls = split /\n/, $node->safe_psql('postgres', join ";\n",
				'TRUNCATE t', 'INSERT INTO t ' . sprintf($kinds{$kind}, $n),
				map {
					("CREATE INDEX t_idx ON t USING grnnd (v) WITH (degree = $degree, seed = $_)",
					"SELECT recall('t', 'v', '<->', 'queries')", 'DROP INDEX t_idx')
				} 1 .. $builds);
			is(scalar(@recalls), $builds, "$dim dimensions, $kind, $n rows") if $n == $most;
			my $low = min(@recalls);
			($lowest, $where) = ($low, $n) if $low < $lowest;
			$widest = max($widest, max(@recalls) - $low);
		}
		cmp_ok($lowest, '>=', 0.95, "$dim dimensions, $kind: lowest recall $lowest (at $where rows)");
		cmp_ok($widest, '<=', 0.02, "$dim dimensions, $kind: widest spread $widest between builds");
	}

	# the same rows, one by one into an empty index
	$node->safe_psql('postgres', qq(
		TRUNCATE t;
		CREATE INDEX t_idx ON t USING grnnd (v) WITH (degree = $degree);
		INSERT INTO t SELECT * FROM source));
	cmp_ok(recall($node, 't'), '>=', 0.95, "$dim dimensions, inserted");
	sound($node, 't_idx', "$dim dimensions, inserted");
	$node->safe_psql('postgres', 'DROP INDEX t_idx');
}

$node->stop;
done_testing();
