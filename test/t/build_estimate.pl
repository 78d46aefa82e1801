# grnnd_build_estimate() against the builds that it is about: sizes within a tenth, for vectors in
# the table's pages and TOASTed, with NULLs and filter columns; and its errors.
use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename;
use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $data = abs_path(dirname(__FILE__) . '/../data');
my $sample = PostgreSQL::Test::Utils::tempdir . '/glosses';
system("python3 $data/sample.py glosses > $sample") == 0
  or plan skip_all => 'no Python 3 for the sample';
chmod 0644, $sample;

my $node = PostgreSQL::Test::Cluster->new('estimate');
$node->init;
$node->append_conf('postgresql.conf', q(
grnnd.build_device = cpu
grnnd.build_threads = 2
wal_level = replica
autovacuum = off
log_temp_files = 0
max_parallel_maintenance_workers = 0
));
$node->start;
my $options = 't1 = 1, t2 = 1';
$node->safe_psql('postgres', qq(
	CREATE EXTENSION grnnd_tools CASCADE;
	CREATE TABLE plain (id int, text text, e vector(384));
	ALTER TABLE plain ALTER e SET STORAGE plain, ALTER text SET STORAGE plain;
	COPY plain FROM '$sample';
	CREATE TABLE toasted (id int, e vector(384));
	ALTER TABLE toasted ALTER e SET STORAGE external;
	INSERT INTO toasted SELECT id, e FROM plain;
	-- as many rows without a vector
	CREATE TABLE short (id int, e vector(128));
	INSERT INTO short SELECT id, subvector(e, 1, 128) FROM plain;
	INSERT INTO short SELECT -id, NULL FROM short;
	-- numbers that fit a byte
	CREATE TABLE bytes AS SELECT (SELECT array_agg(round(abs(x) * 400)) FROM unnest(subvector(e, 1, 128)::real[]) x)::vector(128) AS e
		FROM plain;
	CREATE TABLE filtered (id int, kind int, day date, tags text[], label text, e vector(128));
	ALTER TABLE filtered ALTER e SET STORAGE plain;
	INSERT INTO filtered SELECT id, id % 7, date '2026-01-01' + id % 400,
		ARRAY['a' || id % 50, 'b' || id % 900], 'label ' || id % 30, subvector(e, 1, 128) FROM plain;
	ANALYZE plain, short, filtered));	# toasted and bytes are left without statistics
# their rows are read once, because the first reading writes WAL for hints
$node->safe_psql('postgres', "SELECT sum(length(e::text)) FROM $_") for qw(plain toasted short bytes filtered);

sub within
{
	my ($got, $expected, $share, $name) = @_;
	ok(abs($got - $expected) <= $share * $expected, "$name: $got for $expected");
}

# codes of whole embeddings have the length that is usual, those of pieces of them have not
for my $case (
	($all ? (
		[ 'plain', 'vector_cosine_ops', '1GB', '', 0.1 ],
		[ 'filtered', 'vector_l2_ops', '1GB', 'kind', 0.2 ]) : ()),
	[ 'toasted', 'vector_l2_ops', '1GB', '', 0.1 ],
	[ 'short', 'vector_ip_ops', '16MB', '', 0.2 ],
	[ 'bytes', 'vector_l2_ops', '1GB', '', 0.2 ],
	[ 'filtered', 'vector_l2_ops', '16MB', 'kind,day,tags,label', 0.2 ])
{
	my ($table, $opclass, $memory, $columns, $share) = @$case;
	my $keys = "e $opclass" . ($columns && ", $columns");
	my $set = "SET maintenance_work_mem = '$memory';";
	my %estimate;
	@estimate{qw(rows dimensions device index wal memory temp seconds)} =
	  split /\|/, $node->safe_psql('postgres', "$set SELECT * FROM " .
		"grnnd_build_estimate('$table', 'e', '$opclass', '{t1=1,t2=1}', '{$columns}')");
	within($estimate{rows}, 20000, 0.05, "$table: rows");
	is($estimate{dimensions}, $table =~ /plain|toasted/ ? 384 : 128, "$table: dimensions");
	is($estimate{device}, 'cpu', "$table: device");
	cmp_ok($estimate{seconds}, '>', 0.01, "$table: $estimate{seconds} seconds");

	my $logged = -s $node->logfile;
	my $stderr;
	my $before = $node->safe_psql('postgres', 'CHECKPOINT; SELECT pg_current_wal_insert_lsn()');
	$node->psql('postgres', "$set SET client_min_messages = debug1; " .
		"CREATE INDEX i ON $table USING grnnd ($keys) WITH ($options)", stderr => \$stderr);
	within($estimate{wal}, $node->safe_psql('postgres',
		"SELECT pg_current_wal_insert_lsn() - '$before'::pg_lsn"), $share, "$table: WAL");
	within($estimate{index}, $node->safe_psql('postgres', q(SELECT pg_relation_size('i'))), $share,
		"$table: size of the index");
	my ($used) = $stderr =~ /memory (\d+), temporary file/;
	within($estimate{memory}, $used, 0.1, "$table: memory");
	my $temp = slurp_file($node->logfile, $logged) =~ /temporary file: path "[^"]*", size (\d+)/ ? $1 : 0;
	if ($memory eq '16MB')
	{
		within($estimate{temp}, $temp, 0.1, "$table: temporary file");
	}
	else
	{
		is($estimate{temp} . $temp, '00', "$table: no temporary file");
	}
	$node->safe_psql('postgres', 'DROP INDEX i');
}
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_ls_tmpdir()'), '0', 'no file left');

# ---- nothing to build from, and what is refused ----

$node->safe_psql('postgres', q(
	CREATE TABLE empty (e vector(3));
	CREATE TABLE few (e vector(3));
	INSERT INTO few VALUES ('[1,2,3]'), (NULL);
	CREATE TABLE parted (e vector(3)) PARTITION BY LIST (e);
	CREATE TABLE free (e vector);
	CREATE TABLE open (e vector);
	CREATE TABLE odd (e vector(3), p point);
	CREATE VIEW seen AS SELECT * FROM few;
	CREATE ROLE other));
is($node->safe_psql('postgres', q(SELECT rows, dimensions, device, index_bytes
	FROM grnnd_build_estimate('empty', 'e'))), '0|3||0', 'an empty table');
is($node->safe_psql('postgres', q(SELECT rows, device, index_bytes > 8192
	FROM grnnd_build_estimate('few', 'e'))), '1|cpu|t', 'one row');
# a column without dimensions, as for an index on (e::vector(3)), and a domain that has some
is($node->safe_psql('postgres', q(INSERT INTO free VALUES (NULL), ('[1,2,3]'), ('[4,5]'), ('[7,8,9]');
	SELECT rows, dimensions FROM grnnd_build_estimate('free', 'e'))), '2|3', 'dimensions of the first row');
is($node->safe_psql('postgres', q(CREATE DOMAIN three AS vector(3); CREATE TABLE narrow (e three);
	INSERT INTO narrow VALUES ('[1,2,3]'); SELECT rows, dimensions FROM grnnd_build_estimate('narrow', 'e'))), '1|3',
	'dimensions of a domain');

my $verbose = "\\set VERBOSITY verbose\n";
for my $case (
	[ "'parted', 'e'", qr/42809: "parted" is not a table.*HINT:  Pass one of its partitions/s ],
	[ "'seen', 'e'", qr/42809: "seen" is not a table/ ],
	[ "'open', 'e'", qr/22023: column does not have dimensions/ ],
	[ "'few', 'nothing'", qr/42703: column "nothing" of relation "few" does not exist/ ],
	[ "'few', NULL", qr/22004: table_name and column_name must not be null/ ],
	[ "'plain', 'id'", qr/42804: type integer does not have this operator class/ ],
	[ "'few', 'e', 'nothing_ops'", qr/42704: type vector has no metric or operator class "nothing_ops"/ ],
	[ "'few', 'e', 'hamming'", qr/42704: type vector has no metric or operator class "hamming".*HINT:  Metrics are l2/s ],
	[ "'few', 'e', NULL, '{degree}'", qr/22023: unrecognized parameter "degree"/ ],
	[ "'few', 'e', NULL, '{NULL}'", qr/22004: null array element not allowed/ ],
	[ "'few', 'e', NULL, NULL, '{nothing}'", qr/42703: column "nothing" of relation "few" does not exist/ ],
	[ "'few', 'e', NULL, NULL, '{NULL}'", qr/22004: the name of a filter column must not be null/ ],
	[ "'few', 'e', NULL, NULL, '{e}'", qr/0A000: filter column "e" is a vector.*HINT:  Only the first column/s ],
	[ "'odd', 'e', NULL, NULL, '{p}'", qr/42704: data type point has no default operator class/ ],
	[ "'few', 'e', NULL, NULL, array_fill('e'::name, '{32}')", qr/54011: cannot use more than 32 columns in an index/ ],
	[ "'few', 'e', NULL, '{degree=1000}'", qr/22023: value 1000 out of bounds for option "degree"/ ])
{
	my $stderr;
	$node->psql('postgres', "${verbose}SELECT * FROM grnnd_build_estimate($case->[0])",
		stderr => \$stderr);
	like($stderr, $case->[1], "refused: $case->[0]");
}
my $stderr;
$node->psql('postgres', "${verbose}GRANT SELECT ON few TO other; SET ROLE other;" .
	" SELECT * FROM grnnd_build_estimate('few', 'e')", stderr => \$stderr);
like($stderr, qr/42501: must be owner of table few/, 'refused: not the owner');
$node->stop;
done_testing();
