# A build of more than a gigabyte of rows: memory beyond maintenance_work_mem in a temporary file,
# an index in more than one file, and every row found in it.  In `make check-soak` alone.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'takes minutes: make check-soak' unless $soak;

my ($rows, $dim) = (40_000, 8_000);
my $bytes = 4 * $rows * $dim;
my $limit = 128 << 20;

my $node = PostgreSQL::Test::Cluster->new('large_build');
$node->init;
$node->append_conf('postgresql.conf', q(
autovacuum = off
fsync = off
max_wal_size = 16GB
wal_level = minimal
max_wal_senders = 0
log_temp_files = 0
grnnd.build_device = cpu
maintenance_work_mem = 128MB
));
$node->start;
setup_grnnd($node, 3, 1);

# 250 numbers at random, repeated 32 times
$node->safe_psql('postgres', qq(
	CREATE TABLE t (id int, v vector($dim));
	ALTER TABLE t ALTER v SET STORAGE external;
	SELECT setseed(.5);
	INSERT INTO t SELECT i, v4 || v4 FROM (
		SELECT i, v3 || v3 AS v4 FROM (
		SELECT i, v2 || v2 AS v3 FROM (
		SELECT i, v1 || v1 AS v2 FROM (
		SELECT i, v0 || v0 AS v1 FROM (
		SELECT i, (SELECT array_agg(random() - .5) FROM generate_series(1, 250 + 0 * i))::vector AS v0
		FROM generate_series(1, $rows) i OFFSET 0) a OFFSET 0) b OFFSET 0) c OFFSET 0) d OFFSET 0) e));

$node->safe_psql('postgres', 'CREATE INDEX t_idx ON t USING grnnd (v) WITH (layout = exact)');
cmp_ok(number($node, "SELECT pg_relation_size('t_idx')"), '>', $bytes, 'an index of more than a gigabyte');
my @files = slurp_file($node->logfile) =~ /temporary file: path .*, size (\d+)/g;
cmp_ok((sort { $b <=> $a } 0, @files)[0], '>=', $bytes - $limit, 'what is beyond maintenance_work_mem was in a temporary file');
sound($node, 't_idx', 'more than a gigabyte');
is(number($node, qq(
	SELECT count(*) FROM t q WHERE id IN (1, 2, $rows / 2, $rows - 1, $rows) AND id =
	(SELECT id FROM t ORDER BY v <-> q.v LIMIT 1))), 5, 'rows at both ends are found');
$node->safe_psql('postgres', "INSERT INTO t SELECT $rows + id, v FROM t WHERE id < 10; DELETE FROM t WHERE id < 10; VACUUM t");
sound($node, 't_idx', 'after inserts and a vacuum');

my ($rc, $out, $err) = $node->psql('postgres', "SET temp_file_limit = '1GB'; CREATE INDEX ON t USING grnnd (v)");
like($err, qr/temporary file size exceeds/, 'more than temp_file_limit is an error');
is(number($node, "SELECT count(*) FROM pg_index WHERE indrelid = 't'::regclass"), 1, 'that leaves no index');
is(join(' ', glob $node->data_dir . '/base/pgsql_tmp/*'), '', 'and no file');

$node->stop;
done_testing();
