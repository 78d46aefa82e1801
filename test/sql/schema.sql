-- The operator classes take type and operators of pgvector, wherever it was installed, and
-- not what else has these names in the schema that grnnd goes to.
CREATE DATABASE grnnd_schema TEMPLATE template0;
\c grnnd_schema
CREATE SCHEMA "Vector of";
CREATE SCHEMA app;
CREATE EXTENSION vector SCHEMA "Vector of";
SET search_path = app;
CREATE FUNCTION far("Vector of".vector, "Vector of".vector) RETURNS float8
	LANGUAGE sql IMMUTABLE RETURN 1;
CREATE OPERATOR <-> (LEFTARG = "Vector of".vector, RIGHTARG = "Vector of".vector, FUNCTION = far);
CREATE OPERATOR <#> (LEFTARG = "Vector of".vector, RIGHTARG = "Vector of".vector, FUNCTION = far);
CREATE TYPE vector AS (x int);
CREATE EXTENSION grnnd SCHEMA app;
SET search_path = pg_catalog;
SELECT opcname, opcintype::regtype, amopopr::regoperator, amvalidate(c.oid)
FROM pg_opclass c JOIN pg_am a ON a.oid = opcmethod JOIN pg_amop o ON amopfamily = opcfamily
WHERE amname = 'grnnd' AND amoppurpose = 'o' ORDER BY opcname COLLATE "C";
CREATE TABLE app.t (v "Vector of".vector(2));
INSERT INTO app.t VALUES ('[1,2]'), ('[3,4]');
CREATE INDEX ON app.t USING grnnd (v);
SET enable_seqscan = off;
SET enable_sort = off;
EXPLAIN (COSTS OFF) SELECT * FROM app.t ORDER BY v OPERATOR("Vector of".<->) '[3,3]' LIMIT 1;
SELECT * FROM app.t ORDER BY v OPERATOR("Vector of".<->) '[3,3]' LIMIT 1;
-- both may move
ALTER EXTENSION vector SET SCHEMA public;
ALTER EXTENSION grnnd SET SCHEMA public;
SELECT * FROM app.t ORDER BY v OPERATOR(public.<->) '[3,3]' LIMIT 1;
\c regression
DROP DATABASE grnnd_schema;
