# Inserts and vacuums that end between the parts of what they write to lists of filter columns: a
# node that is in no list yet, a row of a list whose TID does not follow, a record of rows that is in
# no list, rows of dead nodes that are out of lists whose empty records are not.  Then lists give
# what the table has, to the next attempt as well.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $lock = 6779502;    # src/am/test_point.c

my $node = PostgreSQL::Test::Cluster->new('write_lists');
$node->init;
$node->append_conf('postgresql.conf', q(
autovacuum = off
grnnd.background_fit = off
grnnd.build_device = cpu
wal_consistency_checking = 'generic'
));
$node->start;
setup_grnnd($node, 16, 1);
$node->safe_psql('postgres', q(
	CREATE TABLE t (id serial, c int, d int, v vector(16));
	INSERT INTO t (c, d, v) SELECT id % 100, id % 50, v FROM points(1, 3000, 16, 1);
	CREATE INDEX t_idx ON t USING grnnd (v, c, d)));
my $query_vector = number($node, 'SELECT v FROM queries');

# Rows by lists and by the table, and what grnnd_check() says.
# (by lists, or otherwise where there are none)
my ($table, $way, $limit, $ef) = ('t', 'list', 10_000, 40);
sub compare
{
	my ($name, @conditions) = @_;
	my $sql = '';
	for my $condition (@conditions)
	{
		# (all rows are near enough; without that the search would be as wide as the limit, and a list dear)
		my $query = "SELECT \$\$$condition\$\$, count(*), md5(string_agg(id::text, ' ' ORDER BY id)) FROM (SELECT id FROM $table "
		  . "WHERE ($condition) AND v <-> '$query_vector' < 1000 ORDER BY v <-> '$query_vector' LIMIT $limit) q";
		$sql .= "SET enable_indexscan = off; $query; SET enable_indexscan = on; SET enable_seqscan = off; SET grnnd.ef_search = $ef; $query; "
		  . 'SELECT method FROM grnnd_last_scan(); RESET enable_seqscan; ';
	}
	my @lines = split(/\n/, number($node, $sql));
	is(scalar(@lines), 3 * @conditions, "$name: answers");
	while (my ($by_table, $by_index, $went) = splice(@lines, 0, 3))
	{
		$went =~ s/^(graph|graph, then all rows|all rows)$/no list/;
		is("$by_index|$went", "$by_table|$way", "$name: $by_table");
	}
	sound($node, "${table}_idx", $name);
}

# Ends a statement at a point: its session alone, or the whole server.
sub end_at
{
	my ($point, $crash, $sql) = @_;
	my $waiting = "FROM pg_locks WHERE locktype = 'advisory' AND objid = $lock";
	my $gate = psql_start($node, "SELECT pg_advisory_lock($lock); SELECT pg_sleep(600);");
	$node->poll_query_until('postgres', "SELECT count(*) = 1 $waiting AND granted") or die 'no gate';
	my $session = psql_start($node, "SET grnnd.test_point = '$point'; $sql;");
	$node->poll_query_until('postgres', "SELECT count(*) = 1 $waiting AND NOT granted") or die "nobody at $point";
	if ($crash)
	{
		# what was logged before the point is to survive
		$node->safe_psql('postgres', 'CREATE TABLE flushed (); DROP TABLE flushed');
		crash_server($node);
	}
	else
	{
		$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) $waiting AND NOT granted");
		$node->poll_query_until('postgres', "SELECT count(*) = 0 $waiting AND NOT granted") or die 'it goes on';
		$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) $waiting AND granted");
		$node->poll_query_until('postgres', "SELECT count(*) = 0 $waiting") or die 'the gate stays';
	}
	psql_finish($_) for $gate, $session;
}

my $value = 1000;
for my $crash (0, 1)
{
	my $how = $crash ? 'crash' : 'error';

	# a new row, and an update that gives a row of its own to the same vector
	for my $sql ("INSERT INTO t (c, d, v) SELECT %1\$d, %1\$d, v FROM points(%1\$d + 9000, %1\$d + 9000, 16, 1)",
		'UPDATE t SET c = %1$d, d = %1$d WHERE id = %1$d')
	{
		my $statement = sprintf($sql, ++$value);
		end_at('node-unlisted', $crash, $statement);
		compare("$how: node in no list", "c = $value", "d = $value");
		# twice, because the second one finds what the first has written
		$node->safe_psql('postgres', "$statement; $statement");
		compare("$how: node in no list, and again", "c = $value", "d = $value", 'c = 7', 'd IS NULL', "c BETWEEN $value AND 9999");
	}

	# rows of one vector and any values, which share a record from the third value on
	my $same = "INSERT INTO t (c, d, v) SELECT c, c, v FROM points(%1\$d + 9000, %1\$d + 9000, 16, 1), unnest('{%2\$s}'::int[]) c";
	my $first = ++$value;
	$node->safe_psql('postgres', sprintf($same, $first, '1, 2, 3, 4'));
	# (that lists tell apart)
	for my $listed (10 * $first, -$first)
	{
		my $statement = sprintf($same, $first, $listed);
		end_at('tid-listed', $crash, $statement);
		compare("$how: node with another value", "c = $listed", 'c = 3');
		$node->safe_psql('postgres', $statement);
		compare("$how: node with another value, and again", "c = $listed", "d = $listed", 'c = 3');
	}

	# more rows of a value than records have room for
	my $statement;
	for my $arrival (1, 3)
	{
		$statement = sprintf('INSERT INTO t (c, d, v) SELECT %1$d, NULL, v FROM points(%1$d * 100, %1$d * 100 + 299, 16, 1)', ++$value);
		end_at("list-written:$arrival", $crash, $statement);
		compare("$how: record in no list", "c = $value", 'd IS NULL');
		$node->safe_psql('postgres', $statement);
		compare("$how: record in no list, and again", "c = $value", 'd IS NULL');
	}

	$node->safe_psql('postgres', "DELETE FROM t WHERE id % 3 = $crash OR c = $value");
	end_at('vacuum-lists', $crash, 'VACUUM t');
	compare("$how: vacuum", 'c = 7', 'd = 8', "c = $value", 'd IS NULL', 'c BETWEEN 3 AND 5');
	$node->safe_psql('postgres', $statement);
	compare("$how: rows beside empty records", "c = $value", 'd IS NULL');
	$node->safe_psql('postgres', "VACUUM t; $statement");
	compare("$how: vacuumed again", 'c = 7', 'd = 8', "c = $value", 'd IS NULL');
}

# what is in no list and holds no row is free in the end
$node->safe_psql('postgres', 'DELETE FROM t; VACUUM t; VACUUM t');
is(number($node, "SELECT estimated_nodes, bytes_by_part ->> 'filters' FROM grnnd_stats('t_idx')"), '0|0', 'no record is left');
sound($node, 't_idx', 'without a row');

# An index that is created empty, or on a few rows, gets its lists from fits, as it gets codes and as
# it grows.  A fit that ends early leaves none, and the next one begins anew.
($table, my $next) = ('e', 1);
$node->safe_psql('postgres', q(
	CREATE TABLE e (id serial, c int, d text, v vector(16));
	CREATE INDEX e_idx ON e USING grnnd (v, c, d);
	-- rows of one vector, which chained records hold, and without a value
	INSERT INTO e (c, d, v) SELECT i, CASE WHEN i % 9 > 0 THEN 'd' || i % 9 END, v FROM points(1, 1, 16, 1), generate_series(1, 60) i));

sub insert_rows
{
	my ($n) = @_;
	my $last = $next + $n - 1;
	$node->safe_psql('postgres', "INSERT INTO e (c, d, v) SELECT id / 8, 'd' || id % 20, v FROM points($next, $last, 16, 1)");
	$next = $last + 1;
}

sub generation
{
	my $file = slurp_file($node->data_dir . '/' . number($node, "CHECKPOINT; SELECT pg_relation_filepath('${table}_idx')"));
	return metapage($file)->{list_generation};
}

my @some = ('c = 7', "d = 'd3'", 'd IS NULL', 'c BETWEEN 20 AND 24', 'c > 1000');
insert_rows(70);
for my $crash (0, 1)
{
	my $how = $crash ? 'crash' : 'error';
	my @points = ('lists-dropped', 'lists-begun', 'list-written:5', 'lists-flushed');

	$way = $crash ? 'list' : 'no list';
	for my $point ('lists-fitted', $crash ? @points : reverse @points)
	{
		end_at($point, $crash, "SELECT grnnd_fit('e_idx')");
		$way = 'no list' if $point ne 'lists-fitted';
		compare("$how at $point", @some);
		# rows that come now are in lists, or will be
		$node->safe_psql('postgres', "INSERT INTO e (c, d, v) SELECT 7, 'd3', v FROM points(1, 3, 16, 1); "
			  . "UPDATE e SET c = 20, d = NULL WHERE id % 100 = 5");
		compare("$how at $point, and more rows", @some);
	}
	$node->safe_psql('postgres', 'DELETE FROM e WHERE id % 50 = 7');
	# takes what lists of others there are, and makes new ones
	$node->safe_psql('postgres', 'VACUUM e');
	$way = 'list';
	compare("$how, vacuumed", @some);
	insert_rows(7 * $next);
	# (the bucket of values beyond the book has most rows now, so no list is sure to serve the last)
	compare("$how, more rows", @some[ 0 .. 3 ]);
	$node->safe_psql('postgres', "SELECT grnnd_fit('e_idx')") if $crash;
	compare("$how, grown", @some);
}
is(generation(), 9, 'generations of lists');
$node->safe_psql('postgres', "DELETE FROM e; VACUUM e; VACUUM e");
is(number($node, "SELECT estimated_nodes, bytes_by_part ->> 'filters' FROM grnnd_stats('e_idx')"), '0|0', 'no record of any generation is left');
sound($node, 'e_idx', 'without a row');

# Lists of a build are made anew as well when it has grown, for values that came later.  (Signatures go
# by the build's book of c for good.)
$table = 'b';
$node->safe_psql('postgres', q(
	CREATE TABLE b (id serial, c int, v vector(16));
	INSERT INTO b (c, v) SELECT id % 10, v FROM points(1, 300, 16, 1);
	CREATE INDEX b_idx ON b USING grnnd (v, c);
	INSERT INTO b (c, v) SELECT id % 200, v FROM points(301, 1500, 16, 1)));
compare('built', 'c = 5', 'c = 150', 'c BETWEEN 100 AND 110');
is(generation(), 0, 'lists of the build');
$node->safe_psql('postgres', "SELECT grnnd_fit('b_idx')");
is(generation(), 1, 'lists of a fit');
compare('built and grown', 'c = 5', 'c = 150', 'c BETWEEN 100 AND 110');
$node->safe_psql('postgres', "INSERT INTO b (c, v) SELECT id, v FROM points(1501, 1510, 16, 1); DELETE FROM b WHERE c = 5; VACUUM b");
compare('built, grown and vacuumed', 'c = 5', 'c = 1505');

# Long lists have groups (of eight records on, in builds for tests): of a build, and of a fit.  Rows
# that come later are in chains, vacuum takes groups without rows, and a fit may end in between.
# (by searches so narrow that they read some groups first, and then others)
($table, $limit, $ef) = ('long', '(SELECT 10000)', 4);
$node->safe_psql('postgres', q(
	CREATE TABLE long (id serial, c int, d int, v vector(16));
	INSERT INTO long (c, d, v) SELECT id % 10, CASE WHEN id % 6 > 0 THEN id % 40 END, v FROM points(1, 2000, 16, 1);
	CREATE INDEX long_idx ON long USING grnnd (v, c, d)));
my @long = ('(c = 1)', 'd IS NULL', 'd = 8', 'c = 2 AND d IS NULL', 'c IN (0, 41)', 'c BETWEEN 1 AND 1');
sub groups
{
	# the flag in the records' fourth byte, of those of lists
	my $meta = metapage(my $file = slurp_file($node->data_dir . '/' . number($node, "CHECKPOINT; SELECT pg_relation_filepath('${table}_idx')")));
	my ($groups, $guides) = (0, 0);
	for (my $page = $meta->{first_node_block} * 8192; $page < length($file); $page += 8192)
	{
		for (my $at = $page + 24; $at + $meta->{record_bytes} <= $page + 8184; $at += $meta->{record_bytes})
		{
			my ($state, undef, undef, $flags) = unpack('C4', substr($file, $at, 4));
			$groups++ if $state == 4 && $flags == 4;
			$guides++ if $state == 4 && $flags == 8;
		}
	}
	return ($groups, $guides);
}
my ($groups, $guides) = groups();
cmp_ok($groups, '>=', 40, "groups: $groups") or diag "$guides guides";
cmp_ok($guides, '>=', 4, "guides: $guides");
compare('groups', @long);
$node->safe_psql('postgres', q(INSERT INTO long (c, d, v) SELECT id % 11, 7, v FROM points(2001, 2400, 16, 1);
	UPDATE long SET c = 1 WHERE id % 50 = 0; DELETE FROM long WHERE id % 7 = 0));
compare('groups, and rows that came later', @long, '(c = 10)');
for my $crash (0, 1)
{
	$node->safe_psql('postgres', "DELETE FROM long WHERE c IN (2, 3) AND id % 2 = $crash");
	end_at('vacuum-lists', $crash, 'VACUUM long');
	compare("groups, vacuum ended early: $crash", @long);
}
$node->safe_psql('postgres', 'VACUUM long');
compare('groups, vacuumed', @long);
my ($fewer, undef) = groups();
cmp_ok($fewer, '<', $groups - 5, "groups of values that have gone: $fewer");
$node->safe_psql('postgres', 'INSERT INTO long (c, d, v) SELECT id % 10, CASE WHEN id % 6 > 0 THEN id % 40 END, v FROM points(2401, 5200, 16, 1)');
for my $crash (0, 1)
{
	$way = 'list' if !$crash;
	end_at('list-group:3', $crash, "SELECT grnnd_fit('long_idx')");
	$way = 'no list';
	compare("groups of a fit that ended early: $crash", @long);
}
$node->safe_psql('postgres', "SELECT grnnd_fit('long_idx')");
$way = 'list';
compare('groups of a fit', @long);
($groups, $guides) = groups();
cmp_ok($groups, '>=', 80, "groups of a fit: $groups, $guides guides");
$node->safe_psql('postgres', "DELETE FROM long WHERE id % 3 = 0; VACUUM long; INSERT INTO long (c, d, v) SELECT 1, 7, v FROM points(1, 50, 16, 1)");
compare('groups of a fit, vacuumed', @long);

# A cursor goes on by groups that a vacuum or a fit has changed since it began, and finds what its snapshot has.
for my $change ('DELETE FROM long WHERE id % 2 = 0; VACUUM long', "SELECT grnnd_fit('long_idx')")
{
	$node->safe_psql('postgres', 'INSERT INTO long (c, d, v) SELECT id % 8, 7, v FROM points(6001, 19000, 16, 1)') if $change =~ /fit/;
	my $rows = number($node, 'SELECT count(*) FROM long WHERE c = 0');
	my $gate = psql_start($node, "SELECT pg_advisory_lock($lock); SELECT pg_sleep(600);");
	$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = $lock AND granted") or die 'no gate';
	my $cursor = psql_start($node, "SET enable_seqscan = off; SET grnnd.ef_search = $ef; BEGIN ISOLATION LEVEL REPEATABLE READ;
		DECLARE r CURSOR FOR SELECT id FROM long WHERE c = 0 ORDER BY v <-> '$query_vector' LIMIT (SELECT 100000);
		FETCH 40 FROM r; SELECT 'way ' || method FROM grnnd_last_scan(); SELECT pg_advisory_xact_lock($lock); FETCH ALL FROM r; COMMIT;");
	$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = $lock AND NOT granted") or die 'no cursor';
	my $before = generation();
	$node->safe_psql('postgres', $change);
	is(generation() - $before, $change =~ /fit/ ? 1 : 0, "lists beside a cursor: $change");
	$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objid = $lock AND granted");
	my @ids = grep { /^\d+$/ } split(/\n/, psql_finish($cursor));
	my %ids = map { $_ => 1 } @ids;
	is(scalar(@ids) . ' ' . scalar(keys %ids), "$rows $rows", "cursor: all rows, each once, beside: $change");
	psql_finish($gate);
}
compare('after the cursors', @long);
$node->safe_psql('postgres', "DELETE FROM long; VACUUM long; VACUUM long");
is(number($node, "SELECT estimated_nodes, bytes_by_part ->> 'filters' FROM grnnd_stats('long_idx')"), '0|0', 'no group and no guide is left');
sound($node, 'long_idx', 'without a row');

# Of a list whose rows die but for one, most records of the guide name no group any more.  The next
# vacuum leaves them where they are, since the others follow them.
$table = 'few';
$node->safe_psql('postgres', q(
	CREATE TABLE few (id serial, c int, v vector(16));
	INSERT INTO few (c, v) SELECT id % 5, v FROM points(1, 35000, 16, 1);
	CREATE INDEX few_idx ON few USING grnnd (v, c) WITH (degree = 8)));
(undef, $guides) = groups();
cmp_ok($guides, '>=', 15, "guides of five lists: $guides");
my @few = map { "(c = $_)" } 0 .. 4;
compare('before most rows die', @few);
for my $round (1 .. 3)
{
	$node->safe_psql('postgres', 'INSERT INTO few (c, v) SELECT 7, v FROM points(1, 1, 16, 1); DELETE FROM few WHERE id > 5; VACUUM few');
	compare("a row of each list is left, vacuum $round", @few);
}
my ($left, $still) = groups();
# (a row may have a copy in another group)
cmp_ok($left, '<=', 10, "groups that are left: $left");
is($still, $guides, 'guides with groups stay');

# rows of bits are their own codes, so nothing is fitted to them
is(number($node, q(
	CREATE TABLE bits (id serial, c int, v bit(64));
	CREATE INDEX bits_idx ON bits USING grnnd (v bit_hamming_ops, c);
	INSERT INTO bits (c, v) SELECT i % 50, (('x' || md5(i::text))::bit(64)) FROM generate_series(1, 500) i;
	SELECT grnnd_fit('bits_idx');
	INSERT INTO bits (c, v) VALUES (7, '0'::bit(64));
	SET enable_seqscan = off;
	SELECT count(*) FROM (SELECT id FROM bits WHERE c = 7 AND v <~> '0'::bit(64) < 100 ORDER BY v <~> '0'::bit(64) LIMIT 1000) q;
	SELECT method FROM grnnd_last_scan())), "\n11\nlist", 'lists of bits');
sound($node, 'bits_idx', 'bits');
unlike(slurp_file($node->logfile), qr/inconsistent page|PANIC|TRAP/, 'replay gave the pages that were logged');
$node->stop;
done_testing();
