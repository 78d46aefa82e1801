# old_snapshot_threshold (PostgreSQL 15 and 16): a scan whose rows vacuum has taken away
# ends with "snapshot too old", and never with fewer rows.  The threshold is a minute at
# least, so the server gets a clock that can be set ahead.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($version) = qx($ENV{PG_CONFIG} --version) =~ /(\d+)/;
plan skip_all => 'PostgreSQL 17 and later have no old_snapshot_threshold' if $version >= 17;
my $dir = PostgreSQL::Test::Utils::tempdir;
compile_c("$FindBin::Bin/clock_ahead.c", "$dir/clock_ahead.so", '-shared -fPIC');

my $node = PostgreSQL::Test::Cluster->new('old_snapshot');
$node->init;
$node->append_conf('postgresql.conf', q(
autovacuum = off
grnnd.build_device = cpu
old_snapshot_threshold = 1min
));
{
	local $ENV{LD_PRELOAD} = "$dir/clock_ahead.so";
	local $ENV{CLOCK_AHEAD} = "$dir/ahead";
	$node->start;
}
setup_grnnd($node, 16, 1);

# Tables of which others delete rows while a snapshot is held: some, all, the only one, and
# some of many equal rows, most of which are in chained records.
my %deleted = (part => 'id % 3 = 0', whole => 'true', single => 'true', chain => 'n > 100');
my @tables = sort keys %deleted;
my %rows = (part => 500, whole => 500, single => 1, chain => 600);
for my $t (@tables)
{
	my ($ids, $copies) = $t eq 'chain' ? (1, 600) : ($rows{$t}, 1);
	$node->safe_psql('postgres', qq(
		CREATE TABLE $t (id int, n int, v vector(16));
		INSERT INTO $t SELECT id, n, v FROM points(1, $ids, 16, 1), generate_series(1, $copies) n;
		CREATE INDEX ON $t USING grnnd (v)));
}
my $other = sprintf 'psql -XAtq -d "dbname=postgres host=%s port=%s"', $node->host, $node->port;
my $delete = join ' ', map { qq(-c "DELETE FROM $_ WHERE $deleted{$_}") } @tables;
my $later = '-c "CREATE TABLE x ()" -c "DROP TABLE x" -c "SELECT FROM queries"';
my $vacuum = join ' ', map { qq(-c "VACUUM $_") } @tables;
my %count = map { $_ => "SELECT '$_: ' || count(*) FROM
	(SELECT id FROM $_ ORDER BY v <-> (SELECT v FROM queries) LIMIT 5000) x;" } @tables;
my $counts = join "\n", map { "SAVEPOINT s; $count{$_} ROLLBACK TO s;" } @tables;
my $new_counts = join "\n", values %count;
my $said = psql_finish(psql_start($node, qq(
	\\set ON_ERROR_STOP off
	SET enable_seqscan = off;
	SET enable_sort = off;
	BEGIN ISOLATION LEVEL REPEATABLE READ;
	$counts
	\\! $other $delete
	\\! echo 120 > $dir/ahead; $other $later
	\\! echo 300 > $dir/ahead; $other $later $vacuum
	$counts
	COMMIT;
	$new_counts)));
for my $t (@tables)
{
	my @got = $said =~ /^$t: (\d+)$/mg;
	is($got[0], $rows{$t}, "$t: rows before");
	my $left = number($node, "SELECT count(*) FROM $t");
	is_deeply([ @got[ 1 .. $#got ] ], [$left], "$t: none of the old snapshot after, and those of a new one");
}
is(scalar(() = $said =~ /snapshot too old/g), scalar(@tables), 'errors') or diag $said;

$node->stop;
done_testing();
