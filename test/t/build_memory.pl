# Memory of CREATE INDEX: what lies in memory of the leader and of the builder stays within
# maintenance_work_mem and 64 MB more, and is what the build says of itself; and where either
# process may have less than it needs, that is one clear error, and no server or builder crashes.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Cwd qw(abs_path);
use GrnndTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

use constant MB => 1 << 20;

my $node = PostgreSQL::Test::Cluster->new('build_memory');
$node->init;
$node->append_conf('postgresql.conf', q(
autovacuum = off
fsync = off
grnnd.build_device = cpu
grnnd.build_threads = 2
max_parallel_maintenance_workers = 0
));
$node->start;
# 15 MB of rows, of which a build makes 70
$node->safe_psql('postgres', q(
	CREATE EXTENSION grnnd CASCADE;
	CREATE TABLE t (v vector(128));
	ALTER TABLE t ALTER v SET STORAGE plain;
	INSERT INTO t SELECT (SELECT array_agg(random()) FROM generate_series(1, 128 + 0 * i))::vector
		FROM generate_series(1, 30000) i;
	CREATE TABLE s AS SELECT v FROM t LIMIT 3000));

# Bytes of that process's own, and of the builds' shared memory that it has open.
sub own_memory
{
	my ($pid) = @_;
	open(my $f, '<', "/proc/$pid/status") or return 0;
	my ($kb) = join('', <$f>) =~ /^RssAnon:\s+(\d+) kB/m;
	return 1024 * ($kb // 0);
}

sub shared_memory
{
	my ($pid) = @_;
	my %bytes;
	for my $fd (glob "/proc/$pid/fd/*")
	{
		next if (readlink($fd) // '') !~ m{^/memfd:grnnd build};
		my @stat = stat $fd or next;
		$bytes{ $stat[1] } = 512 * $stat[12];
	}
	my $sum = 0;
	$sum += $_ for values %bytes;
	return $sum;
}

sub children
{
	my ($pid) = @_;
	open(my $f, '<', "/proc/$pid/task/$pid/children") or return ();
	return split ' ', <$f> // '';
}

my $gate = $node->background_psql('postgres');
for my $setting (1, 4, 64, 512)
{
	$gate->query('SELECT pg_advisory_lock(1)');
	my $build = psql_start($node, qq(
		SET maintenance_work_mem = '${setting}MB';
		SET client_min_messages = debug1;
		SET application_name = 'builds';
		SELECT pg_advisory_lock_shared(1);
		CREATE INDEX i ON t USING grnnd (v) WITH (t1 = 1, t2 = 1)));
	my $waits = q(FROM pg_stat_activity WHERE application_name = 'builds' AND wait_event = 'advisory');
	$node->poll_query_until('postgres', "SELECT count(*) = 1 $waits") or die 'no build';
	my $leader = $node->safe_psql('postgres', "SELECT pid $waits");
	my ($before, $shared, $most, $looks) = (own_memory($leader), 0, 0, 0);
	$gate->query('SELECT pg_advisory_unlock(1)');
	while (GrnndTest::running($leader))
	{
		my $now = shared_memory($leader);
		my $all = $now + own_memory($leader) - $before;
		$all += own_memory($_) for children($leader);
		$shared = $now if $now > $shared;
		$most = $all if $all > $most;
		$looks++;
		sleep 0.005;
	}
	my $said = psql_finish($build);
	my ($memory, $file) = $said =~ /memory (\d+), temporary file (\d+)/ or diag $said;
	note sprintf '%d MB: shared %.1f, of all processes %.1f; said %.1f and a file of %.1f (%d looks)', $setting,
	  map({ $_ / MB } $shared, $most, $memory, $file), $looks;
	cmp_ok($shared, '<=', $memory, "$setting MB: no more shared memory than was said");
	cmp_ok($memory, '<=', $setting * MB, "$setting MB: which is not more than that");
	cmp_ok($most, '<=', ($setting + 64) * MB, "$setting MB: leader and builder together take at most 64 MB more");
	cmp_ok($memory + $file, '>', 60 * MB, "$setting MB: the rest is in a temporary file");
	$node->safe_psql('postgres', 'DROP INDEX i');
}
$gate->quit;

# ---- what goes back ----

# Leader and worker give memory back together before the index is finished: several memfds are
# open then, without a page.  A cancel there leaves nothing, and so does a build that ends.
my $stopped = 'load:2';
my $lock = 6779502;    # src/am/test_point.c
sub memory_files { return scalar grep { (readlink($_) // '') =~ m{^/memfd:grnnd build} } glob "/proc/$_[0]/fd/*" }
$gate = $node->background_psql('postgres');
my $session = $node->background_psql('postgres', on_error_stop => 0);
my $leader = $session->query_safe('SELECT pg_backend_pid()');
$session->query_safe(qq(
	SET maintenance_work_mem = '1GB';
	SET max_parallel_maintenance_workers = 1;
	SET grnnd.test_point = '$stopped'));
for my $ends ('canceled', 'finished')
{
	$gate->query_safe("SELECT pg_advisory_lock($lock)");
	$session->query_until(qr/^begun/m, "\\echo begun\nCREATE INDEX i ON t USING grnnd (v) WITH (t1 = 1, t2 = 1);\n");
	my $waits = "FROM pg_stat_activity WHERE pid = $leader AND wait_event = 'advisory'";
	$node->poll_query_until('postgres', "SELECT count(*) = 1 $waits") or die 'not there';
	cmp_ok(memory_files($leader), '>', 1, "$ends: several files of memory");
	is(shared_memory($leader), 0, "$ends: which have none any more");
	$node->safe_psql('postgres', "SELECT pg_cancel_backend($leader)") if $ends eq 'canceled';
	$node->poll_query_until('postgres', "SELECT count(*) = 0 $waits") if $ends eq 'canceled';
	$gate->query_safe("SELECT pg_advisory_unlock($lock)");
	$session->query("SET grnnd.test_point = '$stopped'");
	is(memory_files($leader), 0, "$ends: none is left open");
}
is($node->safe_psql('postgres', "SELECT count(*) FROM grnnd_check('i', true)"), 0, 'the index is sound');
$session->quit;
$gate->quit;
$node->safe_psql('postgres', 'DROP INDEX i');

# ---- less than the rows ----

# Rows move by cells and the graph is built in parts: every vector, and every value beside it, is
# still its row's.  A third of the rows is there twice.
$node->safe_psql('postgres', q(
	CREATE TABLE d AS SELECT v, (row_number() OVER ())::int AS k FROM t;
	INSERT INTO d SELECT v, k + 30000 FROM d WHERE k % 3 = 0));
for my $case ([ '1MB', 'vector_l2_ops', '<->' ], [ '2GB', 'vector_l2_ops', '<->' ], [ '1MB', 'vector_cosine_ops', '<=>' ])
{
	my ($memory, $class, $op) = @$case;
	my $name = "$memory, $class";
	my (undef, $stdout, $stderr) = $node->psql('postgres', qq(
		SET maintenance_work_mem = '$memory';
		SET grnnd.build_memory_limit = '8MB';
		SET client_min_messages = debug1;
		CREATE INDEX j ON d USING grnnd (v $class, k)));
	like($stderr, qr/ nodes 30000,.*, rows moved$/m, "$name: rows moved");
	my $found = $node->safe_psql('postgres', qq(
		SET enable_seqscan = off;
		SET grnnd.ef_search = 400;
		SELECT count(*) FROM (SELECT v, k FROM d WHERE k % 60 = 0) q, LATERAL (
			SELECT k FROM d WHERE d.v $op q.v < 1e-3 ORDER BY d.v $op q.v LIMIT 2) near
		WHERE near.k % 30000 = q.k % 30000));
	# (random rows of so many dimensions are hard to find)
	cmp_ok($found, '>', 1900, "$name: rows are found by their vectors, both of those that are the same");
	is($node->safe_psql('postgres', qq(
		SET enable_seqscan = off;
		SELECT count(*) FROM (SELECT v, k FROM d WHERE k % 50 = 7) q, LATERAL (
			SELECT k FROM d WHERE d.k = q.k ORDER BY d.v $op q.v LIMIT 1) near WHERE near.k = q.k)),
		$node->safe_psql('postgres', 'SELECT count(*) FROM d WHERE k % 50 = 7'), "$name: and by their values");
	is($node->safe_psql('postgres', "SELECT count(*) FROM grnnd_check('j', true)"), 0, "$name: the index is sound");
	$node->safe_psql('postgres', 'DROP INDEX j');
}

# ---- too little ----

# A build's error, with its SQLSTATE, or the empty string; one builder at most was there.
sub build
{
	my ($before) = @_;
	my $stderr;
	$node->psql('postgres', "\\set VERBOSITY verbose\n$before; CREATE INDEX i ON s USING grnnd (v) WITH (t1 = 1, t2 = 1)",
		on_error_stop => 1, stderr => \$stderr);
	my ($error) = $stderr =~ /(?:ERROR|FATAL):\s+(.*)/s;
	$node->safe_psql('postgres', 'DROP INDEX IF EXISTS i');
	return $error // $stderr;
}

my $real = `$ENV{PG_CONFIG} --pkglibdir`;
chomp $real;
my $dir = abs_path(PostgreSQL::Test::Utils::tempdir());
chmod 0755, $dir;

# How often each outcome came.
sub outcomes
{
	my %seen;
	$seen{$_}++ for map { /^58/ ? 'not started' : /^(.+)/ ? $1 : 'built' } @_;
	return join '; ', map { "$seen{$_} $_" } sort keys %seen;
}

# Of the builder: address space, most of which it only reserves, and what it may write to.
for my $case ([ 'v', map { 2000 * 4**$_ } 0 .. 12 ], [ 'd', map { 1000 * 1.7**$_ } 0 .. 9 ])
{
	my ($limit, @most) = @$case;
	my @seen;
	for my $kb (@most)
	{
		my $path = sprintf '%s/%s%d', $dir, $limit, $kb;
		append_to_file($path, sprintf("#!/bin/sh\nulimit -$limit %d\nexec $real/grnnd_build \"\$@\"\n", $kb));
		chmod 0755, $path;
		my $error = build("SET grnnd.builder_path = '$path'");
		# 127: the program itself, or its libraries, did not fit
		my $fine = $error eq '' || $error =~ /^(53200|53000): / || $error =~ /^58000: .*exited with status (127|126|2)\b/s;
		ok($fine, sprintf("a builder of at most %d kB (ulimit -$limit)", $kb)) or diag $error;
		push @seen, $error;
	}
	like(outcomes(@seen), $limit eq 'v' ? qr/53200: / : qr/53\d00: .*built/, "ulimit -$limit: " . outcomes(@seen));
}

# Of the leader: address space beyond what it has, which may be 128 TB.
my @seen;
for my $mb (1, 10, 100, 10_000, 1_000_000, 20_000_000, 40_000_000, 80_000_000)
{
	my $kb = $mb * 1024;
	my $error = build(qq(CREATE TEMP TABLE said (line text);
		COPY said FROM PROGRAM 'prlimit --pid \$PPID --as=\$((1024 * (\$(cut -d " " -f 1 /proc/\$PPID/statm) * \$(getconf PAGESIZE) / 1024 + $kb))):'));
	ok($error eq '' || $error =~ /^(53200|53000): /, "a leader of $mb MB more") or diag $error;
	push @seen, $error;
}
like(outcomes(@seen), qr/53200: /, 'leader: ' . outcomes(@seen));
is($seen[3], '', 'a small table needs less than 10 GB of it');

my $log = slurp_file($node->logfile);
unlike($log, qr/server process .* terminated|PANIC/, 'no crash');
is(build(''), '', 'and the next build works');
$node->stop;
done_testing();
