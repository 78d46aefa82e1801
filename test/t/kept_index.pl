# Index files that were written once and kept (test/data/index-N.gz of vectors, index-N-sparsevec.gz, where N is their
# format): today's code reads, checks, changes and vacuums the index.  A file of another format gives one error with a
# hint, and REINDEX helps.
#
# Where no file of today's format is kept, the test fails and leaves the file in its log folder, which make check copies
# below .work/check-logs.  A new format replaces the file until 1.0; from then on old files stay and have to be read.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use IO::Compress::Gzip qw(gzip);
use IO::Uncompress::Gunzip qw(gunzip);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant { PAGE => 8192, FORMAT => 28 };	# bytes of a page, place of the format in the file

my $data = "$FindBin::Bin/../data";
my $node = PostgreSQL::Test::Cluster->new('kept_index');
my ($version) = `initdb --version` =~ /(\d+)/;
# the kept pages have no checksums
$node->init($version >= 18 ? (extra => ['--no-data-checksums']) : ());
$node->append_conf('postgresql.conf', q(
autovacuum = off
fsync = off
grnnd.background_fit = off
grnnd.build_device = cpu
enable_seqscan = off
jit = off
));
$node->start;

# The numbers of the vectors are integers, which every processor computes alike.  The statements leave what an index
# gathers: rows of the build, inserted rows, equal rows, dead records, values of filter columns.
my $make = q(
	CREATE TABLE t (id int, c int, tags int[], v TYPE(DIM)) WITH (fillfactor = 50);
	CREATE FUNCTION place(i bigint) RETURNS TYPE LANGUAGE sql IMMUTABLE AS
		'SELECT array_agg(CASE WHEN j % (DIM / 16) = 0 THEN (i * i * j + i * j * j) % 251 ELSE 0 END::int)::vector::TYPE
		FROM generate_series(1, DIM) j';
	INSERT INTO t SELECT i, i % 7, ARRAY[i % 3, 10 + i % 5], place(i) FROM generate_series(1, 600) i;
	CREATE INDEX t_idx ON t USING grnnd (v, c, tags) WITH (degree = 16);
	INSERT INTO t SELECT i, i % 7, ARRAY[i % 3, 10 + i % 5], place(i) FROM generate_series(601, 650) i;
	INSERT INTO t SELECT i, i % 7, ARRAY[i % 3, 10 + i % 5], place(7) FROM generate_series(651, 700) i;
	DELETE FROM t WHERE id % 13 = 0;
	VACUUM t;
	DELETE FROM t WHERE id % 13 = 1;
	CREATE TABLE queries AS SELECT i AS id, place(i * 1000 + 3) AS v FROM generate_series(1, 20) i;
	CREATE FUNCTION distances(condition text) RETURNS SETOF text LANGUAGE plpgsql AS $$
	DECLARE
		query TYPE;
	BEGIN
		FOR query IN SELECT v FROM queries ORDER BY id LOOP
			RETURN QUERY EXECUTE 'SELECT array_agg(d)::text FROM (SELECT v <-> $1 AS d FROM t WHERE ' || condition
				|| ' ORDER BY v <-> $1 LIMIT 10) x' USING query;
		END LOOP;
	END $$);
my $change = q(
	INSERT INTO t SELECT i, i % 7, ARRAY[i % 3, 10 + i % 5], place(i) FROM generate_series(701, 900) i;
	UPDATE t SET v = place(id + 2000) WHERE id % 20 = 0;
	UPDATE t SET c = 3 WHERE id % 20 = 5;
	DELETE FROM t WHERE id % 11 = 0;
	VACUUM t;
	INSERT INTO t SELECT i, i % 7, ARRAY[i % 3, 10 + i % 5], place(i) FROM generate_series(901, 950) i);

sub run { return number($node, @_); }

sub write_file
{
	my ($path, $bytes) = @_;
	open my $f, '>:raw', $path or die "$path: $!";
	print $f $bytes;
	close $f;
}

# A wide search finds what the table has, under each kind of condition, and the index is sound.
sub whole
{
	my ($name) = @_;
	for my $condition ('true', 'c = 3', q(tags && '{2}'), q(c < 3 AND tags @> '{11}'))
	{
		my $query = "SELECT distances(\$\$$condition\$\$)";
		is(run("SET grnnd.ef_search = 400; $query"), run("SET enable_indexscan = off; $query"), "$name: WHERE $condition");
	}
	sound($node, 't_idx', $name);
}

# Makes the table and the index anew; returns the path of the index's file.
sub make
{
	my ($type) = @_;
	# an index keeps rows of sparsevec(512) as vector
	my $dim = $type eq 'vector' ? 16 : 800;
	$node->safe_psql('postgres', 'DROP TABLE IF EXISTS t, queries; DROP FUNCTION IF EXISTS place, distances;'
		  . $make =~ s/TYPE/$type/gr =~ s/DIM/$dim/gr . '; CHECKPOINT');
	return $node->data_dir . '/' . run(q(SELECT pg_relation_filepath('t_idx')));
}

$node->safe_psql('postgres', 'CREATE EXTENSION grnnd CASCADE');
for my $type ('vector', 'sparsevec')
{
	my $suffix = $type eq 'vector' ? '' : "-$type";
	my $path = make($type);
	whole("$type, made today");
	my $today = slurp_file($path);
	my $format = unpack 'L', substr $today, FORMAT, 4;
	like(run(q(SELECT codes FROM grnnd_stats('t_idx'))), qr/^used/, "$type, made today: codes") if $type eq 'vector';
	# a page's place in the WAL of the server that wrote the page
	substr($today, $_ * PAGE, 8) = "\0" x 8 for 0 .. length($today) / PAGE - 1;
	my $name = "index-$format$suffix.gz";
	if (!ok(-e "$data/$name", "test/data/$name is kept"))
	{
		gzip(\$today, "$PostgreSQL::Test::Utils::log_path/kept_$name", -Level => 9, -Minimal => 1) or die;
		diag("copy kept_$name of the test's log folder to test/data/$name");
	}

	my %kept;
	for my $file (grep { /index-\d+$suffix\.gz$/ } glob "$data/index-*.gz")
	{
		gunzip($file => \my $bytes) or die "$file is not compressed";
		$kept{ unpack 'L', substr $bytes, FORMAT, 4 } = $bytes;
	}
	# another format, whatever is kept
	if ($type eq 'vector')
	{
		$kept{ $format - 1 } //= $today;
		substr($kept{ $format - 1 }, FORMAT, 4) = pack 'L', $format - 1;
	}

	for my $of (sort { $a <=> $b } keys %kept)
	{
		$path = make($type);
		$node->stop;
		write_file($path, $kept{$of});
		$node->start;
		if ($of != $format)
		{
			for my $sql ('SELECT distances($$true$$)', 'INSERT INTO t SELECT 0, 0, NULL, place(0)', 'VACUUM t', q(SELECT grnnd_check('t_idx')))
			{
				my ($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$sql");
				like($err, qr/ERROR:  0A000: index "t_idx" has format $of, this version of grnnd reads format $format\b.*HINT:  REINDEX the index/s,
					"$type, format $of: $sql");
			}
			run('REINDEX INDEX t_idx');
		}
		whole("$type, format $of");
		run($change);
		whole("$type, format $of, changed");
		run('VACUUM t');
		whole("$type, format $of, vacuumed");
	}
}
done_testing();
