# What a user of hnsw does, with USING grnnd in the place of USING hnsw, for each of
# pgvector's operator classes that grnnd has (make check: for one of each type): builds, inserts, deletes and vacuum, equal
# rows, filters, the ends of scans, NULL and zero, limits of types, crash and dump.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use Migration;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = migration_node('classes');

# The list at the top of Migration.pm is what the extension has for vectors; filter columns' classes
# order nothing.
is(number($node, q(SELECT string_agg(opcname, ' ' ORDER BY opcname) FROM pg_opclass c JOIN pg_am a ON a.oid = opcmethod
	WHERE amname = ') . $method . q(' AND opcname NOT LIKE '%test%'
	AND opcfamily IN (SELECT amopfamily FROM pg_amop WHERE amoppurpose = 'o'))), join(' ', sort @classes),
	"Migration.pm lists the classes of $method");

# Few rows, written as a person would, with NULL and zero among them.
sub few_rows
{
	my ($class) = @_;
	my $c = $class{$class};
	my ($dim, @rows) = $c->{type} eq 'bit' ? (3, qw(000 100 011 111)) : (3, '[0,0,0]', '[3,1,0]', '[2,2,2]', '[-1,0,4]');
	my $late = $c->{type} eq 'bit' ? '110' : '[5,0,1]';
	my $cast = $c->{type} eq 'sparsevec' ? '::vector::sparsevec' : "::$c->{type}(3)";
	my $table = "few_$class";
	my $query = $c->{type} eq 'bit' ? "'101'::bit(3)" : "'[4,1,1]'$cast";
	my $least = $class =~ /cosine/ ? 4 : 5;		# a zero row has no direction, so no place
	my $sorted = "SELECT v FROM $table WHERE v $c->{op} $query <> 'NaN' ORDER BY v $c->{op} $query";
	my $by_index = 'SET enable_seqscan = off;';

	$node->safe_psql('postgres', "CREATE TABLE $table (v $c->{type}($dim));"
		  . join('', map { "INSERT INTO $table VALUES ('$_'$cast);" } @rows)
		  . "INSERT INTO $table VALUES (NULL); CREATE INDEX ON $table USING $method (v $class);"
		  . "INSERT INTO $table VALUES ('$late'$cast), (NULL);");
	like(number($node, "$by_index EXPLAIN SELECT v FROM $table ORDER BY v $c->{op} $query LIMIT 9"), qr/Index Scan/,
		"$class: few rows: by index");
	my $distances = sub { number($node, "$_[0] SELECT v $c->{op} $query FROM $table WHERE v IS NOT NULL
		ORDER BY v $c->{op} $query LIMIT 9") };
	is($distances->($by_index), lines(grep { $_ ne 'NaN' } split(/\n/, $distances->('SET enable_indexscan = off;'))),
		"$class: few rows: in order");
	is(number($node, "$by_index SELECT count(*) FROM (SELECT v FROM $table ORDER BY v $c->{op} $query LIMIT 9) x"), $least,
		"$class: few rows: NULL is not among them");
	is(number($node, "$by_index SELECT count(*) FROM (SELECT v FROM $table
		ORDER BY v $c->{op} (SELECT NULL::$c->{type}) LIMIT 9) x"), $least, "$class: few rows: all are as far from NULL");
	my $origin = $c->{type} eq 'bit' ? "'000'::bit(3)" : "'$c->{origin}'::$c->{type}";
	my $from_origin = number($node, "$by_index SELECT count(*) FROM (SELECT v FROM $table ORDER BY v $c->{op} $origin LIMIT 9) x");
	is($from_origin, $least, "$class: few rows: query of zero");
	is(number($node, "SELECT count(*) FROM $table"), 7, "$class: few rows: all in the table");
	# each row's nearest is itself
	is(number($node, "$by_index SELECT count(*) FROM $table a CROSS JOIN LATERAL (SELECT v FROM $table b
		ORDER BY b.v $c->{op} a.v LIMIT 1) x WHERE a.v IS NOT NULL AND a.v <> $origin AND x.v <> a.v"), 0,
		"$class: few rows: joined with itself") if $class !~ /ip_ops|cosine/;
	is(number($node, "TRUNCATE $table; $by_index SELECT v FROM $table ORDER BY v $c->{op} $query LIMIT 9"), '',
		"$class: few rows: TRUNCATE");
}

# Built for all rows at once, with hnsw's own options, and by inserts from several
# connections into an empty table.
sub builds_and_inserts
{
	my ($class) = @_;

	$node->safe_psql('postgres', index_on($class, "b_$class", 'true'));
	answers_well($node, $class, "b_$class", 10, 0.95, 'built');
	answers_well($node, $class, "b_$class", 20, 0.98, 'built, hnsw.ef_search 200', set => ['SET hnsw.ef_search = 200']);
	$node->safe_psql('postgres', index_on($class, "w_$class", 'id <= 1000', 'WITH (m = 24, ef_construction = 100)'));
	answers_well($node, $class, "w_$class", 10, 0.95, 'built WITH (m, ef_construction)');

	$node->safe_psql('postgres', index_on($class, "n_$class", 'false'));
	my $row = $class{$class}{of} =~ s/%s/v/r;
	my $complaints = pgbench_finish(pgbench_start($node, [ '-c', 4, '-j', 2, '-t', 60 ],
		[ 1, "WITH turn AS MATERIALIZED (SELECT nextval('turn') AS n) INSERT INTO n_$class SELECT id, kind, $row
			FROM base, turn WHERE id BETWEEN 5 * n - 4 AND 5 * n;" ]));
	is($complaints, '', "$class: inserts from several connections");
	is(number($node, "SELECT count(*), count(DISTINCT id) FROM n_$class"), '1200|1200', "$class: inserted rows");
	answers_well($node, $class, "n_$class", 10, 0.95, 'inserted', set => ['SET hnsw.ef_search = 100']);
}

# Most rows deleted: the others are found before and after vacuum, and their room is
# used again.
sub vacuums
{
	my ($class) = @_;
	my $table = "v_$class";
	my $row = $class{$class}{of} =~ s/%s/v/r;

	$node->safe_psql('postgres', index_on($class, $table, 'id <= 1500', 'WITH (m = 12, ef_construction = 40)')
		  . "DELETE FROM $table WHERE id > 400");
	my $size = number($node, "SELECT pg_relation_size('i_$table')");
	answers_well($node, $class, $table, 20, 0.9, 'deleted, hnsw.ef_search 200', set => ['SET hnsw.ef_search = 200']);
	$node->safe_psql('postgres', "VACUUM $table");
	answers_well($node, $class, $table, 20, 0.95, 'vacuumed');
	$node->safe_psql('postgres', "INSERT INTO $table SELECT id, kind, $row FROM base WHERE id BETWEEN 401 AND 1500");
	cmp_ok(number($node, "SELECT pg_relation_size('i_$table')"), '<=', $size * 1.05, "$class: room is used again");
	answers_well($node, $class, $table, 10, 0.95, 'filled again', set => ['SET hnsw.ef_search = 100']);
	$node->safe_psql('postgres', "DELETE FROM $table WHERE id <> 123; VACUUM $table");
	is(number($node, "SET enable_seqscan = off; SELECT id FROM $table ORDER BY v $class{$class}{op}
		(SELECT v FROM b_$class WHERE id = 7) LIMIT 10"), 123, "$class: all but one deleted");
}

# Equal rows are all found, those that a build met and those that came later.
sub duplicates
{
	my ($class) = @_;
	my $table = "d_$class";
	my $one = "(SELECT v FROM b_$class WHERE id = 5)";
	my $ten = qq(SELECT count(*), count(DISTINCT id) FROM (SELECT id, v FROM $table
		ORDER BY v $class{$class}{op} $one LIMIT 60) x WHERE v = $one);

	$node->safe_psql('postgres', "CREATE TABLE $table AS SELECT i AS id, $one AS v FROM generate_series(1, 30) i;
		ALTER TABLE $table ALTER v TYPE $class{$class}{type}($class{$class}{dim});
		CREATE INDEX i_$table ON $table USING $method (v $class)");
	is(number($node, "SET enable_seqscan = off; $ten"), '30|30', "$class: equal rows, built");
	is(pgbench_finish(pgbench_start($node, [ '-c', 3, '-t', 10 ],
		[ 1, "INSERT INTO $table SELECT 100 + nextval('turn'), $one;" ])), '',
		"$class: equal rows inserted from several connections");
	is(number($node, "SET enable_seqscan = off; $ten"), '60|60', "$class: equal rows, built and inserted");
}

# WHERE, in both modes, and where a scan ends.
sub filters
{
	my ($class) = @_;
	my $table = "b_$class";

	for my $mode ('strict_order', 'relaxed_order')
	{
		answers_well($node, $class, $table, 10, 0.9, "a tenth of the rows, $mode", filter => 'kind = 3',
			relaxed => $mode eq 'relaxed_order', set => ["SET $method.iterative_scan = $mode"]);
	}
	# what one search keeps, and what a limit lets a scan read (there are ties among bits)
	my ($recall, $rows) = answers($node, $class, $table, 100,
		set => [ "SET $method.iterative_scan = off", 'SET hnsw.ef_search = 30' ]);
	cmp_ok($rows, '>=', 20 * 25, "$class: a scan that is not to go on: what one search keeps");
	cmp_ok($rows, '<=', 20 * 60, "$class: a scan that is not to go on: no more") unless $class{$class}{type} eq 'bit';
	($recall, $rows) = answers($node, $class, $table, 1000,
		set => [ "SET $method.iterative_scan = relaxed_order", "SET $method.max_scan_tuples = 500" ]);
	# without codes, which sparse rows lack, a scan also visits what it does not return
	cmp_ok($rows, '>=', 20 * ($class{$class}{type} eq 'sparsevec' ? 100 : 250), "$class: max_scan_tuples");
	cmp_ok($rows, '<', 20 * 900, "$class: max_scan_tuples ends a scan") unless $class{$class}{type} eq 'bit';
	is(number($node, "SET enable_seqscan = off; SELECT count(*) FROM (SELECT id FROM $table WHERE kind = 99
		ORDER BY v $class{$class}{op} (SELECT v FROM $table WHERE id = 1) LIMIT 5) x"), 0, "$class: no row passes");
}

# The most dimensions that hnsw takes, and more than can be.
sub limits
{
	my ($class) = @_;
	my $c = $class{$class};
	my ($dim, $row) = @{ $c->{limit} };
	my $table = "l_$class";
	my $index = "CREATE INDEX ON $table USING $method (v $class)";

	$node->safe_psql('postgres', "CREATE TABLE $table (v $c->{type}($dim)); INSERT INTO $table SELECT $row; $index;
		INSERT INTO $table SELECT $row");
	is(number($node, "SET enable_seqscan = off; SELECT count(*) FROM (SELECT v FROM $table
		ORDER BY v $c->{op} (SELECT v FROM $table LIMIT 1) LIMIT 5) x"), 2, "$class: $dim dimensions");
	if ($c->{over})
	{
		my ($status, undef, $error) = $node->psql('postgres', "CREATE TABLE o_$class (v $c->{type}($c->{over}));
			CREATE INDEX ON o_$class USING $method (v $class)");
		like($error, qr/ERROR:.*dimensions/, "$class: $c->{over} dimensions are refused");
	}
	# a column of any dimensions
	my $any = $c->{type} eq 'bit' ? 'varbit' : $c->{type};
	my ($status, undef, $error) = $node->psql('postgres',
		"CREATE TABLE a_$class (v $any); CREATE INDEX ON a_$class USING $method (v $class)");
	like($error, qr/ERROR:.*(dimensions|type)/, "$class: no dimensions declared");
	$node->safe_psql('postgres', "CREATE INDEX ON a_$class USING $method ((v::$c->{type}(3)) $class)");
	pass("$class: dimensions of an expression");
}

for my $class (@tried)
{
	$node->safe_psql('postgres', 'DROP SEQUENCE IF EXISTS turn; CREATE SEQUENCE turn');
	few_rows($class);
	builds_and_inserts($class);
	duplicates($class);
	vacuums($class);
	filters($class);
	limits($class);
}

# ---- what all indexes go through together: a crash, a dump, REINDEX ----

my @tables = map { ("b_$_", "n_$_") } @tried;
my $checksum = sub {
	my ($name) = @_;
	return number($node, join('', map { my ($t, $op) = ($_, $class{ s/^._//r }{op});
		"SET enable_seqscan = off; SELECT '$t', array_agg(id) FROM (SELECT id FROM $t
			ORDER BY v $op (SELECT v FROM $t WHERE id = 11) LIMIT 15) x;" } @tables));
};
my $before = $checksum->();
like($before, qr/11/, 'answers before the crash');
crash_server($node);
is($checksum->(), $before, 'the same answers after it');

$node->safe_psql('postgres', 'CREATE DATABASE restored');
my @connect = ('-h', $node->host, '-p', $node->port);
my $dump = PostgreSQL::Test::Utils::tempdir . '/dump';
command_ok([ 'pg_dump', @connect, '-f', $dump, 'postgres' ], 'pg_dump');
command_ok([ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', @connect, '-f', $dump, 'restored' ], 'restore');
my $definitions = "SELECT indexdef FROM pg_indexes WHERE indexdef LIKE '% USING $method %' ORDER BY indexname";
is($node->safe_psql('restored', $definitions), $node->safe_psql('postgres', $definitions), 'the same indexes');

$node->safe_psql('postgres', "REINDEX INDEX CONCURRENTLY i_$_") for @tables;
answers_well($node, s/^._//r, $_, 10, 0.95, 'REINDEX CONCURRENTLY') for @tables;
if ($method eq 'grnnd')
{
	sound($node, "i_$_", $_) for map { ("b_$_", "n_$_", "d_$_", "v_$_") } @tried;
}

done_testing();
