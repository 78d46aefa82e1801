# Damaged pages, at random: searches, inserts, vacuum and
# grnnd_check() end with an answer or a clear error, soon, and the server stays up.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant PAGE => 8192;
my $tables = 20;
my $rounds = 5;

my $node = PostgreSQL::Test::Cluster->new('write_fuzz');
my ($version) = `initdb --version` =~ /(\d+)/;
$node->init($version >= 18 ? (extra => ['--no-data-checksums']) : ());
$node->append_conf('postgresql.conf', q(
autovacuum = off
grnnd.build_device = cpu
grnnd.build_threads = 1
restart_after_crash = on
statement_timeout = 5min
));
$node->start;
setup_grnnd($node, 24, 1);
$node->safe_psql('postgres', q(
	CREATE TABLE model (id int, v vector(24));
	INSERT INTO model SELECT * FROM points(1, 500, 24, 1);
	INSERT INTO model SELECT 1000 + i, v FROM points(1, 1, 24, 1), generate_series(1, 1500) i));

# ---- ways to damage a file ----

sub random_bytes { return pack('C*', map { int rand 256 } 1 .. $_[0]); }

my @damage = (
	sub {	# 16 bytes, anywhere
		my ($file) = @_;
		substr($$file, int(rand(length($$file) - 16)), 16) = random_bytes(16);
	},
	sub {	# the same, in what records begin with and in their lists
		my ($file) = @_;
		my $pages = length($$file) / PAGE;
		for (1 .. 8)
		{
			my $at = (3 + int rand($pages - 3)) * PAGE + 24 + int rand 400;
			substr($$file, $at, 2) = random_bytes(2);
		}
	},
	sub {	# small numbers, which pass for ids
		my ($file) = @_;
		my $pages = length($$file) / PAGE;
		for (1 .. 200)
		{
			my $at = (3 + int rand($pages - 3)) * PAGE + 24 + 4 * int rand 2000;
			substr($$file, $at, 4) = pack('L', int rand 500);
		}
	},
	sub {	# a page of zeros
		my ($file) = @_;
		substr($$file, PAGE * int(rand(length($$file) / PAGE)), PAGE) = "\0" x PAGE;
	},
	sub {	# cut short
		my ($file) = @_;
		$$file = substr($$file, 0, PAGE * int(rand(length($$file) / PAGE)));
	},
	sub {	# two pages change places
		my ($file) = @_;
		my ($a, $b) = map { PAGE * int(rand(length($$file) / PAGE)) } 1 .. 2;
		my ($x, $y) = map { substr($$file, $_, PAGE) } $a, $b;
		substr($$file, $a, PAGE) = $y;
		substr($$file, $b, PAGE) = $x;
	});

# ---- rounds ----

my %outcome;
for my $round (1 .. $rounds)
{
	my @path;
	for my $i (1 .. $tables)
	{
		push @path, $node->safe_psql('postgres', qq(
			DROP TABLE IF EXISTS t$i;
			CREATE TABLE t$i AS SELECT * FROM model;
			ALTER TABLE t$i ALTER v TYPE vector(24);
			CREATE INDEX t${i}_idx ON t$i USING grnnd (v);
			SELECT pg_relation_filepath('t${i}_idx')));
	}
	$node->stop;
	for my $i (1 .. $tables)
	{
		my $path = $node->data_dir . "/$path[$i - 1]";
		my $file = slurp_file($path);
		$damage[($i - 1) % @damage]->(\$file);
		open my $f, '>:raw', $path or die "$path: $!";
		print $f $file;
		close $f;
	}
	$node->start;
	for my $i (1 .. $tables)
	{
		for my $sql (
			"SET enable_seqscan = off; SELECT count(*) FROM (SELECT id FROM t$i ORDER BY v <-> (SELECT v FROM queries) LIMIT 3000) x",
			"INSERT INTO t$i SELECT * FROM points(2001, 2040, 24, 1)",
			"INSERT INTO t$i SELECT 3000 + i, v FROM points(1, 1, 24, 1), generate_series(1, 300) i",
			"SELECT count(*) FROM grnnd_check('t${i}_idx', true)",
			"DELETE FROM t$i WHERE id % 3 = 0 OR id > 1000",
			"VACUUM t$i",
			"INSERT INTO t$i SELECT * FROM points(2041, 2080, 24, 1)",
			"SELECT count(*) FROM grnnd_check('t${i}_idx', true)")
		{
			my ($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$sql");
			my ($state, $said) = $err =~ /ERROR:  (\w{5}): (.*)/;
			$state //= $rc == 0 ? 'done' : "failed: $err";
			$outcome{$state}++;
			# the executor's own check of a row that comes with a distance to be looked at again
			next if $state eq 'XX000' && $said eq 'index returned tuples in wrong order';
			# and the server's of a page's header
			next if $state eq 'XX001' && $said =~ /^invalid page in block/;
			next if $state =~ /^(done|XX002)$/;
			fail("round $round, table $i (damage " . (($i - 1) % @damage) . "): $state after: $sql");
		}
	}
}
ok(1, "$rounds rounds of $tables damaged indexes");
note join(', ', map { "$_: $outcome{$_}" } sort keys %outcome);
cmp_ok($outcome{XX002} // 0, '>', $rounds * $tables / 4, 'damage was met');
$node->stop;
unlike(slurp_file($node->logfile), qr/terminated by signal|PANIC|TRAP/, 'the server never went down');
done_testing();
