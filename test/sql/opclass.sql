-- Operator classes: the shipped ones are sound, broken ones are told apart.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd CASCADE;
RESET client_min_messages;
CREATE SCHEMA test_opclass;
SET search_path = test_opclass, public;

SELECT opcname, opcdefault, opcintype::regtype, amvalidate(o.oid)
FROM pg_opclass o JOIN pg_am a ON a.oid = opcmethod
WHERE amname = 'grnnd' ORDER BY opcname COLLATE "C";

SELECT f.opfname, amopstrategy, amoppurpose, amopopr::regoperator, s.opfname AS sort
FROM pg_amop JOIN pg_opfamily f ON f.oid = amopfamily
	JOIN pg_opfamily s ON s.oid = amopsortfamily
	JOIN pg_am a ON a.oid = amopmethod
WHERE amname = 'grnnd' ORDER BY f.opfname COLLATE "C";

-- a missing member
CREATE OPERATOR CLASS no_function FOR TYPE vector USING grnnd AS
	OPERATOR 1 <-> (vector, vector) FOR ORDER BY float_ops;
SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = 'no_function';
CREATE OPERATOR CLASS no_operator FOR TYPE vector USING grnnd AS
	FUNCTION 1 grnnd_internal_type_vector(internal),
	FUNCTION 2 grnnd_internal_metric_l2(internal);
SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = 'no_operator';
CREATE OPERATOR CLASS no_member FOR TYPE vector USING grnnd AS
	STORAGE vector;
SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = 'no_member';

-- a support function of another type, or of another signature
CREATE OPERATOR CLASS other_type FOR TYPE halfvec USING grnnd AS
	OPERATOR 1 <-> (halfvec, halfvec) FOR ORDER BY float_ops,
	FUNCTION 1 grnnd_internal_type_vector(internal),
	FUNCTION 2 grnnd_internal_metric_l2(internal);
SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = 'other_type';
CREATE OPERATOR CLASS other_function FOR TYPE vector USING grnnd AS
	OPERATOR 1 <-> (vector, vector) FOR ORDER BY float_ops,
	FUNCTION 1 l2_distance(vector, vector),
	FUNCTION 2 grnnd_internal_metric_l2(internal);
SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = 'other_function';
-- type and metric in each other's places, and one of them alone
CREATE OPERATOR CLASS swapped FOR TYPE vector USING grnnd AS
	OPERATOR 1 <-> (vector, vector) FOR ORDER BY float_ops,
	FUNCTION 1 grnnd_internal_metric_l2(internal),
	FUNCTION 2 grnnd_internal_type_vector(internal);
SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = 'swapped';
CREATE OPERATOR CLASS no_metric FOR TYPE vector USING grnnd AS
	OPERATOR 1 <-> (vector, vector) FOR ORDER BY float_ops,
	FUNCTION 1 grnnd_internal_type_vector(internal);
SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = 'no_metric';

-- an index cannot be made with them
CREATE TABLE t (v vector(3), h halfvec(3), n numeric);
CREATE INDEX ON t USING grnnd (v no_function);
CREATE INDEX ON t USING grnnd (h other_type);
CREATE INDEX ON t USING grnnd (v other_function);
CREATE INDEX ON t USING grnnd (v swapped);
CREATE INDEX ON t USING grnnd (v no_metric);
CREATE INDEX ON t USING grnnd (h vector_l2_ops);
CREATE INDEX ON t USING grnnd (n);

-- an operator that is no distance
CREATE FUNCTION int_distance(vector, vector) RETURNS integer
	LANGUAGE sql IMMUTABLE RETURN 1;
CREATE OPERATOR <~> (LEFTARG = vector, RIGHTARG = vector, FUNCTION = int_distance);
CREATE OPERATOR CLASS other_result FOR TYPE vector USING grnnd AS
	OPERATOR 1 <~> (vector, vector) FOR ORDER BY integer_ops,
	FUNCTION 1 grnnd_internal_type_vector(internal),
	FUNCTION 2 grnnd_internal_metric_l2(internal);
SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = 'other_result';
CREATE OPERATOR CLASS search FOR TYPE vector USING grnnd AS
	OPERATOR 1 = (vector, vector),
	FUNCTION 1 grnnd_internal_type_vector(internal),
	FUNCTION 2 grnnd_internal_metric_l2(internal);
CREATE OPERATOR CLASS many FOR TYPE vector USING grnnd AS
	OPERATOR 2 <-> (vector, vector) FOR ORDER BY float_ops,
	FUNCTION 1 grnnd_internal_type_vector(internal),
	FUNCTION 2 grnnd_internal_metric_l2(internal);
CREATE OPERATOR CLASS many FOR TYPE vector USING grnnd AS
	OPERATOR 1 <-> (vector, vector) FOR ORDER BY float_ops,
	FUNCTION 3 grnnd_internal_type_vector(internal);

CREATE OPERATOR CLASS many FOR TYPE vector USING grnnd AS
	OPERATOR 1 <-> (vector, vector) FOR ORDER BY float_ops,
	OPERATOR 4 = (vector, vector),
	FUNCTION 1 grnnd_internal_type_vector(internal),
	FUNCTION 2 grnnd_internal_metric_l2(internal);
ALTER OPERATOR FAMILY vector_l2_ops USING grnnd ADD OPERATOR 4 = (vector, vector);

-- filter columns: any type with a hash function has equality, and nothing more
CREATE OPERATOR CLASS my_inet FOR TYPE inet USING grnnd AS OPERATOR 4 =;
SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = 'my_inet';
CREATE OPERATOR CLASS ordered_inet FOR TYPE inet USING grnnd AS OPERATOR 2 <, OPERATOR 4 =;
-- nor are values of another type compared by it
CREATE OPERATOR CLASS my_name FOR TYPE name USING grnnd AS OPERATOR 4 =;
ALTER OPERATOR FAMILY my_name USING grnnd ADD OPERATOR 4 = (name, text);
ALTER OPERATOR FAMILY date_ops USING grnnd ADD OPERATOR 2 < (date, timestamp);
CREATE OPERATOR CLASS my_array FOR TYPE int[] USING grnnd AS OPERATOR 6 > (anyarray, anyarray);
-- one of the same name that says the opposite
CREATE SCHEMA opposite;
CREATE FUNCTION opposite.apart(anyarray, anyarray) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT NOT $1 OPERATOR(pg_catalog.&&) $2';
CREATE OPERATOR opposite.&& (LEFTARG = anyarray, RIGHTARG = anyarray, FUNCTION = opposite.apart);
CREATE OPERATOR CLASS my_arrays FOR TYPE anyarray USING grnnd AS OPERATOR 7 opposite.&& (anyarray, anyarray);
DROP SCHEMA opposite CASCADE;
CREATE OPERATOR CLASS half_int FOR TYPE int USING grnnd AS OPERATOR 2 <;
SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = 'half_int';
-- an operator that compares in another way would lose rows
CREATE OPERATOR CLASS my_jsonb FOR TYPE jsonb USING grnnd AS OPERATOR 4 @>;
CREATE OPERATOR CLASS my_interval FOR TYPE interval USING grnnd AS OPERATOR 4 <;
CREATE OPERATOR CLASS my_int FOR TYPE int USING grnnd AS OPERATOR 2 >, OPERATOR 4 =;
CREATE OPERATOR CLASS my_array FOR TYPE int[] USING grnnd AS OPERATOR 7 @> (anyarray, anyarray);
CREATE OPERATOR CLASS my_point FOR TYPE point USING grnnd AS OPERATOR 4 ~=;
CREATE OPERATOR CLASS my_words FOR TYPE tsvector USING grnnd AS OPERATOR 4 =;
CREATE INDEX ON t USING grnnd (v, (to_tsvector('simple', 'a')) my_words);
ALTER TABLE t ADD i inet;
CREATE INDEX with_inet ON t USING grnnd (v, i my_inet);
INSERT INTO t (v, i) VALUES ('[1,2,3]', '1.2.3.4'), ('[1,2,3]', '1.2.3.5');
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT v, i FROM t WHERE i = '1.2.3.4' ORDER BY v <-> '[1,1,1]' LIMIT 1;
SELECT v, i FROM t WHERE i = '1.2.3.4' ORDER BY v <-> '[1,1,1]' LIMIT 2;
RESET enable_seqscan;
DROP INDEX with_inet;

-- dependencies: an opclass goes with its operator
CREATE FUNCTION my_distance(vector, vector) RETURNS float8
	LANGUAGE sql IMMUTABLE RETURN l2_distance($1, $2);
CREATE OPERATOR <~~> (LEFTARG = vector, RIGHTARG = vector, FUNCTION = my_distance);
CREATE OPERATOR CLASS mine FOR TYPE vector USING grnnd AS
	OPERATOR 1 <~~> (vector, vector) FOR ORDER BY float_ops,
	FUNCTION 1 grnnd_internal_type_vector(internal),
	FUNCTION 2 grnnd_internal_metric_l2(internal);
SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = 'mine';
DROP OPERATOR <~~> (vector, vector);

-- the extension and pgvector in schemas that are not on the search path
SELECT current_database() AS here \gset
CREATE DATABASE grnnd_regress_schemas;
\c grnnd_regress_schemas
CREATE SCHEMA v;
CREATE SCHEMA "Other one";
CREATE EXTENSION vector SCHEMA v;
CREATE EXTENSION grnnd SCHEMA "Other one";
SELECT opcname, opcintype::regtype, amvalidate(o.oid)
FROM pg_opclass o JOIN pg_am a ON a.oid = opcmethod
WHERE amname = 'grnnd' ORDER BY opcname COLLATE "C";
CREATE TABLE t (e v.vector(3));
CREATE INDEX ON t USING grnnd (e);
INSERT INTO t VALUES ('[1,2,3]'), ('[3,2,1]');
SET enable_seqscan = off;
SELECT e FROM t ORDER BY e OPERATOR(v.<->) '[3,2,1]' LIMIT 1;
ALTER EXTENSION grnnd SET SCHEMA public;
SELECT e FROM t ORDER BY e OPERATOR(v.<->) '[3,2,1]' LIMIT 1;
DROP EXTENSION grnnd;
DROP EXTENSION grnnd CASCADE;
\d t
\c :here
DROP DATABASE grnnd_regress_schemas;

SET client_min_messages = warning;
DROP SCHEMA test_opclass CASCADE;
