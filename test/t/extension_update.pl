# ALTER EXTENSION ... UPDATE of each extension, from each version whose scripts are installed: what the extension
# has then is what CREATE EXTENSION makes, and objects that use the extension work on.  A version that
# does not exist, with a part missing that its update script adds, holds the comparison itself to account.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

chomp(my $folder = qx("$ENV{PG_CONFIG}" --sharedir));
$folder .= '/extension';
plan skip_all => "$folder cannot be written" unless -w $folder;

my $node = PostgreSQL::Test::Cluster->new('extension_update');
$node->init;
$node->append_conf('postgresql.conf', "autovacuum = off\ngrnnd.build_device = cpu\n");
$node->start;
my %added = (
	grnnd => 'COMMENT ON FUNCTION grnnd_fit\(regclass\)[^;]*;',
	grnnd_tools => 'COMMENT ON FUNCTION grnnd_build_estimate\([^;]*;',
	grnnd_build_server => 'COMMENT ON FUNCTION grnnd_serve_build\([^;]*;');
my $old = '0.0.0';
my @files;
END { unlink @files }

sub write_file
{
	my ($name, $text) = @_;
	push @files, "$folder/$name";
	append_to_file("$folder/$name", $text);
	return;
}

# All that an extension has, and its properties, with no OID or OID-made name.
my $members = q(
	SELECT string_agg(m, E'\n' ORDER BY m COLLATE "C") FROM (
		SELECT concat_ws('|', pg_describe_object(d.classid, d.objid, d.objsubid), obj_description(d.objid, c.relname),
			CASE c.relname WHEN 'pg_proc' THEN (SELECT concat(p.prosrc, p.probin, p.proacl, p.provolatile, p.proisstrict, p.proparallel, p.prosecdef,
					p.proconfig, p.procost, p.prorows, p.prosupport, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid))
					FROM pg_proc p WHERE p.oid = d.objid)
				WHEN 'pg_class' THEN (SELECT concat(r.relacl, CASE WHEN r.relkind = 'v' THEN pg_get_viewdef(r.oid) END) FROM pg_class r WHERE r.oid = d.objid)
				WHEN 'pg_opclass' THEN (SELECT concat(o.opcdefault, o.opckeytype::regtype, o.opcintype::regtype) FROM pg_opclass o WHERE o.oid = d.objid)
				WHEN 'pg_am' THEN (SELECT a.amhandler::text FROM pg_am a WHERE a.oid = d.objid)
				WHEN 'pg_foreign_data_wrapper' THEN (SELECT concat(w.fdwhandler::regproc, w.fdwvalidator::regproc, w.fdwacl)
					FROM pg_foreign_data_wrapper w WHERE w.oid = d.objid)
			END) AS m
		FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid JOIN pg_class c ON c.oid = d.classid
		WHERE d.deptype = 'e' AND d.refclassid = 'pg_extension'::regclass AND e.extname = '%s'
		UNION ALL
		SELECT concat_ws('|', f.opfname, pg_describe_object('pg_amop'::regclass, o.oid, 0)) FROM pg_amop o JOIN pg_opfamily f ON f.oid = o.amopfamily
			JOIN pg_depend d ON d.objid = f.oid AND d.deptype = 'e' JOIN pg_extension e ON e.oid = d.refobjid WHERE e.extname = '%1$s'
		UNION ALL
		SELECT concat_ws('|', f.opfname, pg_describe_object('pg_amproc'::regclass, o.oid, 0)) FROM pg_amproc o JOIN pg_opfamily f ON f.oid = o.amprocfamily
			JOIN pg_depend d ON d.objid = f.oid AND d.deptype = 'e' JOIN pg_extension e ON e.oid = d.refobjid WHERE e.extname = '%1$s') x);

sub members
{
	my ($extension) = @_;
	(my $sql = $members) =~ s/'%s'|'%1\$s'/'$extension'/g;
	return number($node, $sql);
}

for my $extension (qw(grnnd grnnd_tools grnnd_build_server))
{
	my $new = number($node, "SELECT default_version FROM pg_available_extensions WHERE name = '$extension'");
	my $script = slurp_file("$folder/$extension--$new.sql");
	ok($script =~ s/($added{$extension})//, "$extension: a part that may be added");
	write_file("$extension--$old.sql", $script);
	write_file("$extension--$old--$new.sql", $1);
	my @versions = split /\n/, number($node, "SELECT version FROM pg_available_extension_versions WHERE name = '$extension' AND version <> '$new'");
	is(scalar(grep { $_ eq $old } @versions), 1, "$extension: version $old is there");

	$node->safe_psql('postgres', "SET client_min_messages = error; CREATE EXTENSION $extension CASCADE");
	my $expected = members($extension);
	$node->safe_psql('postgres', 'DROP EXTENSION grnnd CASCADE');
	for my $version (@versions)
	{
		$node->safe_psql('postgres', "SET client_min_messages = error; CREATE EXTENSION $extension VERSION '$version' CASCADE");
		isnt(members($extension), $expected, "$extension $version: has less") if $version eq $old;
		$node->safe_psql('postgres', q(
			CREATE TABLE t (id serial, v vector(3));
			INSERT INTO t (v) SELECT ARRAY[i, i % 7, i % 11]::vector FROM generate_series(1, 300) i;
			CREATE INDEX t_idx ON t USING grnnd (v);
			CREATE VIEW of_index AS SELECT * FROM grnnd_indexes));
		$node->safe_psql('postgres', "ALTER EXTENSION $extension UPDATE");
		is(number($node, "SELECT extversion FROM pg_extension WHERE extname = '$extension'"), $new, "$extension $version: updated to $new");
		is(members($extension), $expected, "$extension $version: what CREATE EXTENSION makes");
		$node->safe_psql('postgres', 'INSERT INTO t (v) SELECT v FROM t WHERE id <= 20; DELETE FROM t WHERE id % 5 = 0; VACUUM t');
		is(number($node, q(SET enable_seqscan = off; SELECT id FROM t ORDER BY v <-> '[7,0,7]' LIMIT 1)), 7, "$extension $version: the index answers");
		is(number($node, 'SELECT count(*) FROM of_index'), 1, "$extension $version: views of users work");
		sound($node, 't_idx', "$extension $version");
		$node->safe_psql('postgres', 'SET client_min_messages = error; DROP EXTENSION grnnd CASCADE; DROP TABLE t');
	}
}
done_testing();
