# Recovery that ends in the middle: a fixed series of writes is replayed record by record, and
# after each record every index is sound.  Where recovery ends at one record or another, the
# indexes also find every row and can be written on.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $stops = $soak ? 60 : 20;

my $node = PostgreSQL::Test::Cluster->new('recovery');
$node->init(extra => ['--wal-segsize=1']);
$node->append_conf('postgresql.conf', q(
wal_level = replica
max_wal_size = 1GB
wal_keep_size = 1GB
autovacuum = off
grnnd.background_fit = off
grnnd.build_device = cpu
grnnd.build_threads = 1
));
$node->start;
setup_grnnd($node, 64, 20);
$node->safe_psql('postgres', q(
	CREATE TABLE source AS SELECT * FROM points(1, 1000, 64, 1);
	CREATE TABLE t (id serial PRIMARY KEY, n int DEFAULT 0, v vector(64));
	INSERT INTO t (v) SELECT v FROM source WHERE id <= 300;
	CREATE INDEX t_idx ON t USING grnnd (v);
	CREATE INDEX t_n ON t (n);
	CREATE TABLE same (id serial, v vector(64));
	CREATE INDEX same_idx ON same USING grnnd (v);
	CREATE TABLE wide (id serial, v vector(4000));
	CREATE INDEX wide_idx ON wide USING grnnd (v);
	CREATE TABLE grown (id serial, v vector(16));
	CREATE INDEX grown_idx ON grown USING grnnd (v);
	CREATE TABLE plain (id serial, v vector(64));
	INSERT INTO plain (v) SELECT v FROM source WHERE id <= 50;
	CREATE INDEX plain_idx ON plain USING grnnd (v) WITH (codes = off)));
my @indexes = qw(t_idx same_idx wide_idx plain_idx grown_idx);
my $grown = $node->safe_psql('postgres', "SELECT pg_relation_filepath('grown_idx')") =~ s{.*/}{}r;

# ---- the writes, from a copy of the stopped server on ----

# A vacuum that cuts the table's end off locks it in recovery, where the check below would wait for a
# record that comes after the check.
$node->stop;
my $before = PostgreSQL::Test::Utils::tempdir . '/before';
system('cp', '-a', $node->data_dir, $before) == 0 or die "cannot copy the data directory";
$node->start;
my $from = $node->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
my $wide = q(SELECT array_agg(unit(%s, j, 7) ORDER BY j)::vector FROM generate_series(1, 4000) j);
$node->safe_psql('postgres', join ";\n", (
	(map { "INSERT INTO t (v) SELECT v FROM source WHERE id = 300 + $_" } 1 .. 40),
	q(INSERT INTO same (v) SELECT v FROM source, generate_series(1, 40) WHERE id <= 3),
	(map { 'INSERT INTO wide (v) ' . sprintf($wide, $_) } 1 .. 8),
	q(INSERT INTO plain (v) SELECT v FROM source WHERE id BETWEEN 51 AND 60),
	q(UPDATE t SET n = 1 WHERE id % 10 = 0),
	q(UPDATE t SET v = source.v FROM source WHERE t.id % 50 = 1 AND source.id = 500 + t.id),
	q(BEGIN), q(INSERT INTO t (v) SELECT v FROM source WHERE id BETWEEN 401 AND 410), q(ROLLBACK),
	q(DELETE FROM t WHERE id % 3 > 0), q(VACUUM (TRUNCATE false) t),
	q(DELETE FROM same WHERE id % 7 > 0), q(VACUUM (TRUNCATE false) same),
	q(DELETE FROM wide WHERE id <= 4), q(VACUUM (TRUNCATE false) wide),
	q(DELETE FROM plain WHERE id % 3 > 0), q(VACUUM (TRUNCATE false) plain),
	(map { "INSERT INTO t (v) SELECT v FROM source WHERE id = 410 + $_" } 1 .. 30),
	q(INSERT INTO same (v) SELECT v FROM source, generate_series(1, 40) WHERE id = 2),
	(map { 'INSERT INTO wide (v) ' . sprintf($wide, $_) } 21 .. 23),
	# past the number of rows at which an empty index gets its codes
	q(INSERT INTO grown (v) SELECT v FROM points(1, 100, 16, 1)),
	q(VACUUM (TRUNCATE false) grown), q(DELETE FROM grown WHERE id % 2 = 0), q(VACUUM (TRUNCATE false) grown),
	q(DELETE FROM t), q(INSERT INTO t (v) SELECT v FROM source WHERE id > 900), q(VACUUM (TRUNCATE false) t)));
my $to = $node->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
$node->stop;
my $archive = $node->data_dir . '/pg_wal';
my ($records, $said) = run_command([ 'pg_waldump', '-p', $archive, '-s', $from, '-e', $to ]);
my @ends = $records =~ m{^rmgr: .* lsn: ([0-9A-F]+/[0-9A-F]+), }mg;
my @grown_ends = $records =~ m{^rmgr: Generic .* lsn: ([0-9A-F]+/[0-9A-F]+), .*/$grown }mg;
my $generic = () = $records =~ /^rmgr: Generic /mg;
cmp_ok($generic, '>', 500, scalar(@ends) . " records, $generic of them the indexes'") or diag($said);

# ---- recovery that waits after each of them: a standby whose archive grows record by record ----

use constant SEGMENT => 1024 * 1024;

sub position { my ($high, $low) = $_[0] =~ m{(.*)/(.*)}; return hex($high) * 2**32 + hex($low); }
sub segment { return sprintf '%08X%08X%08X', 1, int($_[0] / 2**32), $_[0] % 2**32 / SEGMENT; }

my $fed = PostgreSQL::Test::Utils::tempdir . '/fed';
mkdir $fed;
my $fed_to = position($from) - position($from) % SEGMENT;

# Puts into that archive what was written before this place, and zeros behind it.
sub feed
{
	my ($to) = @_;
	while ($fed_to < $to)
	{
		my $begin = $fed_to - $fed_to % SEGMENT;
		my $end = $to < $begin + SEGMENT ? $to : $begin + SEGMENT;
		my $name = segment($begin);
		my $bytes = substr(slurp_file("$archive/$name"), 0, $end - $begin);
		open my $f, '>:raw', "$fed/new" or die;
		print $f $bytes . "\0" x (SEGMENT - length $bytes);
		close $f;
		rename "$fed/new", "$fed/$name" or die;
		$fed_to = $end;
	}
}

my $steps = $soak ? @ends - 1 : 120;
my $first = $soak ? 0 : int rand(@ends - $steps);
my $stepped = PostgreSQL::Test::Cluster->new('stepped');
mkdir $stepped->basedir;
system('cp', '-a', $before, $stepped->data_dir) == 0 or die "cannot copy the data directory";
$stepped->append_conf('postgresql.conf', 'port = ' . $stepped->port . qq(
restore_command = 'cp "$fed/%f" "%p"'
wal_retrieve_retry_interval = 4ms
log_min_messages = warning
log_statement = none
));
$stepped->append_conf('standby.signal', '');
feed(position($ends[$first]));
$stepped->start;
# A query that waits below holds a snapshot, for which the replay of a vacuum would wait in turn: the
# vacuums before the first step have to be over.
$stepped->poll_query_until('postgres', "SELECT pg_last_wal_replay_lsn() > '$ends[$first - 1]'") or die 'no replay' if $first > 0;
my $checks = join ' UNION ALL ', map { "SELECT '$_', * FROM grnnd_check('$_', true)" } @indexes;
my $sound = 0;
for my $i ($first .. $first + $steps - 1)
{
	feed(position($ends[ $i + 1 ]));
	my $said = number($stepped, qq(
		DO 'BEGIN
			FOR i IN 1 .. 20000 LOOP
				EXIT WHEN pg_last_wal_replay_lsn() > ''$ends[$i]'';
				PERFORM pg_sleep(0.001);
			END LOOP;
			IF pg_last_wal_replay_lsn() <= ''$ends[$i]'' OR pg_last_wal_replay_lsn() > ''$ends[$i + 1]'' THEN
				RAISE ''replayed to %'', pg_last_wal_replay_lsn();
			END IF;
		END';
		$checks));
	$sound++ if $said eq '';
	is($said, '', "after the record at $ends[$i]: sound") if $said ne '';
}
is($sound, $steps, "a standby is sound after each of $steps records");
$stepped->stop('immediate');
unlike(slurp_file($stepped->logfile), qr/PANIC|TRAP|process .* was terminated by signal/, 'the standby never went down');

# ---- recovery to some of them ----

# One of each stretch, so that every kind of write is met.
sub choose
{
	my ($n, @from) = @_;
	return map { $from[ int(@from * ($_ + rand()) / $n) ] } 0 .. $n - 1;
}
my @chosen = (choose($stops, @ends), choose($stops / 4, @grown_ends));

my $end = PostgreSQL::Test::Cluster->new('recovered');
mkdir $end->basedir;
for my $lsn (@chosen)
{
	system('rm', '-rf', $end->data_dir);
	system('cp', '-a', $before, $end->data_dir) == 0 or die "cannot copy the data directory";
	$end->append_conf('postgresql.conf', 'port = ' . $end->port . qq(
restore_command = 'cp "$archive/%f" "%p"'
recovery_target_lsn = '$lsn'
recovery_target_inclusive = on
recovery_target_action = promote
recovery_target_timeline = current
));
	$end->append_conf('recovery.signal', '');
	$end->start;
	$end->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die "no promotion";
	my $check = join ";\n", map { "SELECT '$_', * FROM grnnd_check('$_', true) LIMIT 5" } @indexes;
	my $rows = join ";\n", "SELECT NOT EXISTS (SELECT FROM t) OR recall('t', 'v', '<->', 'queries') >= 0.95",
	  map { "SELECT missing('$_', 'v', '<->', (SELECT v FROM queries LIMIT 1))" } qw(t same plain);
	$rows .= ";\nSELECT missing('grown', 'v', '<->', (SELECT v FROM points(0, 0, 16, 1)))";
	$rows .= ";\nSELECT missing('wide', 'v', '<->', (" . sprintf($wide, 100) . '))';
	is(number($end, "$check;\n$rows"), "t\n0\n0\n0\n0\n0", "end at $lsn: sound, and all is found");
	is(number($end, qq(
		INSERT INTO t (v) SELECT v FROM source WHERE id BETWEEN 601 AND 640;
		INSERT INTO same (v) SELECT v FROM source, generate_series(1, 20) WHERE id <= 4;
		INSERT INTO wide (v) SELECT v FROM wide;
		INSERT INTO plain (v) SELECT v FROM source WHERE id BETWEEN 601 AND 610;
		INSERT INTO grown (v) SELECT v FROM points(101, 200, 16, 1);
		DELETE FROM t WHERE id % 2 = 0;
		VACUUM t, same, wide, plain, grown;
		$check;\n$rows)), "t\n0\n0\n0\n0\n0", "end at $lsn: written on, and vacuumed");
	$end->stop('immediate');
}
unlike(slurp_file($end->logfile), qr/PANIC|TRAP|terminated by signal/, 'the server never went down');

done_testing();
