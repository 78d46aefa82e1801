# sparsevec on real words: recall of each operator class, of an index that has grown, after
# deletes and a crash; how many rows of the table scans read; and what interrupts them.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $ROWS = 2100;
my $QUERIES = 25;

my $node = PostgreSQL::Test::Cluster->new('sparsevec');
$node->init;
$node->append_conf('postgresql.conf', q(
autovacuum = off
fsync = off
grnnd.build_device = cpu
grnnd.background_fit = off
max_parallel_workers_per_gather = 0
));
$node->start;
setup_grnnd($node, 8, 1);

# The glosses' words with weights by how rare they are, each gloss of length 1.
open(my $glosses, '-|', 'gzip', '-dc', "$FindBin::Bin/../data/glosses.txt.gz") or die;
my (@texts, %number, %in_texts);
while (@texts < $ROWS + $QUERIES && defined(my $line = <$glosses>))
{
	my %count;
	$count{$_}++ for lc($line) =~ /[a-z]+/g;
	push @texts, \%count;
	for (sort keys %count)
	{
		$number{$_} //= 1 + keys %number;
		$in_texts{$_}++;
	}
}
close($glosses);
# far apart, as in a vocabulary that all languages share
my $dim = 250 * (1 + keys %number);
my ($rows, $raw, $queries) = ('', '', '');
for my $i (0 .. $#texts)
{
	my %weight = map { $_ => (1 + log $texts[$i]{$_}) * log(@texts / $in_texts{$_}) } keys %{ $texts[$i] };
	my $length = 0;
	$length += $_**2 for values %weight;
	my $v = '{' . join(',', map { sprintf('%d:%.5f', 250 * $number{$_}, $weight{$_} / sqrt($length)) }
		  sort { $number{$a} <=> $number{$b} } keys %weight) . "}/$dim";
	$i < $ROWS ? ($rows .= "$i\t$v\n") : ($queries .= "$i\t$v\n");
	# as long as their words make them, and one in a hundred ten times as long
	$v = '{' . join(',', map { sprintf('%d:%.5f', 250 * $number{$_}, $weight{$_} * ($i % 100 ? 1 : 10)) }
		  sort { $number{$a} <=> $number{$b} } keys %weight) . "}/$dim";
	$raw .= "$i\t$v\n" if $i < $ROWS;
}
$node->safe_psql('postgres', qq(
CREATE TABLE t (id int, v sparsevec($dim));
CREATE TABLE q (id int, v sparsevec($dim));
COPY t FROM stdin;
$rows\\.
COPY q FROM stdin;
$queries\\.
CREATE TABLE raw (id int, v sparsevec($dim));
COPY raw FROM stdin;
$raw\\.
ANALYZE t;
CREATE FUNCTION sparse_recall(tab regclass, op text, k int, OUT recall float8, OUT disordered bigint)
LANGUAGE plpgsql AS \$\$
DECLARE
	query sparsevec;
	worst float8;
	n bigint;
	got float8[];
	hits bigint := 0;
	wanted bigint := 0;
BEGIN
	disordered := 0;
	FOR query IN SELECT v FROM q LOOP
		PERFORM set_config('enable_indexscan', 'off', true), set_config('enable_seqscan', 'on', true);
		EXECUTE format('SELECT max(d), count(*) FROM (SELECT v %s \$1 AS d FROM %s ORDER BY 1 LIMIT %s) x', op, tab, k)
			INTO worst, n USING query;
		PERFORM set_config('enable_indexscan', 'on', true), set_config('enable_seqscan', 'off', true);
		EXECUTE format('SELECT array_agg(d ORDER BY n) FROM (SELECT row_number() OVER () AS n, *
			FROM (SELECT v %s \$1 AS d FROM %s ORDER BY v %1\$s \$1 LIMIT %3\$s) y) x', op, tab, k) INTO got USING query;
		wanted := wanted + n;
		hits := hits + (SELECT count(*) FROM unnest(got) d WHERE d <= worst);
		disordered := disordered + (SELECT count(*) FROM generate_series(2, cardinality(got)) i WHERE got[i] < got[i - 1]);
	END LOOP;
	recall := hits / wanted::float8;
END \$\$));

sub recall_is
{
	my ($op, $ef, $least, $name, $table) = @_;
	$table //= 't';
	my ($recall, $disordered) = split /\|/,
		$node->safe_psql('postgres', "SET grnnd.ef_search = $ef; SELECT * FROM sparse_recall('$table', '$op', 10)");
	cmp_ok($recall, '>=', $least, "$name: recall $recall at $ef");
	is($disordered, 0, "$name: in order");
}

for (['l2', '<->', 0.83], ['ip', '<#>', 0.87], ['cosine', '<=>', 0.88], ['l1', '<+>', 0.9])
{
	my ($class, $op, $least) = @$_;
	$node->safe_psql('postgres', "CREATE INDEX i ON t USING grnnd (v sparsevec_${class}_ops)");
	recall_is($op, 100, $least, $class);
	cmp_ok(number($node, "SELECT pg_relation_size('i')"), '<', 800 * $ROWS, "$class: short records");
	recall_is($op, 400, 0.96, $class) if $class eq 'cosine';
	sound($node, 'i', $class);
	$node->safe_psql('postgres', 'DROP INDEX i');
}

# rows of many lengths, in a build and row by row: the longest are not the neighbors of all others
$node->safe_psql('postgres', 'CREATE INDEX i ON raw USING grnnd (v sparsevec_ip_ops)');
recall_is('<#>', 100, 0.85, 'lengths', 'raw');
sound($node, 'i', 'lengths');
$node->safe_psql('postgres', 'DROP INDEX i; CREATE TABLE raw_source AS SELECT * FROM raw; TRUNCATE raw;
	CREATE INDEX i ON raw USING grnnd (v sparsevec_ip_ops); INSERT INTO raw SELECT * FROM raw_source');
recall_is('<#>', 100, 0.75, 'lengths, inserted', 'raw');
sound($node, 'i', 'lengths, inserted');
$node->safe_psql('postgres', 'DROP INDEX i');

# an index that grows
$node->safe_psql('postgres', "ALTER TABLE t RENAME TO source; CREATE TABLE t AS SELECT * FROM source WHERE id % 8 > 0;
	CREATE INDEX i ON t USING grnnd (v sparsevec_cosine_ops);
	INSERT INTO t SELECT * FROM source WHERE id % 8 = 0");
recall_is('<=>', 100, 0.88, 'inserted');
sound($node, 'i', 'inserted');

# Blocks of the table that one query reads, the executor's among them.
sub table_blocks
{
	my ($table, $query) = @_;
	return (split /\n/, $node->safe_psql('postgres', "BEGIN; SET enable_seqscan = off; $query;
		SELECT pg_stat_get_xact_blocks_fetched('$table'::regclass); COMMIT"))[-1];
}
my $blocks = table_blocks('t', 'SELECT id FROM t ORDER BY v <=> (SELECT v FROM q LIMIT 1) LIMIT 10');
cmp_ok($blocks, '<=', 60, "a query reads few rows of the table ($blocks)");
# rows of numbers
$node->safe_psql('postgres', q(CREATE TABLE exact (id int, v sparsevec(100));
	INSERT INTO exact SELECT i, (SELECT array_agg(unit(i, j, 5)) FROM generate_series(1, 100) j)::vector::sparsevec
	FROM generate_series(1, 1000) i;
	CREATE TABLE exact_q AS SELECT v FROM exact WHERE id = 7;
	CREATE INDEX ON exact USING grnnd (v)));
$blocks = table_blocks('exact', 'SELECT id FROM exact ORDER BY v <-> (SELECT v FROM exact_q) LIMIT 10');
cmp_ok($blocks, '<=', 35, "rows of numbers: few rows are read ($blocks)");

# Rows that are TOASTed make a sort expensive: the index is planned for few of them.
$node->safe_psql('postgres', q(CREATE TABLE long (id int, v sparsevec(100000));
	INSERT INTO long SELECT i, (SELECT '{' || string_agg(1 + j * 100 + i % 100 || ':' || 1 + (i * j) % 7, ',') || '}/100000'
		FROM generate_series(0, 700) j)::sparsevec FROM generate_series(1, 300) i;
	CREATE INDEX ON long USING grnnd (v);
	VACUUM ANALYZE long));
like($node->safe_psql('postgres', q(EXPLAIN SELECT id FROM long ORDER BY v <-> '{1:1}/100000' LIMIT 10)),
	qr/Index Scan/, 'planned for TOASTed rows');

# A greatest distance ends a scan, negative ones too, with the rows within it.
$node->safe_psql('postgres', 'CREATE INDEX i_ip ON t USING grnnd (v sparsevec_ip_ops)');
my $within = "SELECT count(*) FROM (SELECT id FROM t WHERE v <#> (SELECT v FROM t WHERE id = 9) < -0.2
	ORDER BY v <#> (SELECT v FROM t WHERE id = 9) LIMIT 1000) x";
is($node->safe_psql('postgres', "SET enable_seqscan = off; SET enable_sort = off; $within"),
	$node->safe_psql('postgres', "SET enable_indexscan = off; $within"), 'rows within a greatest distance');
$node->safe_psql('postgres', 'DROP INDEX i_ip');

# deletes, and a crash: ef counts rows that the snapshot sees
$node->safe_psql('postgres', 'DELETE FROM t WHERE id % 3 > 0');
recall_is('<=>', 100, 0.85, 'deleted');
$node->safe_psql('postgres', 'VACUUM t');
recall_is('<=>', 100, 0.78, 'after vacuum');
$node->safe_psql('postgres', 'INSERT INTO t SELECT * FROM source WHERE id % 3 = 1 AND id < 300');
crash_server($node);
recall_is('<=>', 100, 0.78, 'after a crash');
sound($node, 'i', 'after a crash');

# a scan that reads for long can be canceled, and ends without a page in its hand
my $slow = q(SET enable_seqscan = off; SET statement_timeout = '50ms';
	SELECT count(pg_sleep(0.001)) FROM (SELECT id FROM t ORDER BY v <=> (SELECT v FROM q LIMIT 1) LIMIT 100000) x);
my ($rc, $out, $err) = $node->psql('postgres', $slow);
like($err, qr/canceling statement due to statement timeout/, 'canceled');
is(number($node, "SET enable_seqscan = off; SELECT count(*) FROM (SELECT id FROM t
	ORDER BY v <=> (SELECT v FROM q LIMIT 1) LIMIT 100000) x"), $ROWS / 3 + 100, 'and the next scan is complete');

$node->stop;
done_testing();
