-- Bad input to queries: one clear error, and the session goes on.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd CASCADE;
CREATE SCHEMA test_errors;
SET search_path = test_errors, public;
SET grnnd.build_device = cpu;
SET enable_seqscan = off;

CREATE TABLE t (id int, e vector(3));
INSERT INTO t SELECT i, ARRAY[i, i % 7, 1]::vector FROM generate_series(1, 100) i;
CREATE INDEX t_idx ON t USING grnnd (e);

-- other dimensions
SELECT id FROM t ORDER BY e <-> '[1,2]' LIMIT 1;
SELECT id FROM t ORDER BY e <-> '[1,2,3,4]' LIMIT 1;
\set VERBOSITY sqlstate
SELECT id FROM t ORDER BY e <-> '[1,2]' LIMIT 1;
\set VERBOSITY default
SELECT id FROM t ORDER BY e <-> '[]' LIMIT 1;
INSERT INTO t VALUES (0, '[1,2]');
PREPARE near (vector) AS SELECT id FROM t ORDER BY e <-> $1 LIMIT 1;
EXECUTE near ('[5,5,1]');
EXECUTE near ('[5,5]');
EXECUTE near ('[5,5,1]');
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t ORDER BY e <-> '[5,5]';
FETCH 1 FROM c;
ROLLBACK;
SELECT id FROM t ORDER BY e <-> '[5,5,1]' LIMIT 1;

-- what is no number
SELECT id FROM t ORDER BY e <-> '[NaN,1,1]' LIMIT 1;
SELECT id FROM t ORDER BY e <-> '[Infinity,1,1]' LIMIT 1;
SELECT id FROM t ORDER BY e <-> '{5,NaN,1}'::float4[]::vector LIMIT 1;

-- vectors so long that distances overflow: refused wherever they come from
SELECT id FROM t ORDER BY e <-> '[3e38,3e38,-3e38]' LIMIT 1;
INSERT INTO t VALUES (1001, '[3e38,0,0]');
INSERT INTO t VALUES (1001, '[1e19,0,0]');
\set VERBOSITY sqlstate
INSERT INTO t VALUES (1001, '[1e19,0,0]');
\set VERBOSITY default
-- long ones that do not, far beyond those that the index was built for
INSERT INTO t VALUES (1001, '[1e6,0,0]'), (1002, '[-2e6,1,1]');
SELECT id FROM t ORDER BY e <-> '[5,5,1]' LIMIT 1;
SELECT id FROM t ORDER BY e <-> '[1e6,5,1]' LIMIT 1;
SELECT array_agg(id) FROM (SELECT id FROM t ORDER BY e <-> '[5,5,1]' OFFSET 100) x;
REINDEX INDEX t_idx;
SELECT id FROM t ORDER BY e <-> '[1e6,5,1]' LIMIT 1;
SELECT * FROM grnnd_check('t_idx', true);
DROP INDEX t_idx;
CREATE INDEX t_ip ON t USING grnnd (e vector_ip_ops);
INSERT INTO t VALUES (1003, '[3e38,0,0]');
DROP INDEX t_ip;
-- under cosine lengths do not matter
INSERT INTO t VALUES (1003, '[3e38,0,3e38]');
CREATE INDEX t_cosine ON t USING grnnd (e vector_cosine_ops);
INSERT INTO t VALUES (1004, '[-3e38,3e38,3e38]');
SELECT id FROM t ORDER BY e <=> '[1e-40,0,1e-40]' LIMIT 1;
SELECT id FROM t WHERE id > 1002 ORDER BY e <=> '[-3e38,3e38,3e38]' LIMIT 1;
SELECT count(*) FROM (SELECT id FROM t ORDER BY e <=> '[0,0,0]' LIMIT 200) x;

-- relations that are no index of ours
CREATE INDEX t_btree ON t (id);
SELECT * FROM grnnd_check('pg_am');
SELECT * FROM grnnd_check('t_btree');

DROP SCHEMA test_errors CASCADE;
