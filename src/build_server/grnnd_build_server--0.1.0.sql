-- grnnd_build_server 0.1.0: builds on another host
\echo Use "CREATE EXTENSION grnnd_build_server" to load this file. \quit

-- Builds on another host: grnnd.build_server names a server of this wrapper, which has no handler.
CREATE FUNCTION grnnd_internal_build_validator(text[], oid) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FOREIGN DATA WRAPPER grnnd_build VALIDATOR grnnd_internal_build_validator;

COMMENT ON FOREIGN DATA WRAPPER grnnd_build IS
	'another host''s PostgreSQL that builds graphs; options are those of libpq';

CREATE FUNCTION grnnd_serve_build(bytea) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION grnnd_serve_build(bytea) IS
	'builds a graph for the builder of another host';

-- The function starts a program as the server's system user, and takes memory and a GPU.  PostgreSQL
-- calls the validator, and checks no privilege for that.
REVOKE ALL ON FUNCTION grnnd_serve_build(bytea), grnnd_internal_build_validator(text[], oid) FROM PUBLIC;
