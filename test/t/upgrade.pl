# pg_upgrade from the older server that make check brings: indexes are taken over as they
# are, for their format does not depend on the server's version.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use File::Basename;
use GrnndTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $old_config = $ENV{OLD_PG_CONFIG} or plan skip_all => 'no older server';
chomp(my $old_bin = qx($old_config --bindir));
chomp(my $new_bin = qx($ENV{PG_CONFIG} --bindir));
my ($new_version) = qx("$new_bin/initdb" --version) =~ /(\d+)/;
my @plain = $new_version >= 18 ? (extra => ['--no-data-checksums']) : ();

for my $mode ('--copy', '--link')
{
	my $old = PostgreSQL::Test::Cluster->new("old$mode", install_path => dirname($old_bin));
	my $new = PostgreSQL::Test::Cluster->new("new$mode");
	my $settings = "autovacuum = off\ngrnnd.build_device = cpu\n";
	$old->init;
	$old->append_conf('postgresql.conf', $settings);
	$old->start;
	setup_grnnd($old, 48, 20);
	$old->safe_psql('postgres', q(
		CREATE TABLE t (id serial, v vector(48));
		INSERT INTO t (v) SELECT v FROM points(1, 1000, 48, 1);
		INSERT INTO t (v) SELECT v FROM points(1, 1, 48, 1), generate_series(1, 300);
		CREATE INDEX t_idx ON t USING grnnd (v) WITH (degree = 20, seed = 3);
		CREATE INDEX t_cosine ON t USING grnnd (v vector_cosine_ops) WITH (codes = off);
		INSERT INTO t (v) SELECT v FROM points(1001, 1200, 48, 1);
		DELETE FROM t WHERE id % 5 = 0;
		VACUUM t;
		DELETE FROM t WHERE id % 5 = 1;
		CREATE UNLOGGED TABLE u (LIKE t);
		CREATE INDEX u_idx ON u USING grnnd (v);
		INSERT INTO u SELECT * FROM t WHERE id < 100));
	my $answers = q(
		SET enable_seqscan = off;
		SELECT q.id, array_agg(x.id) FROM queries q,
			LATERAL (SELECT t.id FROM t ORDER BY t.v <-> q.v LIMIT 10) x
		GROUP BY q.id ORDER BY q.id);
	my $expected = number($old, $answers);
	my $file = $old->data_dir . '/' . number($old, "SELECT pg_relation_filepath('t_idx')");
	$old->stop;
	my $bytes = slurp_file($file);

	$new->init(@plain);
	$new->append_conf('postgresql.conf', $settings);
	# it leaves its log and scripts where it is run
	chdir PostgreSQL::Test::Utils::tempdir or die;
	command_ok([ 'pg_upgrade', '--no-sync', $mode, '-d', $old->data_dir, '-D', $new->data_dir,
			'-b', $old_bin, '-B', $new_bin, '-s', $new->host, '-p', $old->port, '-P', $new->port ],
		"pg_upgrade $mode");
	$new->start;
	is(number($new, $answers), $expected, "$mode: the same answers");
	is(number($new, "SELECT reloptions FROM pg_class WHERE relname = 't_idx'"),
		'{degree=20,seed=3}', "$mode: options");
	sound($new, $_, "$mode, $_") for qw(t_idx t_cosine u_idx);
	missing($new, 't', $mode);
	missing($new, 'u', "$mode, unlogged");
	my $same = slurp_file($new->data_dir . '/' . number($new, "SELECT pg_relation_filepath('t_idx')"));
	ok($same eq $bytes, "$mode: the same bytes");

	# and goes on, with slots that were freed before
	my $size = number($new, "SELECT pg_relation_size('t_idx')");
	$new->safe_psql('postgres', q(
		VACUUM t;
		INSERT INTO t (v) SELECT v FROM points(2001, 2150, 48, 1);
		UPDATE t SET v = v WHERE id % 7 = 0));
	is(number($new, "SELECT pg_relation_size('t_idx')"), $size, "$mode: freed slots are used");
	sound($new, $_, "$mode, written on, $_") for qw(t_idx t_cosine);
	missing($new, 't', "$mode, written on");
	cmp_ok(recall($new, 't'), '>=', 0.95, "$mode: recall");
	$new->stop;
	$old->clean_node;
}

done_testing();
