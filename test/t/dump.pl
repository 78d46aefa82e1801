# pg_dump and pg_restore bring back every kind of index with its options; a logical
# replication target keeps its own index up with what is applied.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('dump');
$node->init(allows_streaming => 'logical');
$node->append_conf('postgresql.conf', "autovacuum = off\ngrnnd.build_device = cpu\n");
$node->start;
setup_grnnd($node, 16, 20);
$node->safe_psql('postgres', q(
	CREATE TABLE t (id int PRIMARY KEY, kind int, v vector(16));
	INSERT INTO t SELECT id, id % 3, v FROM points(1, 500, 16, 1);
	CREATE INDEX t_l2 ON t USING grnnd (v) WITH (degree = 24, seed = 9, codes = off);
	CREATE INDEX t_ip ON t USING grnnd (v vector_ip_ops) WITH (m = 12, ef_construction = 64);
	CREATE INDEX t_cosine ON t USING grnnd (v vector_cosine_ops) WHERE kind = 1;
	CREATE INDEX t_sub ON t USING grnnd ((subvector(v, 1, 8)::vector(8)));
	CREATE TABLE p (id int, v vector(16)) PARTITION BY RANGE (id);
	CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (1) TO (200);
	CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (200) TO (1000);
	CREATE INDEX p_idx ON p USING grnnd (v) WITH (degree = 16);
	INSERT INTO p SELECT id, v FROM t;
	CREATE MATERIALIZED VIEW m AS SELECT id, v FROM t WHERE kind = 2;
	CREATE INDEX m_idx ON m USING grnnd (v);
	CREATE UNLOGGED TABLE u AS SELECT id, v FROM t;
	ALTER TABLE u ALTER v TYPE vector(16);
	CREATE INDEX u_idx ON u USING grnnd (v)));
my @leaves = qw(t_l2 t_ip t_cosine t_sub p1_v_idx p2_v_idx u_idx);
my $definitions = q(
	SELECT indexdef FROM pg_indexes WHERE indexdef LIKE '% USING grnnd %' ORDER BY indexname);
my $expected = $node->safe_psql('postgres', $definitions);
is(scalar(split /\n/, $expected), 9, 'indexes of all kinds');

# ---- dump and restore, as one script and in parallel ----

my $dir = PostgreSQL::Test::Utils::tempdir;
for my $format ('plain', 'directory')
{
	my @connect = ('-h', $node->host, '-p', $node->port);
	$node->safe_psql('postgres', "CREATE DATABASE $format");
	command_ok([ 'pg_dump', @connect, '-F', $format, '-f', "$dir/$format", 'postgres' ], "$format: pg_dump");
	if ($format eq 'plain')
	{
		command_ok([ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', @connect, '-f', "$dir/plain", 'plain' ],
			"$format: restore");
	}
	else
	{
		command_ok([ 'pg_restore', @connect, '-j', 2, '-e', '-d', $format, "$dir/$format" ], "$format: restore");
	}
	is($node->safe_psql($format, $definitions), $expected, "$format: the same indexes");
	is($node->safe_psql($format, "SELECT * FROM grnnd_check('$_', true)"), '', "$format: $_ is sound")
	  for @leaves, 'm_idx';
	is($node->safe_psql($format, "SELECT missing('t', 'v', '<->', (SELECT v FROM queries LIMIT 1))"), 0,
		"$format: every row is found");
	$node->safe_psql($format, 'REFRESH MATERIALIZED VIEW m');
	is($node->safe_psql($format, "SELECT * FROM grnnd_check('m_idx', true)"), '', "$format: m_idx, refreshed");
	$node->safe_psql('postgres', "DROP DATABASE $format");
}

# ---- a database copied by the server, in both ways ----

for my $strategy ('wal_log', 'file_copy')
{
	$node->safe_psql('template1', "CREATE DATABASE copied TEMPLATE postgres STRATEGY $strategy");
	$node->safe_psql('copied', 'INSERT INTO t SELECT id, 0, v FROM points(501, 600, 16, 1)');
	is($node->safe_psql('copied', "SELECT * FROM grnnd_check('$_', true)"), '', "$strategy: $_ is sound")
	  for @leaves, 'm_idx';
	is($node->safe_psql('copied', "SELECT missing('t', 'v', '<->', (SELECT v FROM queries LIMIT 1))"), 0,
		"$strategy: every row is found");
	$node->safe_psql('postgres', 'DROP DATABASE copied');
}

# ---- logical replication ----

my $target = PostgreSQL::Test::Cluster->new('subscriber');
$target->init(allows_streaming => 'logical');
$target->append_conf('postgresql.conf', "autovacuum = off\ngrnnd.build_device = cpu\n");
$target->start;
setup_grnnd($target, 16, 20);
# without a key rows are looked for in whole; the index must not be taken for that
$target->safe_psql('postgres', q(
	CREATE TABLE t (id int PRIMARY KEY, kind int, v vector(16));
	CREATE INDEX t_idx ON t USING grnnd (v);
	CREATE TABLE whole (id int, v vector(16));
	CREATE INDEX whole_idx ON whole USING grnnd (v)));
$node->safe_psql('postgres', q(
	CREATE TABLE whole (id int, v vector(16));
	INSERT INTO whole SELECT * FROM points(1, 200, 16, 1);
	ALTER TABLE whole REPLICA IDENTITY FULL;
	CREATE PUBLICATION pub FOR TABLE t, whole));
my $source = $node->connstr . ' dbname=postgres';
$target->safe_psql('postgres', "CREATE SUBSCRIPTION sub CONNECTION '$source' PUBLICATION pub");
$target->wait_for_subscription_sync($node, 'sub');

sub applied
{
	my ($name) = @_;
	$node->wait_for_catchup('sub');
	for my $table (qw(t whole))
	{
		my $rows = "SELECT count(*), md5(string_agg(x::text, ' ' ORDER BY id)) FROM $table x";
		is(number($target, $rows), number($node, $rows), "$name: the same rows of $table");
		sound($target, "${table}_idx", "$name, $table");
		missing($target, $table, "$name, $table");
	}
}
applied('copied');
$node->safe_psql('postgres', q(
	INSERT INTO t SELECT id, 0, v FROM points(501, 700, 16, 1);
	UPDATE t SET v = p.v FROM points(1001, 1500, 16, 1) p WHERE p.id = 1000 + t.id AND t.id % 4 = 0;
	UPDATE t SET kind = 7 WHERE id % 5 = 0;
	DELETE FROM t WHERE id % 3 = 0;
	INSERT INTO whole SELECT * FROM points(301, 400, 16, 1);
	UPDATE whole SET v = p.v FROM points(1001, 1200, 16, 1) p WHERE p.id = 1000 + whole.id AND whole.id % 4 = 0;
	DELETE FROM whole WHERE id % 3 = 0;
	BEGIN; INSERT INTO t SELECT id, 0, v FROM points(2001, 2100, 16, 1); ROLLBACK));
applied('changed');
$target->safe_psql('postgres', 'VACUUM t, whole');
$node->safe_psql('postgres', q(
	INSERT INTO t SELECT id, 0, v FROM points(3001, 3100, 16, 1);
	TRUNCATE whole;
	INSERT INTO whole SELECT * FROM points(1, 50, 16, 1)));
applied('vacuumed and truncated');
cmp_ok(recall($target, 't'), '>=', 0.95, 'recall on the subscriber');

$target->stop;
$node->stop;
done_testing();
