# layout = compact on embeddings of sentences: size, recall and exact order by each metric and
# type; indexes that have grown, lost rows, crashed; a standby; what fits a query besides.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $ROWS = 3000;
my $QUERIES = 25;
my $ASKED = 1200;	# queries where .01 of recall counts

my $node = PostgreSQL::Test::Cluster->new('compact');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', q(
autovacuum = off
wal_keep_size = 2GB
fsync = off
shared_buffers = 64MB
grnnd.build_device = cpu
grnnd.background_fit = off
max_parallel_workers_per_gather = 0
max_parallel_maintenance_workers = 0
wal_consistency_checking = 'generic'
));
$node->start;
setup_grnnd($node, 8, 1, 'grnnd_tools');

# The glosses' vectors of 384 small integers; in pairs, those of 768.
open(my $f, '<:raw', "$FindBin::Bin/../data/glosses.i8") or die;
my $rows = '';
for my $id (1 .. $ROWS + $QUERIES + $ASKED)
{
	read($f, my $bytes, 384) == 384 or die;
	$rows .= "$id\t[" . join(',', map { sprintf '%.4f', $_ / 127 } unpack('c384', $bytes)) . "]\n";
}
append_to_file($node->basedir . '/rows', $rows);
$node->safe_psql('postgres', sprintf(q(
	DROP TABLE queries;
	CREATE TABLE source (id int, v vector(384));
	COPY source FROM '%s';
	CREATE TABLE asked AS SELECT * FROM source WHERE id > %d;
	DELETE FROM source WHERE id > %d;
	CREATE TABLE queries AS SELECT * FROM source WHERE id > %d;
	DELETE FROM source WHERE id > %d;
	CREATE TABLE t AS SELECT * FROM source;
	CREATE INDEX t_idx ON t USING grnnd (v) WITH (layout = compact);
), $node->basedir . '/rows', $ROWS + $QUERIES, $ROWS + $QUERIES, $ROWS, $ROWS));

# What ranked() says of a table at ef_search 100, where rows and order are checked.
sub ranked
{
	my ($what, $least, $table, $column, $op, $queries, $filter) = @_;
	my ($recall, $rows, $different, $disordered) = split /\|/, number($node, sprintf(
		q(SET grnnd.ef_search = 100;
		SELECT recall, rows, different, disordered FROM ranked('%s', '%s', '%s', '%s', 10, '%s')),
		$table, $column // 'v', $op // '<->', $queries // 'SELECT v FROM queries', $filter // 'true'));
	is("$rows $different $disordered", 10 * $QUERIES . ' ' . 10 * $QUERIES . ' 0', "$what: rows and order");
	cmp_ok($recall, '>=', $least, "$what: recall");
	return $recall;
}

# ---- size, recall, what a query reads ----

my $built = ranked('built', 0.93, 't');
cmp_ok(number($node, "SELECT (pg_relation_size('t_idx') - 384 * 4 * 200) / $ROWS"), '<=', 250, 'bytes a row');
sound($node, 't_idx', 'built');
missing($node, 't', 'built');
cmp_ok(number($node, q(
	SELECT abs(index_bytes - pg_relation_size('t_idx')) / pg_relation_size('t_idx')::float8
	FROM grnnd_build_estimate('t', 'v', 'vector_l2_ops', '{layout=compact}'))), '<', 0.1, 'estimate');

my $plan = number($node, q(
	SET enable_seqscan = off; SET grnnd.ef_search = 100;
	EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF)
	SELECT id FROM t ORDER BY v <-> (SELECT v FROM queries LIMIT 1) LIMIT 10));
like(number($node, q(
	SET enable_seqscan = off; SET enable_sort = off;
	SELECT id FROM t ORDER BY v <-> (SELECT v FROM t WHERE id = 17) LIMIT 1 FOR UPDATE)), qr/^17$/, 'FOR UPDATE');

# ---- metrics and types; values that lie beside the row (TOAST); expressions ----

$node->safe_psql('postgres', sprintf(q(
	CREATE TABLE many AS SELECT id, v AS a, (v::real[] || v::real[])::vector(768) AS w,
		v::halfvec(384) AS h, v AS e, v AS l FROM source WHERE id <= %d;
	ALTER TABLE many ALTER w SET STORAGE EXTERNAL;
	UPDATE many SET w = (v::real[] || s.v::real[])::vector(768) FROM source s
		WHERE s.id = many.id %% %d + 1;
	CREATE INDEX ON many USING grnnd (a vector_ip_ops) WITH (layout = compact);
	CREATE INDEX many_w ON many USING grnnd (w vector_cosine_ops) WITH (layout = compact);
	CREATE INDEX ON many USING grnnd (h halfvec_l2_ops) WITH (layout = compact);
	CREATE INDEX ON many USING grnnd ((l2_normalize(e)::vector(384))) WITH (layout = compact);
	CREATE INDEX many_l ON many USING grnnd (l vector_l1_ops) WITH (layout = compact);
	VACUUM ANALYZE many;
), 1500, 1500) =~ s/\(v::real\[\] \|\| s\.v/(a::real[] || s.v/r);
ranked('inner product', 0.9, 'many', 'a', '<#>');
ranked('768 dimensions, TOAST, cosine', 0.9, 'many', 'w', '<=>',
	'SELECT (v::real[] || v::real[])::vector(768) FROM queries');
cmp_ok(number($node, "SELECT pg_relation_size(reltoastrelid) FROM pg_class WHERE relname = 'many'"), '>',
	3000000, 'the long ones are in TOAST');
cmp_ok(number($node, "SELECT (pg_relation_size('many_w') - 768 * 4 * 200) / 1500"), '<=', 250,
	'bytes a row of 768 dimensions');
# by default as many dimensions are kept in 4 bits, four records a page; half of the rows one by one
$node->safe_psql('postgres', q(
	CREATE TABLE wide AS SELECT id, w FROM many WHERE id % 2 = 0;
	CREATE INDEX wide_idx ON wide USING grnnd (w);
	INSERT INTO wide SELECT id, w FROM many WHERE id % 2 = 1));
ranked('768 dimensions by default', 0.95, 'wide', 'w', '<->',
	'SELECT (v::real[] || v::real[])::vector(768) FROM queries');
cmp_ok(number($node, "SELECT (pg_relation_size('wide_idx') - 768 * 4 * 260) / 1500"), '<=', 2070,
	'bytes a row of 768 dimensions by default');
sound($node, 'wide_idx', '768 dimensions by default');
$node->safe_psql('postgres', 'DROP TABLE wide');
ranked('halfvec', 0.9, 'many', 'h');
like(number($node, q(
	SET enable_seqscan = off; SET enable_sort = off;
	EXPLAIN SELECT id FROM many ORDER BY l2_normalize(e)::vector(384) <-> (SELECT l2_normalize(e) FROM many WHERE id = 7) LIMIT 1)),
	qr/Index Scan/, 'the expression is indexed');
is(number($node, q(
	SET enable_seqscan = off; SET enable_sort = off;
	SELECT id FROM many ORDER BY l2_normalize(e)::vector(384) <-> (SELECT l2_normalize(e) FROM many WHERE id = 7) LIMIT 1)),
	7, 'an expression');
# few bits say too little of L1: 8 bits a number
ranked('L1', 0.95, 'many', 'l', '<+>');
cmp_ok(number($node, "SELECT pg_relation_size('many_l') / 1500"), '>', 500, 'L1 has 8 bits a number');

# an m that clients send unasked leaves it compact
$node->safe_psql('postgres', 'CREATE INDEX t_m ON t USING grnnd (v) WITH (layout = compact, m = 16, ef_construction = 64)');
is(number($node, "SELECT pg_relation_size('t_m') = pg_relation_size('t_idx')"), 't', 'm has no effect');
$node->safe_psql('postgres', 'DROP INDEX t_m');

# few dimensions in 4 bits
$node->safe_psql('postgres', q(
	CREATE TABLE few AS SELECT id, subvector(v, 1, 128)::vector(128) AS f FROM source;
	CREATE INDEX few_idx ON few USING grnnd (f) WITH (layout = compact);
	VACUUM ANALYZE few));
ranked('128 dimensions', 0.95, 'few', 'f', '<->', 'SELECT subvector(v, 1, 128)::vector(128) FROM queries');
is(number($node, "SELECT build_parameters->>'degree' || ' ' || codes FROM grnnd_stats('few_idx')"), '32 none: layout = compact',
	'edges, and no codes');
cmp_ok(number($node, "SELECT (pg_relation_size('few_idx') - 128 * 4 * 140) / $ROWS"), '<=', 240, 'bytes a row of 128 dimensions');
sound($node, 'few_idx', '128 dimensions');

# ---- row by row ----

$node->safe_psql('postgres', q(
	CREATE TABLE grown AS SELECT * FROM source WHERE id % 2 = 0;
	CREATE INDEX grown_idx ON grown USING grnnd (v) WITH (layout = compact);
	INSERT INTO grown SELECT * FROM source WHERE id % 2 = 1;
	CREATE TABLE empty (id int, v vector(384));
	CREATE INDEX empty_idx ON empty USING grnnd (v) WITH (layout = compact);
	INSERT INTO empty SELECT * FROM source;
	SELECT grnnd_fit('empty_idx')));
# searches find rows that were inserted about as often as those that were there before
my ($before, $inserted) = split /\n/, $node->safe_psql('postgres', q(
	SET enable_seqscan = off; SET enable_sort = off; SET grnnd.ef_search = 20;
	SELECT avg((n.id = ANY (f.ids))::int) FROM asked a,
		LATERAL (SELECT array_agg(id) AS ids FROM (SELECT id FROM grown ORDER BY v <-> a.v LIMIT 10) g) f,
		LATERAL (SELECT id FROM source ORDER BY v <-> a.v LIMIT 10) n
	GROUP BY n.id % 2 ORDER BY n.id % 2));
cmp_ok($before - $inserted, '<', 0.13, "inserted rows are found: $inserted, others $before");
for my $table (qw(grown empty))
{
	my $recall = ranked($table, 0.85, $table);
	cmp_ok($built - $recall, '<', 0.1, "$table: near that of a build ($recall, $built)");
	sound($node, "${table}_idx", $table);
	missing($node, $table, $table);
}

# ---- deletes, duplicates, HOT chains, a crash, a standby ----

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('compact_standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$node->safe_psql('postgres', q(
	ALTER TABLE t ADD n int;
	UPDATE t SET n = id WHERE id % 3 = 0;
	INSERT INTO t SELECT id + 10000, v FROM source WHERE id % 10 = 0;
	DELETE FROM t WHERE id % 4 = 1));
ranked('before a vacuum', 0.9, 't');
$node->safe_psql('postgres', 'VACUUM t');
ranked('after a vacuum', 0.9, 't');
sound($node, 't_idx', 'vacuumed');
$node->safe_psql('postgres', 'INSERT INTO t SELECT id + 20000, v FROM source WHERE id % 4 = 1');
crash_server($node);
ranked('after a crash', 0.9, 't');
sound($node, 't_idx', 'crashed');
missing($node, 't', 'crashed');
$node->wait_for_catchup($standby);
my $all = q{SELECT grnnd_prewarm('t_idx') > 0};
is(number($node, $all), 't', 'the index is in memory');
is(number($standby, $all), 't', 'and on the standby');
my $answers = q(
	SET enable_seqscan = off; SET enable_sort = off;
	SELECT q.id, array_agg(x.id) FROM queries q,
		LATERAL (SELECT t.id FROM t ORDER BY t.v <-> q.v LIMIT 10) x GROUP BY q.id ORDER BY q.id);
is(number($standby, $answers), number($node, $answers), 'the standby answers alike');

sound($standby, 't_idx', 'standby');

$standby->stop;
$node->stop;
done_testing();
