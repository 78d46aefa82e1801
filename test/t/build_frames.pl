# grnnd_serve_build(): what a client that is no builder of grnnd's may send.  Each frame that is not
# sound is one error, and the server stays up.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# GrnWireType and GrnSegment
my ($BEGIN, $PUT, $BUILD, $GET, $END) = 1 .. 5;
my ($VECTORS, $ORDER, $RESULT) = 0 .. 2;
my $HEAD = 'Q<L<4Q<2';

my $node = PostgreSQL::Test::Cluster->new('both');
$node->init;
$node->append_conf('postgresql.conf', q(
autovacuum = off
fsync = off
grnnd.background_fit = off
grnnd.build_device = cpu
max_parallel_maintenance_workers = 0
));
$node->start;
my ($host, $port) = ($node->host, $node->port);
my $user = $node->safe_psql('postgres', 'SELECT quote_literal(current_user)');
$node->safe_psql('postgres', qq(
	CREATE EXTENSION grnnd_build_server CASCADE;
	CREATE SERVER same FOREIGN DATA WRAPPER grnnd_build OPTIONS (host '$host', port '$port', dbname 'postgres');
	CREATE USER MAPPING FOR CURRENT_USER SERVER same OPTIONS (user $user);
	CREATE TABLE t AS SELECT ARRAY[i, i % 7, 0.5, 1]::vector(4) AS v FROM generate_series(1, 50) i));

# wire.h: four sums of words side by side
sub checksum
{
	use integer;
	my ($bytes) = @_;
	my $mix = sub {
		my ($sum, $word) = @_;
		$sum ^= $word;
		$sum = (($sum << 29) | (($sum >> 35) & 0x1FFFFFFF)) * -7046029254386353131;
		return $sum ^ (($sum >> 32) & 0xFFFFFFFF);
	};
	my $sum = length $bytes;
	my $whole = $sum / 32 * 4;
	my @words = unpack 'q<*', $bytes . "\0" x (32 - $sum % 32);
	my @lanes = (1 .. 4);
	$lanes[ $_ % 4 ] = $mix->($lanes[ $_ % 4 ], $words[$_]) for 0 .. $whole - 1;
	$sum = $mix->($mix->($sum, $lanes[$_]), $words[ $whole + $_ ]) for 0 .. 3;
	return $sum;
}

# A genuine beginning, from the log.
my $logged = -s $node->logfile;
$node->safe_psql('postgres', q(ALTER ROLE CURRENT_USER SET log_statement = 'all'));
$node->safe_psql('postgres', 'SET grnnd.build_device = gpu; SET grnnd.build_server = same; CREATE INDEX ON t USING grnnd (v)');
$node->safe_psql('postgres', 'ALTER ROLE CURRENT_USER RESET log_statement');
my ($hex) = substr(slurp_file($node->logfile), $logged) =~ /\$1 = '\\x([0-9a-f]+)'/ or die 'no frame in the log';
my $whole = pack 'H*', $hex;
my ($sum, $magic, $version, $type) = unpack $HEAD, $whole;
my $spec = substr $whole, length pack $HEAD, (0) x 7;
is($type, $BEGIN, 'a beginning');
is($sum, unpack('Q<', pack 'q<', checksum(substr $whole, 8)), 'with the checksum that is computed here');

sub frame
{
	my ($type, $segment, $offset, $payload) = @_;
	my $rest = substr(pack($HEAD, 0, $magic, $version, $type, $segment, $offset, length $payload), 8) . $payload;
	return pack('q<', checksum($rest)) . $rest;
}

# What is said of these frames in one transaction, before which SQL is run.
sub said
{
	my ($sql, @frames) = @_;
	my $calls = join '', map { sprintf "PERFORM grnnd_serve_build(decode('%s', 'hex'));\n", unpack 'H*', $_ } @frames;
	my $err;
	$node->psql('postgres', "\\set VERBOSITY verbose\nSET client_min_messages = warning;\nDO \$do\$ BEGIN $sql $calls END \$do\$", stderr => \$err, on_error_stop => 0);
	return $err;
}

# The beginning with numbers of four bytes put in at such places.
sub begin_with
{
	my (@changes) = @_;
	my $other = $spec;
	while (my ($place, $number) = splice @changes, 0, 2) { substr($other, $place, 4) = pack 'L<', $number; }
	return frame($BEGIN, 0, 0, $other);
}

my $begin = frame($BEGIN, 0, 0, $spec);
my $rows = frame($PUT, $VECTORS, 0, pack('f<*', map { ($_, $_ % 7, 0.5, 1) } 1 .. 50));
my $order = frame($PUT, $ORDER, 0, pack('L<*', 0 .. 49));
my $build = frame($BUILD, 0, 0, '');
my @built = ($begin, $rows, $order, $build);

is(said('', @built, frame($GET, $RESULT, 0, pack 'Q<', 100), frame($END, 0, 0, ''), frame($END, 0, 0, '')), '', 'a build');

for ([ 'dimensions: none', begin_with(8, 0) ],
	[ 'dimensions: billions', begin_with(8, 1 << 31) ],
	[ 'bytes beside rows', begin_with(24, 257) ],
	[ 'bytes beside codes', begin_with(28, 33) ],
	[ 'an unknown layout', begin_with(36, 5) ],
	[ 'a degree too large', begin_with(72, 10000) ],
	[ 'a pool too small', begin_with(76, 7) ],
	[ 'more initial neighbors than a pool has', begin_with(76, 8, 80, 9) ],
	[ 't1 too large', begin_with(84, 101) ],
	[ 't2 too large', begin_with(88, 101) ],
	[ 'a share of NaN', begin_with(92, 0x7FC00000) ],
	[ 'a share above 1', begin_with(92, 0x40000000) ],
	[ 'a seed too large', begin_with(100, 1) ],
	[ 'an unknown metric', begin_with(4, 99) ],
	[ 'an unknown form', begin_with(12, 99) ],
	[ 'sparse rows, which every host builds itself', begin_with(8, 64, 12, 8, 16, 256) ],
	[ 'rows too short', begin_with(16, 8) ])
{
	like(said('', $_->[1]), qr/08P01: .*numbers of its beginning are out of range/, $_->[0]);
}
for ([ 'nothing begun', qr/no build has begun/, $rows ],
	[ 'two beginnings', qr/another build has begun/, $begin, $begin ],
	[ 'rows that are not the next', qr/rows out of turn/, $begin, frame($PUT, $VECTORS, 1, 'x' x 16) ],
	[ 'rows far away', qr/rows out of turn/, $begin, frame($PUT, $VECTORS, -1, 'x' x 16) ],
	[ 'half a row', qr/rows out of turn/, $begin, frame($PUT, $VECTORS, 0, 'x' x 24) ],
	[ 'rows behind their order', qr/rows out of turn/, $begin, $rows, $order, frame($PUT, $VECTORS, 800, 'x' x 16) ],
	[ 'another segment', qr/an unknown segment/, $begin, frame($PUT, $RESULT, 0, 'x' x 16) ],
	[ 'an order too long', qr/an order out of turn/, $begin, $rows, frame($PUT, $ORDER, 0, 'x' x 204) ],
	[ 'an order far away', qr/an order out of turn/, $begin, $rows, frame($PUT, $ORDER, -4, 'x' x 4) ],
	[ 'no order', qr/a build without all of its rows/, $begin, $rows, $build ],
	[ 'no rows', qr/a build without all of its rows/, $begin, $build ],
	[ 'an order of rows that are not there', qr/an order that names rows that do not exist/,
		$begin, $rows, frame($PUT, $ORDER, 0, pack 'L<*', 1 .. 50), $build ],
	[ 'numbers that are none', qr/22000: .*NaN/, $begin,
		frame($PUT, $VECTORS, 0, pack('L<4', (0x7FC00000) x 4) x 50), $order, $build ],
	[ 'a result too early', qr/nothing that can be had/, $begin, $rows, $order, frame($GET, $RESULT, 0, pack 'Q<', 1) ],
	[ 'an end too early', qr/an end without a build/, $begin, $rows, $order, frame($END, 0, 0, '') ],
	[ 'rows asked for', qr/nothing that can be had/, @built, frame($GET, $VECTORS, 0, pack 'Q<', 1) ],
	[ 'more than there is', qr/more than there is/, @built, frame($GET, $RESULT, 1 << 40, pack 'Q<', 1) ],
	[ 'past all numbers', qr/more than there is/, @built, frame($GET, $RESULT, -1, pack 'Q<', 2) ],
	[ 'more than goes into a frame', qr/more than there is/, @built, frame($GET, $RESULT, 0, pack 'Q<', 1 << 21) ],
	[ 'rows behind the build', qr/rows behind the build/, @built, frame($PUT, $VECTORS, 800, 'x' x 16) ],
	[ 'two builds', qr/a build without all of its rows/, @built, $build ],
	[ 'an unknown request', qr/an unknown request/, $begin, frame(99, 0, 0, '') ])
{
	my ($name, $error, @frames) = @$_;
	like(said('', @frames), $error, $name);
}
# Memory is taken as rows come, however many are announced.
$node->safe_psql('postgres', q{CREATE FUNCTION mapped() RETURNS text LANGUAGE sql AS $$
	SELECT coalesce(sum(('x' || lpad(m[2], 16, '0'))::bit(64)::bigint - ('x' || lpad(m[1], 16, '0'))::bit(64)::bigint), 0)::text
	FROM regexp_matches(pg_read_file('/proc/self/maps'), '^([0-9a-f]+)-([0-9a-f]+) [^\n]*memfd:grnnd build', 'gn') m $$});
my $many = begin_with(208, 20_000_000);
my $say = sub { return "PERFORM grnnd_serve_build(decode('" . unpack('H*', $_[0]) . "', 'hex')); RAISE WARNING 'mapped %', mapped();" };
like(said($say->($many) . $say->($rows), frame($END, 0, 0, '')), qr/mapped 0\b.*mapped 1048576\b/s, 'memory comes with rows');

# a result is there for the asking while recall is still measured; END waits for that
my $dir = PostgreSQL::Test::Utils::tempdir;
compile_standin("$dir/bad", "$FindBin::Bin/build_bad.c -Wl,--wrap=grn_form_pages", 1);
append_to_file("$dir/recall", "#!/bin/sh\nexec $dir/bad recall\n");
chmod 0755, $dir, "$dir/recall";
my $slow = "SET LOCAL grnnd.builder_path = '$dir/recall';";
is(said($slow, @built, frame($GET, $RESULT, 0, pack 'Q<', 100)), '', 'a result before recall is measured');
{
	local $ENV{PGOPTIONS} = '-c statement_timeout=1s';
	like(said($slow, @built, frame($END, 0, 0, '')), qr/57014: .*statement timeout/, 'an end waits for recall');
}
# a caller that goes on after an error: the build there has not begun
like(said("PERFORM set_config('grnnd.builder_path', '/nowhere', true);
	BEGIN PERFORM grnnd_serve_build(decode('" . unpack('H*', $begin) . "', 'hex')); EXCEPTION WHEN OTHERS THEN NULL; END;", $rows),
	qr/no build has begun/, 'a beginning that failed');

unlike(slurp_file($node->logfile), qr/terminated by signal|PANIC|TRAP/, 'the server has not crashed');
$node->stop;
done_testing();
