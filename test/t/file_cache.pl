# The kernel's cache of files: a build whose table and rows are more than memory holds does not fill it
# with pages that it reads or writes once.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($rows, $dim) = (20_000, 256);

my $node = PostgreSQL::Test::Cluster->new('file_cache');
$node->init;
$node->append_conf('postgresql.conf', q(
autovacuum = off
fsync = on
wal_level = minimal
max_wal_senders = 0
grnnd.build_device = cpu
min_parallel_table_scan_size = 0
max_parallel_maintenance_workers = 1
));
$node->start;
setup_grnnd($node, $dim, 1);
$node->safe_psql('postgres', qq(
	CREATE TABLE t (id int, v vector($dim)) WITH (parallel_workers = 1);
	INSERT INTO t SELECT * FROM points(1, $rows, $dim, 1);
	VACUUM ANALYZE t;
	CHECKPOINT;
));

sub file_of
{
	return $node->data_dir . '/' . $node->safe_psql('postgres', "SELECT pg_relation_filepath('$_[0]')");
}

# The share of a file that the kernel has in memory; undef where nothing tells.
sub cached
{
	my $resident = `fincore -b -n -o RES '$_[0]' 2>/dev/null`;

	return $resident =~ /(\d+)/ && -s $_[0] ? $1 / -s $_[0] : undef;
}

my $table = file_of('t');

# what the kernel does not forget when it is told to, as in memory, says nothing here
system("dd if='$table' iflag=nocache count=0 2>/dev/null");
my $left = cached($table);
plan skip_all => 'the kernel does not forget files here, or fincore is missing' if !defined $left || $left > .1;

for my $case (
	[ 'memory for everything' => "SET maintenance_work_mem = '256MB'" ],
	[ 'memory for less than the rows' => "SET maintenance_work_mem = '2MB'; SET grnnd.build_memory_limit = '24MB'" ])
{
	my ($name, $settings) = @$case;
	my $beyond = $name =~ /less/;

	system("cat '$table' >/dev/null");
	cmp_ok(cached($table), '>', .9, "$name: the table is in the kernel's cache");
	$node->psql('postgres', "$settings; SET client_min_messages = debug1; CREATE INDEX i ON t USING grnnd (v vector_l2_ops)",
		stderr => \my $stderr);
	like($stderr, $beyond ? qr/rows moved/ : qr/temporary file 0(?!.*rows moved)/, "$name: rows are where they should be");
	my ($of_table, $of_index) = (cached($table), cached(file_of('i')));
	if ($beyond)
	{
		cmp_ok($of_table, '<', .2, "$name: the table's pages have gone");
		cmp_ok($of_index, '<', .5, "$name: and so have the index's");
	}
	else
	{
		cmp_ok($of_table, '>', .9, "$name: the table's pages stay");
		cmp_ok($of_index, '>', .9, "$name: and so do the index's");
	}
	sound($node, 'i', $name);
	is($node->safe_psql('postgres', qq(SET enable_seqscan = off;
		SELECT count(*) FROM (SELECT 1 FROM t a, LATERAL (SELECT id FROM t ORDER BY v <-> a.v LIMIT 1) n
			WHERE a.id % 1000 = 0 AND n.id = a.id) s)), $rows / 1000, "$name: rows are found");
	$node->safe_psql('postgres', 'DROP INDEX i');
}

# a few of the rows, which memory holds
my $tight = "SET maintenance_work_mem = '2MB'; SET grnnd.build_memory_limit = '24MB'";
system("cat '$table' >/dev/null");
$node->safe_psql('postgres', "$tight; CREATE INDEX part ON t USING grnnd (v vector_l2_ops) WHERE id % 64 = 0");
cmp_ok(cached($table), '>', .9, "a partial index: the table's pages stay");

# pages of which a scan brings no row
$node->safe_psql('postgres', "DELETE FROM t WHERE id BETWEEN 9000 AND 17000; CHECKPOINT");
system("cat '$table' >/dev/null");
$node->safe_psql('postgres', "$tight; SET max_parallel_maintenance_workers = 0; CREATE INDEX i ON t USING grnnd (v vector_l2_ops)");
cmp_ok(cached($table), '<', .2, "dead rows: the table's pages have gone");
sound($node, 'i', 'dead rows');
$node->stop;
done_testing();
