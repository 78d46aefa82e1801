# A physical standby answers as the primary does, survives replayed vacuums, and
# goes on alone after its promotion.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = PostgreSQL::Test::Cluster->new('write_primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', q(
autovacuum = off
grnnd.build_device = cpu
wal_consistency_checking = 'generic'
));
$primary->start;
setup_grnnd($primary, 64, 20);
$primary->safe_psql('postgres', q(
	CREATE TABLE t (id int PRIMARY KEY, v vector(64));
	INSERT INTO t SELECT * FROM points(1, 2000, 64, 1);
	CREATE INDEX t_idx ON t USING grnnd (v)));
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('write_standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', 'max_standby_streaming_delay = 60s');
$standby->start;

sub answers
{
	my ($node) = @_;
	return number($node, q(
		SET enable_seqscan = off;
		SELECT q.id, array_agg(x.id) FROM queries q,
			LATERAL (SELECT t.id FROM t ORDER BY t.v <-> q.v LIMIT 10) x
		GROUP BY q.id ORDER BY q.id));
}

for my $cycle (1 .. 10)
{
	$primary->safe_psql('postgres', qq(
		DELETE FROM t WHERE id % 5 = $cycle % 5;
		INSERT INTO t SELECT id + $cycle * 10000, v FROM points($cycle * 10000, $cycle * 10000 + 300, 64, 1);
		UPDATE t SET v = v WHERE id % 7 = 0;
		VACUUM t));
	$primary->wait_for_catchup($standby);
	my $expected = answers($primary);
	is(answers($standby), $expected, "cycle $cycle: the same answers");
	is(scalar(split(/\n/, $expected)), 20, "cycle $cycle: there are answers");
	sound($standby, 't_idx', "cycle $cycle, standby");
}
unlike(slurp_file($standby->logfile), qr/inconsistent page|PANIC|TRAP/, 'replay gave the pages that were logged');

# pages, without what hints and visibility may change, are the same
$primary->safe_psql('postgres', 'CHECKPOINT');
$primary->wait_for_catchup($standby);
$standby->safe_psql('postgres', 'CHECKPOINT');
my $path = number($primary, "SELECT pg_relation_filepath('t_idx')");
$primary->stop;
$standby->stop;
my ($a, $b) = map { slurp_file($_->data_dir . "/$path") } $primary, $standby;
is(length($a), length($b), 'files of one length');
my @differ = grep {
	substr($a, $_ * 8192 + 24, 8168) ne substr($b, $_ * 8192 + 24, 8168)
} 0 .. length($a) / 8192 - 1;
is("@differ", '', 'no page differs');

$standby->start;
$standby->promote;
$standby->safe_psql('postgres', q(
	INSERT INTO t SELECT id + 500000, v FROM points(500001, 500500, 64, 1);
	DELETE FROM t WHERE id % 3 = 0;
	VACUUM t));
sound($standby, 't_idx', 'promoted');
missing($standby, 't', 'promoted');
cmp_ok(recall($standby, 't'), '>=', 0.95, 'promoted: recall');

$standby->stop;
done_testing();
