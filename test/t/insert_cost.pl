# What an insert costs stays the same while an index grows: buffers of the last tenth of the
# inserts are at most 1.2 times those of the first full tenth, and searches find as much as in an
# index that is built of all rows, less a hundredth.  With updates and deletes in between as well.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# two million where the soak has hours for them
my $rows = $ENV{GRNND_INSERTS} || (!$soak ? 8_000 : ($ENV{GRNND_SOAK_SECONDS} // 0) > 3 * 3600 ? 2_000_000 : 100_000);

my $node = PostgreSQL::Test::Cluster->new('insert_cost');
$node->init;
$node->append_conf('postgresql.conf', q(
autovacuum = off
fsync = off
shared_buffers = 1GB
max_wal_size = 8GB
grnnd.build_device = cpu
grnnd.background_fit = off
maintenance_work_mem = 1GB
));
$node->start;
setup_grnnd($node, 32, 100);

# Buffers that a statement looks at, by its plan.
sub buffers
{
	my ($sql) = @_;
	my $plan = $node->safe_psql('postgres', "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) $sql");
	my ($hit) = $plan =~ /shared hit=(\d+)/;
	my ($read) = $plan =~ /Buffers: shared [^\n]*read=(\d+)/;
	return ($hit // 0) + ($read // 0);
}

for my $mixed (0, 1)
{
	my $name = $mixed ? 'with updates and deletes' : 'inserts alone';
	$node->safe_psql('postgres', q(
		DROP TABLE IF EXISTS t;
		CREATE TABLE t (id int, v vector(32)) WITH (fillfactor = 90);
		CREATE INDEX t_idx ON t USING grnnd (v)));
	my @cost;
	for my $tenth (0 .. 9)
	{
		# (queries are points after the first million)
		my ($from, $to) = map { 2_000_000 + $rows * $_ / 10 } $tenth, $tenth + 1;
		push @cost, buffers("INSERT INTO t SELECT * FROM points($from + 1, $to, 32, 1)") / ($to - $from);
		note sprintf '%s: %.1f buffers an insert into %d rows', $name, $cost[-1], $from - 2_000_000;
		$node->safe_psql('postgres', $mixed
			? "DELETE FROM t WHERE id % 20 = $tenth; UPDATE t SET v = v WHERE id % 50 = $tenth; VACUUM t"
			: 'VACUUM t');
	}
	cmp_ok($cost[9], '<=', 1.2 * $cost[1], sprintf('%s: %.0f buffers an insert in the second tenth, %.0f in the last', $name, @cost[ 1, 9 ]));
	is(number($node, "SELECT * FROM grnnd_check('t_idx', true) LIMIT 5"), '', "$name: sound");
	my $grown = recall($node, 't');
	$node->safe_psql('postgres', 'REINDEX INDEX t_idx');
	my $fresh = recall($node, 't');
	cmp_ok($grown, '>=', $fresh - ($soak ? 0.01 : 0.02), "$name: recall $grown, of a new index $fresh");
}
$node->stop;
done_testing();
