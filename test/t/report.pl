# What builds say of themselves: nothing by default, whatever devices the host has, and one line
# where the user asks for it.
use strict;
use warnings;

use Cwd;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('report');
$node->init;
$node->append_conf('postgresql.conf', "autovacuum = off\ngrnnd.build_device = auto\ngrnnd.build_threads = 1\n");
$node->start;
$node->safe_psql('postgres', q(
	CREATE EXTENSION grnnd_tools CASCADE;
	CREATE TABLE t (id int, e vector(8));
	SELECT setseed(0.5);
	INSERT INTO t SELECT i, ARRAY[random(), random(), random(), random(), random(), random(), random(), random()]::vector
	FROM generate_series(1, 12000) i;
	INSERT INTO t SELECT id + 12000, e FROM t WHERE id <= 100));

# Runs a statement under settings; returns what it says.
sub said
{
	my ($settings, $sql) = @_;
	my $err = '';
	$node->psql('postgres', "$settings; $sql", stderr => \$err, on_error_die => 1);
	return $err;
}

# (12,000 rows on one thread are worth a GPU's start)
is(said('', 'CREATE INDEX t_e ON t USING grnnd (e vector_l2_ops)'), '', 'a build says nothing');
is(said('', "SELECT * FROM grnnd_build_estimate('t', 'e')"), '', 'nor does an estimate');
my $info = said('SET client_min_messages = info', 'REINDEX INDEX t_e');
like($info, qr/^\S*\s*INFO:  index "t_e" has been built on (a GPU|CPU cores): 12100 rows, 12000 of them distinct, in \d+\.\d s$/m,
	'one that is asked says how it went');
like($info, qr/DETAIL:  Collecting rows took \d+\.\d s, the graph \d+\.\d s, codes \d+\.\d s, measuring recall \d+\.\d s, writing pages \d+\.\d s\. Recall of the 10 nearest is [01]\.\d+ at ef_search 40\./, 'and how long each step took');
my $devices = $node->safe_psql('postgres', 'SELECT count(*) FROM grnnd_devices() WHERE problem IS NULL');
SKIP:
{
	skip 'this host has a GPU', 2 if $devices > 0;
	like(said('SET client_min_messages = debug1', 'REINDEX INDEX t_e'), qr/works on 1 CPU threads, without a GPU: /, 'why it took no GPU is to be had');
	isnt($node->safe_psql('postgres', 'SELECT problem FROM grnnd_devices()'), '', 'grnnd_devices() says so, too');
}

# ---- grnnd_prewarm(): what a restart has put out of memory ----

# Pages of the index that ten queries read from disk, after a restart and `$warm`.
sub missed
{
	my ($warm) = @_;
	my $count = q(SELECT idx_blks_read FROM pg_statio_user_indexes WHERE indexrelname = 't_e');
	$node->restart;
	$node->safe_psql('postgres', "$warm; SELECT pg_stat_force_next_flush()") if $warm;
	my $before = $node->safe_psql('postgres', $count);
	$node->safe_psql('postgres', 'SET enable_seqscan = off;'
		. join('', map { "SELECT id FROM t ORDER BY e <-> (SELECT e FROM t WHERE id = $_ * 1000) LIMIT 10;" } 1 .. 10)
		. 'SELECT pg_stat_force_next_flush()');
	return $node->safe_psql('postgres', $count) - $before;
}
$node->append_conf('postgresql.conf', "shared_buffers = 16MB\n");
cmp_ok(missed(''), '>', 0, 'queries read pages after a restart');
cmp_ok($node->safe_psql('postgres', q(SELECT graph_scans FROM grnnd_stat_indexes WHERE indexrelname = 't_e')), '>=', 10,
	'cumulative statistics outlive a restart');
is(missed(q(SELECT grnnd_prewarm('t_e'))), 0, 'all pages: none');
is($node->safe_psql('postgres', q(SELECT grnnd_prewarm('t_e') = pg_relation_size('t_e') / 8192)), 't', 'it says how many it reads');
my $err;
$node->psql('postgres', q(\set VERBOSITY verbose
	SELECT grnnd_prewarm('pg_class')), stderr => \$err);
like($err, qr/ERROR:  42809/, 'other relations are refused');
$node->psql('postgres', "\\set VERBOSITY verbose\nSELECT grnnd_prewarm(to_regclass('nothing'))", stderr => \$err);
like($err, qr/22004: index must not be null/, 'and NULL');

# ---- the builder of a package with GPU kernels, beside that of the one without ----

# (it says that it ran for this server, and does what the other does: other servers may find it meanwhile)
my $program = $node->config_data('--pkglibdir') . '/grnnd_build_cuda';
my $mark = PostgreSQL::Test::Utils::tempdir . '/ran';
END { unlink $program if $program }
my $home = Cwd::realpath($node->data_dir);
append_to_file($program, "#!/bin/sh\n[ \"\$(pwd -P)\" != '$home' ] || touch '$mark'\nexec \"\${0%_cuda}\" \"\$@\"\n");
chmod 0755, $program;
$node->safe_psql('postgres', 'REINDEX INDEX t_e');
ok(-e $mark, 'comes first');
unlink $program, $mark;
$node->safe_psql('postgres', 'REINDEX INDEX t_e');
ok(!-e $mark, 'and where there is none, the other runs');
$node->stop;
done_testing();
