# All at once, round after round: clients that insert, delete, update and search, vacuums that are
# canceled, index builds, crashes of the server, and a standby that follows.  After each round every
# index is sound and finds every row, on the standby too.  Two short rounds under make check.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

# the soak's share of this test: a quarter of what is left, in one go
my $until = time() + ($soak ? ($ENV{GRNND_SOAK_SECONDS} // 1800) / 4 : 0);
my $seconds = $soak ? 30 : 3;
my $clients = $soak ? 20 : 6;

my $primary = PostgreSQL::Test::Cluster->new('soak_primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', q(
autovacuum = off
grnnd.build_device = cpu
wal_keep_size = 4GB
max_wal_size = 4GB
max_connections = 60
));
$primary->start;
setup_grnnd($primary, 64, 20);

my @kinds = (
	# name, dimensions, operator class, operator, options
	[ 'plain', 64, 'vector_l2_ops', '<->', '' ],
	[ 'uncoded', 64, 'vector_l2_ops', '<->', 'WITH (codes = off)' ],
	[ 'product', 64, 'vector_ip_ops', '<#>', '' ],
	[ 'rounded', 64, 'vector_cosine_ops', '<=>', 'WITH (layout = default)' ],
	[ 'large', 128, 'vector_l2_ops', '<->', '' ],
	[ 'wide', 4000, 'vector_l2_ops', '<->', '' ]);
for (@kinds)
{
	my ($name, $dim, $class, $op, $with) = @$_;
	my $rows = $dim > 1000 ? 30 : 2000;
	$primary->safe_psql('postgres', qq(
		CREATE TABLE source_$name (id int PRIMARY KEY, v vector($dim));
		INSERT INTO source_$name SELECT * FROM points(1, $rows, $dim, 1);
		CREATE TABLE $name (id serial PRIMARY KEY, n int DEFAULT random() * 9, v vector($dim));
		INSERT INTO $name (v) SELECT v FROM source_$name WHERE id <= $rows / 2;
		CREATE INDEX ${name}_idx ON $name USING grnnd (v $class) $with;
		CREATE INDEX ${name}_n ON $name (n)));
}
# Rows by which a search among the rows of a bitmap and a scan of the table, under one snapshot, differ.
sub differing
{
	my ($name, $op, $n) = @_;
	return "SELECT count(*) FROM (SELECT id FROM $name WHERE n = $n ORDER BY v $op (SELECT v FROM source_$name LIMIT 1) LIMIT 100000) a
		FULL JOIN (SELECT id FROM $name WHERE n + 0 = $n) b USING (id) WHERE a.id IS NULL OR b.id IS NULL";
}
my $set = 'SET enable_seqscan = off; SET enable_sort = off; SET grnnd.ef_search = 5';
$primary->safe_psql('postgres', 'ANALYZE');
like($primary->safe_psql('postgres', "$set; EXPLAIN " . differing(@{ $kinds[0] }[ 0, 3 ], 3)), qr/grnnd bitmap/, 'searches have bitmaps');
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('soak_standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;

sub scripts
{
	my @scripts;
	for (@kinds)
	{
		my ($name, $dim, undef, $op) = @$_;
		my $rows = $dim > 1000 ? 30 : 2000;
		my $some = "(SELECT v FROM source_$name WHERE id = :s)";
		my $weight = $dim > 1000 ? 1 : 8;
		push @scripts,
		  [ 4 * $weight, "\\set s random(1, $rows)\nINSERT INTO $name (v) SELECT v FROM source_$name WHERE id = :s;\n" ],
		  [ 3 * $weight, "\\set r random(1, 20)\nDELETE FROM $name WHERE id IN (SELECT id FROM $name ORDER BY random() LIMIT :r / 4);\n" ],
		  [ $weight, "\\set s random(1, $rows)\nUPDATE $name SET v = $some WHERE id = (SELECT max(id) FROM $name);\n" ],
		  [ $weight, "BEGIN;\nINSERT INTO $name (v) SELECT v FROM source_$name LIMIT 3;\nROLLBACK;\n" ],
		  [ $weight, "\\set s random(1, $rows)\nSET enable_seqscan = off;\nSELECT id FROM $name ORDER BY v $op $some LIMIT 10;\n" ],
		  [ $weight, "\\set s random(1, $rows)\nUPDATE $name SET n = n + 1 WHERE id IN (SELECT id FROM $name ORDER BY random() LIMIT 3);\n" ],
		  [ 2 * $weight, "\\set k random(0, 9)\n$set;\nDO \$\$ BEGIN IF (" . differing($name, $op, ':k') =~ s/\s+/ /gr
			  . ") > 0 THEN RAISE WARNING 'a bitmap differs'; END IF; END \$\$;\n" ];
	}
	return @scripts;
}

my ($rounds, $crashes, $halted, $rows) = (0, 0, 0, 0);
my $shown = time();
do
{
	$rounds++;
	my $load = pgbench_start($primary, [ '-c', $clients, '-j', 2, '-T', 10 * $seconds + 60 ], scripts());
	my $end = time() + $seconds;
	# (longer where no vacuum was canceled so far: all were over, or the machine is busy)
	while (time() < $end || (!$halted && time() < $end + 60))
	{
		my $name = $kinds[ rand @kinds ][0];
		my $ms = 1 + int rand 200;
		$primary->psql('postgres', "SET statement_timeout = $ms; VACUUM $name", stderr => \my $stderr);
		$halted++ if $stderr =~ /canceling statement/;
		$primary->psql('postgres', "SET statement_timeout = '2s'; REINDEX INDEX CONCURRENTLY ${name}_idx", stderr => \$stderr)
		  if rand() < 0.1;
		sleep 0.05;
	}
	# every other round ends in a crash, of either server
	if ($rounds % 2 == 0)
	{
		crash_server($rounds % 4 == 0 ? $standby : $primary);
		$crashes++;
	}
	pgbench_stop($primary, $load);
	# what a canceled REINDEX CONCURRENTLY has left
	$primary->safe_psql('postgres', q(SELECT format('DROP INDEX %s', indexrelid::regclass)
		FROM pg_index WHERE NOT indisvalid \gexec));
	for my $node ($primary, $standby)
	{
		$primary->wait_for_catchup($standby) if $node == $standby;
		for (@kinds)
		{
			my ($name, undef, undef, $op) = @$_;
			my $who = $node == $primary ? 'primary' : 'standby';
			is(number($node, "SELECT * FROM grnnd_check('${name}_idx', true) LIMIT 5"), '', "round $rounds, $who, $name: sound");
			is(number($node, "SELECT missing('$name', 'v', '$op', (SELECT v FROM source_$name LIMIT 1))"), 0,
				"round $rounds, $who, $name: every row is found") if $node == $primary;
			is(number($node, "$set; " . differing($name, $op, 3)), 0, "round $rounds, $who, $name: every row of a bitmap is found");
		}
	}
	# tables stay small
	$primary->safe_psql('postgres', join ';', map { "DELETE FROM $_->[0] WHERE id NOT IN (SELECT id FROM $_->[0] ORDER BY random() LIMIT 2000); VACUUM $_->[0]" } @kinds);
	if (time() - $shown > 3600)
	{
		diag("$rounds rounds, $crashes crashes, $halted vacuums canceled");
		$shown = time();
	}
} while ($rounds < 2 || time() < $until);
note "$rounds rounds, $crashes crashes, $halted vacuums canceled";
cmp_ok($halted, '>', 0, 'vacuums were canceled');
unlike(slurp_file($_->logfile), qr/PANIC|TRAP|inconsistent page|process .* was terminated by signal [^9]|WARNING:  a bitmap differs/, 'no server went down by itself')
  for $primary, $standby;
$standby->stop('immediate');
$primary->stop('immediate');
done_testing();
