-- Settings, storage parameters and what the access method says of itself.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd CASCADE;
RESET client_min_messages;
-- settings are known once the library is loaded
LOAD 'grnnd';
CREATE SCHEMA test_options;
SET search_path = test_options, public;

-- defaults
SELECT name, boot_val, unit, context, vartype, min_val, max_val, enumvals
FROM pg_settings WHERE name LIKE 'grnnd.%' ORDER BY name COLLATE "C";

-- ranges
SET grnnd.ef_search = 0;
SET grnnd.ef_search = 10001;
SET grnnd.ef_search = 10000;
SET grnnd.ef_search = 'many';
RESET grnnd.ef_search;
SET grnnd.iterative_scan = 'sometimes';
SET grnnd.iterative_scan = 'relaxed_order';
RESET grnnd.iterative_scan;
SET grnnd.max_scan_tuples = -1;
SET grnnd.build_device = 'tpu';
SET grnnd.build_threads = -1;
SET grnnd.gpu_devices = '0,1';
SET grnnd.gpu_devices = '0,,1';
SET grnnd.gpu_devices = ',0';
SET grnnd.gpu_devices = '0,';
SET grnnd.gpu_devices = 'all';
SET grnnd.gpu_devices = '0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25';
SHOW grnnd.gpu_devices;
SET grnnd.gpu_devices = '';
\set VERBOSITY sqlstate
SET grnnd.build_timeout = 10;
SET grnnd.gpu_memory_limit = -1;
\set VERBOSITY default
SET grnnd.no_such_setting = 1;

-- who may set what
CREATE ROLE grnnd_regress_user;
SET ROLE grnnd_regress_user;
SET grnnd.ef_search = 100;
SET grnnd.iterative_scan = 'off';
SET grnnd.max_scan_tuples = 100;
SET grnnd.build_threads = 1;
SET grnnd.build_device = 'cpu';
SET grnnd.gpu_devices = '1';
SET grnnd.gpu_memory_limit = '1GB';
SET grnnd.build_timeout = '10s';
SET grnnd.builder_path = '/bin/true';
SELECT * FROM grnnd_devices();
RESET ROLE;
RESET ALL;
SET search_path = test_options, public;
DROP ROLE grnnd_regress_user;

-- devices: on a machine without any, the reason
SELECT count(*) > 0 AS answered, bool_and((problem IS NULL) = (name IS NOT NULL AND memory_bytes > 0)) AS sensible
FROM grnnd_devices();
SET grnnd.builder_path = '/no/such/program';
SELECT * FROM grnnd_devices();
SET grnnd.builder_path = '/dev/null';
SELECT * FROM grnnd_devices();
SET grnnd.builder_path = '/bin/true';
SELECT * FROM grnnd_devices();
SET grnnd.builder_path = '/bin/echo';
SELECT * FROM grnnd_devices();
RESET grnnd.builder_path;

-- storage parameters
CREATE TABLE t (e vector(3));
CREATE INDEX ON t USING grnnd (e) WITH (degree = 7);
CREATE INDEX ON t USING grnnd (e) WITH (degree = 97);
CREATE INDEX ON t USING grnnd (e) WITH (degree = 'large');
CREATE INDEX ON t USING grnnd (e) WITH (seed = -1);
CREATE INDEX ON t USING grnnd (e) WITH (codes = 2);
CREATE INDEX ON t USING grnnd (e) WITH (lists = 100);
CREATE INDEX ON t USING grnnd (e) WITH (r = 32);
SELECT count(*) FROM pg_index WHERE indrelid = 't'::regclass;

CREATE INDEX t_idx ON t USING grnnd (e)
	WITH (degree = 8, seed = 7, codes = off);
SELECT reloptions FROM pg_class WHERE oid = 't_idx'::regclass;
ALTER INDEX t_idx SET (degree = 96, seed = 2147483647);
ALTER INDEX t_idx SET (degree = 1);
ALTER INDEX t_idx RESET (codes);
SELECT reloptions FROM pg_class WHERE oid = 't_idx'::regclass;
REINDEX INDEX t_idx;
SELECT * FROM grnnd_check('t_idx');

-- what it can do
SELECT p, pg_indexam_has_property(oid, p) AS am
FROM pg_am, unnest(ARRAY['can_order', 'can_unique', 'can_multi_col', 'can_exclude',
	'can_include']) AS p
WHERE amname = 'grnnd';
SELECT p, pg_index_has_property('t_idx', p) AS index
FROM unnest(ARRAY['clusterable', 'index_scan', 'bitmap_scan', 'backward_scan']) AS p;
SELECT p, pg_index_column_has_property('t_idx', 1, p) AS column
FROM unnest(ARRAY['orderable', 'distance_orderable', 'returnable', 'search_array',
	'search_nulls']) AS p;
CREATE UNIQUE INDEX ON t USING grnnd (e);
CREATE INDEX ON t USING grnnd (e, e);
CREATE INDEX ON t USING grnnd (e) INCLUDE (e);
\set VERBOSITY sqlstate
CREATE INDEX ON t USING grnnd (e DESC);
\set VERBOSITY default
CLUSTER t USING t_idx;
\set VERBOSITY sqlstate
ALTER TABLE t ADD EXCLUDE USING grnnd (e WITH =);
\set VERBOSITY default

SET client_min_messages = warning;
DROP SCHEMA test_options CASCADE;
