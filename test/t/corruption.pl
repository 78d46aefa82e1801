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
use constant { NODE => 1, LIST => 4 };	# states of records

my $node = PostgreSQL::Test::Cluster->new('corruption');
# checksums, which PostgreSQL 18 turns on, would report the damage before us
my ($version) = `initdb --version` =~ /(\d+)/;
$node->init($version >= 18 ? (extra => ['--no-data-checksums']) : ());
$node->append_conf('postgresql.conf', q(
grnnd.build_device = cpu
grnnd.build_threads = 1
autovacuum = off
enable_seqscan = off
wal_level = replica
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
# features of a later version
my $plain = $sound;
my $refused = 'index "t_e" has features that this version of grnnd does not know';
for my $bit (0, 31)
{
	change_meta(\$sound, 676, pack 'L', 1 << $bit);
	damaged("unknown feature $bit", 0, '', '0A000', $refused);
	for my $sql ("INSERT INTO t VALUES (0, '$q')", 'VACUUM t', q(SELECT * FROM grnnd_check('t_e')), q(SELECT grnnd_fit('t_e')),
		q(SELECT grnnd_prewarm('t_e')))
	{
		fails($sql, '0A000', $refused, "unknown feature $bit: $sql");
	}
	is($node->safe_psql('postgres', q(SELECT format, advice FROM grnnd_stats('t_e'))),
		unpack('L', substr($sound, PAYLOAD + 4, 4)) . '|REINDEX: this version of grnnd does not know all features of the index',
		"unknown feature $bit: grnnd_stats()");
	$node->stop;
	$sound = $plain;
}
my $unknown = $sound;
change_meta(\$unknown, 676, pack 'L', 1);
write_file($unknown);
$node->set_standby_mode;
$node->start;
fails($query, '0A000', $refused, 'unknown feature: a standby');
$node->stop;
unlink $node->data_dir . '/standby.signal' or die $!;
# features to ignore, with all bytes that they may have, of an index that gets rows and codes
write_file($sound);
$node->start;
$node->safe_psql('postgres', 'CREATE TABLE later (LIKE t); CREATE INDEX later_e ON later USING grnnd (e); CHECKPOINT');
my $of_t = $path;
$path = path_of('later_e');
$node->stop;
my $later = slurp_file($path);
change_meta(\$later, 680, "\xFF" x 4);
change_meta(\$later, 688, "\xFF" x 52);
substr($later, PAYLOAD + 1344, 6816) = "\xA5" x 6816;
write_file($later);
$node->start;
$node->safe_psql('postgres', q(INSERT INTO later SELECT * FROM t; SELECT grnnd_fit('later_e'); DELETE FROM later WHERE id % 10 = 0; VACUUM later));
is($node->safe_psql('postgres', $query =~ s/FROM t/FROM later/r), 100, 'features to ignore: query');
is($node->safe_psql('postgres', q(SELECT count(*) FROM grnnd_check('later_e', true))), 0, 'features to ignore: sound');
$node->stop;
$later = slurp_file($path);
is(metapage($later)->{fit_state}, 0, 'features to ignore: codes were fitted');
ok(substr($later, PAYLOAD + 680, 60) eq "\xFF" x 4 . "\0" x 4 . "\xFF" x 52 && substr($later, PAYLOAD + 1344, 6816) eq "\xA5" x 6816,
	'features to ignore: writers keep their bytes');
$path = $of_t;
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
all_nodes('neighbors', PAYLOAD + 2, pack('C', 200), '.*too many neighbors');
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
# a list that lacks its rows
$node->safe_psql('postgres', q(
	CREATE TABLE tagged AS SELECT id, 100 + id % 50 AS tag, e FROM t WHERE id > 0;
	CREATE INDEX tagged_e ON tagged USING grnnd (e, tag)));
is($node->safe_psql('postgres', "SELECT count(*) FROM grnnd_check('tagged_e', true)"), 0, 'lists: sound');
$path = path_of('tagged_e');
$node->stop;
$sound = slurp_file($path);
my $meta = metapage($sound);
my $empty = pack('L3', 0xFFFFFFFF, 0xFFFFFFFF, 0) x $meta->{list_buckets};
substr($sound, $meta->{list_block} * PAGE + PAYLOAD, length $empty) = $empty;
write_file($sound);
$node->start;
like($node->safe_psql('postgres', "SELECT string_agg(DISTINCT problem, ', ') FROM grnnd_check('tagged_e', true)"),
	qr/node is in no list of a value that it has/, 'lists: lost');
$node->stop;
# Every statement that meets a damaged index ends with an answer or XX002, soon.  All damaged copies of an index, with
# its table, are written at once, over those of empty tables.
# damage: [name, function of the file's bytes, error that is right as well]
sub damaged_copies
{
	my ($of, @damage) = @_;
	$node->start;
	my $keys = $of eq 'plain' ? 'v' : 'v, kind';
	$node->safe_psql('postgres', "SET client_min_messages = error;" . join('', map {
		"DROP TABLE IF EXISTS c$_; CREATE TABLE c$_ (LIKE $of); CREATE INDEX c${_}_idx ON c$_ USING grnnd ($keys);\n" } 0 .. $#damage));
	my %path = map { split /\|/ } split /\n/, $node->safe_psql('postgres',
		"SELECT relname, pg_relation_filepath(oid) FROM pg_class WHERE relname ~ '^c\\d+(_idx)?\$' OR relname IN ('$of', '${of}_idx')");
	my $read = sub { return slurp_file($node->data_dir . "/$path{$_[0]}") };
	my $write = sub {
		open my $f, '>:raw', $node->data_dir . "/$path{$_[0]}" or die $!;
		print $f $_[1];
		close $f;
	};
	$node->stop;
	my ($table, $index) = map { $read->($_) } $of, "${of}_idx";
	for my $i (0 .. $#damage)
	{
		my $copy = $index;
		$damage[$i][1]->(\$copy);
		$write->("c$i", $table);
		$write->("c${i}_idx", $copy);
	}
	$node->start;
	my @wrong;
	my %outcome;
	for my $i (0 .. $#damage)
	{
		my ($rc, $out, $err) = $node->psql('postgres', qq(\\set VERBOSITY verbose
			SET statement_timeout = '60s';
			SELECT count(*) FROM (SELECT id FROM c$i ORDER BY v <-> '$q' LIMIT 100) x;
			SELECT count(*) FROM (SELECT id FROM c$i WHERE kind = 3 ORDER BY v <-> '$q' LIMIT 20) x;
			SELECT count(*) FROM (SELECT id FROM c$i WHERE kind IN (1, 5, 99) ORDER BY v <-> '$q' LIMIT 2000) x;
			INSERT INTO c$i SELECT 5000 + id, kind, v FROM $of WHERE id <= 5;
			SELECT count(*) FROM grnnd_check('c${i}_idx');
			SELECT count(*) FROM grnnd_stats('c${i}_idx');
			SELECT grnnd_prewarm('c${i}_idx');
			DELETE FROM c$i WHERE id % 3 = 0;
			VACUUM c$i;
			SELECT count(*) FROM grnnd_check('c${i}_idx', true);), on_error_stop => 0);
		$outcome{$_}++ for my @states = $err =~ /ERROR:  (\w{5}):/g;
		my ($bad) = grep { $_ ne $corrupt && $_ ne ($damage[$i][2] // '') } @states;
		push @wrong, "$damage[$i][0]: " . ($err =~ /ERROR:  ((?!XX002)\w{5}: .*)/)[0] if $bad;
		push @wrong, "$damage[$i][0]: $err" if $rc == 2;
	}
	is(join("\n", @wrong), '', scalar(@damage) . " damaged copies of $of: an answer or $corrupt");
	cmp_ok($outcome{$corrupt} // 0, '>', @damage, 'damage was met');
	$node->stop;
}

$node->start;
$node->safe_psql('postgres', q(
	CREATE TABLE filtered (id int, kind int, v vector(24));
	INSERT INTO filtered SELECT id, id % 50, e FROM t WHERE id BETWEEN 1 AND 1500;
	CREATE INDEX filtered_idx ON filtered USING grnnd (v, kind);
	CREATE TABLE plain (LIKE filtered);
	INSERT INTO plain SELECT * FROM filtered;
	CREATE INDEX plain_idx ON plain USING grnnd (v);
	VACUUM (FREEZE) filtered, plain));
$node->stop;

# fields of struct GrnndMeta: [name, offset, bytes]
my @filters = ([ book_block => 148, 4 ], [ book_pages => 152, 4 ], [ sample_block => 156, 4 ], [ sample_pages => 160, 4 ],
	[ list_block => 164, 4 ], [ list_pages => 168, 2 ], [ list_state => 170, 1 ], [ list_scale => 171, 1 ],
	[ list_buckets => 172, 4 ], [ center_pages => 176, 4 ]);
my @fields = ([ format => 4, 4 ], [ metric => 16, 4 ], [ dim => 20, 4 ], [ degree => 24, 4 ], (map { [ "shape $_", 28 + 2 * $_, 2 ] } 0 .. 3),
	[ ncolumns => 36, 4 ], [ form => 40, 4 ], [ attr_bytes => 44, 2 ], [ sig_bytes => 46, 2 ], [ payload => 48, 4 ],
	[ record_bytes => 52, 4 ], [ norm_unit => 56, 4 ], (map { [ "step $_", 60 + 4 * $_, 4 ] } 0 .. 2), [ held => 72, 4 ],
	[ entry_block => 76, 4 ], [ codec_block => 80, 4 ], [ codec_pages => 84, 4 ], [ first_node_block => 88, 4 ],
	[ column_dim => 92, 4 ], [ rho => 116, 4 ], [ on_gpu => 128, 2 ], [ list_generation => 130, 2 ], [ build_nodes => 132, 4 ],
	[ fit_state => 136, 4 ], [ judged => 140, 4 ], [ codes_ignored => 144, 4 ], @filters,
	[ 'column type' => 180, 4 ], [ 'column kind' => 188, 1 ], [ 'column width' => 189, 1 ], [ must_understand => 676, 4 ],
	[ may_ignore => 680, 4 ], [ power => 684, 4 ], (map { [ "reserved $_", 688 + 4 * $_, 4 ] } 0, 12));

sub damaged_fields
{
	my (@of) = @_;
	my @damage;
	for my $field (@of)
	{
		my ($name, $at, $bytes) = @$field;
		my $format = { 1 => 'C', 2 => 'S', 4 => 'L' }->{$bytes};
		my $max = 2 ** (8 * $bytes) - 1;
		for my $how ([ '0' => sub { 0 } ], [ max => sub { $max } ], [ more => sub { ($_[0] + 1) & $max } ], [ less => sub { ($_[0] - 1) & $max } ])
		{
			push @damage, [ "$name $how->[0]", sub {
				my ($file) = @_;
				change_meta($file, $at, pack $format, $how->[1]->(unpack $format, substr($$file, PAYLOAD + $at, $bytes)));
			}, $name =~ /format|payload|must_understand/ ? '0A000' : undef ];
		}
	}
	return @damage;
}
{
	my $copy = $sound;
	change_meta(\$copy, 0, '');
	ok($copy eq $sound, 'the checksum of the metapage is right');
}
damaged_copies('filtered', damaged_fields(@fields));
damaged_copies('plain', damaged_fields(@filters));

# chains and links
sub each_record
{
	my ($file, $fn) = @_;
	my $m = metapage($$file);
	for my $id (0 .. $m->{per_page} * (length($$file) / PAGE - $m->{first_node_block}) - 1)
	{
		my $at = record_at($m, $id, 0);
		$fn->($id, $at, unpack('C', substr($$file, $at, 1)));
	}
}

sub each_head
{
	my ($file, $fn) = @_;
	my $m = metapage($$file);
	for my $page (0 .. $m->{list_pages} - 1)
	{
		$fn->(($m->{list_block} + $page) * PAGE + PAYLOAD + 20 * $_) for 0 .. 407;
	}
}

sub heads_with
{
	my ($name, $field, $value) = @_;
	return [ "heads: $name", sub { my ($file) = @_; each_head($file, sub { substr($$file, $_[0] + $field, 4) = pack 'L', $value }) } ];
}

sub lists_with
{
	my ($name, $fn) = @_;
	return [ "lists: $name", sub {
		my ($file) = @_;
		my ($first, $last);
		each_record($file, sub { my ($id, undef, $state) = @_; if ($state == LIST) { $first //= $id; $last = $id } });
		each_record($file, sub {
			my ($id, $at, $state) = @_;
			substr($$file, $at + 8, 4) = pack 'L', $fn->($id, $first, $last) if $state == LIST;
		});
	} ];
}
damaged_copies('filtered',
	heads_with('a node', 0, 5), heads_with('no record', 0, 0x7ffffff0), heads_with('nothing', 0, 0xFFFFFFFF),
	heads_with('room at a node', 4, 5), heads_with('room nowhere', 4, 0x7ffffff0),
	heads_with('many records', 8, 0xFFFFFFFF), heads_with('a guide that is a node', 12, 5),
	heads_with('a guide that is nowhere', 12, 0x7ffffff0), heads_with('many groups', 16, 0xFFFFFFFF),
	lists_with('circles of one', sub { $_[0] }), lists_with('all lead to one', sub { $_[1] }),
	lists_with('a circle of two', sub { $_[0] == $_[1] ? $_[2] : $_[1] }), lists_with('nowhere', sub { 0x7ffffff0 }),
	[ 'chains of one node', sub { my ($file) = @_; each_record($file, sub { substr($$file, $_[1] + 8, 4) = pack 'L', $_[0] if $_[2] == NODE }) } ],
	[ 'rows beyond the table', sub { my ($file) = @_; each_record($file, sub { substr($$file, $_[1] + 20, 4) = pack 'S2', 0x7fff, 0xfff0 if $_[2] == NODE }) } ],
	[ 'rows in another segment', sub { my ($file) = @_; each_record($file, sub { substr($$file, $_[1] + 20, 4) = pack 'S2', 0x0003, 0 if $_[2] == NODE }) } ]);
unlike(slurp_file($node->logfile), qr/terminated by signal|PANIC|TRAP/, 'the server never went down');

done_testing();
