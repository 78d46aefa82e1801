# grnnd_build_estimate() against the builds that it is about: sizes within a tenth, for
# vectors in the table's pages and TOASTed, with NULLs, duplicates and filter columns; and its errors.
use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename;
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
	CREATE EXTENSION grnnd CASCADE;
	CREATE TABLE plain (id int, text text, e vector(384));
	ALTER TABLE plain ALTER e SET STORAGE plain, ALTER text SET STORAGE plain;
	COPY plain FROM '$sample';
	CREATE TABLE toasted (id int, e vector(384));
	ALTER TABLE toasted ALTER e SET STORAGE external;
	INSERT INTO toasted SELECT id, e FROM plain;
	-- every vector twice, and as many rows without one
	CREATE TABLE short (id int, e vector(128));
	INSERT INTO short SELECT id, subvector(e, 1, 128) FROM plain;
	INSERT INTO short SELECT id + 20000, e FROM short;
	INSERT INTO short SELECT -id, NULL FROM short;
	CREATE TABLE filtered (id int, kind int, day date, tags text[], label text, e vector(128));
	ALTER TABLE filtered ALTER e SET STORAGE plain;
	INSERT INTO filtered SELECT id, id % 7, date '2026-01-01' + id % 400,
		ARRAY['a' || id % 50, 'b' || id % 900], 'label ' || id % 30, subvector(e, 1, 128) FROM plain;
	ANALYZE plain, short, filtered));	# toasted is left without statistics

sub within
{
	my ($got, $expected, $share, $name) = @_;
	ok(abs($got - $expected) <= $share * $expected, "$name: $got for $expected");
}

for my $case (
	[ 'plain', 'vector_cosine_ops', '1GB', 20000, 20000, '' ],
	[ 'toasted', 'vector_l2_ops', '1GB', 20000, 20000, '' ],
	[ 'short', 'vector_ip_ops', '16MB', 40000, 20000, '' ],
	[ 'filtered', 'vector_l2_ops', '1GB', 20000, 20000, 'kind' ],
	[ 'filtered', 'vector_ip_ops', '1GB', 20000, 20000, 'kind' ],
	[ 'filtered', 'vector_l2_ops', '16MB', 20000, 20000, 'kind,day,tags,label' ])
{
	my ($table, $opclass, $memory, $rows, $nodes, $columns) = @$case;
	my $keys = "e $opclass" . ($columns && ", $columns");
	my $set = "SET maintenance_work_mem = '$memory';";
	my %estimate;
	@estimate{qw(rows nodes dimensions device index wal memory temp gpu seconds)} =
	  split /\|/, $node->safe_psql('postgres', "$set SELECT * FROM " .
		"grnnd_build_estimate('$table', 'e', '$opclass', '{t1=1,t2=1}', '{$columns}')");
	within($estimate{rows}, $rows, 0.05, "$table: rows");
	within($estimate{nodes}, $nodes, 0.05, "$table: nodes");
	is($estimate{dimensions}, $table =~ /short|filtered/ ? 128 : 384, "$table: dimensions");
	is($estimate{device}, 'cpu', "$table: device");
	is($estimate{gpu}, 0, "$table: no GPU memory");
	cmp_ok($estimate{seconds}, '>', 0.01, "$table: $estimate{seconds} seconds");

	my $logged = -s $node->logfile;
	my $stderr;
	my $before = $node->safe_psql('postgres', 'CHECKPOINT; SELECT pg_current_wal_insert_lsn()');
	$node->psql('postgres', "$set SET client_min_messages = debug1; " .
		"CREATE INDEX i ON $table USING grnnd ($keys) WITH ($options)", stderr => \$stderr);
	within($estimate{wal}, $node->safe_psql('postgres',
		"SELECT pg_current_wal_insert_lsn() - '$before'::pg_lsn"), 0.1, "$table: WAL");
	within($estimate{index}, $node->safe_psql('postgres', q(SELECT pg_relation_size('i'))), 0.1,
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

# ---- distinct rows, by a sixth of the table ----

for my $case (
	[ 'distinct', 'i', 100000 ],
	[ 'most alike', 'CASE WHEN i % 10 = 0 THEN i ELSE 0 END', 10001 ],
	[ 'twice, side by side', 'i / 2', 50001 ],
	[ 'twice, far apart', 'i % 50000', 50000 ],
	[ 'ten times, far apart', 'i % 10000', 10000 ],
	[ 'as Zipf has them', 'floor(least(pow(random(), -2), 1e6))', undef ])
{
	my ($name, $value, $nodes) = @$case;

	$node->safe_psql('postgres', qq(DROP TABLE IF EXISTS copies; SELECT setseed(0.5);
		CREATE TABLE copies AS SELECT ARRAY[$value, 1, 2, 3]::vector(4) AS e FROM generate_series(1, 100000) i;
		ANALYZE copies));
	$nodes //= $node->safe_psql('postgres', 'SELECT count(DISTINCT e) FROM copies');
	within($node->safe_psql('postgres', q(SET maintenance_work_mem = '1MB';
		SELECT nodes FROM grnnd_build_estimate('copies', 'e', NULL, '{t1=1,t2=1}'))), $nodes, 0.2, "distinct rows: $name");
}

# lists come with codes, which few distinct rows have only later
$node->safe_psql('postgres', q(CREATE TABLE alike AS SELECT i % 7 AS kind, ARRAY[i % 9, 1, 2]::vector(3) AS e
	FROM generate_series(1, 30000) i; CREATE INDEX alike_i ON alike USING grnnd (e vector_l2_ops, kind)));
within($node->safe_psql('postgres', q(SELECT index_bytes FROM grnnd_build_estimate('alike', 'e', filter_columns => '{kind}'))),
	$node->safe_psql('postgres', q(SELECT pg_relation_size('alike_i'))), 0.1, 'few distinct rows with a column');

# ---- nothing to build from, and what is refused ----

$node->safe_psql('postgres', q(
	CREATE TABLE empty (e vector(3));
	CREATE TABLE few (e vector(3));
	INSERT INTO few VALUES ('[1,2,3]'), (NULL);
	CREATE TABLE parted (e vector(3)) PARTITION BY LIST (e);
	CREATE TABLE free (e vector);
	CREATE TABLE odd (e vector(3), p point);
	CREATE VIEW seen AS SELECT * FROM few;
	CREATE ROLE other));
is($node->safe_psql('postgres', q(SELECT rows, nodes, dimensions, device, index_bytes
	FROM grnnd_build_estimate('empty', 'e'))), '0|0|3||0', 'an empty table');
is($node->safe_psql('postgres', q(SELECT rows, nodes, device, index_bytes > 8192
	FROM grnnd_build_estimate('few', 'e'))), '1|1|cpu|t', 'one row');
# what it writes to find out stays under temp_file_limit, whatever the rows' size
$node->safe_psql('postgres', 'CREATE TABLE wide (e vector(16000))');
is($node->safe_psql('postgres', q(SET temp_file_limit = '64kB'; SET maintenance_work_mem = '256MB';
	SELECT rows > 0 FROM grnnd_build_estimate('plain', 'e', NULL, '{t1=1,t2=1}'))), 't', 'with next to no temporary file');
for my $table ('wide', 'plain')
{
	is($node->safe_psql('postgres', qq(SET temp_file_limit = '40MB'; SET maintenance_work_mem = '256MB';
		SELECT rows > 0 FROM grnnd_build_estimate('$table', 'e', NULL, '{t1=1,t2=1}'))), $table eq 'plain' ? 't' : 'f',
		"$table with a limit of temporary files");
}
my $verbose = "\\set VERBOSITY verbose\n";
for my $case (
	[ "'parted', 'e'", qr/42809: "parted" is not a table.*HINT:  Ask for each of its partitions/s ],
	[ "'seen', 'e'", qr/42809: "seen" is not a table/ ],
	[ "'free', 'e'", qr/22023: column does not have dimensions/ ],
	[ "'few', 'nothing'", qr/42703: column "nothing" of relation "few" does not exist/ ],
	[ "'few', NULL", qr/22004: table and column must not be null/ ],
	[ "'plain', 'id'", qr/42804: type integer has no such operator class/ ],
	[ "'few', 'e', 'nothing_ops'", qr/42704: type vector has no metric or operator class "nothing_ops"/ ],
	[ "'few', 'e', 'hamming'", qr/42704: type vector has no metric or operator class "hamming".*HINT:  Metrics are l2/s ],
	[ "'few', 'e', NULL, '{degree}'", qr/22023: storage parameter "degree" has no value.*HINT:  Write each as in/s ],
	[ "'few', 'e', NULL, '{NULL}'", qr/22023: storage parameter "NULL" has no value/ ],
	[ "'few', 'e', NULL, NULL, '{nothing}'", qr/42703: column "nothing" of relation "few" does not exist/ ],
	[ "'few', 'e', NULL, NULL, '{NULL}'", qr/22004: the name of a filter column must not be null/ ],
	[ "'few', 'e', NULL, NULL, '{e}'", qr/0A000: filter column "e" is a vector.*HINT:  Only the first column/s ],
	[ "'odd', 'e', NULL, NULL, '{p}'", qr/42704: data type point has no default operator class.*HINT:  Leave the column out/s ],
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
$node->psql('postgres', "${verbose}SET grnnd.builder_path = '/bin/false';" .
	" SELECT * FROM grnnd_build_estimate('few', 'e')", stderr => \$stderr);
like($stderr, qr/58000: the index builder process ended unexpectedly/, 'a failing builder');

$node->stop;
done_testing();
