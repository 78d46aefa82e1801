# Codes of an index that was created empty: no insert fits them, waits for who does, or
# fails by a time limit for that.  A background worker does it; where none is to be had, or it
# fails, that is said, and not tried by each insert.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = PostgreSQL::Test::Cluster->new('fit');
$node->init;
$node->append_conf('postgresql.conf', q(
autovacuum = off
max_worker_processes = 4
max_parallel_workers_per_gather = 0
grnnd.build_device = cpu
log_lock_waits = on
deadlock_timeout = 20ms
));
$node->start;
setup_grnnd($node, 32, 20);

sub codes
{
	my ($index) = @_;
	return number($node, "SELECT state, due, failed_attempts FROM grnnd_codes('$index')");
}

# Waits until codes() says that.  $again, if given, is run where an attempt had no success: with many
# inserts at once it may have found too few of their rows, and a later insert asks again.
sub becomes
{
	my ($index, $what, $name, $again) = @_;
	my $until = time() + $PostgreSQL::Test::Utils::timeout_default;
	while (time() < $until && codes($index) ne $what)
	{
		sleep 0.1;
		$node->safe_psql('postgres', $again)
			if $again && number($node, "SELECT failed_attempts > 0 AND clock_timestamp() > next_attempt FROM grnnd_codes('$index')") eq 't';
	}
	is(codes($index), $what, $name);
}

# Lines of the server's log since $from that have this in them.
sub logged
{
	my ($from, $what) = @_;
	my $log = slurp_file($node->logfile, $from);
	return scalar(() = $log =~ /$what/g);
}

sub table
{
	my ($name) = @_;
	$node->safe_psql('postgres', "CREATE TABLE $name (id serial, v vector(32));
		CREATE INDEX ${name}_idx ON $name USING grnnd (v)");
}

# Does that, after which the index is as before, for the last attempt was not long ago.  A slow
# machine may take longer than the wait that an attempt is followed by.
sub leaves_alone
{
	my ($index, $name, $act) = @_;
	my $before = codes($index);
	my $next = number($node, "SELECT next_attempt FROM grnnd_codes('$index')");
	$act->();
  SKIP: {
		skip 'this machine is too slow to see that', 1
		  if number($node, "SELECT clock_timestamp() > '$next'") eq 't';
		is(codes($index), $before, $name);
	}
}

my $no_wait = "SET lock_timeout = '50ms'; ";

# ---- a worker, while many insert ----

table('t');
# the first one is waited for by others
$node->safe_psql('postgres', 'INSERT INTO t (v) SELECT v FROM points(1, 1, 32, 1)');
my $from = -s $node->logfile;
my $run = pgbench_start($node, [ '-c', 4, '-t', 500, '-M', 'prepared' ],
	[ 1, "\\set n random(2, 1000000)\n" .
	  "INSERT INTO t (v) SELECT v FROM points(:n, :n, 32, 1);\n" ]);
is(pgbench_finish($run), '', 'inserts go on');
# A busy machine may make inserts wait for the table's or the index's extension, and for each other.
my $lines = slurp_file($node->logfile, $from);
my %inserts = map { $_ => 1 } $lines =~ /\[(\d+)\] \S+ LOG:  execute P_0/g;
my @holders = map { split /, / }
  $lines =~ /still waiting for \w+ on (?!extension).*\n.*DETAIL:  Process(?:es)? holding the lock: ([\d, ]+)\. Wait/g;
cmp_ok(scalar(keys %inserts), '>=', 4, 'the log names the inserts');
is(scalar(grep { !$inserts{$_} } @holders), 0, 'and wait for nobody else');
becomes('t_idx', 'used|f|0', 'a worker fits', 'INSERT INTO t (v) SELECT v FROM points(3000001, 3000001, 32, 1)');
sound($node, 't_idx', 'fitted beside inserts');
missing($node, 't', 'fitted beside inserts');
cmp_ok(recall($node, 't'), '>=', 0.95, 'recall');
$node->safe_psql('postgres', 'INSERT INTO t (v) SELECT v FROM points(2000001, 2001000, 32, 1)');
becomes('t_idx', 'used|f|0', 'a worker judges');

# ---- tables that their transaction alone can see while it loads them ----

my $log = -s $node->logfile;
my $load = 'SELECT id, v FROM points(1, 1000, 32, 1)';
$node->safe_psql('postgres', "BEGIN;
	CREATE TABLE a (id serial, v vector(32));
	CREATE INDEX a_idx ON a USING grnnd (v);
	INSERT INTO a $load;
	CREATE TABLE b (id serial, v vector(32));
	INSERT INTO b SELECT id, v FROM points(2001, 2010, 32, 1);
	CREATE INDEX b_idx ON b USING grnnd (v);
	SAVEPOINT s;
	INSERT INTO b $load;
	RELEASE s;
	-- what a subtransaction leaves behind
	SAVEPOINT s;
	CREATE TABLE gone (id serial, v vector(32));
	CREATE INDEX gone_idx ON gone USING grnnd (v);
	INSERT INTO gone $load;
	ROLLBACK TO s;
	CREATE TABLE c (id serial, v vector(32));
	CREATE INDEX c_idx ON c USING grnnd (v);
	SAVEPOINT s;
	INSERT INTO c $load;
	ROLLBACK TO s;
	COMMIT");
for my $t ('a', 'b')
{
	becomes("${t}_idx", 'used|f|0', "$t is fitted after its transaction");
	sound($node, "${t}_idx", $t);
	missing($node, $t, $t);
}
sound($node, 'c_idx', 'rows that were rolled back');
$node->safe_psql('postgres', "BEGIN;
	CREATE TABLE d (id serial, v vector(32));
	CREATE INDEX d_idx ON d USING grnnd (v);
	INSERT INTO d $load;
	ROLLBACK");
table('d');
$node->safe_psql('postgres', "BEGIN; TRUNCATE d; COPY d (v) FROM PROGRAM
	'seq 1000 | awk ''{ printf \"[\"; for (i = 1; i < 32; i++) printf \"%s,\", (\$1 * i * 37) % 101; print \$1 \"]\" }'''; COMMIT");
becomes('d_idx', 'used|f|0', 'a table that was truncated and loaded');
$node->safe_psql('postgres', 'BEGIN; TRUNCATE d; ROLLBACK');
sound($node, 'd_idx', 'truncated and loaded');
is(logged($log, 'ERROR|FATAL|PANIC'), 0, 'no worker complains');

# ---- an insert that knows of no codes is waited for, by nobody but the worker ----

table('u');
$node->safe_psql('postgres', 'SET grnnd.background_fit = off;
	INSERT INTO u (v) SELECT v FROM points(1, 200, 32, 1)');
is(codes('u_idx'), 'unfitted|t|0', 'no worker is asked for');
my $gate = psql_start($node, 'SELECT pg_advisory_lock(6779502); SELECT pg_sleep(3600)');
$node->poll_query_until('postgres', q(SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND granted));
my $old = psql_start($node, q(SET grnnd.test_point = 'insert-chosen';
	INSERT INTO u (v) SELECT v FROM points(201, 201, 32, 1)));
$node->poll_query_until('postgres', q(SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'advisory'));
is($node->psql('postgres', $no_wait . 'INSERT INTO u (v) SELECT v FROM points(202, 202, 32, 1)'),
	0, 'an insert that asks for a worker');
becomes('u_idx', 'filling|t|1', 'codes are begun');
is($node->psql('postgres', $no_wait . 'INSERT INTO u (v) SELECT v FROM points(203, 400, 32, 1)'),
	0, 'inserts go on while it waits');
missing($node, 'u', 'filling');

# ---- the worker gives up its lock ----

$log = -s $node->logfile;
is($node->psql('postgres', "SET lock_timeout = '5min'; ANALYZE u"), 0, 'the worker gives way');
ok(logged($log, 'LOG:  postponing the fit of codes .*, because another session waits'), 'and says so');
is(logged($log, 'ERROR'), 0, 'as no error');
leaves_alone('u_idx', 'it is not tried again at once', sub {
	is($node->psql('postgres', $no_wait . 'INSERT INTO u (v) SELECT v FROM points(401, 500, 32, 1)'),
		0, 'inserts go on after that');
});

# ---- a crash in the middle ----

crash_server($node);
$_->{run}->finish for $old, $gate;
sound($node, 'u_idx', 'after a crash');
missing($node, 'u', 'after a crash');
$node->safe_psql('postgres', 'INSERT INTO u (v) SELECT v FROM points(501, 600, 32, 1);
	DELETE FROM u WHERE id % 3 = 0');
leaves_alone('u_idx', 'vacuum leaves it so soon after an attempt',
	sub { $node->safe_psql('postgres', 'VACUUM u') });
sound($node, 'u_idx', 'vacuumed while filling');
# in several passes, as far as the version lets memory be small
my $memory = $node->pg_version >= 17 ? '64kB' : '1MB';
$node->safe_psql('postgres', "SET maintenance_work_mem = '$memory';
	SET grnnd.background_fit = off;
	INSERT INTO u (v) SELECT v FROM points(601, 3000, 32, 1);
	SELECT grnnd_fit('u_idx')");
is(codes('u_idx'), 'used|f|0', 'finished');
sound($node, 'u_idx', 'finished');
cmp_ok(recall($node, 'u'), '>=', 0.95, 'recall');

# ---- no worker is free ----

$node->append_conf('postgresql.conf', 'max_worker_processes = 0');
$node->restart;
table('w');
$log = -s $node->logfile;
my $inserts = sub {
	my ($first) = @_;
	for my $i ($first .. $first + 9)
	{
		my $id = 10 * $i + 100;
		$node->safe_psql('postgres', $no_wait . "INSERT INTO w (v) SELECT v FROM points($id, $id + 9, 32, 1)");
	}
};
$inserts->(1);
$inserts->(11);
like(codes('w_idx'), qr/^unfitted\|t\|[1-9]$/, 'a try is shown');
cmp_ok(logged($log, 'no background worker was free'), '<=', (split /\|/, codes('w_idx'))[2],
	'that no worker is free is said once a try');
leaves_alone('w_idx', 'inserts leave it', sub { $inserts->(21) });
leaves_alone('w_idx', 'vacuum leaves it', sub { $node->safe_psql('postgres', 'VACUUM w') });
$node->safe_psql('postgres', q(SELECT grnnd_fit('w_idx')));
is(codes('w_idx'), 'used|f|0', 'done by hand');
$log = -s $node->logfile;
$node->safe_psql('postgres', "BEGIN;
	CREATE TABLE e (id serial, v vector(32));
	CREATE INDEX e_idx ON e USING grnnd (v);
	INSERT INTO e $load;
	COMMIT");
is(logged($log, 'no background worker was free'), 1, 'nor is one free after a commit');
is(codes('e_idx'), 'unfitted|t|0', 'which is no attempt');
sound($node, 'w_idx', 'done by hand');
$node->append_conf('postgresql.conf', 'max_worker_processes = 4');
$node->restart;

# ---- workers that are stopped where a fit begins ----

# Returns what stops them in that database.
sub stop_workers
{
	my ($database) = @_;
	$node->safe_psql('postgres', "ALTER DATABASE $database SET grnnd.test_point = 'fit-begun'");
	my $gate = psql_start($node, "\\c $database\nSELECT pg_advisory_lock(6779502);\nSELECT pg_sleep(3600);");
	$node->poll_query_until('postgres', qq(SELECT count(*) = 1 FROM pg_locks JOIN pg_database d ON d.oid = database
		WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND datname = '$database'))
		or die "no gate in $database";
	return $gate;
}

# Waits until one is stopped.
sub one_stopped
{
	ok($node->poll_query_until('postgres', q(SELECT count(*) = 1 FROM pg_stat_activity
		WHERE backend_type = 'grnnd fit' AND wait_event = 'advisory')), 'a worker is at work');
}

# Lets them go on as soon as $waiting waits for a lock, or has ended; returns what that said.
sub finish_beside
{
	my ($gate, $waiting) = @_;
	my $locks = q(SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype <> 'advisory');
	while ($waiting->{run}->pumpable && number($node, $locks) == 0)
	{
		$waiting->{run}->pump_nb;
		sleep 0.1;
	}
	$node->safe_psql('postgres', q(SELECT pg_terminate_backend(pid) FROM pg_locks
		WHERE locktype = 'advisory' AND mode = 'ExclusiveLock'));
	$gate->{run}->finish;
	return psql_finish($waiting);
}

# time limits are for users' statements, and one index that must wait stops no other
my $limit = $node->pg_version >= 17 ? 'transaction_timeout' : 'lock_timeout';
$ENV{PGOPTIONS} = "-c $limit=0";
$node->safe_psql('postgres', "ALTER DATABASE postgres SET $limit = '100ms'");
my $stop = stop_workers('postgres');
$node->safe_psql('postgres', "BEGIN;
	CREATE TABLE f (id serial, v vector(32));
	CREATE INDEX f_idx ON f USING grnnd (v);
	INSERT INTO f $load;
	CREATE TABLE g (id serial, v vector(32));
	CREATE INDEX g_idx ON g USING grnnd (v);
	INSERT INTO g $load;
	COMMIT");
one_stopped();
sleep 0.2;
is(finish_beside($stop, psql_start($node, 'ANALYZE f;')), '', 'a worker of two indexes gives way at one');
becomes('g_idx', 'used|f|0', 'and fits the other');
is(codes('f_idx'), 'unfitted|t|1', 'the first is left for later');
$node->safe_psql('postgres', "ALTER DATABASE postgres RESET $limit;
	ALTER DATABASE postgres RESET grnnd.test_point");
delete $ENV{PGOPTIONS};

# whoever wants to drop a database
$node->safe_psql('postgres', 'CREATE DATABASE other TEMPLATE postgres');
$stop = stop_workers('other');
$node->safe_psql('other', "CREATE TABLE h (id serial, v vector(32));
	CREATE INDEX h_idx ON h USING grnnd (v);
	INSERT INTO h $load");
one_stopped();
is(finish_beside($stop, psql_start($node, 'DROP DATABASE other;')), '',
	'a worker gives way to who drops its database');

# ---- one worker in a database, two in a server ----

sub workers { return number($node, q(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'grnnd fit')) }

sub no_worker_is_left
{
	ok($node->poll_query_until('postgres', q(SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'grnnd fit')), $_[0]);
}

# a statement that makes 40 indexes due
no_worker_is_left('workers end');
$log = -s $node->logfile;
$stop = stop_workers('postgres');
$node->safe_psql('postgres', 'CREATE TABLE p (id int, v vector(16)) PARTITION BY LIST (id);
	CREATE INDEX p_v ON p USING grnnd (v)');
$node->safe_psql('postgres', join '', map { "CREATE TABLE p$_ PARTITION OF p FOR VALUES IN ($_);\n" } 1 .. 40);
$node->safe_psql('postgres', 'INSERT INTO p SELECT id % 40 + 1, v FROM points(1, 40 * 100, 16, 1)');
one_stopped();
is(workers(), 1, 'one worker for 40 partitions');
is(logged($log, 'no background worker was free'), 0, 'no other was asked for');
is(finish_beside($stop, psql_start($node, 'ANALYZE p7;')), '', 'an ANALYZE of a partition');
$node->safe_psql('postgres', 'ALTER DATABASE postgres RESET grnnd.test_point');
ok($node->poll_query_until('postgres', q(SELECT count(*) = 0 FROM generate_series(1, 40) i,
	grnnd_codes(format('p%s', i)::regclass) WHERE due AND next_attempt IS NULL)), 'it goes on with the next one');
no_worker_is_left('until nothing is due');
is(logged($log, 'ERROR|FATAL|PANIC') - logged($log, 'FATAL:  terminating connection'), 0, 'and complains of nothing');

$node->safe_psql('postgres', "CREATE DATABASE d$_ TEMPLATE postgres") for 1 .. 3;
my $due = "CREATE TABLE i (id serial, v vector(32)); CREATE INDEX i_idx ON i USING grnnd (v); INSERT INTO i $load";
my @stop = map { stop_workers("d$_") } 1, 2;
for my $n (1, 2)
{
	$node->safe_psql("d$n", $due);
	ok($node->poll_query_until('postgres', qq(SELECT count(*) = $n FROM pg_stat_activity
		WHERE backend_type = 'grnnd fit' AND wait_event = 'advisory')), "a worker of database $n");
}
$node->safe_psql('d3', $due);
is($node->safe_psql('d3', q(SELECT state, due, failed_attempts FROM grnnd_codes('i'))), 'unfitted|t|0', 'none of a third');
is(workers(), 2, 'two in all');
$node->safe_psql('postgres', q(SELECT pg_terminate_backend(pid) FROM pg_locks
	WHERE locktype = 'advisory' AND mode = 'ExclusiveLock'));
$_->{run}->finish for @stop;
no_worker_is_left('these end');
$node->safe_psql('d3', 'INSERT INTO i (v) SELECT v FROM points(2001, 2001, 32, 1)');
ok($node->poll_query_until('d3', q(SELECT state = 'used' FROM grnnd_codes('i'))), 'then the third database has one');
no_worker_is_left('which ends');

# ---- a limit of statements is none of workers ----

$node->safe_psql('postgres', "ALTER DATABASE postgres SET statement_timeout = '1ms'");
$ENV{PGOPTIONS} = '-c statement_timeout=0';
$node->safe_psql('postgres', "CREATE TABLE sl (id serial, v vector(32)); CREATE INDEX sl_v ON sl USING grnnd (v); INSERT INTO sl $load");
ok($node->poll_query_until('postgres', q(SELECT state = 'used' FROM grnnd_codes('sl_v'))), 'a fit may take longer than a statement');
no_worker_is_left('and the worker ends');
$node->safe_psql('postgres', 'ALTER DATABASE postgres RESET statement_timeout');
delete $ENV{PGOPTIONS};

# ---- a damaged index stops no other ----

my $file = $node->data_dir . '/' . (split /\n/, $node->safe_psql('d3', "SET grnnd.background_fit = off;
	CREATE TABLE broken (id serial, v vector(32)); CREATE INDEX broken_v ON broken USING grnnd (v); INSERT INTO broken $load;
	SELECT pg_relation_filepath('broken_v')"))[-1];
$node->stop;
open my $fh, '+<', $file or die "$file: $!";
print $fh "\xff" x 24;
close $fh;
$node->start;
$node->safe_psql('d3', "BEGIN; CREATE TABLE sound (id serial, v vector(32)); CREATE INDEX sound_v ON sound USING grnnd (v);
	INSERT INTO sound $load; COMMIT");
ok($node->poll_query_until('d3', q(SELECT state = 'used' FROM grnnd_codes('sound_v'))), 'another index is fitted');

$node->stop;
done_testing();
