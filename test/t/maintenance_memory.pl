# grnnd_check() and vacuum keep to maintenance_work_mem, and what they say and do is the same;
# searches take the memory again that they have given back.
# A vacuum has room here for about half of what it would like to remember.  It fills that, so
# anything that it forgot to count, such as its sets of ids, would go beyond.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant ROWS => 110_000;

my $node = PostgreSQL::Test::Cluster->new('memory');
my ($version) = `initdb --version` =~ /(\d+)/;
$node->init($version >= 18 ? (extra => ['--no-data-checksums']) : ());
$node->append_conf('postgresql.conf', "autovacuum = off\ngrnnd.build_device = cpu\n");
$node->start;
$node->safe_psql('postgres', sprintf q(
	CREATE EXTENSION grnnd CASCADE;
	CREATE TABLE t (id int, v vector(2));
	INSERT INTO t SELECT i, ARRAY[i %% 400, i / 400]::vector FROM generate_series(1, %d) i;
	INSERT INTO t SELECT i, '[0,0]' FROM generate_series(1, 2000) i;
	CREATE INDEX t_v ON t USING grnnd (v) WITH (degree = 8, codes = off)), ROWS);

# What a statement says that it took, in bytes, and what it returned.
sub memory
{
	my ($what, $sql, $limit) = @_;
	my ($out, $err);
	$limit //= '1MB';
	$node->psql('postgres', "SET maintenance_work_mem = '$limit'; SET client_min_messages = debug1; $sql",
		stdout => \$out, stderr => \$err);
	my ($bytes) = $err =~ /grnnd $what: .*memory (\d+)/;
	diag($err) if !defined $bytes;
	return ($bytes // 1e9, $out);
}

my ($bytes, $said) = memory('check', "SELECT * FROM grnnd_check('t_v', true)");
cmp_ok($bytes, '<', 1.2 * 1024 * 1024, 'grnnd_check: memory');
is($said, '', 'grnnd_check: sound');

# Memory that searches give back stays with the process: without that each asks the kernel for
# some 60 pages of this width.
SKIP:
{
	skip 'no /proc', 1 if !-r '/proc/self/stat';
	my $asked = $node->safe_psql('postgres', q(
		SET grnnd.ef_search = 1000;
		CREATE FUNCTION search(n int) RETURNS int LANGUAGE plpgsql AS $$
		BEGIN
			FOR i IN 1 .. n LOOP
				PERFORM id FROM t ORDER BY v <-> ARRAY[i, i]::vector LIMIT 10;
			END LOOP;
			RETURN (string_to_array(pg_read_file('/proc/self/stat'), ' '))[10];
		END $$;
		SELECT - search(50) + search(200)));
	cmp_ok($asked, '<', 3000, "$asked pages of memory asked for by 200 searches");
}

$node->safe_psql('postgres', 'DELETE FROM t WHERE id % 4 = 0');
($bytes) = memory('vacuum', 'VACUUM (INDEX_CLEANUP on, PARALLEL 0) t', '2MB');
cmp_ok($bytes, '<=', 2 * 1024 * 1024, 'vacuum: memory');
cmp_ok($bytes, '>', 1.4 * 1024 * 1024, 'vacuum: which it uses');
note "vacuum: $bytes bytes";
($bytes, $said) = memory('check', "SELECT * FROM grnnd_check('t_v', true)");
is($said, '', 'after vacuum: sound');

# two records that have become free ones, at either end of the file
my $path = $node->data_dir . '/' . $node->safe_psql('postgres', "SELECT pg_relation_filepath('t_v')");
$node->stop;
my $file = slurp_file($path);
my $meta = metapage($file);
my $records = (length($file) / 8192 - $meta->{first_node_block}) * $meta->{per_page};
my @nodes = grep { unpack('C', substr($file, $_, 1)) == 1 } map { record_at($meta, $_, 0) } 0 .. $records - 1;
substr($file, $_, 1) = pack('C', 0) for $nodes[1], $nodes[-1];
open my $f, '>:raw', $path or die "$path: $!";
print $f $file;
close $f;
$node->start;
my $check = "SELECT block, slot, problem FROM grnnd_check('t_v', true) ORDER BY 1, 2, 3";
my (undef, $all) = memory('check', $check, '64MB');
($bytes, $said) = memory('check', $check);
like($all, qr/edge to a free record.*\n.*edge to a free record/s, 'damage is found');
is($said, $all, 'and the same with little memory');
$node->stop;
done_testing();
