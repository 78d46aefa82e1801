# CREATE INDEX against builders that misbehave: each fault is one clear error of
# one statement, leaves no process and no index, and the next build works.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $dir = PostgreSQL::Test::Utils::tempdir;
compile_standin("$dir/bad", "$FindBin::Bin/build_bad.c -Wl,--wrap=grn_form_pages", 1);
chmod 0755, $dir;

my $limit = $PostgreSQL::Test::Utils::timeout_default;	# seconds
my $node = PostgreSQL::Test::Cluster->new('faults');
$node->init;
$node->append_conf('postgresql.conf', "autovacuum = off\ngrnnd.build_timeout = 1min\nmax_prepared_transactions = 2\ngrnnd.build_in_backend = off\n");
$node->start;
$node->safe_psql('postgres', q(
	CREATE EXTENSION grnnd_tools CASCADE;
	CREATE TABLE t (id int, e vector(8));
	INSERT INTO t SELECT i, ARRAY[i, i % 7, i % 11, 1, 2, 3, 4, 5]::vector
	FROM generate_series(1, 1000) i));

# fault => what the error must look like
my @faults = (
	before_hello  => qr/58000: the index builder process ended unexpectedly.*exited with status 5/s,
	no_hello      => qr/XX000: the index builder process sent an invalid message: no greeting/,
	version       => qr/55000: the index builder uses version \d+ of the protocol/,
	exit          => qr/58000: the index builder process ended unexpectedly.*exited with status 7/s,
	segv          => qr/58000: the index builder process ended unexpectedly.*signal 11/s,
	close         => qr/58000: the index builder process ended unexpectedly.*closed its connection/s,
	silent        => qr/58000: the index builder process does not respond.*sent nothing for 1000 ms/s,
	short_message => qr/XX000: .*invalid message: wrong size/,
	unknown_type  => qr/XX000: .*invalid message: unknown type/,
	unknown_phase => qr/XX000: .*invalid message: unknown phase/,
	need_vectors  => qr/XX000: .*invalid message: memory wanted for an unknown purpose/,
	need_unknown  => qr/XX000: .*invalid message: memory wanted for an unknown purpose/,
	need_too_much => qr/54000: an index build needs 9223372036854775807 bytes for its workspace/,
	failed        => qr/53200: no memory for the test.*HINT:  Buy some\./s,
	failed_success => qr/XX000: success is no error/,
	failed_nonsense => qr/XX000: 100%s of nonsense.*HINT:  %d/s,
	id            => qr/XX000: .*result is invalid: a node has no record/,
	self          => qr/XX000: .*result is invalid: node is its own neighbor/,
	count         => qr/XX000: .*result is invalid: a node has no record/,
	record_state  => qr/XX000: .*result is invalid: a node has no record/,
	record_count  => qr/XX000: .*result is invalid: too many neighbors in a record/,
	record_id     => qr/XX000: .*result is invalid: neighbor id leads out of the index/,
	record_error  => qr/XX000: .*result is invalid: rounding error of a record is not a number/,
	need_work     => qr/XX000: .*invalid message: memory wanted for an unknown purpose/,
	listed_much   => qr/54000: a grnnd index cannot hold more than \d+ records/,
	listed_twice  => qr/XX000: .*invalid message: out of turn/,
	not_listed    => qr/XX000: .*invalid message: out of turn/,
	no_pages      => qr/58000: the index builder process ended unexpectedly.*exited with status 8/s,
	row_missing   => qr/XX000: .*result is invalid: not every row belongs to a node/,
	row_twice     => qr/XX000: .*result is invalid: a row belongs to two nodes/,
	row_beyond    => qr/XX000: .*result is invalid: a node's row does not exist/,
	row_order     => qr/XX000: .*result is invalid: a node has no row/,
	entry         => qr/XX000: .*result is invalid: an entry point is not a node/,
	no_entry      => qr/XX000: .*result is invalid: impossible number of entry points/,
	entries       => qr/XX000: .*result is invalid: impossible number of entry points/,
	no_nodes      => qr/XX000: .*result is invalid: impossible number of nodes/,
	nodes         => qr/XX000: .*result is invalid: impossible number of nodes/,
	degree        => qr/XX000: .*result is invalid: another degree/,
	format        => qr/XX000: .*result is invalid: unknown vector format/,
	code_dims     => qr/XX000: .*result is invalid: impossible shape of codes/,
	no_result     => qr/XX000: .*result is invalid: an array lies outside its segment/,
	moved         => qr/XX000: .*result is invalid: an array lies outside its segment/,
	own_items     => qr/XX000: .*result is invalid: an array lies outside its segment/,
	own_error     => qr/XX000: .*result is invalid: rounding error of a record is not a number/,
	moved_row     => qr/XX000: .*result is invalid: a node has no record/,
	centered       => qr/XX000: .*result is invalid: a center of vectors that have none/,
	center        => qr/XX000: .*result is invalid: a center is not finite/,
	norm          => qr/XX000: .*result is invalid: a scale is not a positive number/,
	codec         => qr/XX000: .*result is invalid: a codec is not finite/,
	step          => qr/XX000: .*result is invalid: a step of codes is not a positive number/);

# Processes other than PostgreSQL's own that run in the data directory.
sub strangers
{
	my $data = $node->data_dir;
	my @found;
	for my $proc (glob '/proc/[0-9]*')
	{
		my $cwd = readlink("$proc/cwd") // next;
		next unless $cwd eq $data;
		my $exe = readlink("$proc/exe") // next;	# ended meanwhile
		push @found, $exe unless $exe =~ m{/postgres$};
	}
	return join ' ', @found;
}

# Runs CREATE INDEX with a fault; returns (exit code, stderr, open descriptors
# before and after).
sub build
{
	my ($fault) = @_;
	my $script = "$dir/$fault";
	open my $out, '>', $script or die;
	print $out "#!/bin/sh\nexec $dir/bad $fault\n";
	close $out;
	chmod 0755, $script;
	my ($stdout, $stderr);
	# what a build opens, before and after it, in the same session
	my $open = q{\! ls -l /proc/$BACKEND/fd | grep -c 'memfd:\|socket:\|pgsql_tmp'};
	my $codes = $fault =~ /^(codec|step)$/ ? 1 : 0;
	# (a busy machine lets a builder wait for a second and more)
	my $patience = $fault =~ /^(silent|random)/ ? '1s' : '1min';
	my $code = $node->psql('postgres', qq(
		\\set VERBOSITY verbose
		SELECT pg_backend_pid() AS pid \\gset
		\\setenv BACKEND :pid
		SET grnnd.builder_path = '$script';
		SET grnnd.build_timeout = '$patience';
		$open
		CREATE INDEX t_e ON t USING grnnd (e vector_l2_ops) WITH (codes = $codes);
		$open),
		stdout => \$stdout, stderr => \$stderr, on_error_stop => 0, timeout => $limit);
	return ($code, $stderr, $stdout);
}

my $log_size = -s $node->logfile;
while (my ($fault, $expected) = splice @faults, 0, 2)
{
	my ($code, $stderr, $stdout) = build($fault);
	like($stderr, $expected, "$fault: error");
	like($stdout, qr/^(\d+)\n\1$/, "$fault: no descriptor left open");
	is(strangers(), '', "$fault: no process left");
	is($node->safe_psql('postgres', "SELECT count(*) FROM pg_class WHERE relname = 't_e'"),
		'0', "$fault: no index");
}

for my $fault ('none', 'truncate', 'notice', 'late_device')
{
	my ($code, $stderr, $stdout) = build($fault);
	if ($fault eq 'notice')
	{
		like($stderr, qr/NOTICE:  00000: a notice of 100%s/, 'notice: passed on');
	}
	else
	{
		is($stderr, '', "$fault: accepted");
	}
	is(strangers(), '', "$fault: no process left");
	is($node->safe_psql('postgres', q(
		SET enable_seqscan = off; SET grnnd.ef_search = 1000;
		SELECT string_agg(id::text, ' ') FROM
		(SELECT id FROM t ORDER BY e <-> '[1000,6,10,1,2,3,4,5]' LIMIT 3) s)),
		$node->safe_psql('postgres', q(
		SET enable_indexscan = off;
		SELECT string_agg(id::text, ' ') FROM
		(SELECT id FROM t ORDER BY e <-> '[1000,6,10,1,2,3,4,5]' LIMIT 3) s)),
		"$fault: the index finds what a scan of the table finds");
	sound($node, 't_e', $fault);
	$node->safe_psql('postgres', 'DROP INDEX t_e');
}

# ---- row graphs ----

for my $case (
	[ 'none', qr/^1000$/ ],
	[ 'near_id', qr/XX000: .*result is invalid: a neighbor is not a node/ ],
	[ 'near_start', qr/XX000: .*result is invalid: a list lies outside its array/ ],
	[ 'near_count', qr/XX000: .*result is invalid: a list lies outside its array/ ],
	[ 'near_end', qr/XX000: .*result is invalid: a list lies outside its array/ ],
	[ 'near_items', qr/XX000: .*result is invalid: an array lies outside its segment/ ],
	[ 'row_twice', qr/XX000: .*result is invalid: a row belongs to two nodes/ ],
	[ 'nodes', qr/XX000: .*result is invalid: impossible number of nodes/ ],
	[ 'segv', qr/58000: the index builder process ended unexpectedly.*signal 11/s ])
{
	my ($fault, $expected) = @$case;
	my ($stdout, $stderr);
	append_to_file("$dir/graph_$fault", "#!/bin/sh\nexec $dir/bad $fault\n");
	chmod 0755, "$dir/graph_$fault";
	$node->psql('postgres', qq(
		\\set VERBOSITY verbose
		SET grnnd.builder_path = '$dir/graph_$fault';
		SELECT count(*) FROM grnnd_graph('t', 'e', 10);),
		stdout => \$stdout, stderr => \$stderr, on_error_stop => 0, timeout => $limit);
	like("$stdout$stderr", $expected, "row graph, $fault");
	is(strangers(), '', "row graph, $fault: no process left");
}

# ---- messages and results at random: an error, or an index that harms nobody ----

my %said;
for my $i (1 .. ($soak ? 1000 : 60))
{
	my $fault = 'random' . (1000 * $seed + $i);
	my ($code, $stderr, $stdout) = build($fault);
	my ($state) = $stderr =~ /ERROR:  (\w{5}):/;
	$said{$state // 'accepted'}++;
	unlike($stderr, qr/server closed|terminating connection/, "$fault: the session goes on");
	like($stdout, qr/^(\d+)\n\1$/, "$fault: no descriptor left open");
	if (!defined $state)
	{
		# what cannot be told from a graph of other rows is found by those who look
		my $found = $node->safe_psql('postgres', q(SET enable_seqscan = off; SET grnnd.ef_search = 1000;
			SELECT count(*) FROM (SELECT id FROM t ORDER BY e <-> '[1000,6,10,1,2,3,4,5]' LIMIT 1000) s));
		my $wrong = $node->safe_psql('postgres', "SELECT count(*) FROM grnnd_check('t_e', true)");
		ok($found == 1000 || $wrong > 0, "$fault: grnnd_check() sees what searches miss ($found rows)");
		$node->safe_psql('postgres', 'DROP INDEX t_e');
	}
}
note join(', ', map { "$_: $said{$_}" } sort keys %said);
cmp_ok($said{XX000} // 0, '>', 0, 'some of them are refused');
cmp_ok($said{accepted} // 0, '>', 0, 'some are accepted');
is(strangers(), '', 'random: no process left');

# ---- a statement that ends in each phase: nothing is left (cancel.pl measures how soon) ----

$node->safe_psql('postgres', q(
	CREATE TABLE wide (e vector(500));
	INSERT INTO wide SELECT array_fill(i, ARRAY[500])::vector FROM generate_series(1, 20000) i;
	CREATE FUNCTION slow(vector) RETURNS vector LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
	AS 'BEGIN PERFORM pg_sleep(0.002); RETURN $1; END'));

# Waits for the phase and then does what is to be done, in PL/pgSQL with the backend's pid in p;
# returns that.
sub act
{
	my ($phase, $act) = @_;
	return $node->safe_psql('postgres', qq(
		CREATE TEMP TABLE met (pid int);
		DO 'DECLARE p int;
		BEGIN
			FOR i IN 1 .. 100000 LOOP
				PERFORM pg_stat_clear_snapshot();
				SELECT pid INTO p FROM pg_stat_progress_create_index WHERE phase = ''$phase'';
				IF FOUND THEN
					$act;
					INSERT INTO met VALUES (p);
					RETURN;
				END IF;
				PERFORM pg_sleep(0.001);
			END LOOP;
			RAISE ''phase $phase was not met'';
		END';
		SELECT pid FROM met));
}

# (A busy machine may not look on while a phase lasts, so the build is repeated until it is met.)
for my $case (
	[ 'building index: collecting vectors', 'none', 't ((slow(e)::vector(8)))' ],
	[ 'building index: collecting vectors', 'waits', 't (e)' ],
	[ 'building index: writing pages', 'none', 'wide (e)' ])
{
	my ($phase, $fault, $what) = @$case;
	my $name = $phase =~ s/.*: //r . ($fault eq 'waits' ? ', waiting for the device' : '');
	open my $out, '>', "$dir/$fault" or die;
	print $out "#!/bin/sh\nexec $dir/bad $fault\n";
	close $out;
	chmod 0755, "$dir/$fault";
	for my $how ('cancel', 'terminate', 'lost client')
	{
		my ($stdout, $stderr) = ('', '');
		my $psql = IPC::Run::start(
			[ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', "SET grnnd.builder_path = '$dir/$fault'",
				'-c', 'SET min_parallel_table_scan_size = 0', '-c', "SET client_connection_check_interval = '10ms'",
				'-c', "DO 'BEGIN FOR i IN 1 .. 1000 LOOP CREATE INDEX t_e ON " . ($what =~ s/ / USING grnnd /r)
				  . " WITH (codes = off); DROP INDEX t_e; END LOOP; END'" ],
			'<', \undef, '>', \$stdout, '2>', \$stderr, IPC::Run::timeout($limit));
		# by the server: from here the phase may be over
		my $client = $psql->{KIDS}[0]{PID};
		my $pid = act($phase, $how eq 'lost client'
			? "COPY (SELECT 1) TO PROGRAM ''cat >/dev/null; kill -9 $client''" : "PERFORM pg_${how}_backend(p)");
		$psql->kill_kill if $how eq 'lost client';
		my $ended = $node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid" .
			($how eq 'cancel' ? " AND query LIKE 'DO%' AND state = 'active'" : ''));
		ok($ended, "$name, $how: over");
		eval { $psql->finish } if $how ne 'lost client';
		like($stderr, $how eq 'cancel' ? qr/canceling statement due to user request/
			: qr/terminating connection due to administrator command/, "$name, $how: error") if $how ne 'lost client';
		ok($node->poll_query_until('postgres', q(SELECT count(*) = 0 FROM pg_stat_activity
			WHERE backend_type = 'parallel worker')), "$name, $how: no worker left");
		is(strangers(), '', "$name, $how: no builder left");
		is($node->safe_psql('postgres', q(SELECT (SELECT count(*) FROM pg_class WHERE relname = 't_e') +
			(SELECT count(*) FROM pg_ls_tmpdir()))), '0', "$name, $how: no index, no file");
	}
}

# ---- a builder that ends while only a worker still waits for pages ----

{
	open my $out, '>', "$dir/worker_pages" or die;
	print $out "#!/bin/sh\nexec $dir/bad worker_pages\n";
	close $out;
	chmod 0755, "$dir/worker_pages";
	my ($stdout, $stderr);
	# (a thread has two slots for each of two processes)
	$node->psql('postgres', qq(SET grnnd.builder_path = '$dir/worker_pages'; SET grnnd.build_threads = 1;
		SET max_parallel_maintenance_workers = 1; SET statement_timeout = '1min';
		CREATE INDEX wide_e ON wide USING grnnd (e) WITH (codes = off)),
		stdout => \$stdout, stderr => \$stderr, on_error_stop => 0, timeout => $limit);
	like($stderr, qr/the index builder process ended unexpectedly.*exited with status 8/s, 'worker_pages: error');
	is(strangers(), '', 'worker_pages: no process left');
}

# ---- a pause of the whole machine is no silence of the builder's ----

{
	open my $out, '>', "$dir/pauses" or die;
	print $out "#!/bin/sh\nexec $dir/bad pauses\n";
	close $out;
	chmod 0755, "$dir/pauses";
	my ($stdout, $stderr) = ('', '');
	my $psql = IPC::Run::start(
		[ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', "SET grnnd.builder_path = '$dir/pauses'",
			'-c', "SET grnnd.build_timeout = '5s'",
			'-c', 'CREATE INDEX t_e ON t USING grnnd (e vector_l2_ops) WITH (codes = off)' ],
		'<', \undef, '>', \$stdout, '2>', \$stderr, IPC::Run::timeout($limit));
	my ($backend, $builder);
	for (1 .. 1000)
	{
		$backend = $node->safe_psql('postgres',
			q(SELECT pid FROM pg_stat_activity WHERE query LIKE 'CREATE INDEX%' AND state = 'active'));
		($builder) = $backend && slurp_file("/proc/$backend/task/$backend/children") =~ /(\d+)/;
		last if $builder && readlink("/proc/$builder/exe") eq "$dir/bad";
		sleep 0.01;
	}
	# the builder first and last, so that the backend has heard all when it goes on
	kill 'STOP', $builder;
	sleep 0.2;
	kill 'STOP', $backend;
	sleep 5.3;
	kill 'CONT', $backend;
	sleep 0.2;
	kill 'CONT', $builder;
	eval { $psql->finish };
	is($stderr, '', 'paused for longer than grnnd.build_timeout: no error');
	is($node->safe_psql('postgres', "SELECT count(*) FROM pg_class WHERE relname = 't_e'"), '1', 'paused: index');
	$node->safe_psql('postgres', 'DROP INDEX IF EXISTS t_e');
}

# ---- a builder that stays for the transaction, as one with a GPU does ----

# Runs SQL with such a builder; then the builders' pids, as "! strangers" gave them.
sub parked
{
	my ($fault, $sql) = @_;
	my $script = "$dir/$fault";
	open my $out, '>', $script or die;
	print $out "#!/bin/sh\nexec $dir/bad $fault\n";
	close $out;
	chmod 0755, $script;
	# in one process: hundreds take long on a busy machine
	my $list = "ls -l /proc/[0-9]*/exe 2>/dev/null | sed -n 's,.*/proc/\\([0-9]*\\)/exe -> $dir/bad\$,\\1,p'";
	my $strangers = "\\! $list; echo .";
	# killed ones may take a moment to be gone
	my $gone = "for i in `seq 600`; do [ \"`$list`\" ] || break; sleep 0.1; done";
	my $kill = "\\! kill -9 `$list`; $gone; echo .";
	my $nobody = "\\! $gone; $list; echo .";
	$sql =~ s/STRANGERS/\n$strangers\n/g;
	$sql =~ s/NOBODY/\n$nobody\n/g;
	$sql =~ s/KILL/\n$kill\n/g;
	my ($stdout, $stderr);
	$node->psql('postgres', "\\set VERBOSITY verbose\nSET grnnd.builder_path = '$script';\n" .
		"SET grnnd.build_device = gpu;\n$sql\n", stdout => \$stdout, stderr => \$stderr,
		on_error_stop => 0, timeout => $limit);
	return ($stdout, $stderr);
}

$node->safe_psql('postgres', q(
	CREATE TABLE p (id int, e vector(8)) PARTITION BY LIST (id);
	SELECT format('CREATE TABLE p%s PARTITION OF p FOR VALUES IN (%s)', i, i)
	FROM generate_series(1, 5) i \gexec
	INSERT INTO p SELECT i % 5 + 1, ARRAY[i, i % 7, i % 11, 1, 2, 3, 4, 5]::vector
	FROM generate_series(1, 500) i));
my $create = 'CREATE INDEX p_e ON p USING grnnd (e vector_l2_ops) WITH (codes = off);';
my $one = 'CREATE INDEX t_e ON t USING grnnd (e vector_l2_ops) WITH (codes = off);';

{
	my ($out, $err) = parked('gpu', "BEGIN; $create STRANGERS $one STRANGERS COMMIT; NOBODY" .
		" DROP INDEX p_e, t_e; $create NOBODY DROP INDEX p_e; $one NOBODY DROP INDEX t_e;");
	is($err, '', 'parked: no complaint');
	like($out, qr/^(\d+)\n\.\n\1\n\.\n\.\n\.\n\.$/,
		'parked: one builder for six indexes, gone with the transaction');

	($out, $err) = parked('gpu', "BEGIN; SAVEPOINT s; $create ROLLBACK TO s; STRANGERS" .
		" SET LOCAL grnnd.build_threads = 2; $create STRANGERS ROLLBACK; NOBODY");
	is($err, '', 'parked: no complaint after a savepoint');
	my @pids = $out =~ /^(\d+)\n\.\n(\d+)\n\.\n\.$/;
	ok(@pids == 2 && $pids[0] != $pids[1], 'parked: another for other settings, none after ROLLBACK')
	  or diag($out);

	($out, $err) = parked('gpu', "BEGIN; $create PREPARE TRANSACTION 'x'; NOBODY ROLLBACK PREPARED 'x';");
	like($out, qr/^\.$/, 'parked: none after PREPARE TRANSACTION');

	($out, $err) = parked('gpu', "BEGIN; $create SELECT 1/0; NOBODY ROLLBACK;");
	like($out, qr/^\.$/, 'parked: none after an error');

	($out, $err) = parked('gpu', "BEGIN; $create KILL STRANGERS $one STRANGERS ROLLBACK; NOBODY");
	is($err, '', 'parked: one that has gone is missed by nobody');
	like($out, qr/^\.\n\.\n\d+\n\.\n\.$/, 'parked: and is replaced');

	# the end of a transaction does not wait for it to be gone, the next builder does
	($out, $err) = parked('park_traced', "BEGIN; $create SELECT extract(epoch FROM clock_timestamp()) AS at \\gset
		ROLLBACK; SELECT CASE WHEN extract(epoch FROM clock_timestamp()) - :at < 30 THEN 'soon' ELSE 'late' END;
		KILL $one DROP INDEX t_e; KILL NOBODY");
  SKIP: {
		skip 'processes cannot be traced here', 2 if $err =~ /cannot be traced/;
		is($err, '', 'parked: no complaint where one is slow to go');
		like($out, qr/^soon\n\.\n\.\n\.$/, 'parked: its transaction does not wait for it');
	}

	($out, $err) = parked('park_exit', "BEGIN; $create STRANGERS");
	like($err, qr/58000: the index builder process ended unexpectedly.*exited with status 7/s,
		'park_exit: error');
	is($out, '.', 'park_exit: no process left');
	($out, $err) = parked('park_silent', "SET grnnd.build_timeout = '1s'; BEGIN; $create STRANGERS");
	like($err, qr/58000: the index builder process does not respond.*sent nothing for 1000 ms/s,
		'park_silent: error');
	is($out, '.', 'park_silent: no process left');
}

# ---- grnnd.build_device = auto: by rows, and by those of the transaction together ----

{
	$node->safe_psql('postgres', q(
		TRUNCATE p;
		INSERT INTO p SELECT i % 5 + 1, ARRAY[i, i % 7, i % 11, 1, 2, 3, 4, 5]::vector
		FROM generate_series(1, 10000) i;
		CREATE TABLE large AS SELECT * FROM p));
	my $auto = 'SET grnnd.build_threads = 1; SET grnnd.build_device = auto;';
	my $large = 'CREATE INDEX ON large USING grnnd (e vector_l2_ops) WITH (codes = off);';
	my $chosen = sub { join ' ', $_[0] =~ /NOTICE:  \w+: (\w+)$/mg };
	my ($out, $err) = parked('park_device', "$auto $one DROP INDEX t_e; $large");
	is($chosen->($err), 'cpu gpu', 'auto: the processor for 1,000 rows, a GPU for 10,000');
	($out, $err) = parked('park_device', "$auto BEGIN; $create $one ROLLBACK;");
	is($chosen->($err), 'cpu cpu gpu gpu gpu gpu',
		'auto: a GPU from the third of five partitions on, and then for all');
	($out, $err) = parked('park_device', "$auto $create $one");
	is($chosen->($err), 'cpu cpu gpu gpu gpu cpu', 'auto: another transaction decides anew');
}

# and the real builder after all that
$node->safe_psql('postgres', 'DROP INDEX t_e; CREATE INDEX t_e ON t USING grnnd (e vector_l2_ops)');
sound($node, 't_e', 'after all that');
my $log = slurp_file($node->logfile, $log_size);
unlike($log, qr/server process .* was terminated|PANIC|TRAP/, 'no server process crashed');
$node->stop;
done_testing();
