# Migration.pm - what the tests of migration from hnsw share: the operator classes, data of
# their types, and answers held against exact ones.
#
# MIGRATION_METHOD=hnsw runs them with hnsw and all of its classes, which shows whether the
# expectations are hnsw's as well.  (Known: hnsw's order under halfvec_cosine_ops is not exact.)
package Migration;

use strict;
use warnings;

use Exporter 'import';
use FindBin;
use GrnndTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(%class @classes @tried have $method migration_node literals answers answers_well index_on
  lines plan_of);

# pgvector's operator classes that grnnd has.  One that is added to the extension is added
# here (migration_classes.pl says so), and all that follows tests it, too.
my @have = qw(vector_l2_ops vector_ip_ops vector_cosine_ops vector_l1_ops
	halfvec_l2_ops halfvec_ip_ops halfvec_cosine_ops halfvec_l1_ops
	sparsevec_l2_ops sparsevec_ip_ops sparsevec_cosine_ops sparsevec_l1_ops
	bit_hamming_ops bit_jaccard_ops);

# All of pgvector's hnsw.
#   type, op        of the column, without its dimensions; the operator
#   of              a row (or query) from a vector of 64 dimensions, %s
#   dim             of that row
#   limit           an expression for a row of hnsw's most dimensions (sparsevec: numbers
#                   other than zero), and that as the column's type
#   over            the same, of more dimensions than the type can be indexed with; undef: the
#                   type itself has no more
#   origin          a row that is zero
our %class = (
	(map { ("vector_$_->[0]" => { type => 'vector', op => $_->[1], of => 'subvector(%s, 1, 16)', dim => 16,
		limit => [ 2000, 'array_fill(0.5, ARRAY[2000])::vector' ], origin => '[0,0,0]' }) }
		['l2_ops', '<->'], [ 'ip_ops', '<#>' ], [ 'cosine_ops', '<=>' ], [ 'l1_ops', '<+>' ]),
	(map { ("halfvec_$_->[0]" => { type => 'halfvec', op => $_->[1], of => 'subvector(%s, 1, 16)::halfvec(16)', dim => 16,
		limit => [ 4000, 'array_fill(0.5, ARRAY[4000])::vector::halfvec' ], origin => '[0,0,0]' }) }
		['l2_ops', '<->'], [ 'ip_ops', '<#>' ], [ 'cosine_ops', '<=>' ], [ 'l1_ops', '<+>' ]),
	(map { ("bit_$_->[0]" => { type => 'bit', op => $_->[1], of => 'binary_quantize(%s)::bit(64)', dim => 64,
		limit => [ 64000, q(repeat('01', 32000)::bit(64000)) ], over => 64001, origin => '000' }) }
		['hamming_ops', '<~>'], [ 'jaccard_ops', '<%>' ]),
	(map { ("sparsevec_$_->[0]" => { type => 'sparsevec', op => $_->[1], of => 'sparse(%s)', dim => 64,
		limit => [ 1000, 'array_fill(0.5, ARRAY[1000])::vector::sparsevec' ], origin => '{}/3' }) }
		['l2_ops', '<->'], [ 'ip_ops', '<#>' ], [ 'cosine_ops', '<=>' ], [ 'l1_ops', '<+>' ]));

our $method = $ENV{MIGRATION_METHOD} // 'grnnd';
our @classes = $method eq 'hnsw' ? sort keys %class : @have;
# make check-all tries all of them.  make check tries one of each type, of different metrics, since SQL
# tests have the others.
our @tried = $all || $method eq 'hnsw' ? @classes : qw(vector_l2_ops halfvec_cosine_ops sparsevec_ip_ops bit_hamming_ops);

# Do tests of all these classes apply?
sub have
{
	return !grep { my $c = $_; !grep { $_ eq $c } @classes } @_;
}

# A server with both extensions, base: 3,000 rows of spread(), and queries: 20 more.
sub migration_node
{
	my ($name) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init;
	$node->append_conf('postgresql.conf', join("\n", 'autovacuum = off', 'grnnd.build_device = cpu',
		'max_parallel_workers_per_gather = 0', ''));
	$node->start;
	setup_grnnd($node, 4, 1, 'grnnd_tools');
	$node->safe_psql('postgres', slurp_file("$FindBin::Bin/../lib/migration.sql") . q(
		CREATE TABLE base AS SELECT i AS id, i % 10 AS kind, spread(i) AS v FROM generate_series(1, 3000) i;
		DROP TABLE queries;
		CREATE TABLE queries AS SELECT i AS id, spread(i) AS v FROM generate_series(100001, 100020) i;
		ANALYZE base));
	return $node;
}

# A row of a class, from the expression of a vector of 64 dimensions.
sub row_of
{
	my ($class, $v) = @_;
	return sprintf($class{$class}{of}, $v);
}

# The queries as literals of that class's type, an SQL array.
sub literals
{
	my ($class) = @_;
	my $row = row_of($class, 'v');
	return "ARRAY(SELECT ($row)::text FROM queries ORDER BY id)";
}

# Table $table (id, kind, v) with the rows of base that pass, and an index i_$table.
sub index_on
{
	my ($class, $table, $filter, $with) = @_;
	my ($row, $c) = (row_of($class, 'v'), $class{$class});
	return qq(
		CREATE TABLE $table (id serial, kind int, v $c->{type}($c->{dim}));
		INSERT INTO $table SELECT id, kind, $row FROM base WHERE $filter;
		CREATE INDEX i_$table ON $table USING $method (v $class) @{[ $with // '' ]};
		ANALYZE $table;);
}

# answers() of migration.sql as a list: recall, rows, different, disordered, index.
sub answers
{
	my ($node, $class, $table, $k, %o) = @_;
	my $c = $class{$class};
	my $sql = sprintf("SELECT * FROM answers('%s', '%s', '%s', '%s', %s, %d, \$f\$%s\$f\$)", $table,
		$o{expression} // 'v', $c->{op}, $c->{type} . ($c->{type} eq 'bit' ? "($c->{dim})" : ''),
		$o{queries} // literals($class), $k, $o{filter} // 'true');
	return split(/\|/, number($node, join(' ', map { "$_;" } @{ $o{set} // [] }) . $sql), -1);
}

# Each of 20 queries brings its k rows, by this index, in order and right.
sub answers_well
{
	my ($node, $class, $table, $k, $least, $name, %o) = @_;
	my ($recall, $rows, $different, $disordered, $index) = answers($node, $class, $table, $k, %o);
	my $whole = 20 * ($o{rows} // $k);
	my @wrong;
	push @wrong, "recall $recall < $least" if $recall eq '' || $recall < $least;
	push @wrong, "$rows rows of $whole, $different different" if $rows != $whole || $different != $whole;
	push @wrong, "$disordered after a farther one" if $disordered && !$o{relaxed};
	push @wrong, "plan: $index" if $index ne ($o{index} // "i_$table");
	is(join('; ', @wrong), '', "$class: $name");
}

sub lines
{
	return join("\n", @_);
}

# The scans of a query's plan.
sub plan_of
{
	my ($node, $sql) = @_;
	my $plan = number($node, $sql =~ s/\bSELECT\b/EXPLAIN (COSTS OFF) SELECT/r);
	return join(', ', $plan =~ /(\w[\w ]* Scan(?: (?:using|on) \w+)?)/g);
}

1;
