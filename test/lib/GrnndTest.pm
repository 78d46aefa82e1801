# GrnndTest.pm - what the Perl tests share: data, recall against the exact answer
# (lib/recall.sql), checks of an index, crashes, and the seed of what is random.
#
# GRNND_SEED is that seed (42); with GRNND_SOAK tests do more than make check has time for, and with
# GRNND_ALL (make check-all) they leave nothing out to save time.
package GrnndTest;

use strict;
use warnings;

use Cwd qw(abs_path);
use Exporter 'import';
use File::Basename;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

our @EXPORT = qw(compile_c compile_standin setup_grnnd sound recall missing number metapage change_meta record_at pages kill_server crash_server
  pgbench_start pgbench_finish pgbench_stop psql_start psql_finish $seed $soak $all);

my $lib = dirname(abs_path(__FILE__));
our $seed = $ENV{GRNND_SEED} || 42;
our $soak = $ENV{GRNND_SOAK} || 0;
our $all = $ENV{GRNND_ALL} || $soak;
srand($seed);
note "GRNND_SEED=$seed";

# Compiles a C file that a test brings along.  A server's build has needed a compiler, so
# there is one, and what does not compile is a fault of the test.
sub compile_c
{
	my ($source, $to, $options) = @_;
	my $cc = qx($ENV{PG_CONFIG} --cc) || 'cc';
	chomp $cc;
	$cc = 'cc' if system("command -v $cc >/dev/null 2>&1") != 0;
	system("$cc -O1 -o $to $source $options") == 0 or die "$source does not compile";
	chmod 0755, $to;
}

# grnnd_build on the processor's stand-in for GPUs (test/unit/gpu_standin.c), by the objects of the builder that is
# tested, where they are.  $more: sources and options besides; $main: main() is among them.
sub compile_standin
{
	my ($to, $more, $main) = @_;
	my $top = abs_path("$lib/../..");
	my $rooms = '{builder,memory,space,space/kernels,store,graph}';
	my @objects = glob("$top/build/$rooms/*.o");
	@objects = glob("$top/src/$rooms/*.c") unless @objects > 40;
	@objects = grep { !m{builder/main\.[co]$} } @objects if $main;
	compile_c("$top/test/unit/gpu_standin.c", $to, "-pthread -I$top/src -I$top @objects " . ($more // '') . " -lm -ldl -lrt");
}

# The extension (grnnd, or one that requires it) and the functions of recall.sql; and table
# queries (id, v) with $n rows of the given dimensions that no other points() are.
sub setup_grnnd
{
	my ($node, $dim, $n, $extension) = @_;
	$extension //= 'grnnd';
	$node->safe_psql('postgres', "CREATE EXTENSION $extension CASCADE;\n"
		  . slurp_file("$lib/recall.sql")
		  . "CREATE TABLE queries AS SELECT * FROM points(1000001, 1000000 + $n, $dim, 1);");
}

sub number
{
	my ($node, $sql) = @_;
	return $node->safe_psql('postgres', "SET client_min_messages = error; $sql");
}

# The fields of an index's metapage (struct GrnndMeta) by name, from the bytes of its file;
# and what they say of records: per_page and code_bytes.
sub metapage
{
	my ($file) = @_;
	my (%meta, @shape);
	(@meta{qw(magic format build_id metric dim degree)}, @shape[0 .. 3],
		@meta{qw(ncolumns form attr_bytes sig_bytes payload record_bytes norm_unit)}, @{ $meta{steps} }[0 .. 2],
		@meta{qw(held entry_block codec_block codec_pages first_node_block column_dim params
			  on_gpu list_generation build_nodes fit_state judged codes_ignored book_block book_pages
			  sample_block sample_pages list_block list_pages list_state list_scale
			  list_buckets)})
	  = unpack 'L2QL3S4LLS2L2ff3fL5a32S2L9SC2L', substr($file, 24, 176);
	die 'no metapage' unless $meta{magic} == 0x444E5247;
	$meta{code_bytes} = (4 * $shape[0] + 2 * $shape[1] + $shape[2]) / 8 + $shape[3];
	$meta{per_page} = int($meta{payload} / $meta{record_bytes});
	return \%meta;
}

my @crc_table = map { my $c = $_; $c = $c & 1 ? $c >> 1 ^ 0x82F63B78 : $c >> 1 for 1 .. 8; $c } 0 .. 255;

# Puts bytes at an offset of struct GrnndMeta in an index's file, and the checksum behind all fields.
sub change_meta
{
	my ($file, $offset, $bytes) = @_;
	my $c = 0xFFFFFFFF;
	substr($$file, 24 + $offset, length $bytes) = $bytes;
	$c = $c >> 8 ^ $crc_table[($c ^ $_) & 0xFF] for unpack 'C*', substr($$file, 24, 740);
	substr($$file, 24 + 740, 4) = pack 'L', $c ^ 0xFFFFFFFF;
	return;
}

# Where byte $offset of a record lies in the file of an index whose records fit a page.
sub record_at
{
	my ($meta, $id, $offset) = @_;
	my $block = $meta->{first_node_block} + int($id / $meta->{per_page});
	return $block * 8192 + 24 + $id % $meta->{per_page} * $meta->{record_bytes} + $offset;
}

# An index's pages but the first, which has a time, without what WAL and checksums write there.
sub pages
{
	my ($node, $index) = @_;
	my $path = $node->safe_psql('postgres', "CHECKPOINT; SELECT pg_relation_filepath('$index')");
	my $bytes = slurp_file($node->data_dir . "/$path");
	my $size = 8192;
	return join '', map { substr($bytes, $_ * $size + 10, $size - 10) } 1 .. length($bytes) / $size - 1;
}

# grnnd_check() has nothing to say.
sub sound
{
	my ($node, $index, $name) = @_;
	is(number($node, "SELECT * FROM grnnd_check('$index', true) LIMIT 10"), '',
		"$name: sound");
}

sub recall
{
	my ($node, $table, $op) = @_;
	return number($node, sprintf("SELECT recall('%s', 'v', '%s', 'queries')", $table, $op // '<->'));
}

# Rows that an exhaustive search does not bring: 0.
sub missing
{
	my ($node, $table, $name) = @_;
	is(number($node, "SELECT missing('$table', 'v', '<->', (SELECT v FROM queries LIMIT 1))"),
		0, "$name: every row is found");
}

# The state of a process, a letter of proc(5), and its parent; nothing where it is gone.
sub process
{
	my ($pid) = @_;
	open(my $f, '<', "/proc/$pid/stat") or return;
	return (<$f> // '') =~ /\) (\S) (\d+)/;
}

sub running
{
	my ($state) = process(@_);
	return defined $state && $state !~ /[ZX]/;
}

# Whether a process still has the segment of shared memory: the next server would refuse to start.
sub attached
{
	my ($segment) = @_;
	open(my $f, '<', '/proc/sysvipc/shm') or return 0;
	# key, id, permissions, bytes, two processes, how many have it
	return grep { my @column = split; $column[1] eq $segment && $column[6] > 0 } <$f>;
}

# Kills every process of the server.  The postmaster is stopped first, so that it starts no other
# between the look for its children and their end.
sub kill_server
{
	my ($node) = @_;
	my @line = split /\n/, slurp_file($node->data_dir . '/postmaster.pid');
	my ($postmaster, $segment) = ($line[0], (split ' ', $line[6] // '')[1] // '');
	my $until = time() + 30;
	kill 'STOP', $postmaster;
	sleep 0.001 while time() < $until && ((process($postmaster))[0] // 'Z') !~ /[TZX]/;
	my @children;
	for my $pid (map { m{(\d+)$} } glob '/proc/[0-9]*')
	{
		my (undef, $parent) = process($pid);
		push @children, $pid if ($parent // 0) == $postmaster;
	}
	kill 'KILL', $postmaster, @children;
	$until = time() + 30;
	sleep 0.01
	  while time() < $until && (attached($segment) || grep { running($_) } $postmaster, @children);
	# the next server would wait for the process in them, which may not be reaped yet
	unlink $node->data_dir . '/postmaster.pid', $node->host . '/.s.PGSQL.' . $node->port . '.lock';
	$node->{_pid} = undef;
}

# Kills it and starts it again.  What was written is there, synced or not; power_cut.pl
# loses it.
sub crash_server
{
	my ($node) = @_;
	kill_server($node);
	$node->start;
}

# Runs pgbench in the background: options, then [weight, script] pairs.
sub pgbench_start
{
	my ($node, $options, @scripts) = @_;
	my @command = ('pgbench', '-n', "--random-seed=$seed", @$options);
	for my $script (@scripts)
	{
		my ($weight, $text) = @$script;
		my $file = PostgreSQL::Test::Utils::tempdir() . '/script.sql';
		append_to_file($file, $text);
		push @command, '-f', "$file\@$weight";
	}
	my ($out, $err) = ('', '');
	local $ENV{PGHOST} = $node->host;
	local $ENV{PGPORT} = $node->port;
	my $run = IPC::Run::start([ @command, 'postgres' ], '>', \$out, '2>', \$err);
	return { run => $run, out => \$out, err => \$err };
}

# Runs statements in a psql in the background.
sub psql_start
{
	my ($node, $sql) = @_;
	my ($out, $err) = ('', '');
	my $file = PostgreSQL::Test::Utils::tempdir() . '/script.sql';
	append_to_file($file, $sql);
	my $run = IPC::Run::start(
		[ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr . ' dbname=postgres', '-f', $file ],
		'<', \undef, '>', \$out, '2>', \$err);
	return { run => $run, out => \$out, err => \$err };
}

# Waits for it; returns what it said.
sub psql_finish
{
	my ($psql) = @_;
	$psql->{run}->finish;
	chomp(my $said = ${ $psql->{out} } . ${ $psql->{err} });
	return $said;
}

# Waits for it; returns what it complained of.
sub pgbench_finish
{
	my ($bench) = @_;
	$bench->{run}->finish;
	return join("\n", grep { /error|fatal|abort/i } split(/\n/, ${ $bench->{err} }));
}

# Ends these pgbench before their time; returns what they complained of.  The server goes on with the last
# statements of clients that are gone, so this waits for the ends of these statements too.
sub pgbench_stop
{
	my ($node, @benches) = @_;
	$_->{run}->signal('TERM') for @benches;
	my $said = join('', map { pgbench_finish($_) } @benches);
	$node->poll_query_until('postgres', q(SELECT count(*) = 0 FROM pg_stat_activity
		WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()))
	  or die 'statements of clients that are gone do not end';
	return $said;
}

1;
