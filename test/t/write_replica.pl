# A physical standby answers as the primary does, also one from a backup taken under
# load; its open cursors survive replayed vacuums; and it goes on alone after its promotion.
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
grnnd.background_fit = off
grnnd.build_device = cpu
wal_consistency_checking = 'generic'
wal_keep_size = 2GB
));
$primary->start;
setup_grnnd($primary, 64, 20, 'grnnd_tools');
$primary->safe_psql('postgres', q(
	CREATE TABLE t (id int PRIMARY KEY, v vector(64));
	INSERT INTO t SELECT * FROM points(1, 2000, 64, 1);
	CREATE INDEX t_idx ON t USING grnnd (v, id)));
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
		GROUP BY q.id ORDER BY q.id;
		SET enable_sort = off;
		SET enable_bitmapscan = off;
		SELECT array_agg(id ORDER BY id) FROM
			(SELECT id FROM t WHERE id BETWEEN 500 AND 560 ORDER BY v <-> (SELECT v FROM queries LIMIT 1) LIMIT 10) x;
		SELECT method FROM grnnd_last_scan()));
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
	is(scalar(split(/\n/, $expected)), 22, "cycle $cycle: there are answers");
	like($expected, qr/\nlist$/, "cycle $cycle: a range by its list");
	sound($standby, 't_idx', "cycle $cycle, standby");
}

# ---- what the index tells of itself ----

for my $told ("SELECT estimated_rows, estimated_nodes, estimated_chain_records, unreachable_nodes, advice, recall_curve FROM grnnd_stats('t_idx', true)",
	"SET grnnd.target_recall = 0.99; SELECT queried, compared, ef_search FROM grnnd_recall('t_idx', 1, queries => 20)",
	"SELECT count(*) FROM grnnd_indexes WHERE estimated_rows > 0")
{
	my $expected = number($primary, $told);
	like($expected, qr/\d/, "the primary says: $told");
	is(number($standby, $told), $expected, 'so does the standby');
}

# ---- of unlogged tables there is nothing to tell ----

$primary->safe_psql('postgres', q(
	CREATE UNLOGGED TABLE unlogged AS SELECT * FROM t;
	CREATE INDEX unlogged_idx ON unlogged USING grnnd (v)));
$primary->wait_for_catchup($standby);
for my $ask ((map { "grnnd_$_('unlogged_idx')" } qw(check codes recall stats prewarm)),
	"grnnd_build_estimate('unlogged', 'v')", "grnnd_graph('unlogged', 'v')")
{
	$standby->psql('postgres', "\\set VERBOSITY sqlstate\nSELECT $ask", stderr => \my $err);
	like($err, qr/ERROR:  0A000/, "$ask on a standby");
}
is(number($standby, "SELECT count(*) FROM grnnd_indexes WHERE index = 'unlogged_idx'::regclass AND estimated_rows IS NULL"), 1,
	'the view has an empty row for it');

# ---- the index's last record holds TIDs alone, where records span pages ----

# so many equal rows that their record gets a chained one, behind which nothing is written
$primary->safe_psql('postgres', q(
	CREATE TABLE wide (id int, v vector(2100));
	CREATE INDEX wide_idx ON wide USING grnnd (v);
	INSERT INTO wide SELECT i, v FROM points(1, 1, 2100, 1), generate_series(1, 30) i));
$primary->wait_for_catchup($standby);
is(number($_, q(SET enable_seqscan = off; SET enable_sort = off;
	SELECT count(*) FROM (SELECT id FROM wide ORDER BY v <-> (SELECT v FROM points(2, 2, 2100, 1))) x)),
	30, 'a chained record is the last: ' . $_->name) for $primary, $standby;
sound($standby, 'wide_idx', 'a chained record is the last');

# ---- a cursor of the standby, while vacuum and inserts into freed slots are replayed ----

$primary->safe_psql('postgres', q(
	CREATE TABLE flag (n int);
	CREATE FUNCTION wait_for_flag(wanted int) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		WHILE NOT EXISTS (SELECT FROM flag WHERE n = wanted) LOOP
			PERFORM pg_sleep(0.02);
		END LOOP;
	END $$;
	CREATE FUNCTION drain(c refcursor, OUT rows int, OUT different int, OUT highest int)
	LANGUAGE plpgsql AS $$
	DECLARE
		id int;
		ids int[];
	BEGIN
		LOOP
			FETCH c INTO id;
			EXIT WHEN NOT FOUND;
			ids := ids || id;
		END LOOP;
		SELECT count(*), count(DISTINCT i), max(i) INTO rows, different, highest FROM unnest(ids) i;
	END $$));
$standby->append_conf('postgresql.conf', 'wal_receiver_status_interval = 1s');
for my $feedback ('on', 'off')
{
	my $table = "cursor_$feedback";
	$standby->append_conf('postgresql.conf', "hot_standby_feedback = $feedback");
	$standby->reload;
	# Rows that are dead to the cursor, but in the index when it begins.  The cursor's
	# first row lies on another page of the table, which it keeps pinned.
	$primary->safe_psql('postgres', qq(
		CREATE TABLE $table (id int, v vector(64)) WITH (vacuum_truncate = off);
		INSERT INTO $table SELECT * FROM points(1, 1000, 64, 1);
		CREATE INDEX ON $table USING grnnd (v);
		DELETE FROM $table WHERE id > 100));
	$primary->wait_for_catchup($standby);
	my $cursor = psql_start($standby, qq(
		SET enable_seqscan = off;
		SET enable_sort = off;
		SET grnnd.ef_search = 2;
		SET grnnd.iterative_scan = relaxed_order;
		BEGIN;
		DECLARE c NO SCROLL CURSOR FOR SELECT id FROM $table ORDER BY v <-> (SELECT v FROM $table WHERE id = 1);
		MOVE 1 IN c;
		SELECT FROM wait_for_flag(1);
		SELECT * FROM drain('c');
		COMMIT));
	$standby->poll_query_until('postgres', q(
		SELECT count(*) = 1 FROM pg_stat_activity WHERE query ~ 'wait_for_flag' AND wait_event = 'PgSleep'))
	  or die 'no cursor';
	my $told = $feedback eq 'on' ? 'IS NOT NULL' : 'IS NULL';
	$primary->poll_query_until('postgres', "SELECT backend_xmin $told FROM pg_stat_replication")
	  or die "feedback is not $feedback";
	my $size = number($primary, "SELECT pg_relation_size('${table}_v_idx')");
	$primary->safe_psql('postgres', qq(
		VACUUM $table;
		INSERT INTO $table SELECT * FROM points(2001, 2800, 64, 1)));
	my $grown = number($primary, "SELECT pg_relation_size('${table}_v_idx')") > $size;
	is($grown, $feedback eq 'on', "feedback $feedback: are freed slots kept for the standby's cursor?");
	# nothing that the cursor sees may go, for replay would wait for it
	$primary->safe_psql('postgres', "DELETE FROM $table WHERE id > 2000; VACUUM $table") if $feedback eq 'on';
	$primary->safe_psql('postgres', 'INSERT INTO flag VALUES (1)');
	my $got = psql_finish($cursor);
	if ($feedback eq 'on')
	{
		is($got, '99|99|100', 'a cursor of the standby brings all of its rows');
	}
	else
	{
		# slots that it knows are used again: it may lose rows then, but never bring others
		my ($rows, $different, $highest) = split /\|/, $got;
		is($different, $rows, 'without feedback: no row comes twice');
		cmp_ok($highest, '<=', 100, 'without feedback: no row that came later');
		cmp_ok($rows, '>=', 50, "without feedback: $rows of 99 rows");
	}
	$primary->safe_psql('postgres', 'TRUNCATE flag');
	$primary->wait_for_catchup($standby);
	sound($standby, "${table}_v_idx", "feedback $feedback");
}

# ---- lists that a fit makes have rows that the standby alone still sees ----

# (in half-filled pages the fit prunes no dead rows, which would end the standby's query)
$standby->append_conf('postgresql.conf', 'hot_standby_feedback = off');
$standby->reload;
$primary->safe_psql('postgres', q(
	CREATE TABLE tagged (id int, tag int, v vector(64)) WITH (fillfactor = 50);
	INSERT INTO tagged SELECT id, id, v FROM points(1, 15, 64, 1);
	CREATE INDEX tagged_idx ON tagged USING grnnd (v, tag);
	INSERT INTO tagged SELECT id, CASE WHEN id % 100 = 0 THEN 77777 ELSE id END, v FROM points(16, 2000, 64, 1)));
$primary->wait_for_catchup($standby);
$primary->poll_query_until('postgres', 'SELECT backend_xmin IS NULL FROM pg_stat_replication')
  or die 'feedback is not off';
my $tagged = q(
	SET enable_seqscan = off;
	SELECT count(*) FROM (SELECT id FROM tagged WHERE tag = 77777 AND v <-> (SELECT v FROM queries LIMIT 1) < 1000
		ORDER BY v <-> (SELECT v FROM queries LIMIT 1) LIMIT 100) x;
	SELECT method FROM grnnd_last_scan(););
my $old = psql_start($standby, qq(
	BEGIN ISOLATION LEVEL REPEATABLE READ;
	SELECT FROM tagged LIMIT 1;
	DO \$\$ BEGIN WHILE NOT pg_is_wal_replay_paused() LOOP PERFORM pg_sleep(0.02); END LOOP; END \$\$;
	$tagged));
$standby->poll_query_until('postgres', q(
	SELECT count(*) = 1 FROM pg_stat_activity WHERE query ~ '^DO' AND wait_event = 'PgSleep'))
  or die 'no old snapshot';
$primary->safe_psql('postgres', 'DELETE FROM tagged WHERE tag = 77777');
$primary->safe_psql('postgres', "SELECT grnnd_fit('tagged_idx')");
$primary->wait_for_catchup($standby);
$standby->safe_psql('postgres', 'SELECT pg_wal_replay_pause()');
is(psql_finish($old), "20\nlist", 'lists have dead rows that an old snapshot of the standby sees');
$standby->safe_psql('postgres', 'SELECT pg_wal_replay_resume()');
is(number($_, $tagged), "0\nlist", 'and no other: ' . $_->name) for $primary, $standby;
sound($standby, 'tagged_idx', 'lists of a fit');

# ---- a backup while rows come and go ----

my $load = pgbench_start($primary, [ '-c', 4, '-T', 600 ],
	[ 3, "\\set s random(200000, 201000)\nINSERT INTO t SELECT id, v FROM points(:s, :s, 64, 1) ON CONFLICT DO NOTHING;\n" ],
	[ 2, "\\set s random(200000, 201000)\nDELETE FROM t WHERE id = :s;\n" ]);
my $vacuum = pgbench_start($primary, [ '-c', 1, '-T', 600 ], [ 1, "VACUUM t;\n" ]);
$primary->backup('busy');
is(pgbench_stop($primary, $load, $vacuum), '', 'load during a backup: no error');
my $second = PostgreSQL::Test::Cluster->new('write_second');
$second->init_from_backup($primary, 'busy', has_streaming => 1);
$second->start;
$primary->wait_for_catchup($second);
is(answers($second), answers($primary), 'from a backup under load: the same answers');
sound($second, 't_idx', 'from a backup under load');
missing($second, 't', 'from a backup under load');
$second->stop;
unlike(slurp_file($_->logfile), qr/inconsistent page|PANIC|TRAP/, 'replay gave the pages that were logged')
  for $standby, $second;

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
