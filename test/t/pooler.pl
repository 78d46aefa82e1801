# PgBouncer in transaction mode: clients share few sessions, so settings are those of a transaction, of a
# role or of the database; and prepared statements want PgBouncer 1.21.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($pgbouncer) = grep { -x } map { "$_/pgbouncer" } split(/:/, $ENV{PATH}), '/usr/sbin';
plan skip_all => 'no pgbouncer here' if !defined $pgbouncer;
my ($major, $minor) = qx($pgbouncer --version) =~ /(\d+)\.(\d+)/;

my $node = PostgreSQL::Test::Cluster->new('pooler');
$node->init;
$node->append_conf('postgresql.conf', q(
autovacuum = off
grnnd.background_fit = off
grnnd.build_device = cpu
max_parallel_workers_per_gather = 0
fsync = off
));
$node->start;
setup_grnnd($node, 16, 10);
$node->safe_psql('postgres', q(
	CREATE TABLE t (id int PRIMARY KEY, v vector(16));
	INSERT INTO t SELECT * FROM points(1, 1000, 16, 1);
	CREATE INDEX t_idx ON t USING grnnd (v);
	CREATE TABLE answers (client int, id int);
	ALTER DATABASE postgres SET grnnd.ef_search = 55));
my $query = number($node, 'SELECT v FROM queries LIMIT 1');

# Two server sessions for all clients.  Its user is the server's, whom the server trusts.
my $folder = PostgreSQL::Test::Utils::tempdir_short();
my $port = PostgreSQL::Test::Cluster::get_free_port();
my $user = number($node, 'SELECT current_user');
append_to_file("$folder/users", qq("$user" ""\n));
append_to_file("$folder/ini", join "\n", '[databases]', sprintf('postgres = host=%s port=%d', $node->host, $node->port),
	'[pgbouncer]', 'listen_addr =', "listen_port = $port", "unix_socket_dir = $folder", 'auth_type = trust',
	"auth_file = $folder/users", 'pool_mode = transaction', 'default_pool_size = 2', 'max_client_conn = 100',
	'ignore_startup_parameters = extra_float_digits', $major > 1 || $minor >= 21 ? 'max_prepared_statements = 100' : '', '');
my ($said, $complaint) = ('', '');
my $pooler = IPC::Run::start([ $pgbouncer, "$folder/ini" ], '<', \undef, '>', \$said, '2>', \$complaint);
END { $pooler->kill_kill if defined $pooler; }

# Through it: psql's output and complaints.
sub pooled
{
	my (@statements) = @_;
	my ($out, $err) = ('', '');
	IPC::Run::run([ 'psql', '-XAtq', '-d', "host=$folder port=$port dbname=postgres user=$user", map { ('-c', $_) } @statements ],
		'<', \undef, '>', \$out, '2>', \$err);
	chomp($out .= $err);
	return $out;
}

my $tries = 0;
sleep 1 while pooled('SELECT 1') ne '1' && ++$tries < 60;
is(pooled("SELECT id FROM t ORDER BY v <-> '$query' LIMIT 10"), number($node, "SELECT id FROM t ORDER BY v <-> '$query' LIMIT 10"),
	'the same answer');
is(pooled('SHOW grnnd.ef_search'), '55', "a setting of the database counts");
is(pooled('BEGIN', 'SET LOCAL grnnd.ef_search = 99', "SELECT FROM t ORDER BY v <-> '$query' LIMIT 1",
		'SELECT ef_search FROM grnnd_last_scan()', 'COMMIT'), '99', "one of the transaction does");
is(join(' ', map { pooled('SHOW grnnd.ef_search') } 1 .. 6), join(' ', (55) x 6), 'and no later one has it');
like(pooled('BEGIN', 'CREATE INDEX ON t USING grnnd (v) WITH (degree = 16)', 'SELECT count(*) FROM pg_indexes WHERE tablename = $$t$$', 'ROLLBACK'),
	qr/^3$/m, 'an index is built');

# 20 clients on two sessions
sub bench
{
	my ($protocol, $script) = @_;
	local $ENV{PGUSER} = $user;
	return pgbench_finish(pgbench_start(bless({ host => $folder, port => $port }, 'Pooler'),
		[ '-M', $protocol, '-c', 20, '-j', 2, '-t', 10 ], [ 1, $script ]));
}
sub Pooler::host { $_[0]->{host} }
sub Pooler::port { $_[0]->{port} }

my $script = "INSERT INTO answers SELECT :client_id, id FROM t ORDER BY v <-> (SELECT v FROM queries WHERE id = 1000001 + :client_id % 10) LIMIT 5;\n";
my $wrong = q(SELECT count(*), count(*) FILTER (WHERE a.n = 10) FROM (SELECT client, id, count(*) AS n FROM answers GROUP BY 1, 2) a
	JOIN queries q ON q.id = 1000001 + client % 10
	WHERE a.id IN (SELECT t.id FROM t ORDER BY t.v <-> q.v LIMIT 5));
for my $protocol ('simple', 'extended')
{
	is(bench($protocol, $script), '', "protocol $protocol: no error");
	is(number($node, $wrong), '100|100', "protocol $protocol: each client has its answers");
	$node->safe_psql('postgres', 'TRUNCATE answers');
}
if ($major > 1 || $minor >= 21)
{
	is(bench('prepared', $script), '', 'protocol prepared: no error');
	is(number($node, $wrong), '100|100', 'protocol prepared: each client has its answers');
}
else
{
	like(bench('prepared', $script), qr/prepared statement "\w+" (does not exist|already exists)/,
		"protocol prepared: PgBouncer $major.$minor knows no prepared statements");
}
sound($node, 't_idx', 'after all');

$pooler->kill_kill;
undef $pooler;
$node->stop;
done_testing();
