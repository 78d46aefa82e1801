# grnnd_check() sees each kind of damage, which is done to a file here byte by byte.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant { PAGE => 8192, PAYLOAD => 24, HEADER => 20, FREE => 0, NODE => 1, TIDS => 3, LIST => 4 };
use constant { GROUP => 4, GUIDE => 8, NONE => 0xFFFFFFFF };

my $node = PostgreSQL::Test::Cluster->new('write_check');
my ($version) = `initdb --version` =~ /(\d+)/;
$node->init($version >= 18 ? (extra => ['--no-data-checksums']) : ());
$node->append_conf('postgresql.conf', "autovacuum = off\ngrnnd.build_device = cpu\n");
$node->start;
setup_grnnd($node, 16, 1);
$node->safe_psql('postgres', q(
	CREATE TABLE t (id int, v vector(16));
	INSERT INTO t SELECT * FROM points(1, 300, 16, 1);
	INSERT INTO t SELECT 1000 + i, v FROM points(1, 1, 16, 1), generate_series(1, 600) i;
	CREATE INDEX t_idx ON t USING grnnd (v);
	DELETE FROM t WHERE id BETWEEN 291 AND 300;
	VACUUM t;
	CREATE TABLE wide (id int, v vector(4000));
	INSERT INTO wide SELECT * FROM points(1, 20, 4000, 1);
	CREATE INDEX wide_idx ON wide USING grnnd (v) WITH (layout = exact);
	CREATE TABLE rounded (id int, v vector(384));
	INSERT INTO rounded SELECT * FROM points(1, 50, 384, 1);
	CREATE INDEX rounded_idx ON rounded USING grnnd (v vector_cosine_ops) WITH (layout = default);
	CREATE TABLE listed (id int, v vector(16), c int);
	INSERT INTO listed SELECT id, v, id % 5 FROM points(1, 6000, 16, 1);
	CREATE INDEX listed_idx ON listed USING grnnd (v, c)));

# The index that is damaged, its file, and the bytes of that while it is sound.  Stops the server.
my ($index, $path, $sound);
sub take_index
{
	($index) = @_;
	is(number($node, "SELECT * FROM grnnd_check('$index', true)"), '', "$index: sound before");
	$path = $node->data_dir . '/' . number($node, "SELECT pg_relation_filepath('$index')");
	$node->stop;
	$sound = slurp_file($path);
}
take_index('t_idx');

# ---- the layout, from the metapage and record.c ----

my $meta = metapage($sound);
my ($degree, $code_bytes, $form, $entry_block) = @$meta{qw(degree code_bytes form entry_block)};
my $records = (length($sound) / PAGE - $meta->{first_node_block}) * $meta->{per_page};
my $vector = $meta->{dim} * { 1 => 4, 2 => 2, 3 => 1 }->{$form} + ($form == 1 ? 0 : 4);
my ($ids, $factors, $codes, $vec);
sub align4 { return ($_[0] + 3) & ~3; }
for my $tids (2 .. 16)
{
	$ids = align4(HEADER + 6 * $tids + $code_bytes);
	$factors = $ids + 4 * $degree;
	$codes = $factors + ($code_bytes ? 4 * $degree : 0);
	$vec = align4($codes + $degree * $code_bytes);
	last if align4($vec + $vector) == $meta->{record_bytes};
}

sub at { return record_at($meta, @_); }
sub get { my ($format, $id, $offset, $n) = @_; return unpack $format, substr($sound, at($id, $offset), $n); }
sub state_of { return get('C', $_[0], 0, 1); }
my @nodes = grep { state_of($_) == NODE } 0 .. $records - 1;
my ($free) = grep { state_of($_) == FREE } 0 .. $records - 1;
my ($chain) = grep { state_of($_) == TIDS } 0 .. $records - 1;
my ($head) = grep { get('L', $_, 8, 4) != 0xFFFFFFFF } @nodes;
my ($entry) = unpack 'L', substr($sound, $entry_block * PAGE + PAYLOAD + 8, 4);
my ($x, $y) = grep { $_ != $head && $_ != $entry && get('C', $_, 2, 1) >= 2 } @nodes;
is(scalar(@nodes), 290, 'nodes found in the file');
ok(defined $free && defined $chain && defined $head, 'a free and a chained record, too');
my @neighbors = get('L2', $x, $ids, 8);

# ---- damage: name, what is expected, [id, offset, bytes]... ----

# Starts the server on the damaged file.
sub start_damaged
{
	my (@changes) = @_;
	my $file = $sound;
	for (@changes)
	{
		my ($id, $offset, $new) = @$_;
		substr($file, defined $id ? at($id, $offset) : $offset, length $new) = $new;
	}
	open my $f, '>:raw', $path or die "$path: $!";
	print $f $file;
	close $f;
	$node->start;
}

sub finds
{
	my ($name, $expected, @changes) = @_;
	start_damaged(@changes);
	my ($rc, $out, $err) = $node->psql('postgres', "SELECT problem FROM grnnd_check('$index', true)");
	like("$out$err", $expected, $name);
	$node->stop;
}

finds('own neighbor', qr/record $x: node is its own neighbor/, [ $x, $ids, pack('L', $x) ]);
finds('neighbor outside', qr/record $x: neighbor id leads out/, [ $x, $ids, pack('L', 9_999_999) ]);
finds('repeated neighbor', qr/record $x: repeated neighbor $neighbors[1]/,
	[ $x, $ids, pack('L', $neighbors[1]) ]);
finds('edge to a free record', qr/record $x: edge to a free record, $free/, [ $x, $ids, pack('L', $free) ]);
finds('edge to a chained record', qr/record $x: edge to a record of heap TIDs, $chain/,
	[ $x, $ids, pack('L', $chain) ]);
finds('code of another', qr/record $x: holds another code than .* neighbor $neighbors[0]/,
	[ $x, $codes, pack('C', get('C', $x, $codes, 1) ^ 1) ]);
finds('state', qr/record $x: unknown state/, [ $x, 0, pack('C', 9) ]);
finds('TID outside', qr/record $x: heap TID leads out of the table/, [ $x, HEADER, pack('S3', 100, 0, 1) ]);
finds('TID of another row', qr/shares a heap TID with record/,
	[ $x, HEADER, substr($sound, at($y, HEADER), 6) ]);
finds('row left out', qr/row \(\d+,\d+\) of the table is not in the index/, [ $x, 1, pack('C', 0) ]);
finds('chain lost', qr/record $chain: in no node's chain/, [ $head, 8, pack('L', 0xFFFFFFFF) ]);
finds('chain to a node', qr/record $head: chain of heap TIDs leads to another kind of record, $x/,
	[ $head, 8, pack('L', $x) ]);
finds('chain of another node', qr/record $x: chain of heap TIDs holds a foreign record/,
	[ $head, 8, pack('L', 0xFFFFFFFF) ], [ $x, 8, pack('L', $chain) ]);
finds('circle', qr/enters a record for the second time/, [ $x, 8, pack('L', $chain) ]);
finds('not reachable', qr/cannot be reached from the first entry point/,
	map { [ $_, 2, pack('C', 0) ] } @nodes);
finds('entry point', qr/entry point $free is not a node/, [ undef, $entry_block * PAGE + PAYLOAD + 8, pack('L', $free) ]);
finds('entry point\'s code', qr/code of entry point $entry is not its own/,
	[ undef, $entry_block * PAGE + PAYLOAD + 8 + 128, pack('L', 0x12345678) ]);
finds('zero page', qr/zero page/, [ undef, $entry_block * PAGE, "\0" x PAGE ]);
finds('page of another kind', qr/page of kind 3 where 4 is expected/,
	[ undef, ($meta->{first_node_block} + 1) * PAGE - 8, pack('S', 3) ]);
finds('vector', qr/record $x: keeps another vector than row/, [ $x, $vec + 6, pack('C', get('C', $x, $vec + 6, 1) ^ 64) ]);
finds('vector of a chain', qr/^record $head: keeps another vector than row \(\d+,\d+\) of the table has$/,
	[ $head, $vec + 6, pack('C', get('C', $head, $vec + 6, 1) ^ 64) ]);
finds('error', qr/record $x: keeps another vector than row/, [ $x, 12, pack('f', 0.25) ]);
finds('nothing', qr/^$/);

# ---- vectors of other records: across pages, and rounded ones with their errors ----

for my $case ([ 'wide', sub { substr(${ $_[0] }, -5 * PAGE + 4000, 4) = pack('f', 2) } ],
	[ 'rounded', sub { substr(${ $_[0] }, PAGE * $_[1] + PAYLOAD + 12, 4) = pack('f', 0) } ])
{
	my ($table, $damage) = @$case;
	$node->start;
	take_index("${table}_idx");
	$damage->(\$sound, unpack 'L', substr($sound, PAYLOAD + 88, 4));
	finds("$table: vector", qr/^record \d+: keeps another vector than row \(\d+,\d+\) of the table has$/);
}

# ---- lists, whose rows are in groups ----

$node->start;
take_index('listed_idx');
$meta = metapage($sound);
$records = (length($sound) / PAGE - $meta->{first_node_block}) * $meta->{per_page};
my $room = int(($meta->{record_bytes} - HEADER) / (12 + $meta->{code_bytes} + 1));
my @lists = grep { state_of($_) == LIST && get('S', $_, 6, 2) > 1 } 0 .. $records - 1;
my ($guide) = grep { get('C', $_, 3, 1) == GUIDE } @lists;
# a group goes on in records of its page
my ($group) = grep { get('C', $_, 3, 1) == GROUP && get('L', $_, 8, 4) != NONE } @lists;
ok(defined $guide && defined $group, 'a guide and groups found in the file');
my ($first, $second) = get('L2', $guide, HEADER, 8);
my $away = $group + 3 * $meta->{per_page};
my $listed = HEADER + 8 * $room;

finds('group leads off its page', qr/record $group: group leads off its page, to $away/, [ $group, 8, pack('L', $away) ]);
finds('group that leads to itself', qr/record $group: list leads out of the index/, [ $group, 8, pack('L', $group) ]);
finds('group of another list', qr/record $first: guide of a list names a group of another list/,
	[ $first, 16, pack('L', get('L', $first, 16, 4) + 1) ]);
finds('group named twice', qr/record $first: guides of lists name a group twice $first/, [ $guide, HEADER + 4, pack('L', $first) ]);
finds('group without a guide', qr/record $second: no guide of a list names this group/,
	[ $guide, HEADER + 4, pack('L', $first) ]);
finds('group that does not exist', qr/guide of a list names a group that does not exist/,
	[ $guide, HEADER, pack('L', $records + 9) ]);
finds('guide that leads to itself', qr/record $guide: list leads out of the index/, [ $guide, 8, pack('L', $guide) ]);
finds('value of a row', qr/record $group: list holds a value that belongs to another, of node/,
	[ $group, HEADER + 4 * $room, pack('L', 0xFFFFFFF0) ]);
finds('code of a row', qr/record $group: list holds another code or signature than the record itself of node/,
	[ $group, $listed + 4 * $room, pack('C', get('C', $group, $listed + 4 * $room, 1) ^ 1) ]);
# a row may be in two groups of its list
finds('row left out of lists', qr/node is in no list of a value that it has/,
	map { [ $_, 6, pack('S', get('S', $_, 6, 2) >> 1) ] } grep { get('C', $_, 3, 1) == GROUP } @lists);

start_damaged([ $group, 8, pack('L', $away) ]);
my ($rc, $out, $err) = $node->psql('postgres', 'DELETE FROM listed; VACUUM listed');
like($err, qr/impossible group of rows/, 'vacuum of a group that leads off its page');
$node->stop;
done_testing();
