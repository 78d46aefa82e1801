# Damaged files and foreign formats: each is one clear error, for every kind of
# statement that meets it; the server stays up and REINDEX repairs.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant PAGE => 8192;
use constant PAYLOAD => 24;		# where it starts in a page

my $node = PostgreSQL::Test::Cluster->new('corruption');
# checksums, which PostgreSQL 18 turns on, would report the damage before us
my ($version) = `initdb --version` =~ /(\d+)/;
$node->init($version >= 18 ? (extra => ['--no-data-checksums']) : ());
$node->append_conf('postgresql.conf', q(
grnnd.build_device = cpu
grnnd.build_threads = 1
autovacuum = off
enable_seqscan = off
));
$node->start;
$node->safe_psql('postgres', q(
	CREATE EXTENSION grnnd CASCADE;
	CREATE TABLE t (id int, e vector(24));
	SELECT setseed(0.5);
	INSERT INTO t SELECT i, (SELECT array_agg(random())::vector
	FROM generate_series(1, 24) WHERE i > 0) FROM generate_series(1, 2000) i;
	CREATE INDEX t_e ON t USING grnnd (e);
	CREATE TABLE other (id int PRIMARY KEY, e vector(2));
	INSERT INTO other SELECT i, ARRAY[i, i]::vector FROM generate_series(1, 2000) i;
	CREATE INDEX other_e ON other USING grnnd (e)));
my $q = '[' . join(',', (0.5) x 24) . ']';
my $query = "SELECT count(*) FROM (SELECT id FROM t ORDER BY e <-> '$q' LIMIT 100) x";

sub path_of
{
	my ($relation) = @_;
	return $node->data_dir . '/' .
	  $node->safe_psql('postgres', "SELECT pg_relation_filepath('$relation')");
}
my $path = path_of('t_e');
my $btree = path_of('other_pkey');
my $blocks = $node->safe_psql('postgres', q(
	CHECKPOINT;
	SELECT pg_relation_size('t_e') / 8192));

$node->stop;
my $sound = slurp_file($path);
my $foreign = slurp_file($btree);
# the metapage names the first block of nodes and the entry page
my ($entry_block, $codec_block, $codec_pages, $first_node) =
  @{ metapage($sound) }{qw(entry_block codec_block codec_pages first_node_block)};
cmp_ok($first_node, '<', $blocks, 'so is the first block of nodes');

sub write_file
{
	my ($bytes) = @_;
	open my $f, '>:raw', $path or die "$path: $!";
	print $f $bytes;
	close $f;
}

# Runs a statement that must fail with this SQLSTATE and text.
sub fails
{
	my ($sql, $state, $text, $name) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$sql");
	like($err, qr/ERROR:  $state: $text/, $name);
	return $err;
}

# Puts bytes at an offset of the sound file; queries must then fail.
sub damaged
{
	my ($name, $offset, $bytes, $state, $text) = @_;
	my $copy = $sound;
	substr($copy, $offset, length $bytes) = $bytes;
	write_file($copy);
	$node->start;
	my $err = fails($query, $state, $text, "$name: query");
	like($err, qr/HINT:  REINDEX the index/, "$name: hint");
	is($node->safe_psql('postgres', "SELECT id FROM other ORDER BY e <-> '[7,7]' LIMIT 1"),
		7, "$name: other indexes answer");
	return;
}

my $corrupt = 'XX002';

# the metapage: everything else stops there too
damaged('magic', PAYLOAD, 'XXXX', $corrupt, 'index "t_e" is corrupted at block 0');
fails("INSERT INTO t VALUES (0, '$q')", $corrupt, 'index "t_e" is corrupted', 'magic: insert');
fails('DELETE FROM t WHERE id <= 5; VACUUM t', $corrupt, 'index "t_e" is corrupted', 'magic: vacuum');
fails("SELECT * FROM grnnd_check('t_e')", $corrupt, 'index "t_e" is corrupted', 'magic: check');
is($node->safe_psql('postgres', 'SELECT count(*) FROM t'), 1995, 'magic: the table answers');
$node->safe_psql('postgres', 'REINDEX INDEX t_e');
is($node->safe_psql('postgres', $query), 100, 'magic: REINDEX repairs');
$path = path_of('t_e');
$node->stop;
$sound = slurp_file($path);

damaged('format', PAYLOAD + 4, pack('L', 99), '0A000', 'index "t_e" has format 99, this version of grnnd reads format \d+');
$node->stop;
damaged('dimensions', PAYLOAD + 20, pack('L', 25), $corrupt, '.*checksum of the metapage');
$node->stop;
damaged('zeroed metapage', 0, "\0" x PAGE, $corrupt, '.*unexpected zero page');
$node->stop;
damaged('page of another access method', 0, substr($foreign, 0, PAGE), $corrupt, '.*not a page of grnnd');
$node->stop;
damaged('entry page for metapage', 0, substr($sound, $entry_block * PAGE, PAGE), $corrupt,
	'.*page of kind 2 where 1 is expected');
$node->stop;
damaged('entry points', $entry_block * PAGE + PAYLOAD, pack('L', 1000), $corrupt, '.*too many entry points');
$node->stop;
damaged('entry point out of the index', $entry_block * PAGE + PAYLOAD + 8,
	pack('L32', (0x7ffffff0) x 32), $corrupt, '.*does not exist');
$node->stop;
damaged('codec page', $codec_block * PAGE, "\0" x PAGE, $corrupt, '.*unexpected zero page');
$node->stop;

# node pages: damage to all of them, as any one may not be met by a query
sub all_nodes
{
	my ($name, $offset, $bytes, $text) = @_;
	my $copy = $sound;
	for my $block ($first_node .. length($sound) / PAGE - 1)
	{
		substr($copy, $block * PAGE + $offset, length $bytes) = $bytes;
	}
	write_file($copy);
	$node->start;
	my $err = fails($query, $corrupt, $text, "$name: query");
	like($err, qr/HINT:  REINDEX the index/, "$name: hint");
	# it reports damage in rows, or stops at the same error
	my ($rc, $out, $errors) = $node->psql('postgres', "SELECT count(*) > 0 FROM grnnd_check('t_e')");
	ok($errors =~ /corrupted/ || $out eq 't', "$name: check");
	$node->stop;
	return;
}
all_nodes('state', PAYLOAD, pack('C', 77), '.*unknown state');
all_nodes('neighbours', PAYLOAD + 2, pack('C', 200), '.*too many neighbours');
all_nodes('page kind', PAGE - 8, pack('S', 3), '.*page of kind 3 where 4');
all_nodes('page id', PAGE - 2, pack('S', 0), '.*not a page of grnnd');

# pages of zeros behind all others, as a crash leaves them while the index grows, are no damage
write_file($sound . "\0" x (500 * PAGE));
$node->start;
is($node->psql('postgres', q(DELETE FROM t WHERE id = 1999; VACUUM t; INSERT INTO t SELECT 3000, e FROM t WHERE id = 1;
	SELECT pg_stat_force_next_flush(); VACUUM t)), 0, 'zero pages at the end: vacuum goes on');
is($node->safe_psql('postgres', "SELECT count(*) FROM grnnd_check('t_e', true)"), 0, 'zero pages at the end: sound');
$node->stop;

# a file cut short: links lead nowhere
write_file(substr($sound, 0, ($first_node + 3) * PAGE));
$node->start;
fails($query, $corrupt, 'index "t_e" is corrupted', 'cut short: query');
$node->stop;
write_file('');
$node->start;
fails($query, $corrupt, '.*the file is empty', 'empty: query');
$node->safe_psql('postgres', 'REINDEX INDEX t_e');
is($node->safe_psql('postgres', $query), 100, 'empty: REINDEX repairs');
is($node->safe_psql('postgres', "SELECT count(*) FROM grnnd_check('t_e', true)"), 0, 'and leaves it sound');
# a list that lacks its rows: the check reads the arrays of the table to find that
$node->safe_psql('postgres', q(
	CREATE TABLE tagged AS SELECT id, ARRAY[id % 2, 100 + id % 50] AS tags, e FROM t WHERE id > 0;
	CREATE INDEX tagged_e ON tagged USING grnnd (e, tags)));
is($node->safe_psql('postgres', "SELECT count(*) FROM grnnd_check('tagged_e', true)"), 0, 'lists of elements: sound');
$path = path_of('tagged_e');
$node->stop;
$sound = slurp_file($path);
my $meta = metapage($sound);
my $empty = pack('L3', 0xFFFFFFFF, 0xFFFFFFFF, 0) x $meta->{list_buckets};
substr($sound, $meta->{list_block} * PAGE + PAYLOAD, length $empty) = $empty;
write_file($sound);
$node->start;
like($node->safe_psql('postgres', "SELECT string_agg(DISTINCT what, ', ') FROM grnnd_check('tagged_e', true)"),
	qr/node is in no list of a value that it has/, 'lists of elements: lost');
$node->stop;
unlike(slurp_file($node->logfile), qr/terminated by signal|PANIC|TRAP/, 'the server never went down');

done_testing();
