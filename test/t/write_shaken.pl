# Inserts, updates, deletes, vacuums, fits, checks and searches of small indexes, most of them created
# empty, all at once, where every fifth point of src/am/test_point.h makes a backend sleep.  So
# sessions meet in orders that a quiet machine seldom shows.  Each index is sound afterwards, and
# finds every row.  Rounds differ by the seed, and most are over soon after the indexes have got their
# codes: GRNND_SOAK has many, make check ten.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use List::Util qw(shuffle);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $until = time() + ($soak ? ($ENV{GRNND_SOAK_SECONDS} // 1800) / 8 : 0);
my $tables = 2;		# of a round: many sessions are to meet in one index while it is small

my $node = PostgreSQL::Test::Cluster->new('shaken');
$node->init;
$node->append_conf('postgresql.conf', q(
autovacuum = off
max_worker_processes = 12
max_parallel_workers_per_gather = 0
grnnd.build_device = cpu
shared_buffers = 64MB
));
$node->start;
setup_grnnd($node, 32, 1);
my (undef, $delay) = $node->psql('postgres', "LOAD 'grnnd'; SET grnnd.test_delay = 10; SHOW grnnd.test_delay");
plan skip_all => 'a build without -DGRNND_TEST_POINTS' if $delay ne '10';

my @kinds = (
	# name, type, how a vector is cast to it, operator class, operator, further columns, options, rows at first
	[ 'plain', 'vector(32)', '', 'vector_l2_ops', '<->', '', '', 0 ],
	[ 'short', 'vector(32)', '', 'vector_l2_ops', '<->', '', 'degree = 8', 0 ],
	[ 'exact', 'vector(32)', '', 'vector_cosine_ops', '<=>', '', 'layout = exact', 0 ],
	[ 'compact', 'vector(32)', '', 'vector_l2_ops', '<->', '', 'layout = compact', 0 ],
	[ 'product', 'vector(32)', '', 'vector_ip_ops', '<#>', '', '', 0 ],
	[ 'half', 'halfvec(32)', '::halfvec', 'halfvec_l2_ops', '<->', '', '', 0 ],
	[ 'filtered', 'vector(32)', '', 'vector_l2_ops', '<->', ', c, tags', '', 0 ],
	[ 'built', 'vector(32)', '', 'vector_l2_ops', '<->', ', c', 'layout = compact', 400 ],
	[ 'grouped', 'vector(32)', '', 'vector_l2_ops', '<->', ', c', '', 3000 ]);

sub scripts
{
	my @scripts;
	for (@_)
	{
		my ($name, undef, $cast, undef, $op) = @$_;
		my $values = "c = :c, tags = ARRAY[:c, :d]";
		my $head = "\\set n random(1, 3000)\n\\set c random(1, 8)\n\\set d random(1, 50)\n";
		my $some = "(SELECT v$cast FROM points(:n, :n, 32, 1))";
		push @scripts,
		  [ 8, "${head}INSERT INTO $name (v, c, tags) VALUES ($some, :c, ARRAY[:c, :d]);\n" ],
		  [ 4, "${head}INSERT INTO $name (v, c, tags) SELECT v$cast, i % 8, ARRAY[i % 7, :d] FROM points(:n, :n + 5, 32, 1) AS p (i, v);\n" ],
		  [ 1, "${head}BEGIN;\nINSERT INTO $name (v, c, tags) VALUES ($some, :c, ARRAY[:c, :d]);\nROLLBACK;\n" ],
		  [ 2, "${head}UPDATE $name SET $values WHERE id = (SELECT id FROM $name ORDER BY random() LIMIT 1);\n" ],
		  [ 1, "${head}UPDATE $name SET v = $some WHERE id = (SELECT id FROM $name ORDER BY random() LIMIT 1);\n" ],
		  [ 2, "DELETE FROM $name WHERE id IN (SELECT id FROM $name ORDER BY random() LIMIT 3);\n" ],
		  [ 1, "${head}SET enable_seqscan = off;\nSELECT id FROM $name WHERE c = :c ORDER BY v $op $some LIMIT 10;\n" ];
	}
	return @scripts;
}

my ($rounds, $kept, $halted) = (0, 0, 0);
my @left;
do
{
	@left = shuffle @kinds if @left < $tables;
	my @now = splice @left, 0, $tables;
	for (@now)
	{
		my ($name, $type, $cast, $class, undef, $columns, $options, $rows) = @$_;
		$node->safe_psql('postgres', "DROP TABLE IF EXISTS $name;
			CREATE TABLE $name (id serial PRIMARY KEY, v $type, c int, tags int[]);
			INSERT INTO $name (v, c, tags) SELECT v$cast, i % 8, ARRAY[i % 7] FROM points(1, $rows, 32, 1) AS p (i, v);
			CREATE INDEX ${name}_idx ON $name USING grnnd (v $class$columns)" . ($options && " WITH ($options)"));
	}
	my $seconds = $rounds % 4 == 3 ? 3 : 1;
	local $seed = $seed + $rounds++;
	$node->safe_psql('postgres', "ALTER DATABASE postgres SET grnnd.test_delay = 20");
	my $load = pgbench_start($node, [ '-c', 16, '-j', 2, '-T', $seconds, '--max-tries=100' ], scripts(@now));
	my $end = time() + $seconds;
	while (time() < $end)
	{
		my $name = $now[ rand @now ][0];
		my $ms = 20 + int rand 300;
		my $what = (
			"VACUUM $name", "VACUUM $name", "SELECT grnnd_fit('${name}_idx')",
			"SELECT count(*) FROM grnnd_check('${name}_idx')",
			"REINDEX INDEX CONCURRENTLY ${name}_idx")[ rand 4.3 ];
		$node->psql('postgres', "SET statement_timeout = $ms; $what", stdout => \my $out, stderr => \my $stderr);
		$halted++ if $stderr =~ /canceling statement/;
		is($out, 0, "round $rounds, $name: sound meanwhile") if $what =~ /grnnd_check/ && $out ne '';
	}
	is(pgbench_finish($load), '', "round $rounds: no error");
	$node->safe_psql('postgres', 'ALTER DATABASE postgres RESET grnnd.test_delay');
	$node->safe_psql('postgres', q(SELECT format('DROP INDEX %s', indexrelid::regclass)
		FROM pg_index WHERE NOT indisvalid \gexec));
	for my $again (0, 1)
	{
		for (@now)
		{
			my ($name, undef, undef, undef, $op) = @$_;
			sound($node, "${name}_idx", "round $rounds, $name, $again");
			is(number($node, "SELECT missing('$name', 'v', '$op', (SELECT v FROM points(1, 1, 32, 1)))"), 0,
				"round $rounds, $name: every row is found");
			$kept += number($node, "SELECT count(*) FROM $name") unless $again;
		}
		# a vacuum and a fit that go on from where others were stopped
		$node->safe_psql('postgres', "VACUUM $_->[0]; SELECT grnnd_fit('$_->[0]_idx')") for @now;
	}
} while ($rounds < 10 || time() < $until);
note "$rounds rounds, $kept rows, $halted statements canceled";
cmp_ok($kept, '>', 50 * $rounds, 'there were many rows');
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|was terminated by signal/, 'the server stayed up');
$node->stop;
done_testing();
