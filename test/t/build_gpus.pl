# CREATE INDEX on GPUs that are not there: the builder with the stand-ins of
# test/unit, which run on the processor.  Whole builds and builds in parts, rows that memory does not hold, GPUs
# that fail, and how two of them share a build.
use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$FindBin::Bin/../lib";
use GrnndTest;

my $dir = PostgreSQL::Test::Utils::tempdir;
chmod 0755, $dir;
compile_standin("$dir/builder");

$ENV{GRNND_STANDIN} = '2 0 0';
my $node = PostgreSQL::Test::Cluster->new('gpus');
$node->init;
$node->append_conf('postgresql.conf', qq(
grnnd.builder_path = '$dir/builder'
grnnd.build_device = gpu
grnnd.build_threads = 2
maintenance_work_mem = 16MB
autovacuum = off
max_parallel_maintenance_workers = 1
min_parallel_table_scan_size = 1MB
));
$node->start;
setup_grnnd($node, 16, 20, 'grnnd_tools');
# every 20th row twice
$node->safe_psql('postgres', q(
	CREATE TABLE t (id int, v vector(16));
	INSERT INTO t SELECT id, v FROM points(1, 20000, 16, 1);
	INSERT INTO t SELECT id + 20000, v FROM t WHERE id % 20 = 0;
	CREATE TABLE wide (id int, v vector(128));
	INSERT INTO wide SELECT id, (SELECT array_agg(sin(id * (1 + j % 11)) + 0.03 * sin(id * j * j)) FROM generate_series(1, 128) j)::vector
		FROM generate_series(1, 20000) id;
	INSERT INTO wide SELECT id + 20000, v FROM wide WHERE id % 20 = 0;
	CREATE TABLE wide_queries AS SELECT v FROM wide WHERE id % 200 = 7;
	ANALYZE t, wide));

sub build
{
	my ($set, $name, $with, $table, $class) = @_;
	my $log;
	$table //= 't';
	$class //= 'vector_l2_ops';
	my $op = { vector_l2_ops => '<->', vector_ip_ops => '<#>', vector_cosine_ops => '<=>' }->{$class};
	my ($queries, $least) = $table eq 't' ? ('queries', 9) : ("${table}_queries", 9);
	$node->psql('postgres', "$set SET client_min_messages = debug1;" .
		" CREATE INDEX i ON $table USING grnnd (v $class) " . ($with // ''), stderr => \$log);
	my ($line) = $log =~ /(grnnd build: rows .*)/;
	is($node->safe_psql('postgres', q(SELECT count(*) FROM grnnd_check('i', true))), '0', "$name: sound");
	# wide enough that what the compact layout rounds counts for little: it is the graph that is asked
	cmp_ok($node->safe_psql('postgres', qq(SET grnnd.ef_search = 100; SELECT avg((SELECT count(*) FROM (SELECT id FROM $table ORDER BY v $op q.v LIMIT 10) x
		WHERE id IN (SELECT id FROM (SELECT id FROM $table ORDER BY (v $op q.v) + 0 LIMIT 10) y))) FROM $queries q)), '>=', $least,
		"$name: $least of ten rows are found");
	$node->safe_psql('postgres', 'DROP INDEX i');
	return ($line // $log, $log);
}

my $tight = "SET grnnd.build_memory_limit = '1MB';";
my $parts = "SET grnnd.gpu_memory_limit = '2MB';";
for my $case (
	[ '', 'as a whole', 0 ],
	($all ? [ $tight, 'rows beyond memory', 1 ] : ()),
	[ $tight, 'rows beyond memory, compact', 1, 'WITH (layout = compact)' ],
	[ "$parts SET grnnd.gpu_devices = '0,1';", 'two GPUs, in parts', 0 ],
	[ "$tight $parts SET grnnd.gpu_devices = '0,1';", 'two GPUs, in parts, beyond memory', 1 ])
{
	my ($line) = build($case->[0], $case->[1], $case->[3]);
	like($line, qr/rows 21000, nodes 20000,.*device gpu/, "$case->[1]: on a GPU");
	is($line =~ /rows moved/ ? 1 : 0, $case->[2], "$case->[1]: rows " . ($case->[2] ? 'move' : 'stay'));
}

# wide rows move for a GPU, too, also where their scales are unknown as they do
my $wide = "SET maintenance_work_mem = '1MB'; SET grnnd.build_memory_limit = '8MB';";
for my $case (
	[ $wide, 'WITH (layout = compact)' ],
	[ $wide, 'WITH (layout = compact)', 'vector_ip_ops' ],
	[ $wide, 'WITH (layout = exact)' ],
	[ "$wide $parts SET grnnd.gpu_devices = '0,1';", 'WITH (layout = compact)' ],
	($all ? (
		[ $wide, 'WITH (layout = compact)', 'vector_cosine_ops' ],
		[ "$wide SET grnnd.build_memory_limit = '3MB';", 'WITH (layout = compact)' ]) : ()))
{
	my ($line) = build($case->[0], "wide rows $case->[0] $case->[1]", $case->[1], 'wide', $case->[2]);
	like($line, qr/rows 21000, nodes 20000,.*device gpu.* rows moved/, "wide rows $case->[0] $case->[1]: they have moved");
}

# so few distinct rows that the index keeps more of each than the builder would
$node->safe_psql('postgres', 'CREATE TABLE few AS SELECT v FROM t, generate_series(1, 400) WHERE id <= 50');
for my $with ('', 'WITH (layout = compact)')
{
	my $log;
	$node->psql('postgres', "$tight SET client_min_messages = debug1; CREATE INDEX f ON few USING grnnd (v vector_l2_ops) $with",
		stderr => \$log);
	like($log, qr/rows 20000, nodes 50,.*rows moved/, "20,000 rows, 50 of them distinct, beyond memory $with");
	is($node->safe_psql('postgres', q(SELECT count(*) FROM grnnd_check('f', true))), '0', "they are sound $with");
	$node->safe_psql('postgres', 'DROP INDEX f');
}

is($node->safe_psql('postgres', q(SELECT device FROM grnnd_build_estimate('t', 'v'))), 'gpu', 'an estimate for a GPU');
$node->stop;

# ---- a GPU that fails: cores build, and rows move as if there had been none ----

# memory that does not hold what a GPU's build takes of the host if all rows are distinct
my $close = "SET grnnd.build_memory_limit = '7MB';";

$ENV{GRNND_STANDIN} = '1 0 6';
$node->start;
for my $case (
	[ '', 'cores after a GPU', 0 ],
	($all ? [ $tight, 'cores after a GPU, beyond memory', 1 ] : ()),
	[ $close, 'cores after a GPU, beyond their memory', 1 ],
	[ $close, 'cores after a GPU, beyond their memory, compact', 1, 'WITH (layout = compact)' ])
{
	my ($line, $log) = build("SET grnnd.build_device = auto; SET grnnd.build_threads = 1; $case->[0] SET maintenance_work_mem = '1MB';",
		$case->[1], $case->[3]);
	like($log, qr/NOTICE:  the GPU cannot build: building on 1 CPU threads/, "$case->[1]: NOTICE");
	like($line, qr/device cpu/, "$case->[1]: on cores");
	is($line =~ /rows moved/ ? 1 : 0, $case->[2], "$case->[1]: rows " . ($case->[2] ? 'move' : 'stay'));
}
$node->stop;
done_testing();
