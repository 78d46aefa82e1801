# The sample of queries that scans leave: who may use it and for what, where none is kept, and the curve of
# recall that is measured with it.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $node = PostgreSQL::Test::Cluster->new('sampling');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', q(
autovacuum = off
grnnd.build_device = cpu
shared_preload_libraries = 'grnnd'
log_min_messages = debug1
max_parallel_workers_per_gather = 0
));
$node->start;
setup_grnnd($node, 16, 10);

# Clusters of fifty rows that are nearly equal: rows find their neighbors at once, other queries do not.
$node->safe_psql('postgres', q(
	CREATE TABLE source AS SELECT c.id * 50 + i AS id, (SELECT array_agg(x + 0.001 * sin(i * n + c.id)) FROM
			unnest(c.v::float4[]) WITH ORDINALITY u (x, n))::vector(16) AS v
		FROM points(1, 60, 16, 3) c, generate_series(1, 50) i;
	CREATE TABLE asked AS SELECT id, v FROM points(2000001, 2000400, 16, 3);
	-- a number that no log may show
	UPDATE asked SET v = ('[' || 0.0123321 || substr(v::text, strpos(v::text, ','))) ::vector(16);
	CREATE TABLE t AS TABLE source;
	CREATE INDEX t_v ON t USING grnnd (v);
	CREATE ROLE reader LOGIN;
	GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader));

# So many queries of a table, one after the other.
sub ask
{
	my ($on, $table, $n, $settings, %more) = @_;
	return $on->safe_psql('postgres', "SET enable_seqscan = off; " . ($settings // '') . "
		SELECT count(*) FROM (SELECT id, v FROM asked ORDER BY id LIMIT $n) q,
			LATERAL (SELECT FROM $table ORDER BY $table.v <-> q.v LIMIT 5) x", %more);
}

sub sampled
{
	my ($on, $index) = @_;
	return number($on, "SELECT queried FROM grnnd_recall('$index', sampled => true)");
}

sub curve
{
	my ($index) = @_;
	return number($node, "SELECT recall_curve->0->'sampled' FROM grnnd_stats('$index')");
}

my $off = 'SET grnnd.background_fit = off;';
like(curve('t_v'), qr/^false$/, 'the curve of a build is of rows');
is(sampled($node, 't_v'), 0, 'no query, no sample');
ask($node, 't', 100, 'SET grnnd.sample_queries = off;');
is(sampled($node, 't_v'), 0, 'a session that forbids it leaves none');
ask($node, 't', 23, $off);
is(sampled($node, 't_v'), 0, 'too few');
$node->safe_psql('postgres', "SELECT grnnd_recall('t_v', (SELECT array_agg(v) FROM asked))");
is(sampled($node, 't_v'), 0, 'those of grnnd_recall() are none of users');
ask($node, 't', 30, $off);
is(sampled($node, 't_v'), 53, 'enough');
ask($node, 't', 400, $off);
is(sampled($node, 't_v'), 64, 'never more than 64');
like(curve('t_v'), qr/^false$/, 'not measured yet');

# ---- measured by a worker that a scan starts ----

my $by_rows = number($node, "SELECT (recall_curve->0->>'recall10')::float8 FROM grnnd_stats('t_v')");
# (a query enters a full sample at random; the worker may find the places of another one taken)
for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
{
	last if curve('t_v') =~ /^true/;
	ask($node, 't', 100);
	sleep 0.1;
}
is(curve('t_v'), 'true', 'the curve is of the sample');
my $by_sample = number($node, "SELECT (recall_curve->0->>'recall10')::float8 FROM grnnd_stats('t_v')");
cmp_ok($by_rows, '>', $by_sample, "rows find more than queries do: $by_rows, $by_sample");
for my $target (0.9, 0.97)
{
	my $recall = number($node, "SET grnnd.target_recall = $target; SELECT recall FROM grnnd_recall('t_v', query_table => 'asked', queries => 200)");
	cmp_ok($recall, '>=', $target - 0.1, "target $target: $recall");
}
# (auto_explain, where the server has it, logs parameters of statements inside others)
my ($have) = $node->psql('postgres', "LOAD 'auto_explain'");
my $explain = $have == 0 ? q(LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_nested_statements = on;) : '';
is(number($node, "$explain SET grnnd.target_recall = 0.9; SELECT recall > 0.8 FROM grnnd_recall('t_v', sampled => true)"), 't',
	'recall of the sampled ones');

# ---- before there is a sample, a query far from all rows is searched more widely ----

$node->safe_psql('postgres', 'REINDEX INDEX t_v');
like(curve('t_v'), qr/^false$/, 'a new index begins anew');
is(sampled($node, 't_v'), 0, 'so does its sample');
for my $target (0.9, 0.97)
{
	my $recall = number($node, "SET grnnd.target_recall = $target; SELECT recall FROM grnnd_recall('t_v', query_table => 'asked', queries => 200)");
	cmp_ok($recall, '>=', $target - 0.1, "target $target by rows: $recall");
}
# and where a search takes longer than reading all records, those are read
is(number($node, q(
	SET enable_seqscan = off;
	SET grnnd.sample_queries = off;
	CREATE TABLE hard AS SELECT id, v FROM points(1, 3000, 300, 1);
	UPDATE hard SET v = (SELECT array_agg(hashint8(hard.id * 1000 + n) / 2147483648.0) FROM generate_series(1, 300) n)::vector;
	CREATE INDEX hard_v ON hard USING grnnd ((v::vector(300))) WITH (codes = off);
	SET grnnd.target_recall = 0.999;
	SELECT recall FROM grnnd_recall('hard_v', 1000, queries => 3);
	SELECT count(*) FROM (SELECT FROM hard ORDER BY v::vector(300) <-> (SELECT v FROM hard LIMIT 1)::vector(300) LIMIT 1000) x;
	SELECT method FROM grnnd_last_scan())), "1\n1000\nall rows", 'an exact reading');

# ---- whose queries are left out ----

$node->safe_psql('postgres', q(
	CREATE TABLE secret AS TABLE source;
	CREATE INDEX secret_v ON secret USING grnnd (v);
	ALTER TABLE secret ENABLE ROW LEVEL SECURITY;
	CREATE POLICY all_rows ON secret USING (true);
	CREATE TABLE parent (id int, v vector(16)) PARTITION BY LIST (id);
	CREATE TABLE part PARTITION OF parent DEFAULT;
	INSERT INTO parent TABLE source;
	CREATE INDEX part_v ON part USING grnnd (v);
	ALTER TABLE parent ENABLE ROW LEVEL SECURITY;
	CREATE POLICY all_rows ON parent USING (true);
	CREATE TABLE old_parent (id int, v vector(16));
	CREATE TABLE child () INHERITS (old_parent);
	INSERT INTO child TABLE source;
	CREATE INDEX child_v ON child USING grnnd (v);
	GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader));
for my $table ('secret', 'part', 'child')
{
	ask($node, $table, 100, $off, connstr => $node->connstr('postgres') . ' user=reader');
	ask($node, $table, 100, $off);
	is(sampled($node, "${table}_v"), 0, "of $table none");
}
# a policy that comes later hides what is there
ask($node, 't', 100, $off, connstr => $node->connstr('postgres') . ' user=reader');
is(sampled($node, 't_v'), 64, 'of every role');
$node->safe_psql('postgres', 'ALTER TABLE t ENABLE ROW LEVEL SECURITY');
is(sampled($node, 't_v'), 0, 'not where row security applies now');
$node->safe_psql('postgres', "SELECT grnnd_fit('t_v')");
like(curve('t_v'), qr/^false$/, 'and nothing is measured with it');
$node->safe_psql('postgres', 'ALTER TABLE t DISABLE ROW LEVEL SECURITY');
$node->psql('postgres', "\\set VERBOSITY sqlstate\nSELECT grnnd_recall('t_v', sampled => true)",
	connstr => $node->connstr('postgres') . ' user=reader', stderr => \my $err);
like($err, qr/ERROR:  42501/, 'only the owner may ask');

# another database has none of it, even if its files are copies
$node->safe_psql('postgres', 'CREATE DATABASE copy TEMPLATE template0');
$node->safe_psql('postgres', 'DROP DATABASE copy; CREATE DATABASE copy TEMPLATE postgres');
is($node->safe_psql('copy', "SELECT queried FROM grnnd_recall('t_v', sampled => true)"), 0, 'a copied database begins anew');

# ---- a standby keeps a sample of its own and writes nothing ----

$node->safe_psql('postgres', 'CREATE TABLE here AS TABLE source; CREATE INDEX here_v ON here USING grnnd (v)');
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby);
ask($standby, 'here', 400);
is(sampled($standby, 'here_v'), 64, 'a sample of the standby');
is(sampled($node, 'here_v'), 0, 'is not the primary\'s');
cmp_ok(number($standby, "SELECT recall FROM grnnd_recall('here_v', sampled => true)"), '>', 0.5, 'its recall');
is(number($standby, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'grnnd fit'"), 0, 'no worker');
unlike(slurp_file($standby->logfile), qr/registering background worker "grnnd fit"|ERROR:/, 'and none was started');
$standby->stop;

# ---- a restart: the sample goes, the curve stays; without the library preloaded ----

ask($node, 't', 400, $off) for 1 .. 2;
$node->safe_psql('postgres', "SELECT grnnd_fit('t_v')");
is(curve('t_v'), 'true', 'grnnd_fit() measures with the sample');
$node->restart;
is(sampled($node, 't_v'), 0, 'no sample after a restart');
is(curve('t_v'), 'true', 'the curve stays');
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->restart;
is(ask($node, 't', 200), 1000, 'queries of a server that does not preload the library');
is(sampled($node, 't_v'), 0, 'leave no sample');
is(curve('t_v'), 'true', 'the curve stays there, too');
unlike(slurp_file($node->logfile), qr/0\.0123321,/, 'no query is in the log');
$node->stop;
done_testing();
