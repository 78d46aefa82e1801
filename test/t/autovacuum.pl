# Sessions that wait for an autovacuum cancel it where a lock of the table is in question, but not for
# the index's own locks: an INSERT, grnnd_check() and grnnd_fit() wait until it goes on.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $lock = 6779502;    # src/am/test_point.c

my $node = PostgreSQL::Test::Cluster->new('autovacuum');
$node->init;
$node->append_conf('postgresql.conf', q(
autovacuum = on
autovacuum_naptime = 1s
deadlock_timeout = 10ms
log_autovacuum_min_duration = 0
grnnd.background_fit = off
grnnd.build_device = cpu
));
$node->start;
setup_grnnd($node, 8, 1);

# The autovacuum stops while it holds all locks of the index that a vacuum takes.
$node->safe_psql('postgres', q(
	CREATE TABLE t (id int, v vector(8)) WITH (autovacuum_enabled = off, vacuum_truncate = off,
		autovacuum_vacuum_threshold = 0, autovacuum_vacuum_scale_factor = 0);
	INSERT INTO t SELECT * FROM points(1, 500, 8, 1);
	CREATE INDEX t_idx ON t USING grnnd (v);
	DELETE FROM t WHERE id % 2 = 0;
	ALTER DATABASE postgres SET grnnd.test_point = 'writers-locked'));
my $gate = psql_start($node, "SELECT pg_advisory_lock($lock); SELECT pg_sleep(600);");
$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND granted") or die 'no gate';
$node->safe_psql('postgres', 'ALTER TABLE t SET (autovacuum_enabled = on)');
my $stopped = q(SELECT count(*) = 1 FROM pg_locks JOIN pg_stat_activity USING (pid)
	WHERE locktype = 'advisory' AND NOT granted AND backend_type = 'autovacuum worker');
$node->poll_query_until('postgres', $stopped) or die 'no autovacuum';

# (an autovacuum that has been canceled leaves nobody to wait for)
my @waiting = map { psql_start($node, "$_;") } 'INSERT INTO t SELECT * FROM points(501, 501, 8, 1)',
  "SELECT count(*) FROM grnnd_check('t_idx', true)", "SELECT grnnd_fit('t_idx')";
$node->poll_query_until('postgres', "SELECT count(*) = 3 OR NOT ($stopped) FROM pg_locks WHERE locktype = 'object' AND NOT granted")
  or die 'nobody waits';
like(($node->psql('postgres', "SET lock_timeout = '20ms'; INSERT INTO t SELECT * FROM points(502, 502, 8, 1)"))[2],
	qr/lock timeout/, 'a wait for the index has the limit of others');
# far more than deadlock_timeout
$node->safe_psql('postgres', 'SELECT pg_sleep(0.3)');
is($node->safe_psql('postgres', $stopped), 't', 'autovacuum goes on beside those who wait for it');
ok(slurp_file($node->logfile) !~ /canceling autovacuum task/, 'and was not canceled');

$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted");
psql_finish($gate);
is(join('|', map { psql_finish($_) } @waiting), '|0|', 'those who waited go on');
$node->poll_query_until('postgres', "SELECT autovacuum_count > 0 FROM pg_stat_user_tables WHERE relname = 't'");
sound($node, 't_idx', 'afterwards');
$node->stop;
done_testing();
