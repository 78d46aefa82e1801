# Clients of several hosts: queries spread over standbys by libpq, a failover in the middle of a query, of a
# build and of a cursor, and logical replication to a server whose index is another one.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $settings = q(
autovacuum = off
grnnd.background_fit = off
grnnd.build_device = cpu
max_parallel_workers_per_gather = 0
max_parallel_maintenance_workers = 0
fsync = off
);
my $primary = PostgreSQL::Test::Cluster->new('hosts_primary');
$primary->init(allows_streaming => 'logical');
$primary->append_conf('postgresql.conf', "$settings\nwal_keep_size = 1GB");
$primary->start;
setup_grnnd($primary, 16, 10);
$primary->safe_psql('postgres', q(
	CREATE TABLE t (id int PRIMARY KEY, tenant int, v vector(16));
	INSERT INTO t SELECT id, id % 5, v FROM points(1, 2000, 16, 1);
	CREATE INDEX t_idx ON t USING grnnd (v);
	CREATE FUNCTION nearest(n int) RETURNS SETOF int LANGUAGE sql AS
		'SELECT id FROM t ORDER BY v <-> (SELECT v FROM queries WHERE id = 1000001) LIMIT n'));
$primary->backup('base');
my @standbys = map {
	my $node = PostgreSQL::Test::Cluster->new($_);
	$node->init_from_backup($primary, 'base', has_streaming => 1);
	$node->start;
	$node;
} 'hosts_one', 'hosts_two';
my ($next, $other) = @standbys;
$primary->wait_for_catchup($_) for @standbys;

# ---- libpq chooses the host ----

# What a client says who names all hosts.
sub client
{
	my ($attributes, $sql) = @_;
	my @nodes = ($primary, @standbys);
	my $conninfo = sprintf "host=%s port=%s dbname=postgres %s", join(',', map { $_->host } @nodes),
	  join(',', map { $_->port } @nodes), $attributes;
	my ($out, $err) = ('', '');
	IPC::Run::run([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $conninfo, '-c', $sql ], '<', \undef, '>', \$out, '2>', \$err);
	chomp($out .= $err);
	return $out;
}

my $expected = number($primary, 'SELECT nearest(10)');
is(scalar(split /\n/, $expected), 10, 'the primary answers');
my $with_port = "SELECT current_setting('port')";
is(client('target_session_attrs=read-write', $with_port), $primary->port, 'read-write: the primary');
is(client('target_session_attrs=prefer-standby', $with_port), $next->port, 'prefer-standby: the first standby');
is(client('target_session_attrs=standby', 'SELECT nearest(10)'), $expected, 'and its answer is the same');
SKIP:
{
	skip 'load_balance_hosts is of libpq 16 and later', 2 if qx(psql --version) !~ /(\d+)/ || $1 < 16;
	my %ports;
	my $same = 0;
	for (1 .. 30)
	{
		my ($port, $answer) = split /\n/, client('target_session_attrs=standby load_balance_hosts=random',
			"SELECT current_setting('port') UNION ALL (SELECT string_agg(n::text, ' ') FROM nearest(10) n)");
		$ports{$port} = 1;
		$same += $answer eq join(' ', split /\n/, $expected);
	}
	is(join(' ', sort keys %ports), join(' ', sort map { $_->port } @standbys), 'load_balance_hosts: both standbys');
	is($same, 30, 'with the same answer');
}

# ---- logical replication to another index ----

my $subscriber = PostgreSQL::Test::Cluster->new('hosts_subscriber');
$subscriber->init;
$subscriber->append_conf('postgresql.conf', $settings);
$subscriber->start;
setup_grnnd($subscriber, 16, 10);
$primary->safe_psql('postgres', 'CREATE PUBLICATION p FOR TABLE t');
my $publisher = $primary->connstr('postgres') =~ s/'/''/gr;
# rows that are copied go into an index; those of filter columns and of halves are made after that
$subscriber->safe_psql('postgres', qq(
	CREATE TABLE t (id int PRIMARY KEY, tenant int, v vector(16));
	CREATE INDEX t_compact ON t USING grnnd (v) WITH (layout = compact);
	CREATE SUBSCRIPTION s CONNECTION '$publisher' PUBLICATION p));
$subscriber->wait_for_subscription_sync($primary, 's');
$subscriber->safe_psql('postgres', q(
	CREATE INDEX t_filter ON t USING grnnd (v, tenant) WITH (seed = 24, layout = exact);
	CREATE INDEX t_half ON t USING grnnd ((v::halfvec(16)) halfvec_cosine_ops)));
$primary->safe_psql('postgres', q(
	INSERT INTO t SELECT id, id % 5, v FROM points(2001, 2400, 16, 1);
	UPDATE t SET v = (SELECT p.v FROM points(t.id + 5000, t.id + 5000, 16, 1) p) WHERE id % 20 = 3;
	DELETE FROM t WHERE id % 7 = 0));
$primary->wait_for_catchup('s');
is(number($subscriber, "SELECT count(*), md5(string_agg(t::text, ' ' ORDER BY id)) FROM t"),
	number($primary, "SELECT count(*), md5(string_agg(t::text, ' ' ORDER BY id)) FROM t"), 'logical replication: the same rows');
sound($subscriber, $_, "logical replication, $_") for qw(t_compact t_filter t_half);
missing($subscriber, 't', 'logical replication');
for my $node ($primary, $subscriber)
{
	cmp_ok(recall($node, 't'), '>=', 0.95, 'recall of ' . $node->name);
}
like(number($subscriber, q(SET enable_seqscan = off; SET enable_sort = off;
	EXPLAIN SELECT id FROM t WHERE tenant = 3 ORDER BY v <-> (SELECT v FROM queries LIMIT 1) LIMIT 5)), qr/Index Scan/,
	'logical replication: queries with a filter by an index that the publisher lacks');
# (its slot would hold up the primary's end)
$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION s');
$subscriber->stop;

# ---- failover ----

# A build whose transaction is open, and whose pages have come to the standbys; and a query that has
# returned its first rows, on the primary and on the standby that is to be promoted.
my $query = number($primary, 'SELECT v FROM queries WHERE id = 1000001');
my $nearest = "SELECT id FROM t ORDER BY v <-> '$query' LIMIT 500";
my @expected = split /\n/, number($primary, $nearest);
my $build = psql_start($primary, "BEGIN; CREATE INDEX t_new ON t USING grnnd (v) WITH (seed = 32); SELECT 'built'; SELECT pg_sleep(3600); COMMIT");
my $cursor = "BEGIN; DECLARE c CURSOR FOR $nearest; FETCH 1 FROM c;";
my $lost = psql_start($primary, "$cursor SELECT pg_sleep(3600);");
my $kept = psql_start($next, "$cursor
	DO 'BEGIN WHILE pg_is_in_recovery() LOOP PERFORM pg_sleep(0.02); END LOOP; END'; FETCH ALL FROM c; COMMIT");
for my $wanted ([ $primary, 2 ], [ $next, 1 ])
{
	my ($node, $sessions) = @$wanted;
	$node->poll_query_until('postgres', "SELECT count(*) = $sessions FROM pg_stat_activity WHERE wait_event = 'PgSleep'")
	  or die 'nobody sleeps';
}
# (a standby that had more than the one to be promoted could not follow it)
$primary->wait_for_catchup($other);
$other->stop;
$primary->wait_for_catchup($next);
kill_server($primary);
$next->promote;
like(psql_finish($lost), qr/^$expected[0]\n.*(server closed the connection|connection to server was lost|terminating connection)/s,
	'a session of the old primary ends with an error');
like(psql_finish($build), qr/^built\n.*(server closed the connection|connection to server was lost|terminating connection)/s,
	'so does the build');
is(psql_finish($kept), join("\n", @expected), 'a cursor of the standby outlives its promotion');
is(client('target_session_attrs=read-write', $with_port), $next->port, 'read-write: the new primary');
is(number($next, "SELECT count(*) FROM pg_class WHERE relname = 't_new'"), 0, 'the build that was not committed is not there');
sound($next, 't_idx', 'the new primary');
$next->safe_psql('postgres', q(
	INSERT INTO t SELECT id, id % 5, v FROM points(3001, 3200, 16, 1);
	DELETE FROM t WHERE id % 11 = 0;
	VACUUM t;
	CREATE INDEX t_new ON t USING grnnd (v) WITH (seed = 32)));
sound($next, $_, "the new primary, $_") for 't_idx', 't_new';
missing($next, 't', 'the new primary');

# the other standby follows it
$other->enable_streaming($next);
$other->start;
$next->wait_for_catchup($other);
sound($other, $_, "a standby of the new primary, $_") for 't_idx', 't_new';
is(client('target_session_attrs=standby', 'SELECT nearest(10)'), number($next, 'SELECT nearest(10)'), 'it answers as that does');

$_->stop for $next, $other;
done_testing();
