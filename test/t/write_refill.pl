# Vacuum fills lists anew in an index whose codes are ignored but kept: a candidate that is
# gone is left out, and the others keep their own codes.  Only damage makes such a
# candidate: here dead nodes' lists begin with a record of heap TIDs, or with a free one.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant { PAGE => 8192, PAYLOAD => 24, HEADER => 20, FREE => 0, NODE => 1, TIDS => 3 };

my $node = PostgreSQL::Test::Cluster->new('write_refill');
my ($version) = `initdb --version` =~ /(\d+)/;
$node->init($version >= 18 ? (extra => ['--no-data-checksums']) : ());
$node->append_conf('postgresql.conf', "autovacuum = off\ngrnnd.build_device = cpu\n");
$node->start;
setup_grnnd($node, 16, 1);
$node->safe_psql('postgres', q(
	CREATE TABLE t (id int, v vector(16));
	INSERT INTO t SELECT * FROM points(1, 600, 16, 1);
	INSERT INTO t SELECT 1000 + i, v FROM points(1, 1, 16, 1), generate_series(1, 600) i;
	CREATE INDEX t_idx ON t USING grnnd (v);
	DELETE FROM t WHERE id BETWEEN 591 AND 600;
	VACUUM t));
my $path = $node->data_dir . '/' . number($node, "SELECT pg_relation_filepath('t_idx')");
$node->stop;
my $file = slurp_file($path);

my $meta = metapage($file);
my ($degree, $code_bytes) = @$meta{qw(degree code_bytes)};
sub at { return record_at($meta, @_); }
sub get { my ($format, $id, $offset, $n) = @_; return unpack $format, substr($file, at($id, $offset), $n); }
sub state_of { return get('C', $_[0], 0, 1); }

my @all = 0 .. (length($file) / PAGE - $meta->{first_node_block}) * $meta->{per_page} - 1;
my @nodes = grep { state_of($_) == NODE } @all;
my ($free) = grep { state_of($_) == FREE && get('C', $_, 2, 1) > 0 } @all;
my ($chain) = grep { state_of($_) == TIDS } @all;
ok($code_bytes > 0 && defined $free && defined $chain, 'there are codes, a free record and a chained one');

# the ids of a record's neighbors are behind its TIDs and code: where all records have ids
my ($ids) = grep {
	my $offset = $_;
	!grep { my $id = $_; grep { $_ > $#all || $_ == $id } get('L' . get('C', $id, 2, 1), $id, $offset, 4 * $degree) } @nodes
} map { ((HEADER + 6 * $_ + $code_bytes) + 3) & ~3 } 1 .. 16;
ok(defined $ids, 'the lists are found in the file');

# half of the nodes are to die, without the one that has a chain
my %dies = map { $_ => 1 } grep { $_ % 2 && get('L', $_, 8, 4) == 0xFFFFFFFF } @nodes;
my @tids;
for my $id (keys %dies)
{
	my ($high, $low, $offset) = get('S3', $id, HEADER, 6);
	push @tids, sprintf "(%d,%d)", $high << 16 | $low, $offset;
	substr($file, at($id, $ids), 4) = pack 'L', $id % 4 == 1 ? $chain : $free;
}

# codes are ignored (GrnndMeta.codes_ignored), under a checksum of the metapage
change_meta(\$file, 144, pack 'L', 1);
open my $f, '>:raw', $path or die "$path: $!";
print $f $file;
close $f;
$node->start;
is(number($node, q(SELECT state FROM grnnd_codes('t_idx'))), 'unused', 'codes are ignored');
$node->safe_psql('postgres', "DELETE FROM t WHERE ctid = ANY ('{\"" . join('","', @tids) . "\"}'::tid[])");
my $dead = @tids;
$node->safe_psql('postgres', 'VACUUM t');
is(number($node, "SELECT count(*) FROM t"), 1190 - $dead, "$dead rows were deleted");
sound($node, 't_idx', 'vacuumed');
missing($node, 't', 'vacuumed');
$node->stop;
done_testing();
