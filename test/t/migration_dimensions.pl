# Every operator class of pgvector's hnsw (make check: one of each type, and fewer borders) at the borders of bytes, vector registers, pages and
# types: a build, inserts, a vacuum, and answers that are exact, as so few rows must have them.
# Where hnsw refuses a number of dimensions, grnnd takes all that the type has.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use GrnndTest;
use Migration;
use PostgreSQL::Test::Utils;
use Test::More;

# Most dimensions (of sparsevec, numbers other than zero) of the type, and of hnsw.
my %most = (vector => [ 16000, 2000 ], halfvec => [ 16000, 4000 ], bit => [ 64000, 64000 ],
	sparsevec => [ 16000, 1000 ]);
my @common = $all ? (1, 2, 3, 31, 32, 33, 1023, 2000, 2001) : (1, 33, 2001);

my $node = migration_node('migration_dimensions');

# Rows i of $dim numbers, no two rows alike from a few dimensions on; none is zero.
my $number = '((i * 7919 + j * 10473 + (i * (j + 3)) % 97 * 31) % 2001 - 1000.5)';

sub row
{
	my ($type, $dim) = @_;
	my $from = "FROM generate_series(0, $dim - 1) j";
	return "(SELECT string_agg(($number > 0)::int::text, '' ORDER BY j) $from)::bit($dim)" if $type eq 'bit';
	return "(SELECT array_agg(($number / 250.0)::real ORDER BY j) $from)::vector(16000)::$type" if $dim > 16000;
	return "(SELECT array_agg(($number / 250.0)::real ORDER BY j) $from)::vector::$type($dim)";
}

# What is wrong with the answers of a class on table d, or nothing.
sub problem
{
	my ($class) = @_;
	my $op = $class{$class}{op};
	# the operator computes both distances of a row, and rounds them
	my $nearest = "SELECT array_agg(round(d::numeric, 5)) FROM (SELECT v $op q.v AS d FROM d WHERE (v $op q.v) <> 'NaN'
		ORDER BY v $op q.v LIMIT 12) x";
	my $check = $method eq 'hnsw' ? 'VALUES (0)' : "SELECT count(*) FROM grnnd_check('i_$class', true)";
	my ($exact, $plan, $found, $violations) = split /\n/, $node->safe_psql('postgres', qq(
		SET enable_indexscan = off;
		SELECT array_agg(($nearest) ORDER BY q.id) FROM d q WHERE id % 4 = 1;
		SET enable_indexscan = on; SET enable_seqscan = off; SET enable_sort = off; SET hnsw.ef_search = 100;
		CREATE FUNCTION plan(OUT uses boolean) LANGUAGE plpgsql AS \$\$ DECLARE line text; BEGIN uses := false;
			FOR line IN EXPLAIN SELECT id FROM d ORDER BY v $op (SELECT v FROM d LIMIT 1) LIMIT 12
			LOOP uses := uses OR line ~ 'Index Scan using i_$class'; END LOOP; END \$\$;
		SELECT plan();
		SELECT array_agg(($nearest) ORDER BY q.id) FROM (SELECT * FROM d OFFSET 0) q WHERE id % 4 = 1;
		DROP FUNCTION plan;
		$check));
	return 'plan without the index' if $plan ne 't';
	return "answers $found, not $exact" if $found ne $exact;
	return $violations ? "$violations violations" : '';
}

for my $type (sort keys %most)
{
	my @of = grep { $class{$_}{type} eq $type } @tried;
	my ($max, $hnsw) = @{ $most{$type} };

	for my $dim (@common, $max)
	{
		my $row = row($type, $dim);
		my $over = $method eq 'hnsw' && $dim > $hnsw;

		$node->safe_psql('postgres', "DROP TABLE IF EXISTS d; CREATE TABLE d (id int, v $type($dim));
			INSERT INTO d SELECT i, $row FROM generate_series(1, 14) i");
		for my $class ($over ? @of : ())
		{
			my ($status, undef, $error) = $node->psql('postgres', "CREATE INDEX i_$class ON d USING hnsw (v $class)");
			like($error, qr/ERROR:.*(dimensions|elements)/, "$class: $dim is too much for hnsw");
		}
		next if $over;
		$node->safe_psql('postgres', join('', map { "CREATE INDEX i_$_ ON d USING $method (v $_);\n" } @of) .
			"INSERT INTO d SELECT i, $row FROM generate_series(15, 22) i;
			DELETE FROM d WHERE id % 5 = 0;\nVACUUM d;");
		is(problem($_), '', "$_: $dim dimensions") for @of;
	}
	# the type's own limit, or the access method's: one clear error
	my $over = $max + 1;
	for my $class (@of)
	{
		my ($status, undef, $error) = $node->psql('postgres',
			$type eq 'sparsevec' ? "INSERT INTO d VALUES (1, array_fill(0.5, ARRAY[$over])::real[]::sparsevec)"
			: "CREATE TABLE o (v $type($over)); CREATE INDEX ON o USING $method (v $class)");
		like($error, qr/ERROR:.*(dimensions|elements)/, "$class: $over is too much");
		$node->psql('postgres', 'DROP TABLE IF EXISTS o');
	}
}

# numbers far apart of a billion
$node->safe_psql('postgres', q(DROP TABLE d; CREATE TABLE d (id int, v sparsevec(1000000000));
	INSERT INTO d SELECT i, format('{1:%s,%s:%s,1000000000:1}/1000000000', i, i * 1000000 + 5, i % 3 + 1)::sparsevec
		FROM generate_series(1, 30) i));
for my $class (grep { $class{$_}{type} eq 'sparsevec' } @tried)
{
	$node->safe_psql('postgres', "CREATE INDEX i_$class ON d USING $method (v $class)");
	is(problem($class), '', "$class: 1000000000 dimensions");
}

done_testing();
