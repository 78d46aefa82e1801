# Dead nodes cost searches little: nearly all rows are deleted, and the vacuum is canceled, or
# the server killed, at one step or another, or there was no vacuum at all.  Once vacuum has
# marked what is dead, a query reads at most 10 times the pages that it read before the rows were
# deleted.  Before that it looks dead rows up, and reads at most 10 times the pages if every tenth row
# lives; if hardly any does, about the index twice, and a page for each row that vacuum has not seen.
# At each step an insert reads at most 4 times as many, neither takes memory for the dead,
# every live row is found, and the next vacuum reads eight pages a node at most and, for each live
# row, what an insert reads.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $lock = 6779502;    # src/am/test_point.c
my $rows = $soak ? 150_000 : 20_000;
my $few = $rows / 4;      # without codes
my $dim = $soak ? 128 : 32;

my $node = PostgreSQL::Test::Cluster->new('dead');
$node->init;
$node->append_conf('postgresql.conf', q(
shared_buffers = 64MB
autovacuum = off
grnnd.background_fit = off
fsync = off
grnnd.build_device = cpu
jit = off
));
$node->start;
setup_grnnd($node, $dim, 40);
$node->safe_psql('postgres', "CREATE TABLE source AS SELECT * FROM points(1, $rows, $dim, 1);
	CREATE TABLE extra AS SELECT * FROM points(2000001, 2000400, $dim, 1);
	CREATE TABLE near AS SELECT id, v FROM source WHERE id % 1000 = 7;");

sub buffers
{
	my ($sql) = @_;
	my $plan = decode_json($node->safe_psql('postgres', qq(
		SET enable_seqscan = off; SET enable_sort = off;
		EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) $sql)))->[0]{Plan};
	return $plan->{'Shared Hit Blocks'} + $plan->{'Shared Read Blocks'};
}

# Pages that ten queries read, and ten inserts.
sub query_pages
{
	my ($t) = @_;
	return buffers("SELECT x.id FROM (SELECT v FROM queries ORDER BY id LIMIT 10) q,
		LATERAL (SELECT id FROM $t ORDER BY v <-> q.v LIMIT 10) x");
}

my $extra = 0;
my %searches;    # pages that an insert of each live row would read

sub insert_pages
{
	my ($t) = @_;
	$extra += 10;
	return buffers("INSERT INTO $t SELECT id, v FROM extra WHERE id BETWEEN 2000000 + $extra - 9 AND 2000000 + $extra");
}

# kB by which a session grows at most while it runs a statement.
sub growth
{
	my ($sql) = @_;
	my $psql = $node->background_psql('postgres');
	my $pid = $psql->query('SELECT pg_backend_pid()');
	my $peak = sub {
		my ($kb) = slurp_file("/proc/$pid/status") =~ /^VmHWM:\s+(\d+)/m;
		my ($shared) = slurp_file("/proc/$pid/status") =~ /^RssShmem:\s+(\d+)/m;
		my ($file) = slurp_file("/proc/$pid/status") =~ /^RssFile:\s+(\d+)/m;
		return $kb - $shared - $file;
	};
	$psql->query('SET work_mem = \'1MB\'');
	$psql->query('SELECT count(v <-> (SELECT v FROM queries LIMIT 1)) FROM near');
	my $before = $peak->();
	$psql->query("SET enable_seqscan = off; SET enable_sort = off; $sql");
	my $after = $peak->();
	$psql->quit;
	return $after - $before;
}

# Stops a vacuum of t there, and cancels it.
sub interrupted_vacuum
{
	my ($t, $point, $crash) = @_;
	my $gate = $node->background_psql('postgres');
	$gate->query("SELECT pg_advisory_lock($lock)");
	my $vacuum = psql_start($node, "SET grnnd.test_point = '$point'; VACUUM $t;");
	$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity
		WHERE wait_event = 'advisory' AND query ~ 'VACUUM'") or die "no vacuum at $point";
	if ($crash)
	{
		# what vacuum has done is on disk; without it this is a sweep that was interrupted
		$node->safe_psql('postgres', 'CREATE TABLE flushed (); DROP TABLE flushed');
		crash_server($node);
		$gate->{run}->kill_kill;
		psql_finish($vacuum);
		return;
	}
	$node->safe_psql('postgres', "SELECT pg_cancel_backend(pid) FROM pg_stat_activity
		WHERE wait_event = 'advisory'");
	like(psql_finish($vacuum), qr/canceling/, "$t: vacuum is canceled at $point");
	$gate->quit;
}

sub check_state
{
	my ($t, $when, $query, $insert) = @_;
	my $q = query_pages($t);
	my $size = $node->safe_psql('postgres', "SELECT pg_relation_size('${t}_idx') / 8192");
	my $most = $when =~ /sweep|hardly/ ? 10 * (2.2 * $size + 100 + ($when =~ /:1000/ ? $rows : 0)) : 10 * $query;
	cmp_ok($q, '<=', $most, "$t, $when: a query's pages ($query before)");
	my $q_growth = growth("SELECT count(*) FROM (SELECT id FROM $t ORDER BY v <-> (SELECT v FROM queries LIMIT 1) LIMIT 10) x");
	cmp_ok($q_growth, '<', 3000, "$t, $when: a query's memory");
	my $r = recall($node, $t);
	# where scans returned rows of a search that dead nodes had ended, .62 to .67
	cmp_ok($r, '>=', $t eq 'nearly' ? 0.7 : 0.8, "$t, $when: recall");
	my $i_growth = growth("BEGIN; INSERT INTO $t SELECT id, v FROM extra WHERE id = 2000400; ROLLBACK;");
	cmp_ok($i_growth, '<', 3000, "$t, $when: an insert's memory");
	my $i = insert_pages($t);
	cmp_ok($i, '<=', 4 * $insert, "$t, $when: an insert's pages ($insert before)");
	missing($node, $t, "$t, $when");
	note "$t $when: query $q of $query, insert $i of $insert, growth $q_growth $i_growth, recall $r";
}

# Without a point there is no vacuum; every tenth row is left.  With one 50 rows are, or as many as given.
sub run_table
{
	my ($t, $with, $n, $point, $crash, $left) = @_;
	$left //= $point ? 50 : $n / 10;
	$node->safe_psql('postgres', "CREATE TABLE $t (id int, v vector($dim)); INSERT INTO $t SELECT * FROM source WHERE id <= $n;
		CREATE INDEX ${t}_idx ON $t USING grnnd (v) $with;
		VACUUM ANALYZE $t");
	my $query = query_pages($t);
	my $insert = insert_pages($t);
	$searches{$t} = $left * $insert / 10;
	# a few dead nodes are not marked yet, several times as many as live ones
	$point =~ s{:last}{':' . ($node->safe_psql('postgres', "SELECT pg_relation_size('${t}_idx') / 8192") - 25)}e;
	$node->safe_psql('postgres', "DELETE FROM $t WHERE id % ($n / $left) <> 0");
	interrupted_vacuum($t, $point, $crash) if $point;
	check_state($t, $left < 40 ? 'hardly any left' : !$point ? 'no vacuum' : $crash ? "crash at $point" : $point, $query, $insert);
}

run_table('swept', '', $rows, 'vacuum-swept', 0);
run_table('connected', '', $rows, 'repair-connected', 1);
run_table('half', '', $rows, 'vacuum-sweep:1000', 0);
run_table('nearly', '', $rows, 'vacuum-sweep:last', 0);
run_table('plain', 'WITH (codes = off)', $few, 'vacuum-swept', 0);
# a search that wants more rows than there are: it visits no more dead nodes than the index has pages, and reads all
run_table('hardly', '', $rows, 'vacuum-swept', 0, 20);
run_table('hardly_plain', 'WITH (codes = off)', $few, 'vacuum-swept', 0, 20);
run_table('deleted', '', $rows, '', 0);
run_table('deleted_plain', 'WITH (codes = off)', $few, '', 0);

# what is left is not much for vacuum
for my $t (qw(swept connected half nearly plain hardly hardly_plain deleted deleted_plain))
{
	my $before = $node->safe_psql('postgres', "SELECT sum(idx_blks_hit + idx_blks_read) FROM pg_statio_user_indexes WHERE relname = '$t'");
	my $n = $t =~ /plain/ ? $few : $rows;
	$node->safe_psql('postgres', "VACUUM $t; SELECT pg_stat_force_next_flush()");
	$node->safe_psql('postgres', 'SELECT 1');
	my $read = $node->safe_psql('postgres', "SELECT sum(idx_blks_hit + idx_blks_read) FROM pg_statio_user_indexes WHERE relname = '$t'") - $before;
	cmp_ok($read, '<=', 8 * $n + $searches{$t}, "$t: pages that vacuum reads for $n nodes");
	note "$t: vacuum read $read of " . (8 * $n + $searches{$t});
	sound($node, "${t}_idx", $t);
	missing($node, $t, "$t vacuumed");
	cmp_ok(recall($node, $t), '>=', 0.95, "$t: recall after vacuum");
}

# a build gives short lists to the rows of a line: few dead rows are no reason to search for all of them
$node->safe_psql('postgres', q(
	CREATE TABLE line AS SELECT i AS id, ARRAY[i]::vector(1) AS v FROM generate_series(1, 4000) i;
	CREATE INDEX line_idx ON line USING grnnd (v);
	DELETE FROM line WHERE id = 2000;
	VACUUM line; SELECT pg_stat_force_next_flush()));
my $read = number($node, "SELECT sum(idx_blks_hit + idx_blks_read) FROM pg_statio_user_indexes WHERE relname = 'line'");
cmp_ok($read, '<=', 8 * 4000, 'pages that vacuum reads for one dead row on a line');
sound($node, 'line_idx', 'a line');

done_testing();
