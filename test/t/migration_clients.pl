# Statements of users' libraries: psycopg, asyncpg, SQLAlchemy and Django with pgvector's types,
# LangChain, LlamaIndex, and two benchmarks of vector databases.  Each of test/clients/with_*.py is
# one of them (with_examples.py, with_page.py, with_photos.py, with_web_page.py: the Python of doc/; with_drivers.py:
# test/bench/drivers) and prints "ok NAME" or "not ok NAME".
#
# CLIENTS is the folder with the libraries, which check.sh gets from PyPI.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use Migration;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'no client libraries: CLIENTS=no, or no network here' unless $ENV{CLIENTS};

my $node = PostgreSQL::Test::Cluster->new('clients');
$node->init;
$node->append_conf('postgresql.conf', "autovacuum = off\ngrnnd.build_device = cpu\nmax_connections = 50\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION grnnd_tools CASCADE');

local $ENV{PGHOST} = $node->host;
local $ENV{PGPORT} = $node->port;
local $ENV{PYTHONPATH} = $ENV{CLIENTS};
# they share what Python compiles of the libraries
delete local $ENV{PYTHONDONTWRITEBYTECODE};
local $ENV{PYTHONPYCACHEPREFIX} = PostgreSQL::Test::Utils::tempdir;
local $ENV{PYTHONWARNINGS} = 'ignore';
local $ENV{CLASSES} = join(' ', @classes);

my @clients = map { /with_(\w+)\.py$/ } glob "$FindBin::Bin/../clients/with_*.py";
cmp_ok(scalar @clients, '>=', 7, 'clients');
for my $client (@clients)
{
	my ($out, $err) = ('', '');
	IPC::Run::run([ 'timeout', 300, 'python3', "$FindBin::Bin/../clients/with_$client.py" ], '>', \$out, '2>', \$err);
	my @results = grep { /^(not )?ok / } split(/\n/, $out);
	for (@results)
	{
		/^(not )?ok (.*)/;
		ok(!$1, "$client: $2");
	}
	like($out, qr/^done$/m, "$client: to its end") or diag($err);
	diag($out) if grep { /^not/ } @results;
}
done_testing();
