-- grnnd_migrate(): from pgvector's index methods to grnnd, with all that an index has.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd_tools CASCADE;
SET grnnd.build_device = cpu;
-- places and names that want quotes; functions must not depend on the search path
CREATE SCHEMA "Test migrate";
SET search_path = "Test migrate", public;
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE grnnd_regress_space LOCATION '';
CREATE ROLE grnnd_regress_owner;
GRANT ALL ON TABLESPACE grnnd_regress_space TO grnnd_regress_owner;
GRANT ALL ON SCHEMA "Test migrate" TO grnnd_regress_owner;

CREATE TABLE items (id int, kind int, e vector(4), "What's ""that""" vector(4));
INSERT INTO items SELECT i, i % 5, x, x
FROM generate_series(1, 300) i, LATERAL (SELECT ARRAY[sin(i), cos(i), sin(i * 3), 1]::vector) v(x);
CREATE INDEX items_l2 ON items USING hnsw (e vector_l2_ops);
CREATE INDEX items_ip ON items USING hnsw (e vector_ip_ops) WITH (m = 8, ef_construction = 32);
CREATE INDEX "items Cosine" ON items USING ivfflat ("What's ""that""" vector_cosine_ops)
	WITH (lists = 3) TABLESPACE grnnd_regress_space WHERE kind <> 2 AND id > 5;
CREATE INDEX items_sub ON items USING hnsw ((subvector(e, 1, 2)::vector(2)) vector_l2_ops);
CREATE INDEX items_btree ON items (id);
COMMENT ON INDEX items_ip IS 'it''s for products';
CREATE OPERATOR CLASS own_ops FOR TYPE vector USING hnsw AS
	OPERATOR 1 <-> (vector, vector) FOR ORDER BY float_ops,
	FUNCTION 1 vector_l2_squared_distance(vector, vector);
CREATE INDEX items_own ON items USING hnsw (e own_ops);
CREATE TABLE parts (id int, e vector(4)) PARTITION BY RANGE (id);
CREATE TABLE parts1 PARTITION OF parts FOR VALUES FROM (0) TO (100);
CREATE TABLE parts2 PARTITION OF parts FOR VALUES FROM (100) TO (1000) PARTITION BY RANGE (id);
CREATE TABLE parts21 PARTITION OF parts2 FOR VALUES FROM (100) TO (200);
CREATE TABLE parts22 PARTITION OF parts2 FOR VALUES FROM (200) TO (1000);
INSERT INTO parts SELECT id, e FROM items;
CREATE INDEX parts_e ON parts USING hnsw (e vector_cosine_ops);
CREATE TABLE others (e vector(4));
CREATE INDEX others_e ON others USING hnsw (e vector_l2_ops);
ALTER TABLE items OWNER TO grnnd_regress_owner;
ALTER TABLE parts OWNER TO grnnd_regress_owner;
ALTER TABLE parts1 OWNER TO grnnd_regress_owner;

CREATE VIEW definitions AS
SELECT c.relname, c.relkind, pg_get_indexdef(c.oid) AS definition, spcname AS space,
	obj_description(c.oid) AS comment, relispartition AS part
FROM pg_class c LEFT JOIN pg_tablespace s ON s.oid = c.reltablespace
WHERE relnamespace = '"Test migrate"'::regnamespace AND relkind IN ('i', 'I');
GRANT SELECT ON definitions TO grnnd_regress_owner;
CREATE TABLE before AS SELECT * FROM definitions;
RESET client_min_messages;

-- OIDs are not the same each time
CREATE FUNCTION list("schema" name DEFAULT NULL, "table" name DEFAULT NULL)
RETURNS TABLE (index text, statement text, problem text) LANGUAGE sql AS $$
	SELECT index::text, regexp_replace(statement, '_\d+', '_OID', 'g'), problem
	FROM grnnd_migrate("schema", "table")
$$;

-- what there is to do; for an owner of other tables, too
\x
SELECT * FROM list('Test migrate');
SET ROLE grnnd_regress_owner;
SELECT * FROM list(NULL, 'others');
SELECT * FROM list('Test migrate', 'parts');
SELECT * FROM list('Test migrate', 'parts1');
RESET ROLE;
\x
ALTER TABLE parts2 OWNER TO grnnd_regress_owner;
ALTER TABLE parts21 OWNER TO grnnd_regress_owner;
ALTER TABLE parts22 OWNER TO grnnd_regress_owner;
SELECT * FROM list('no such schema');
SELECT * FROM list('public', 'items');
SELECT * FROM list('Test migrate', 'before');

-- by psql, with CONCURRENTLY
SET ROLE grnnd_regress_owner;
\set ECHO none
SELECT statement FROM grnnd_migrate('Test migrate', 'items') WHERE statement IS NOT NULL \gexec
\set ECHO all
RESET ROLE;
SELECT a.relname, a.definition, a.space, a.comment FROM definitions a JOIN before b USING (relname)
WHERE a.definition <> b.definition ORDER BY 1;
SELECT * FROM list('Test migrate', 'items');
SELECT c.relname, p.problem FROM pg_class c JOIN pg_am a ON a.oid = relam AND amname = 'grnnd',
	grnnd_check(c.oid, true) p WHERE relkind = 'i';

-- by CALL
SET ROLE grnnd_regress_owner;
SET client_min_messages = warning;
CALL grnnd_migrate('Test migrate', 'parts', false);
SELECT count(*) FROM list('Test migrate', 'parts');
BEGIN;
CALL grnnd_migrate('Test migrate', 'parts', true);
ROLLBACK;
CALL grnnd_migrate('Test migrate', 'parts', true);
RESET ROLE;
SELECT a.relname, a.relkind, a.definition, a.part FROM definitions a JOIN before b USING (relname)
WHERE a.definition <> b.definition AND relname LIKE 'parts%' ORDER BY 1;
SELECT * FROM list('Test migrate', 'parts');
SELECT relname FROM definitions WHERE relname LIKE 'grnnd%' ORDER BY relname;
CALL grnnd_migrate('Test migrate', 'others', true);

-- steps that fail or are left out do no harm, and what they leave is taken up
CREATE TABLE again (id int, e vector(4));
INSERT INTO again SELECT id, e FROM items;
CREATE INDEX again_e ON again USING hnsw (e vector_l2_ops);
INSERT INTO again VALUES (0, '[1e30,0,0,0]');
SELECT count(*) AS statements FROM list('Test migrate', 'again');
\set VERBOSITY sqlstate
\set ECHO none
SELECT statement FROM grnnd_migrate('Test migrate', 'again') WHERE statement IS NOT NULL \gexec
\set ECHO all
\set VERBOSITY default
SELECT relname, definition FROM definitions WHERE relname = 'again_e';
SELECT statement FROM list('Test migrate', 'again');
DELETE FROM again WHERE id = 0;
-- as if the session had been lost after the build, and after the exchange of names
\set ECHO none
SELECT statement FROM grnnd_migrate('Test migrate', 'again') WHERE statement IS NOT NULL LIMIT 2 \gexec
\set ECHO all
SELECT statement FROM list('Test migrate', 'again');
\set ECHO none
SELECT statement FROM grnnd_migrate('Test migrate', 'again') WHERE statement IS NOT NULL LIMIT 1 \gexec
\set ECHO all
SELECT statement FROM list('Test migrate', 'again');
\set ECHO none
SELECT statement FROM grnnd_migrate('Test migrate', 'again') WHERE statement IS NOT NULL \gexec
\set ECHO all
SELECT * FROM list('Test migrate', 'again');
SELECT relname, definition FROM definitions WHERE relname = 'again_e' OR relname LIKE 'grnnd%' ORDER BY relname;

-- a partitioned index whose migration ended after some partitions, or in between
CREATE INDEX parts_l2 ON parts USING hnsw (e vector_l2_ops);
\set ECHO none
SELECT statement FROM grnnd_migrate('Test migrate', 'parts') WHERE statement IS NOT NULL LIMIT 2 \gexec
\set ECHO all
SELECT statement FROM list('Test migrate', 'parts');
SELECT 'parts_l2'::regclass::oid AS old, (SELECT min(relname) FROM definitions WHERE relname LIKE 'grnnd_new_%') AS leaf \gset
\set ECHO none
CREATE INDEX grnnd_new_:old ON ONLY parts USING grnnd (e);
ALTER INDEX grnnd_new_:old ATTACH PARTITION :leaf;
\set ECHO all
SELECT statement FROM list('Test migrate', 'parts');
CALL grnnd_migrate('Test migrate', 'parts', true);
SELECT relname, definition FROM definitions WHERE relname IN ('parts_l2', 'parts21_e_idx1') OR relname LIKE 'grnnd%' ORDER BY relname;

-- one without indexes of its partitions, which no REINDEX makes
CREATE INDEX parts_bare ON ONLY parts USING hnsw (e vector_l1_ops);
SELECT index, problem FROM list('Test migrate', 'parts');

SET client_min_messages = warning;
DROP SCHEMA "Test migrate" CASCADE;
DROP TABLESPACE grnnd_regress_space;
DROP ROLE grnnd_regress_owner;
