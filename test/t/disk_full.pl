# A disk that is full, and reads and writes that fail, from any call on (disk_faults.c): in data
# and temporary files an error of the one statement, after which nothing is left behind, the
# indexes are sound and the same statement works; in WAL a restart of the server, which loses
# nothing that was committed.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant { WRITES => 1, READS => 2, EIO => 5, ENOSPC => 28 };

my $dir = PostgreSQL::Test::Utils::tempdir;
compile_c("$FindBin::Bin/disk_faults.c", "$dir/disk_faults.so", '-shared -fPIC -ldl');
my $control = "$dir/control";
append_to_file($control, "\0" x 80);

# Sets what fails, in place.
sub faults
{
	my ($kind, $error, $after, $pattern) = @_;
	open my $f, '+<:raw', $control or die;
	print $f pack 'l4a64', $kind, $error, $after, 0, $pattern // '';
	close $f;
}
sub failed { return unpack 'l', substr(slurp_file($control), 12, 4); }

my $node = PostgreSQL::Test::Cluster->new('disk_full');
$node->init;
$node->append_conf('postgresql.conf', q(
autovacuum = off
grnnd.build_device = cpu
grnnd.background_fit = off
shared_buffers = 1MB
bgwriter_lru_maxpages = 0
checkpoint_timeout = 1h
));
sub start
{
	local $ENV{LD_PRELOAD} = "$dir/disk_faults.so";
	local $ENV{FAULTS_CONTROL} = $control;
	$node->start;
}

# PostgreSQL::Test sets restart_after_crash = off, so a server that has lost a process ends, and is
# started again here.  One that recovered by itself could meet the full disk again.  (No psql
# asks: it would be refused, and the statement written to it then be a broken pipe's end of this test.)
sub is_back
{
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return 1 if system('pg_isready', '-q', '-h', $node->host, '-p', $node->port) == 0;
		if (!-e $node->data_dir . '/postmaster.pid')
		{
			$node->_update_pid(0);
			start();
		}
		select undef, undef, undef, 0.1;
	}
	return 0;
}

start();
setup_grnnd($node, 64, 5);
$node->safe_psql('postgres', q(
	CREATE TABLE t (id int PRIMARY KEY, v vector(64));
	INSERT INTO t SELECT * FROM points(1, 3000, 64, 1);
	CREATE INDEX t_idx ON t USING grnnd (v);
	CHECKPOINT));
my $database = $node->safe_psql('postgres', q(SELECT oid FROM pg_database WHERE datname = 'postgres'));

# Files of the database that belong to no relation.
sub orphans
{
	$node->safe_psql('postgres', 'CHECKPOINT');
	my %known = map { $_ => 1 } split /\n/, $node->safe_psql('postgres',
		q(SELECT pg_relation_filenode(oid) FROM pg_class WHERE pg_relation_filenode(oid) IS NOT NULL));
	return join ' ', grep { /^(\d+)/ && !$known{$1} && -s $node->data_dir . "/base/$database/$_" }
	  map { s{.*/}{}r } glob($node->data_dir . "/base/$database/[0-9]*");
}

my %wanted = (ENOSPC, '53100', EIO, '58030');
my $build = "SET maintenance_work_mem = '1MB'; CREATE INDEX again ON t USING grnnd (v)";
my $scan = q(SET enable_seqscan = off; SET work_mem = '64kB'; SET grnnd.ef_search = 1000;
	SELECT count(*) FROM (SELECT id FROM t ORDER BY v <-> (SELECT v FROM queries LIMIT 1) LIMIT 3000) x);
my $met = 0;
for my $case (
	# statement, what fails, where, and after how many calls
	[ build => $build, WRITES, ENOSPC, "/base/$database/", 0, 3, 60, 300 ],
	[ build => $build, WRITES, EIO, "/base/$database/", 40 ],
	[ build => $build, WRITES, ENOSPC, 'pgsql_tmp', 0, 1, 5, 20 ],
	[ build => $build, READS, EIO, "/base/$database/", 0, 100 ],
	[ insert => 'INSERT INTO t SELECT * FROM points(10001, 10400, 64, 1)', WRITES, ENOSPC, "/base/$database/", 0, 20, 200 ],
	[ insert => 'INSERT INTO t SELECT * FROM points(10001, 10400, 64, 1)', READS, EIO, "/base/$database/", 30, 1000 ],
	[ vacuum => 'DELETE FROM t WHERE id % 9 = 0; VACUUM (TRUNCATE off) t', WRITES, ENOSPC, "/base/$database/", 50, 400 ],
	[ vacuum => 'DELETE FROM t WHERE id % 9 = 0; VACUUM (TRUNCATE off) t', READS, EIO, "/base/$database/", 50, 700 ],
	[ scan => $scan, READS, EIO, "/base/$database/", 20, 300 ],
	[ check => q(SET maintenance_work_mem = '1MB'; SELECT * FROM grnnd_check('t_idx', true)), READS, EIO, "/base/$database/", 20, 300 ])
{
	my ($name, $sql, $kind, $error, $where, @after) = @$case;
	for my $after (@after)
	{
		my $what = sprintf '%s, %s of %s fail after %d', $name, $kind == WRITES ? 'writes' : 'reads',
		  $where =~ /tmp/ ? 'temporary files' : 'data', $after;
		faults($kind, $error, $after, $where);
		my ($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$sql", on_error_stop => 1,
			timeout => $PostgreSQL::Test::Utils::timeout_default);
		my $failed = failed();
		faults(0, 0, 0);
		$met += $failed > 0;
		if ($failed > 0)
		{
			my ($state) = $err =~ /ERROR:  (\w{5}):/;
			is($state, $wanted{$error}, "$what: error") or diag($err);
		}
		unlike($err, qr/server closed|terminating/, "$what: the session goes on");
		is(number($node, 'SELECT count(*) FROM pg_ls_tmpdir()'), 0, "$what: no temporary file");
		is(number($node, "SELECT count(*) FROM pg_class WHERE relname = 'again'"), $failed > 0 ? 0 : 1, "$what: no index")
		  if $name eq 'build';
		$node->safe_psql('postgres', 'DROP INDEX IF EXISTS again; DELETE FROM t WHERE id > 10000');
		is(orphans(), '', "$what: no file of nobody's");
		sound($node, 't_idx', $what);
	}
}
cmp_ok($met, '>=', 15, "$met of the faults were met");
for ($build, 'DROP INDEX again', $scan, 'VACUUM t')
{
	is(($node->psql('postgres', $_))[0], 0, 'works again: ' . substr($_, 0, 40));
}
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|was terminated by signal/, 'the server never went down');

# ---- WAL ----

for my $after (0, 30)
{
	my $rows = number($node, 'SELECT count(*) FROM t');
	my $begun = -s $node->logfile;
	faults(WRITES, ENOSPC, $after, '/pg_wal/');
	# the WAL writer may meet the fault first: then psql ends before it has read the statement
	my ($rc, $out, $err) = eval { $node->psql('postgres', 'INSERT INTO t SELECT * FROM points(20001, 20300, 64, 1)') };
	($rc, $err) = (2, 'connection to server') if $@;
	is($rc != 0 && failed() > 0, 1, "WAL full after $after writes: no commit");
	faults(0, 0, 0);
	# a session ends before the postmaster hears of it, which still says that it is ready
	$node->wait_for_log(qr/all server processes terminated|database system is shut down/, $begun) if $err =~ /server closed|connection to server/;
	is(is_back(), 1, "WAL full after $after writes: the server comes back");
	is(number($node, 'SELECT count(*) FROM t'), $rows, "WAL full after $after writes: rows as before");
	sound($node, 't_idx', "WAL full after $after writes");
	missing($node, 't', "WAL full after $after writes");
}
$node->stop;
done_testing();
