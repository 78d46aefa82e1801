-- The extensions beside grnnd: what is there without them, with them and after them, and what a
-- role gets by default.
SET client_min_messages = warning;
CREATE DATABASE test_extensions;
\c test_extensions
SET client_min_messages = warning;
CREATE EXTENSION grnnd CASCADE;
CREATE VIEW members AS
	SELECT e.extname, pg_describe_object(d.classid, d.objid, 0) AS member,
		has_function_privilege('pg_monitor', d.objid, 'EXECUTE') AS executed_by_all
	FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
	WHERE d.deptype = 'e' AND d.classid = 'pg_proc'::regclass AND e.extname LIKE 'grnnd%';
CREATE TABLE t (id int, v vector(3));
INSERT INTO t SELECT i, ARRAY[i, i % 7, i % 11]::vector FROM generate_series(1, 50) i;

-- grnnd is the index alone (PostgreSQL 19 has another detail and no hint)
\set VERBOSITY terse
SELECT * FROM grnnd_graph('t', 'v', 1);
SELECT * FROM grnnd_build_estimate('t', 'v');
SELECT * FROM grnnd_migrate();
\set VERBOSITY default
SELECT member, executed_by_all FROM members ORDER BY member COLLATE "C";

-- each of the others wants grnnd, in any schema, and stays there
CREATE SCHEMA "Of tools";
CREATE EXTENSION grnnd_tools SCHEMA "Of tools";
SELECT member, executed_by_all FROM members WHERE extname = 'grnnd_tools' ORDER BY member COLLATE "C";
ALTER EXTENSION grnnd_tools SET SCHEMA public;
DROP EXTENSION grnnd;
-- a session that loads grnnd_tools first
\c
SELECT count(*) FROM "Of tools".grnnd_graph('t', 'v', 1);
SHOW grnnd.ef_search;

-- functions read as their caller
CREATE ROLE regress_grnnd_none;
GRANT USAGE ON SCHEMA "Of tools" TO regress_grnnd_none;
SET ROLE regress_grnnd_none;
SET search_path = "Of tools", public;
SELECT * FROM grnnd_graph('t', 'v', 1);
SELECT * FROM grnnd_graph_by('t', 'v', 'id', 1) AS g (item int, neighbor int, distance float8);
SELECT * FROM grnnd_search(NULL::t, 'v', '<->', '[1,2,3]'::vector, 1);
SELECT * FROM grnnd_build_estimate('t', 'v');
SELECT * FROM grnnd_devices();
RESET ROLE;
RESET search_path;
REVOKE USAGE ON SCHEMA "Of tools" FROM regress_grnnd_none;
DROP ROLE regress_grnnd_none;

-- builds for other hosts are for roles that are granted them
CREATE EXTENSION grnnd_build_server;
SELECT member, executed_by_all FROM members WHERE extname = 'grnnd_build_server' ORDER BY member COLLATE "C";
SELECT has_foreign_data_wrapper_privilege('pg_monitor', 'grnnd_build', 'USAGE') AS wrapper_used_by_all;
-- no name is a reserved word, and functions that PostgreSQL or other functions call say so
SELECT o.object, o.name, k.catdesc
FROM (SELECT p.oid::regprocedure::text, unnest(p.proargnames) FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
			JOIN pg_extension e ON e.oid = d.refobjid WHERE d.deptype = 'e' AND e.extname LIKE 'grnnd%'
		UNION ALL SELECT a.attrelid::regclass::text, a.attname FROM pg_attribute a JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = a.attrelid
			JOIN pg_extension e ON e.oid = d.refobjid WHERE d.deptype = 'e' AND e.extname LIKE 'grnnd%') o (object, name)
	JOIN pg_get_keywords() k ON k.word = o.name WHERE k.catcode IN ('R', 'T') ORDER BY 1, 2;
SELECT member FROM members WHERE executed_by_all = (member LIKE '%grnnd_internal_%') ORDER BY member COLLATE "C";
DROP EXTENSION grnnd_build_server;

-- an index outlives grnnd_tools
CREATE INDEX t_idx ON t USING grnnd (v);
DROP EXTENSION grnnd_tools;
SELECT count(*) FROM grnnd_check('t_idx');
SELECT count(*) FROM members WHERE extname = 'grnnd_tools';
\c postgres
DROP DATABASE test_extensions;
