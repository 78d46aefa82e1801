# VACUUM does not wait for synchronous standbys, and the slots that it freed are used again.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('sync');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', "autovacuum = off\ngrnnd.build_device = cpu\n");
$node->start;
setup_grnnd($node, 8, 1);
$node->safe_psql('postgres', q(
	CREATE TABLE t (id int, v vector(8));
	INSERT INTO t SELECT * FROM points(1, 2000, 8, 1);
	CREATE INDEX t_v ON t USING grnnd (v);
	DELETE FROM t WHERE id > 1000));

# a standby that does not exist
$node->append_conf('postgresql.conf', "synchronous_standby_names = 'nobody'\n");
$node->reload;
$node->poll_query_until('postgres', "SELECT current_setting('synchronous_standby_names') = 'nobody'");
my ($out, $err, $timed_out) = ('', '', 0);
# (truncating the table would give the transaction an ID, whatever indexes it has)
$node->psql('postgres', 'VACUUM (TRUNCATE off) t', stdout => \$out, stderr => \$err, timeout => $PostgreSQL::Test::Utils::timeout_default,
	timed_out => \$timed_out);
ok(!$timed_out && $err eq '', 'VACUUM does not wait for a synchronous standby') or diag($err);

SKIP: {
	skip 'VACUUM still waits', 2 if $timed_out;
	my $size = $node->safe_psql('postgres', "SELECT pg_relation_size('t_v')");
	# one transaction uses the ID up that VACUUM has left
	$node->safe_psql('postgres', 'SET synchronous_commit = local; SELECT txid_current()');
	$node->safe_psql('postgres',
		'SET synchronous_commit = local; INSERT INTO t SELECT * FROM points(3001, 3900, 8, 1)');
	is($node->safe_psql('postgres', "SELECT pg_relation_size('t_v')"), $size, 'slots are used again');
	sound($node, 't_v', 'afterwards');
}
$node->stop('immediate');
done_testing();
