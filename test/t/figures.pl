# What queries cost in pages, recall and bytes, which no machine's speed changes: a real
# sample of 128 dimensions beside pgvector's hnsw in the same server.
use strict;
use warnings;

use GrnndTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $dim = 128;
my $sample_dim = 384;
my $queries = 200;

# The sample's leading coordinates, as the 8-bit numbers that they are kept in, moved
# up to 0 .. 255: rows as SIFT's.
sub copy_rows
{
	my ($name, $most) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir() . "/$name.copy";
	open(my $in, '<:raw', "$ENV{TESTDIR}/test/data/$name.i8") or die "$name.i8: $!";
	open(my $out, '>', $file) or die "$file: $!";
	for (my $id = 1; $id <= $most && read($in, my $row, $sample_dim) == $sample_dim; $id++)
	{
		print $out "$id\t[", join(',', map { $_ + 128 } unpack("c$dim", $row)), "]\n";
	}
	close($out) or die "$file: $!";
	return "COPY $name FROM '$file'";
}

my $node = PostgreSQL::Test::Cluster->new('figures');
$node->init;
$node->append_conf('postgresql.conf', q(
grnnd.build_device = cpu
max_parallel_maintenance_workers = 0
max_parallel_workers_per_gather = 0
maintenance_work_mem = 256MB
shared_buffers = 256MB
fsync = off
autovacuum = off
));
$node->start;
setup_grnnd($node, 2, 0);
$node->safe_psql('postgres', "
	DROP TABLE queries;
	CREATE TABLE glosses (id int, v vector($dim));
	CREATE TABLE queries (LIKE glosses);
	ALTER TABLE glosses ALTER v SET STORAGE plain;
	" . copy_rows('glosses', 1e9) . ';' . copy_rows('queries', $queries) . q(;
	ALTER TABLE glosses RENAME TO items;
	CREATE TABLE items2 AS SELECT * FROM items;
	CREATE INDEX items_grnnd ON items USING grnnd (v vector_l2_ops);
	CREATE INDEX items2_hnsw ON items2 USING hnsw (v vector_l2_ops);
	VACUUM ANALYZE;
	CREATE FUNCTION buffers(items regclass) RETURNS float8 LANGUAGE plpgsql AS $$
	DECLARE
		q vector;
		plan json;
		total float8 := 0;
	BEGIN
		FOR q IN SELECT v FROM queries LOOP
			EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON)
				SELECT id FROM ' || items || ' ORDER BY v <-> $1 LIMIT 10' INTO plan USING q;
			total := total + (plan #>> '{0,Plan,Shared Hit Blocks}')::int
				+ (plan #>> '{0,Plan,Shared Read Blocks}')::int;
		END LOOP;
		RETURN total / (SELECT count(*) FROM queries);
	END $$));
is($node->safe_psql('postgres', 'SELECT count(*) FROM items'), 20000, 'all rows are there');

# Recall and buffers a query at one ef_search.
sub point
{
	my ($system, $table, $ef) = @_;
	my ($recall, $buffers) = split /\|/, number($node, "SET $system.ef_search = $ef;
		SET enable_seqscan = off; SELECT recall('$table', 'v', '<->', 'queries'), buffers('$table')");
	note(sprintf '%-5s ef %3d: recall %.4f, %.1f buffers a query', $system, $ef, $recall, $buffers);
	return ($recall, $buffers);
}

my @efs = (40, 52, 64, 80, 100);
my %points = map { $_ => [ point('grnnd', 'items', $_) ] } @efs;
cmp_ok($points{40}[0], '>=', 0.96, 'recall at the default ef_search');
cmp_ok($points{100}[0], '>=', 0.99, 'recall at an ef_search of 100');

# Buffers at a recall, between the two points around it.
sub buffers_at
{
	my ($recall) = @_;
	for my $i (1 .. $#efs)
	{
		my ($low, $high) = @points{ @efs[ $i - 1, $i ] };
		next if $high->[0] < $recall;
		return $high->[1] if $high->[0] == $low->[0];
		return $low->[1] + ($high->[1] - $low->[1]) * ($recall - $low->[0]) / ($high->[0] - $low->[0]);
	}
	return 1e9;	# not reached
}

# A million SIFT rows show 20 times; so few rows lie in fewer pages.
for my $ef (40, 60)
{
	my ($recall, $buffers) = point('hnsw', 'items2', $ef);
	my $ours = buffers_at($recall);
	note("grnnd at that recall: $ours");
	cmp_ok($ours * 12, '<=', $buffers, "hnsw at $ef takes at least 12 times the buffers");
}

my %size = map { $_ => number($node, "SELECT pg_relation_size(indexrelid) FROM pg_index i
	JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam WHERE amname = '$_'") }
  qw(grnnd hnsw);
note(sprintf 'size: grnnd %.1f MB, hnsw %.1f MB', $size{grnnd} / 1e6, $size{hnsw} / 1e6);
cmp_ok($size{grnnd}, '<=', 2.5 * $size{hnsw}, 'size');

$node->stop;
done_testing();
