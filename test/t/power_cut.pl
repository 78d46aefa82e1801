# Power cuts: whatever no process had synced is lost (power_disk.c), or every other block of
# it.  After each cut what was committed is there, every index is sound and finds every row.
# Under both kinds of wal_level, since new relations are synced or logged accordingly.
use strict;
use warnings;

use Cwd qw(abs_path);
use File::Find;
use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $rounds = $soak ? 20 : 2;
my $dir = PostgreSQL::Test::Utils::tempdir();
compile_c("$FindBin::Bin/power_disk.c", "$dir/power_disk.so", '-shared -fPIC');

my ($node, $data, $disk);
my @indexes = qw(t_idx same_idx wide_idx grown_idx r_idx);

# ---- the disk ----

sub power_on
{
	local $ENV{LD_PRELOAD} = "$dir/power_disk.so";
	local $ENV{POWER_DATA} = $data;
	local $ENV{POWER_DISK} = $disk;
	$node->start;
}

# A file's contents, undef where there is none.
sub read_file
{
	my ($file) = @_;
	open(my $f, '<:raw', $file) or return;
	local $/;
	return scalar(<$f>) // '';
}

sub write_file
{
	my ($file, $contents) = @_;
	if (!defined $contents)
	{
		unlink $file;
		return;
	}
	open(my $f, '>:raw', $file) or die "$file: $!";
	print $f $contents;
	close $f;
}

# What a disk may hold of a file of which some was not synced: $new is the file as it was
# seen, $old what was synced; undef is no file.  Any block may be of either.
sub mix
{
	my ($new, $old) = @_;
	# the folder was written or not
	return $old if rand() < 0.5 && !(defined $new && defined $old);
	return if !defined $new;
	$old //= '';
	my $size = length(rand() < 0.5 ? $new : $old);
	my $mixed = '';
	for (my $at = 0; $at < $size; $at += 8192)
	{
		my $from = rand() < 0.5 ? $new : $old;
		my $block = $at < length $from ? substr($from, $at, 8192) : '';
		$mixed .= $block . "\0" x (8192 - length $block);
	}
	return substr($mixed, 0, $size);
}

# Kills the server, makes its files those of the disk and starts it again.
sub power_cut
{
	my ($some) = @_;
	my %names;
	kill_server($node);
	for my $top ($data, $disk)
	{
		find({ no_chdir => 1, wanted => sub {
			$names{ substr($_, length $top) } = 1 if -f $_ } }, $top);
	}
	for my $name (sort keys %names)
	{
		my ($new, $old) = (read_file($data . $name), read_file($disk . $name));
		next if defined $new && defined $old && $new eq $old;
		if ($some && $name =~ m{^/(base|pg_wal)/})
		{
			$old = mix($new, $old);
			write_file($disk . $name, $old);
		}
		write_file($data . $name, $old);
	}
	power_on();
}

# ---- the tests ----

sub all_well
{
	my ($name, @more) = @_;
	sound($node, $_, "$name, $_") for @indexes, map { "${_}_idx" } @more;
	is(number($node, join ' UNION ALL ', map {
			"(SELECT '$_' FROM (SELECT v FROM $_ LIMIT 1) q WHERE missing('$_', 'v', '<->', q.v) <> 0)"
		} qw(t same wide grown r), @more), '', "$name: every row is found");
	cmp_ok(recall($node, 't'), '>=', 0.9, "$name: recall");
}

# Everything that writes pages past shared buffers.
sub builds
{
	my ($n) = @_;
	$node->safe_psql('postgres', qq(
		BEGIN;
		CREATE TABLE new$n (id int, v vector(32));
		INSERT INTO new$n SELECT * FROM source WHERE id <= 1000;
		CREATE INDEX new${n}_idx ON new$n USING grnnd (v);
		COMMIT;
		CREATE INDEX CONCURRENTLY c_idx ON r USING grnnd (v);
		DROP INDEX r_idx;
		ALTER INDEX c_idx RENAME TO r_idx;
		CREATE TABLE empty$n (id int, v vector(32));
		CREATE INDEX empty${n}_idx ON empty$n USING grnnd (v);
		CREATE UNLOGGED TABLE u$n (id int, v vector(32));
		CREATE INDEX u${n}_idx ON u$n USING grnnd (v);
		INSERT INTO u$n SELECT * FROM source WHERE id <= 100;
		REINDEX INDEX t_idx));
}

# After the cut, with the rows that one could not have before.
sub built
{
	my ($n) = @_;
	is(number($node, "SELECT count(*) FROM u$n"), 0, "built $n: the unlogged table is empty");
	$node->safe_psql('postgres', "INSERT INTO u$n SELECT * FROM source WHERE id <= 100;
		INSERT INTO empty$n SELECT * FROM source WHERE id <= 100");
	all_well("built $n", "new$n", "u$n", "empty$n");
	$node->safe_psql('postgres', "DROP TABLE new$n, u$n, empty$n; CHECKPOINT");
}

# A build that meets two checkpoints.  The first one takes the new file's first sync; at the
# second one nearly all pages are written and logged, so recovery begins after them.
sub checkpoints_in_build
{
	my $lock = "FROM pg_locks WHERE locktype = 'advisory' AND";
	my $counts = "SELECT count(*) FILTER (WHERE granted) || ',' || count(*) $lock true";
	my $hold = 'SELECT pg_advisory_lock(6779502), pg_sleep(3600)';
	my $next = "CHECKPOINT; SELECT pg_terminate_backend(pid) $lock granted";
	my @holders = psql_start($node, $hold);
	$node->poll_query_until('postgres', $counts, '1,1') or die 'no lock';
	my $build = psql_start($node, "SET grnnd.test_point = 'load'; REINDEX INDEX t_idx");
	$node->poll_query_until('postgres', $counts, '1,2') or die 'the build did not stop';
	# has the lock when the build goes on
	push @holders, psql_start($node, $hold);
	$node->poll_query_until('postgres', $counts, '1,3') or die 'no second lock';
	$node->safe_psql('postgres', $next);
	psql_finish($holders[0]);
	$node->poll_query_until('postgres', $counts, '1,2') or die 'the build did not stop again';
	$node->safe_psql('postgres', $next);
	psql_finish($holders[1]);
	is(psql_finish($build), '', 'build around checkpoints');
}

# Inserts, deletes, vacuums, builds and checkpoints until the power fails.  Returns the
# committed rows of "grown" that psql heard of.
sub load_until_cut
{
	my ($some) = @_;
	my @inserts;
	for (1 .. 3)
	{
		my $script = '';
		for (1 .. 3000)
		{
			my $table = (qw(t t t same wide grown))[int rand 6];
			my $from = $table eq 'wide' ? 'wide LIMIT 1'
			  : 'source WHERE id = ' . int(1 + rand($table eq 'same' ? 3 : 3000));
			$script .= "INSERT INTO $table (v) SELECT v FROM $from"
			  . ($table eq 'grown' ? " RETURNING id;\n" : ";\n");
		}
		push @inserts, psql_start($node, $script);
	}
	my @others = map { pgbench_start($node, [ '-c', 1, '-T', 60 ], [ 1, $_ ]) } (
		q(\set s random(1, 3)
DELETE FROM t WHERE id % 50 = :s;
DELETE FROM same WHERE id % 10 = :s;
DELETE FROM wide WHERE id % 10 = :s;
VACUUM t, same, wide, grown;
), q(REINDEX INDEX r_idx;
CHECKPOINT;
REINDEX INDEX CONCURRENTLY grown_idx;
));
	sleep 0.5 + rand(1);
	power_cut($some);
	pgbench_finish($_) for @others;
	return map { psql_finish($_) =~ /^(\d+)$/mg } @inserts;
}

for my $level (qw(replica minimal))
{
	$node = PostgreSQL::Test::Cluster->new("power_$level");
	$node->init(extra => ['--wal-segsize=1']);
	$node->append_conf('postgresql.conf', qq(
fsync = on
wal_sync_method = fdatasync
wal_level = $level
max_wal_senders = 0
max_wal_size = 32MB
wal_skip_threshold = 64kB
shared_buffers = 4MB
autovacuum = off
grnnd.build_device = cpu
));
	$data = abs_path($node->data_dir);
	$disk = $node->basedir . '/disk';
	system('cp', '-a', $data, $disk) == 0 or die 'cannot copy the data directory';
	power_on();
	setup_grnnd($node, 32, 20);
	$node->safe_psql('postgres', q(
		CREATE TABLE source AS SELECT id, v::vector(32) FROM points(1, 3000, 32, 1);
		CREATE UNIQUE INDEX ON source (id);
		CREATE TABLE t (id serial PRIMARY KEY, v vector(32));
		INSERT INTO t (v) SELECT v FROM source WHERE id <= 1500;
		CREATE INDEX t_idx ON t USING grnnd (v);
		CREATE TABLE r (id int, v vector(32));
		INSERT INTO r SELECT * FROM source WHERE id <= 300;
		CREATE INDEX r_idx ON r USING grnnd (v);
		CREATE TABLE same (id serial, v vector(32));
		CREATE INDEX same_idx ON same USING grnnd (v);
		CREATE TABLE wide (id serial, v vector(4000));
		INSERT INTO wide (v) SELECT v FROM points(1, 10, 4000, 1);
		CREATE INDEX wide_idx ON wide USING grnnd (v);
		CREATE TABLE grown (id serial, v vector(32));
		CREATE INDEX grown_idx ON grown USING grnnd (v);
		INSERT INTO same (v) SELECT v FROM source WHERE id <= 1;
		INSERT INTO grown (v) SELECT v FROM source WHERE id <= 1;
		CHECKPOINT));
	builds(1);
	power_cut(0);
	built(1);
	builds(2);
	$node->safe_psql('postgres', 'CHECKPOINT');
	power_cut(0);
	built(2);
	checkpoints_in_build();
	power_cut(0);
	all_well('checkpoints in a build');

	my @committed;
	for my $round (1 .. $rounds)
	{
		my $some = $round % 2 == 0;
		my $name = "$level $round" . ($some ? ', some writes kept' : '');
		push @committed, load_until_cut($some);
		is(number($node, "SELECT id FROM unnest('{" . join(',', @committed) . "}'::int[]) id
			WHERE NOT EXISTS (SELECT FROM grown WHERE grown.id = id)"),
			'', "$name: what was committed is there");
		all_well($name);
	}
	cmp_ok(scalar(@committed), '>', 0, "$level: rows were committed");
	unlike(slurp_file($node->logfile), qr/PANIC|TRAP|invalid page/, "$level: no damage met");
	$node->stop('immediate');
}
done_testing();
