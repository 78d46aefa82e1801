# What a role without privileges must not do: every refusal has SQLSTATE 42501.  Code of a
# table's owner runs with the owner's rights whoever asks, and no name or path becomes code.
use strict;
use warnings;

use Fcntl qw(F_SETFD);
use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $dir = PostgreSQL::Test::Utils::tempdir;
chmod 0755, $dir;

my $node = PostgreSQL::Test::Cluster->new('security');
$node->init;
$node->append_conf('postgresql.conf', "autovacuum = off\ngrnnd.background_fit = off\ngrnnd.build_in_backend = off\n");
# a descriptor that the server and its backends inherit
open(my $inherited, '>', "$dir/inherited") or die "$dir/inherited: $!";
fcntl($inherited, F_SETFD, 0) or die "fcntl: $!";
$node->start;
close $inherited;
$node->safe_psql('postgres', q(
	CREATE ROLE weak LOGIN;
	CREATE ROLE rich LOGIN;
	CREATE EXTENSION grnnd_tools CASCADE;
	GRANT CREATE ON SCHEMA public TO weak, rich;
	SET ROLE rich;
	CREATE TABLE t (id int PRIMARY KEY, v vector(3));
	INSERT INTO t SELECT i, ARRAY[i, i % 7, i % 11]::vector FROM generate_series(1, 300) i;
	CREATE INDEX t_v ON t USING grnnd (v);
	CREATE INDEX t_hnsw ON t USING hnsw (v vector_l2_ops);
	GRANT SELECT ON t TO weak;
	CREATE TABLE closed (v vector(3));
	CREATE INDEX closed_v ON closed USING grnnd (v)));

# Runs statements in one session, as a role or as the superuser (''); returns the SQLSTATEs of
# their errors and warnings, and the output.
sub as
{
	my ($role, $sql, $options) = @_;
	local $ENV{PGOPTIONS} = $options // '';
	my ($out, $err);
	$node->psql('postgres', "\\set VERBOSITY sqlstate\n$sql",
		connstr => $node->connstr('postgres') . ($role ? " user=$role" : ''),
		stdout => \$out, stderr => \$err, on_error_stop => 0);
	die $err if $err =~ /FATAL/;
	return (join(' ', $err =~ /(?:ERROR|WARNING):  (\w{5})/g), $out);
}

# ---- refusals ----

# a scan loads the library, whose settings are placeholders before
my $load = q(SELECT FROM t ORDER BY v <-> '[1,1,1]' LIMIT 1;);
for my $sql (
	# settings that name devices, programs and limits, in each of the ways to set one
	(map { my $set = $_; map { "$load $_ $set" . (/FUNCTION/ ? ' RETURN 1' : '') }
			'SET', 'ALTER ROLE weak SET', 'CREATE FUNCTION f() RETURNS int LANGUAGE sql SET' }
		q(grnnd.builder_path = '/bin/true'), q(grnnd.gpu_devices = '1'), 'grnnd.gpu_memory_limit = 1024',
		'grnnd.build_timeout = 9000', 'grnnd.build_device = cpu', q(grnnd.build_server = 'x')),
	q(ALTER SYSTEM SET grnnd.builder_path = '/bin/true'),
	# functions on others' tables, and those that start a program
	q(SELECT * FROM grnnd_check('t_v')),
	q(SELECT * FROM grnnd_check('t_v', true)),
	q(SELECT * FROM grnnd_stats('t_v')),
	q(SELECT grnnd_fit('t_v')),
	q(SELECT grnnd_stat_reset('t_v')),
	q(SELECT grnnd_prewarm('closed_v')),
	q(SELECT * FROM grnnd_codes('t_v')),
	q(SELECT * FROM grnnd_build_estimate('t', 'v')),
	q(SELECT * FROM grnnd_devices()),
	q(SELECT grnnd_internal_migrate_swap('t_hnsw')),
	# what is not grnnd's to refuse, but its to rely on
	q(CREATE INDEX ON t USING grnnd (v)),
	q(REINDEX INDEX t_v),
	q(DROP INDEX t_v),
	q(CREATE OPERATOR CLASS evil FOR TYPE vector USING grnnd AS OPERATOR 1 <->(vector, vector) FOR ORDER BY float_ops),
	q(CREATE FUNCTION evil(internal) RETURNS internal AS '$libdir/grnnd', 'grnnd_internal_type_vector' LANGUAGE c),
	q(CREATE ACCESS METHOD evil TYPE INDEX HANDLER grnnd_internal_handler),
	q(ALTER EXTENSION grnnd UPDATE))
{
	# the new index is there, so that a swap fails for want of rights alone
	$node->safe_psql('postgres', q(SET ROLE rich; DO $$ BEGIN EXECUTE format(
		'CREATE INDEX grnnd_new_%s ON t USING grnnd (v)', 't_hnsw'::regclass::oid); END $$)) if $sql =~ /swap/;
	is((as('weak', $sql))[0], '42501', 'refused: ' . ($sql =~ s/^SELECT.*; (?=\S)//r));
}
is((as('weak', q(SELECT problem FROM grnnd_migrate('public', 't'))))[1],
	'must be owner of the table and its partitions', 'grnnd_migrate() says so');
like((as('weak', q(SELECT v <-> '[1,2,2]' AS d FROM t ORDER BY d LIMIT 1)))[1], qr/^1$/, 'what is granted works');

# Set before the library is loaded, a setting is a placeholder that anybody may set.  It must
# not count afterwards.
my $trap = "$dir/trap";
append_to_file($trap, "#!/bin/sh\ntouch $dir/sprung\n");
chmod 0755, $trap;
for my $how ('SET', 'connection')
{
	my $set = $how eq 'SET' ? "SET grnnd.builder_path = '$trap';" : '';
	my ($codes, $out) = as('weak', "$set
		CREATE TABLE mine (v vector(3));
		INSERT INTO mine VALUES ('[1,2,3]');
		CREATE INDEX mine_v ON mine USING grnnd (v);
		SELECT current_setting('grnnd.builder_path');
		DROP TABLE mine", $how eq 'SET' ? undef : "-c grnnd.builder_path=$trap");
	# the option of a connection takes the superuser's own value away, so that nothing is built
	is($codes, $how eq 'SET' ? '42501' : '42501 42501', "a path by $how before the library is loaded: warning");
	is($out, '', "a path by $how before the library is loaded: not taken");
}
ok(!-e "$dir/sprung", 'that program never ran');

# ---- what is installed is hardened ----

my $installed = qx($ENV{PG_CONFIG} --pkglibdir) =~ s/\n//r;
# (report.pl may have put a grnnd_build_cuda there meanwhile)
is(qx(bash "$FindBin::Bin/../hardened.sh" "$installed"/grnnd*.so "$installed"/grnnd_build "$installed"/grnnd_build_remote 2>&1), '', 'libraries and builder are hardened');

# ---- an owner's code has the owner's rights, whoever calls ----

$node->safe_psql('postgres', q(
	CREATE TABLE seen (who text, denied text);
	GRANT ALL ON seen TO PUBLIC;
	SET ROLE weak;
	CREATE FUNCTION look() RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		denied text := 'no';
	BEGIN
		BEGIN
			EXECUTE 'RESET SESSION AUTHORIZATION';
		EXCEPTION WHEN insufficient_privilege THEN denied := SQLSTATE;
		END;
		EXECUTE format('INSERT INTO public.seen VALUES (%L, %L)', current_user, denied);
	END $$;
	-- (a function that says it is immutable may write by way of another)
	CREATE FUNCTION spy(v vector) RETURNS vector LANGUAGE plpgsql IMMUTABLE AS
		'BEGIN PERFORM public.look(); RETURN v; END';
	CREATE TABLE bait (id int, v vector(3));
	INSERT INTO bait SELECT i, ARRAY[i, i % 7, i % 11]::vector FROM generate_series(1, 50) i;
	CREATE INDEX bait_v ON bait USING grnnd ((spy(v)::vector(3)))));
for my $sql (
	q(CREATE INDEX bait_2 ON bait USING grnnd ((spy(v)::vector(3)))),
	q(REINDEX INDEX bait_v),
	q(SELECT grnnd_check('bait_v', true)),
	q(CALL grnnd_migrate('public', 'bait', true)))
{
	$node->safe_psql('postgres', q(TRUNCATE seen; DROP INDEX IF EXISTS bait_2, bait_hnsw));
	$node->safe_psql('postgres', q(CREATE INDEX bait_hnsw ON bait USING hnsw ((spy(v)::vector(3)) vector_l2_ops);
		TRUNCATE seen)) if $sql =~ /migrate/;
	$node->safe_psql('postgres', $sql);
	is($node->safe_psql('postgres', 'SELECT DISTINCT who, denied FROM seen'), 'weak|42501',
		"called by a superuser with the owner's rights alone: $sql");
}

# a query that reads rows for their distances computes no expression but its own
$node->safe_psql('postgres', q(
	TRUNCATE seen;
	SET ROLE weak;
	CREATE FUNCTION spy(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
		'BEGIN PERFORM public.look(); RETURN i; END';
	CREATE TABLE rounded (id int, v vector(64));
	INSERT INTO rounded SELECT i, (SELECT array_agg(sin(i * j)) FROM generate_series(1, 64) j)::vector
	FROM generate_series(1, 500) i;
	CREATE INDEX rounded_v ON rounded USING grnnd ((v::halfvec(64)) halfvec_l2_ops, (spy(id))) WITH (layout = compact);
	RESET ROLE;
	TRUNCATE seen));
is($node->safe_psql('postgres', q(
	SET enable_seqscan = off;
	SELECT id FROM rounded ORDER BY v::halfvec(64) <-> (SELECT v::halfvec(64) FROM rounded WHERE id = 7) LIMIT 1;
	SELECT rows_rechecked > 0 FROM grnnd_last_scan();
	SELECT count(*) FROM seen)), "7\nt\n0", "a superuser's query computes no filter column");

# ---- what others have planted is not called ----

# The extension is in a schema in which weak makes functions, operators and domains before it is
# there.  A superuser whose search path begins with that schema calls everything that is SQL.
$node->safe_psql('postgres', 'CREATE DATABASE planted');
my $planted = $node->connstr('planted');
$node->safe_psql('', q(
	CREATE TABLE seen (what text, who text DEFAULT current_user);
	GRANT INSERT ON seen TO PUBLIC;
	GRANT CREATE ON SCHEMA public TO rich;
	CREATE SCHEMA open;
	GRANT USAGE ON SCHEMA open TO PUBLIC;
	GRANT CREATE ON SCHEMA open TO weak;
	CREATE EXTENSION vector;
	SET ROLE weak;
	SET search_path = open, pg_temp;
	CREATE FUNCTION spy(what pg_catalog.text) RETURNS void LANGUAGE sql AS 'INSERT INTO public.seen VALUES (what)';
	-- better matches than those of untyped literals or of polymorphic operators
	CREATE FUNCTION grnnd_internal_migrate_swap(t text) RETURNS void LANGUAGE sql AS $$SELECT open.spy('swap')$$;
	CREATE FUNCTION grnnd_stats(i regclass, all_pages text) RETURNS TABLE (estimated_rows bigint) LANGUAGE sql
		AS $$SELECT open.spy('stats'); SELECT 1::bigint$$;
	CREATE FUNCTION grnnd_migrate(a text, b text) RETURNS TABLE (index regclass, statement text, problem text)
		LANGUAGE sql AS $$SELECT open.spy('migrate'); SELECT NULL::regclass, '', ''$$;
	CREATE FUNCTION grnnd_on_shard(condition text) RETURNS bool LANGUAGE sql AS $$SELECT open.spy('shard'); SELECT true$$;
	-- (what says that it is immutable may write by way of another)
	DO $do$
	DECLARE
		type pg_catalog.text;
		name pg_catalog.text;
	BEGIN
		FOREACH type IN ARRAY '{text,name,oid,int4,bool,"\"char\"",int4[],jsonb,regclass}'::pg_catalog.text[] LOOP
			EXECUTE pg_catalog.format('CREATE FUNCTION planted(a pg_catalog.%1$s, b pg_catalog.%1$s) RETURNS bool
				LANGUAGE plpgsql IMMUTABLE AS $$BEGIN PERFORM open.spy(%2$L); RETURN true; END$$', type, 'operator of ' || type);
			FOREACH name IN ARRAY '{=,<>,<,>,<=,>=,@>,&&,~,||}'::pg_catalog.text[] LOOP
				EXECUTE pg_catalog.format('CREATE OPERATOR %s (LEFTARG = pg_catalog.%2$s, RIGHTARG = pg_catalog.%2$s,
					FUNCTION = planted)', name, type);
			END LOOP;
		END LOOP;
		FOREACH name IN ARRAY '{format,regexp_replace,quote_ident,set_config}'::pg_catalog.text[] LOOP
			EXECUTE pg_catalog.format('CREATE FUNCTION %I(VARIADIC a pg_catalog.text[]) RETURNS pg_catalog.text LANGUAGE plpgsql
				AS $$BEGIN PERFORM open.spy(%1$L); RETURN a[1]; END$$', name);
		END LOOP;
		FOREACH type IN ARRAY '{name,bool,int4,oid,regclass,text}'::pg_catalog.text[] LOOP
			EXECUTE pg_catalog.format('CREATE FUNCTION checked(a pg_catalog.%1$s) RETURNS bool LANGUAGE plpgsql
				AS $$BEGIN PERFORM open.spy(%2$L); RETURN true; END$$;
				CREATE DOMAIN %1$I AS pg_catalog.%1$s CHECK (open.checked(VALUE))', type, 'domain ' || type);
		END LOOP;
	END $do$;
	RESET ROLE;
	CREATE EXTENSION grnnd SCHEMA open;
	CREATE EXTENSION grnnd_tools SCHEMA open;
	SET ROLE rich;
	SET search_path = public;
	CREATE TABLE t (id int, tags int[], v vector(3));
	INSERT INTO t SELECT i, ARRAY[i % 3], ARRAY[i, i % 7, i % 11]::vector FROM generate_series(1, 100) i;
	CREATE INDEX t_hnsw ON t USING hnsw (v vector_l2_ops) WHERE tags @> '{1}';
	CREATE INDEX t_grnnd ON t USING grnnd (v open.vector_l2_ops) WHERE tags @> '{1}'),
	connstr => $planted);
for my $sql (
	q(SET search_path = pg_catalog; SELECT statement FROM open.grnnd_migrate('public'::name, 't'::name) WHERE statement LIKE 'CREATE%'\gexec
		SELECT statement FROM open.grnnd_migrate('public'::name, 't'::name) WHERE statement LIKE 'SELECT%' \gexec
		SELECT pg_catalog.count(*) FROM pg_catalog.pg_index WHERE indexrelid = 'public.t_hnsw'::pg_catalog.regclass),
	q(DROP INDEX public.t_hnsw; CREATE INDEX t_hnsw ON public.t USING hnsw (v public.vector_l2_ops) WHERE tags OPERATOR(pg_catalog.@>) '{1}';
		CALL open.grnnd_migrate('public'::pg_catalog.name, 't'::pg_catalog.name, true); SELECT pg_catalog.count(*) FROM open.grnnd_check('public.t_hnsw')),
	q(SELECT pg_catalog.count(estimated_rows) FROM open.grnnd_indexes),
	q(SELECT pg_catalog.count(*) FROM open.grnnd_search(NULL::public.t, 'v', '<->', '[1,2,3]'::public.vector, 5, '{"id": [1, 2, 3]}')),
	q(SELECT pg_catalog.count(*) FROM open.grnnd_search(NULL::public.t, 'v', '<->', '[1,2,3]'::public.vector, 5, '{"tags": [1]}')),
	q(SELECT compared FROM open.grnnd_recall('public.t_grnnd', 5)),
	q(SELECT pg_catalog.count(*) FROM open.grnnd_graph_by('public.t', 'v', 'id', 1) AS g (item pg_catalog.int4, neighbor pg_catalog.int4, distance pg_catalog.float8)))
{
	my ($out, $err);
	$node->psql('', "SET client_min_messages = error; SET search_path = open, public, pg_catalog; $sql", connstr => $planted,
		stdout => \$out, stderr => \$err, on_error_stop => 0);
	note("$out\n$err");
	is($node->safe_psql('', 'SELECT DISTINCT what, who FROM seen ORDER BY 1, 2', connstr => $planted), '',
		"calls nothing that was planted: $sql");
	$node->safe_psql('', 'TRUNCATE seen', connstr => $planted);
}

# ---- names and paths are no code ----

$node->safe_psql('postgres', q(CREATE TABLE victim (id int)));
my @names = ('plain', q(a"b), q(a'b), q(x; DROP TABLE victim; --), q($(touch sprung)), q(a\b), 'UPPER case', "ta\tb", '%s%n',
	q{x"); DROP TABLE victim; --}, q{x'); DROP TABLE victim; --});
for my $name (@names)
{
	my ($ident, $index) = map { '"' . (s/"/""/gr) . '"' } $name, "$name i";
	my ($literal, $index_literal) = map { "'" . (s/'/''/gr) . "'" } $name, "$name i";
	$node->safe_psql('postgres', qq(
		CREATE SCHEMA $ident;
		CREATE TABLE $ident.$ident (id int, $ident vector(3));
		INSERT INTO $ident.$ident SELECT i, ARRAY[i, i % 7, i % 11]::vector FROM generate_series(1, 50) i;
		CREATE INDEX $index ON $ident.$ident USING hnsw ($ident vector_l2_ops);
		COMMENT ON INDEX $ident.$index IS $literal));
	my ($codes, $out) = as('', qq(
		SET client_min_messages = warning;
		SELECT rows FROM grnnd_build_estimate(format('%I.%I', $literal, $literal)::regclass, $literal);
		CALL grnnd_migrate($literal, $literal, true);
		SELECT amname, obj_description(c.oid) = $literal FROM pg_class c JOIN pg_am a ON a.oid = relam
		WHERE relname = $index_literal;
		SELECT count(*) FROM grnnd_check(format('%I.%I', $literal, $index_literal)::regclass, true);
		SELECT state FROM grnnd_codes(format('%I.%I', $literal, $index_literal)::regclass);
		DROP SCHEMA $ident CASCADE));
	is($codes, '', "schema, table, column and index $name: no error");
	like($out, qr/^50\ngrnnd\|t\n0\n\w+$/, "schema, table, column and index $name: all steps");
}

my $program = "$installed/grnnd_build";
for my $name (@names, '-rf', '`touch sprung`', "a'; touch sprung; '", 'a&touch sprung', '*')
{
	my $path = "$dir/$name";
	symlink $program, $path or die "$path: $!";
	my $literal = "E'" . ($path =~ s/(['\\])/\\$1/gr) . "'";
	my ($codes, $out) = as('', qq(
		SET grnnd.builder_path = $literal;
		SELECT count(*) > 0 FROM grnnd_devices();
		CREATE INDEX t_again ON t USING grnnd (v);
		DROP INDEX t_again));
	is("$codes$out", 't', "program $name runs as it is called");
}
ok(!-e "$dir/sprung" && !-e $node->data_dir . '/sprung', 'and nothing else runs');
is($node->safe_psql('postgres', q(SELECT to_regclass('victim') IS NOT NULL)), 't', 'no table is lost');

# a program gets none of the backend's descriptors but the socket of a build and stderr
append_to_file("$dir/lister", "#!/bin/sh\nls -l /proc/self/fd >$dir/descriptors\n");
chmod 0755, "$dir/lister";
for my $sql ('SELECT * FROM grnnd_devices()', 'CREATE INDEX ON t USING grnnd (v)')
{
	unlink "$dir/descriptors";
	as('', "SET grnnd.builder_path = '$dir/lister'; $sql");
	my %open = slurp_file("$dir/descriptors") =~ / (\d+) -> (.*)/g;
	delete $open{1};
	is_deeply([ grep { !m{^(/dev/null|/proc/\d+/fd|pipe:.*|socket:.*|.*\.log)$} } values %open ], [], "$sql: no file of the server");
	cmp_ok(scalar(grep { /^socket:/ } values %open), '<=', 1, "$sql: no connection of the server");
}

# a path that is no program
for my $path ($dir, '/dev/null', "$dir/none", '/etc/passwd')
{
	is((as('', "SET grnnd.builder_path = '$path'; CREATE INDEX ON t USING grnnd (v)"))[0],
		$path =~ /none/ ? '58P01' : '42501', "builder $path: refused");
	is((as('', "SET grnnd.builder_path = '$path'; SELECT * FROM grnnd_devices()"))[0],
		$path =~ /none/ ? '58P01' : '42501', "devices of $path: refused");
}

$node->stop;
done_testing();
