# Partitions on other servers, by postgres_fdw: what the shards are asked, and grnnd_search(), which asks
# them at once.  Two shards, and a server that has the partitioned table and one of its partitions.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

chomp(my $libraries = `$ENV{PG_CONFIG} --pkglibdir`);
plan skip_all => 'this server has no postgres_fdw' if !-e "$libraries/postgres_fdw.so";

my ($front, @shards) = map {
	my $node = PostgreSQL::Test::Cluster->new($_);
	$node->init;
	$node->append_conf('postgresql.conf', q(
autovacuum = off
grnnd.background_fit = off
grnnd.build_device = cpu
max_parallel_workers_per_gather = 0
fsync = off
));
	$node->start;
	setup_grnnd($node, 16, 10, 'grnnd_tools');
	$node;
} 'shards_front', 'shards_one', 'shards_two';

# Columns of a shard have another order, and the partitioned table has lost one.
$_->safe_psql('postgres', q(
	CREATE TABLE items (v vector(16), id int PRIMARY KEY, "of Tenant" int, kind varchar(8), tags text[], about jsonb);
	CREATE INDEX items_idx ON items USING grnnd (v, "of Tenant");
	CREATE VIEW width AS SELECT current_setting('grnnd.ef_search') AS ef_search)) for @shards;
$front->safe_psql('postgres', q(
	CREATE EXTENSION postgres_fdw;
	CREATE TABLE items (gone text, id int NOT NULL, "of Tenant" int NOT NULL, kind varchar(8), v vector(16),
		tags text[], about jsonb) PARTITION BY LIST ("of Tenant");
	ALTER TABLE items DROP COLUMN gone;
	CREATE TABLE items_here PARTITION OF items FOR VALUES IN (0, 1);
	CREATE INDEX here_idx ON items_here USING grnnd (v, "of Tenant")));
my $user = number($shards[0], 'SELECT current_user');
for my $i (0, 1)
{
	my $values = $i == 0 ? '(2, 3)' : '(4, 5)';
	$front->safe_psql('postgres', sprintf(q(
		CREATE SERVER shard%d FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '%s', port '%d', dbname 'postgres',
			extensions 'vector, grnnd_tools', async_capable 'true',
			options '-c grnnd.ef_search=300');
		CREATE USER MAPPING FOR PUBLIC SERVER shard%d OPTIONS (user '%s', password_required 'false');
		CREATE FOREIGN TABLE items_%d PARTITION OF items FOR VALUES IN %s SERVER shard%d OPTIONS (table_name 'items');
		CREATE FOREIGN TABLE width_%d (ef_search text) SERVER shard%d OPTIONS (table_name 'width')),
		$i, $shards[$i]->host, $shards[$i]->port, $i, $user, $i, $values, ($i) x 3));
}
$front->safe_psql('postgres', q(
	CREATE TABLE whole AS SELECT id, id % 6 AS "of Tenant", CASE WHEN id % 4 > 0 THEN 'k' || id % 4 END::varchar(8) AS kind,
		v, ARRAY['all', 'tag' || id % 3] AS tags, jsonb_build_object('n', id % 5) AS about FROM points(1, 3000, 16, 1);
	INSERT INTO items SELECT * FROM whole));
$_->safe_psql('postgres', 'ANALYZE items') for @shards;
$front->safe_psql('postgres', 'ANALYZE items_here');
my $query = number($front, 'SELECT v FROM queries ORDER BY id LIMIT 1');

is(number($front, 'SELECT ef_search FROM width_0 UNION ALL SELECT ef_search FROM width_1'), "300\n300",
	"a setting in the server's options counts on the shards");

# ---- what shards are asked ----

# A constant, and a parameter of a plan for all values.
my @modes = ([ 'a constant', "'$query'", '' ], [ 'a parameter', '$1', 'SET plan_cache_mode = force_generic_plan;' ]);

sub plan_of
{
	my ($mode, $statement) = @_;
	my ($name, $value, $settings) = @$mode;
	$statement =~ s/\?/$value/g;
	my $plan = number($front, $value eq '$1'
		? "$settings PREPARE p(vector) AS $statement; EXPLAIN (VERBOSE, COSTS OFF) EXECUTE p('$query')"
		: "EXPLAIN (VERBOSE, COSTS OFF) $statement");
	return $plan;
}

for my $mode (@modes)
{
	my $name = $mode->[0];
	like(plan_of($mode, 'SELECT id FROM items_0 ORDER BY v <-> ? LIMIT 10'),
		qr/Remote SQL: .* ORDER BY \(v OPERATOR\(public\.<->\) .*LIMIT 10/, "$name: one foreign table gets order and limit");

	like(plan_of($mode, 'SELECT id FROM items_0 WHERE grnnd_on_shard("of Tenant" = 2) ORDER BY v <-> ? LIMIT 10'),
		qr/Remote SQL: .* WHERE .* ORDER BY .*LIMIT 10/, "$name: with a filter that the shard estimates, too");
	unlike(plan_of($mode, 'SELECT id FROM items WHERE "of Tenant" = 2 ORDER BY v <-> ? LIMIT 10'), qr/Remote SQL: .*LIMIT|items_1/,
		"$name: the one partition that a filter leaves gets no limit");

	my $plan = plan_of($mode, 'SELECT id FROM items ORDER BY v <-> ? LIMIT 10');
	like($plan, qr/Merge Append/, "$name: partitions are merged");
	is(scalar(() = $plan =~ /^ *Remote SQL: .* ORDER BY/mg), 2, "$name: shards are asked for rows in order");
	unlike($plan, qr/Remote SQL: .*LIMIT|Async/, "$name: without the LIMIT, one after the other");

	$plan = plan_of($mode, q(WITH h AS MATERIALIZED ((SELECT id, v <-> ? AS d FROM items_0 ORDER BY v <-> ? LIMIT 10)
		UNION ALL (SELECT id, v <-> ? AS d FROM items_1 ORDER BY v <-> ? LIMIT 10)) SELECT * FROM h ORDER BY d LIMIT 10));
	is(scalar(() = $plan =~ /Async Foreign Scan/g), 2, "$name: behind a fence all shards at once");
	is(scalar(() = $plan =~ /^ *Remote SQL: .* ORDER BY .* LIMIT 10/mg), 2, "$name: with the LIMIT");
}

# ---- grnnd_search() ----

# What it runs, by its message for debugging.
sub statement_of
{
	my ($call) = @_;
	my ($code, $out, $err) = $front->psql('postgres', "SET client_min_messages = debug1; $call");
	die $err if $code != 0;
	my ($statement) = $err =~ /DEBUG:  (WITH h .*?LIMIT \d+)$/ms or die "no statement: $err";
	return $statement;
}

sub search
{
	my ($arguments) = @_;
	return "SELECT (hit).id, distance FROM grnnd_search(NULL::items, 'v', '<->', $arguments)";
}

for my $filter ('NULL', q('{"of Tenant": [1, 2, 4]}'))
{
	my $statement = statement_of(search("'$query'::vector, 10, $filter"));
	my $plan = number($front, "SET enable_sort = off; PREPARE p(vector) AS $statement; EXPLAIN (VERBOSE, COSTS OFF) EXECUTE p('$query')");
	is(scalar(() = $plan =~ /Async Foreign Scan/g), 2, "filter $filter: both shards at once");
	is(scalar(() = $plan =~ /^ *Remote SQL: .* ORDER BY .* LIMIT 10/mg), 2, 'with order and limit');
	like($plan, qr/Index Scan using here_idx/, 'and the partition that is here by its index');
}

# The shard sees the plain condition, by which it can search.
like(number($shards[0], qq(SET enable_sort = off; EXPLAIN (COSTS OFF)
	SELECT id FROM items WHERE grnnd_on_shard("of Tenant" = 3 AND id > 9) ORDER BY v <-> '$query' LIMIT 10)),
	qr/Index Scan using items_idx.*Index Cond: \("of Tenant" = 3\).*Filter: \(id > 9\)/s, 'grnnd_on_shard() is gone on the shard');
is(number($front, q(SELECT grnnd_on_shard(true), grnnd_on_shard(false), grnnd_on_shard(NULL) IS NULL)), 't|f|t',
	'it is its argument');

# The answers are those of one table.
for my $case (
	[ 'NULL', 'true' ],
	[ q('{"of Tenant": 3}'), '"of Tenant" = 3' ],
	[ q('{"of Tenant": [1, 5], "kind": "k2"}'), q("of Tenant" IN (1, 5) AND kind = 'k2') ],
	[ q('{"kind": null}'), 'kind IS NULL' ],
	[ q('{"kind": "k1 and then some"}'), 'false' ],
	[ q('{"tags": ["all", "tag2"]}'), q(tags @> '{all,tag2}') ],
	[ q('{"about": {"n": 4}}'), q(about @> '{"n": 4}') ],
	[ q('{"kind": "'' OR true --"}'), 'false' ])
{
	my ($filter, $where) = @$case;
	my $found = number($front, sprintf(q(
		SET grnnd.ef_search = 300;
		SELECT count(*), count(DISTINCT (hit).id), sum((EXISTS (SELECT FROM (
				SELECT w FROM whole w WHERE %s ORDER BY v <-> q.v LIMIT 10) x WHERE (x.w).id = (hit).id
				AND to_jsonb(x.w) = to_jsonb(hit)))::int)
		FROM queries q, grnnd_search(NULL::items, 'v', '<->', q.v, 10, filter => %s)), $where, $filter));
	my ($rows, $different, $right) = split /\|/, $found;
	my $wanted = number($front, "SELECT 10 * least(10, count(*)) FROM whole WHERE $where");
	is($rows, $wanted, "filter $filter: as many rows as one table has");
	cmp_ok($right || 0, '>=', 0.99 * $wanted, "filter $filter: the nearest of them, whole");
}
is(number($front, "SELECT bool_and(distance = (hit).v <-> '$query' AND distance >= last) FROM (SELECT *, lag(distance, 1, 0::float8) OVER () AS last FROM grnnd_search(NULL::items, 'v', '<->', '$query', 50)) x"),
	't', 'a query as text; rows come in order, with their distance');
is(number($front, "SELECT count(*) FROM grnnd_search(NULL::items, 'v', '<=>', '$query', 200)"), 200,
	'another operator, and more rows than are fetched at once');
is(number($front, "SELECT count(*) FROM grnnd_search(NULL::$_, 'v', '<->', '$query', 7)"), 7, "$_: no partitions")
  for 'items_0', 'items_here', 'whole';
is(number($front, "BEGIN; SET LOCAL enable_sort = on; SELECT FROM grnnd_search(NULL::whole, 'v', '<->', '$query', 1); SHOW enable_sort"),
	"on", 'settings are given back');

# ---- what it refuses ----

sub refused
{
	my ($sql, $wanted, $name) = @_;
	my ($code, $out, $err) = $front->psql('postgres', $sql);
	like($err, $wanted, $name);
}

my $call = 'SELECT FROM grnnd_search';
refused("$call(7, 'v', '<->', '$query', 10)", qr/type integer is not the row type of a table/, 'no table');
refused("$call(NULL::items, 'w', '<->', '$query', 10)", qr/column "w" of table public\.items does not exist/, 'no column');
refused("$call(NULL::items, 'gone', '<->', '$query', 10)", qr/column "gone" of table public\.items does not exist/, 'a column that went');
refused("$call(NULL::items, 'v', '<', '$query', 10)", qr/type public\.vector has no operator < in a grnnd operator class/, 'an operator that orders nothing');
refused("$call(NULL::items, 'v', '<->', NULL::vector, 10)", qr/query must not be null, and k must be at least 1/, 'no query');
refused("$call(NULL::items, 'v', '<->', '$query', 0)", qr/query must not be null, and k must be at least 1/, 'no rows');
refused("$call(NULL::items, 'v', '<->', '[1,2]', 10)", qr/expected 16 dimensions, not 2/, 'other dimensions');
refused("$call(NULL::items, 'v', '<->', '$query', 10, '[7]')", qr/must be a JSON object/, 'a filter that is a list');
refused("$call(NULL::items, 'v', '<->', '$query', 10, '{\"id = id or id\": 1}')", qr/column "id = id or id" of table/, 'no column to filter by');
refused("$call(NULL::items, 'v', '<->', '$query', 10, '{\"id\": \"x\"}')", qr/invalid input syntax for type integer/, 'a value of another type');
refused("$call(NULL::items, 'v', '<->', '$query', 10, '{\"v\": \"$query\"}')", qr/cannot filter by column "v" of type public\.vector/, 'a type of an extension');
refused("ALTER SERVER shard1 OPTIONS (DROP extensions); $call(NULL::items, 'v', '<->', '$query', 10)",
	qr/server "shard1" does not list .*\n.*ALTER SERVER \.\.\. OPTIONS \(ADD extensions 'vector, grnnd_tools'\)/, 'a server that would send all rows');
$front->safe_psql('postgres', q(ALTER SERVER shard1 OPTIONS (ADD extensions 'grnnd_tools,vector')));

# The caller's privileges count, and policies are not passed by.
$front->safe_psql('postgres', q(CREATE ROLE reader; GRANT SELECT ON items, items_0, items_here TO reader));
refused("SET ROLE reader; $call(NULL::items, 'v', '<->', '$query', 10)", qr/permission denied for foreign table items_1/, 'a role that may not read a partition');
$front->safe_psql('postgres', q(GRANT SELECT ON items_1 TO reader));
is(number($front, "SET ROLE reader; SELECT count(*) FROM grnnd_search(NULL::items, 'v', '<->', '$query', 10)"), 10, 'a role that may');
$front->safe_psql('postgres', q(ALTER TABLE items ENABLE ROW LEVEL SECURITY));
refused("SET ROLE reader; $call(NULL::items, 'v', '<->', '$query', 10)", qr/cannot apply the row-level security policies/, 'policies of the partitioned table');
$front->safe_psql('postgres', q(ALTER TABLE items DISABLE ROW LEVEL SECURITY));

# ---- a shard is away ----

$shards[1]->stop;
is(number($front, "SELECT count(*) FROM grnnd_search(NULL::items, 'v', '<->', '$query', 10, '{\"of Tenant\": [0, 2]}')"), 10,
	'a filter that leaves partitions of other servers');
refused("$call(NULL::items, 'v', '<->', '$query', 10)", qr/could not connect to server "shard1"/, 'a shard is away');
$shards[1]->start;
is(number($front, "SELECT count(*) FROM grnnd_search(NULL::items, 'v', '<->', '$query', 10)"), 10, 'it is back');

sound($_, 'items_idx', $_->name) for @shards;
$_->stop for $front, @shards;
done_testing();
