# Every way of using an index that pgvector's README describes, with USING grnnd in the place of
# USING hnsw.  Each query must be answered by the index, and as exactly as without it.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use GrnndTest;
use Migration;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = migration_node('recipes');
my $q = "'" . number($node, 'SELECT subvector(v, 1, 16) FROM queries WHERE id = 100003') . "'";

# items as in the README: vectors and what hangs on them.
$node->safe_psql('postgres', q(
	CREATE TABLE items (id bigserial PRIMARY KEY, embedding vector(16), category_id int, location_id int,
		content text, textsearch tsvector GENERATED ALWAYS AS (to_tsvector('english', content)) STORED);
	INSERT INTO items (embedding, category_id, location_id, content)
	SELECT subvector(v, 1, 16), id % 4, id % 7, CASE WHEN id % 5 = 0 THEN 'hello to all ' ELSE 'nothing here ' END || id
	FROM base;
	ANALYZE items;
	CREATE TABLE half_items AS SELECT id, subvector(v, 1, 16)::halfvec(16) AS embedding FROM base;
	CREATE TABLE bit_items AS SELECT id, binary_quantize(v)::bit(64) AS embedding FROM base;
	CREATE TABLE sparse_items AS SELECT id, sparse(v)::sparsevec(64) AS embedding FROM base;
	CREATE TABLE long_items AS SELECT id, v::vector(64) AS embedding FROM base;
	CREATE TABLE embeddings (model_id bigint, item_id bigint, embedding vector, PRIMARY KEY (model_id, item_id));
	INSERT INTO embeddings SELECT 123, id, subvector(v, 1, 16) FROM base;
	INSERT INTO embeddings SELECT 124, id, subvector(v, 1, 8) FROM base;
	CREATE TABLE precise_items (id bigserial PRIMARY KEY, embedding double precision[]);
	INSERT INTO precise_items SELECT id, subvector(v, 1, 16)::real[]::double precision[] FROM base;
	ALTER TABLE precise_items ADD CHECK (vector_dims(embedding::vector) = 16);
	CREATE TABLE tenants (customer_id int, id int, embedding vector(16)) PARTITION BY LIST (customer_id);
	CREATE TABLE tenants_1 PARTITION OF tenants FOR VALUES IN (1);
	CREATE TABLE tenants_2 PARTITION OF tenants FOR VALUES IN (2, 3);
	INSERT INTO tenants SELECT 1 + id % 3, id, subvector(v, 1, 16) FROM base;
	ANALYZE));

# A number of rows as good as these would be without the index: a query's lines that are the
# same as the table's.  Lines may be in another order where rows are equally far.
sub same_lines
{
	my ($got, $expected) = @_;
	my %there = map { $_ => 1 } split(/\n/, $expected);
	return scalar grep { delete $there{$_} } split(/\n/, $got);
}

# recipe NAME, CLASSES, INDEX, QUERY...: makes the index (a statement with USING hnsw) and runs the
# queries, with the text :q for a vector of 16 dimensions, by index and without.
# Of the answers' lines all must be the same, and the plan must use the index, or must not
# where the query begins with "table:".  In a query's text ";" parts what is run before from
# what is asked.
sub recipe
{
	my ($name, $classes, $index, @queries) = @_;
	if (!have(@$classes))
	{
		note "$name: not without @$classes";
		return;
	}
	my @made = split(/;\s*/, $index =~ s/\bhnsw \(/$method (/gr);
	number($node, $_) for @made;
	for my $query (@queries)
	{
		my $by_index = $query !~ s{^table: *}{} ? 1 : 0;
		my @parts = map { s/:q\b/$q/gr } split(/;\s*/, $query);
		my $asked = pop @parts;
		my $before = join('', map { "$_; " } @parts);
		my $settings = ($by_index ? "SET hnsw.ef_search = 200; SET enable_seqscan = off; SET enable_bitmapscan = off;" : '') . $before;
		my $plan = number($node, "$settings EXPLAIN (COSTS OFF) $asked");
		my $expected = number($node, "$before SET enable_indexscan = off; SET enable_bitmapscan = off; $asked");
		my $got = number($node, "$settings $asked");
		my $lines = scalar split(/\n/, $expected);
		my $same = same_lines($got, $expected);
		my @wrong;
		push @wrong, "no rows" if $lines == 0;
		push @wrong, "$same of $lines lines:\n$got\nexpected:\n$expected" if $same < $lines || $lines != split(/\n/, $got);
		push @wrong, "plan: $plan" if $by_index != ($plan =~ /Index Scan using (?!\w*pkey|kinds|places|words)/ ? 1 : 0);
		is(join("\n", @wrong), '', "$name: " . substr($query, 0, 60));
	}
	# the next recipe's query shall not be answered by this one's index
	number($node, "DO \$\$ DECLARE i regclass; BEGIN FOR i IN SELECT i.oid FROM pg_class i JOIN pg_am a ON a.oid = relam
		WHERE amname = '$method' AND NOT relispartition LOOP EXECUTE 'DROP INDEX ' || i; END LOOP; END \$\$");
}

# ---- one index for each distance ----

my $top = 'LIMIT 5';
recipe('L2 distance', ['vector_l2_ops'], 'CREATE INDEX ON items USING hnsw (embedding vector_l2_ops)',
	"SELECT * FROM items ORDER BY embedding <-> :q $top",
	"SELECT * FROM items WHERE id != 1 ORDER BY embedding <-> (SELECT embedding FROM items WHERE id = 1) $top",
	"SELECT * FROM items WHERE embedding <-> :q < 15 ORDER BY embedding <-> :q $top",
	"table: SELECT count(*) FROM items WHERE embedding <-> :q < 9",
	"SELECT id, embedding <-> :q AS distance FROM items ORDER BY distance $top",
	"SELECT id FROM items ORDER BY l2_distance(embedding, :q) $top" =~ s/^/table: /r,
	"table: SELECT avg(embedding) FROM items",
	"table: SELECT category_id, avg(embedding) FROM items GROUP BY category_id ORDER BY 1",
	"SELECT avg(embedding), sum(embedding) FROM (SELECT embedding FROM items ORDER BY embedding <-> :q $top) x",
	"SELECT category_id, count(*) FROM (SELECT category_id FROM items ORDER BY embedding <-> :q LIMIT 20) x GROUP BY 1 ORDER BY 1",
	"BEGIN; SET LOCAL hnsw.ef_search = 100; SELECT * FROM items ORDER BY embedding <-> :q $top",
	"SELECT * FROM items ORDER BY embedding <-> :q LIMIT 5 OFFSET 5");
recipe('inner product', ['vector_ip_ops'], 'CREATE INDEX ON items USING hnsw (embedding vector_ip_ops)',
	"SELECT * FROM items ORDER BY embedding <#> :q $top",
	"SELECT id, (embedding <#> :q) * -1 AS inner_product FROM items ORDER BY embedding <#> :q $top");
recipe('cosine distance', ['vector_cosine_ops'], 'CREATE INDEX ON items USING hnsw (embedding vector_cosine_ops)',
	"SELECT * FROM items ORDER BY embedding <=> :q $top",
	"SELECT id, 1 - (embedding <=> :q) AS cosine_similarity FROM items ORDER BY embedding <=> :q $top",
	"table: SELECT id FROM items ORDER BY 1 - (embedding <=> :q) DESC $top");
recipe('L1 distance', ['vector_l1_ops'], 'CREATE INDEX ON items USING hnsw (embedding vector_l1_ops)',
	"SELECT * FROM items ORDER BY embedding <+> :q $top");
recipe('several distances', [ 'vector_l2_ops', 'vector_ip_ops', 'vector_cosine_ops' ],
	'CREATE INDEX ON items USING hnsw (embedding vector_l2_ops); CREATE INDEX ON items USING hnsw (embedding vector_ip_ops);
	 CREATE INDEX ON items USING hnsw (embedding vector_cosine_ops)',
	map { "SELECT * FROM items ORDER BY embedding $_ :q $top" } '<->', '<#>', '<=>');
recipe('options', ['vector_l2_ops'], 'CREATE INDEX ON items USING hnsw (embedding vector_l2_ops) WITH (m = 16, ef_construction = 64)',
	"SET hnsw.ef_search = 100; SELECT * FROM items ORDER BY embedding <-> :q $top");
recipe('a build by many', ['vector_l2_ops'],
	"ALTER TABLE items SET (parallel_workers = 4);
	 CREATE INDEX CONCURRENTLY ON items USING hnsw (embedding vector_l2_ops)",
	"SELECT * FROM items ORDER BY embedding <-> :q $top");
recipe('values in the table', ['vector_l2_ops'],
	'ALTER TABLE items ALTER COLUMN embedding SET STORAGE PLAIN; CREATE INDEX ON items USING hnsw (embedding vector_l2_ops)',
	"SELECT * FROM items ORDER BY embedding <-> :q $top");

# ---- filters ----

my $l2 = 'CREATE INDEX ON items USING hnsw (embedding vector_l2_ops)';
recipe('filter', ['vector_l2_ops'], $l2,
	"SELECT * FROM items WHERE category_id = 3 ORDER BY embedding <-> :q $top",
	"SET hnsw.iterative_scan = strict_order; SELECT * FROM items WHERE category_id = 3 AND location_id = 2 ORDER BY embedding <-> :q $top");
recipe('filter, exact indexes', ['vector_l2_ops'],
	"$l2; CREATE INDEX kinds ON items (category_id); CREATE INDEX places ON items (location_id, category_id)",
	"SELECT * FROM items WHERE category_id < 3 ORDER BY embedding <-> :q $top");
number($node, 'DROP INDEX kinds; DROP INDEX places');
recipe('filter, partial index', ['vector_l2_ops'], "$l2 WHERE (category_id = 3)",
	"SELECT * FROM items WHERE category_id = 3 ORDER BY embedding <-> :q $top",
	"table: SELECT * FROM items WHERE category_id = 2 ORDER BY embedding <-> :q $top");
recipe('tenants', ['vector_l2_ops'], 'CREATE INDEX ON tenants USING hnsw (embedding vector_l2_ops)',
	"SELECT * FROM tenants WHERE customer_id = 1 ORDER BY embedding <-> :q $top",
	"SELECT * FROM tenants ORDER BY embedding <-> :q $top");

# ---- iterative scans ----

recipe('iterative scans', ['vector_l2_ops'], $l2,
	"SET hnsw.iterative_scan = relaxed_order; WITH relaxed_results AS MATERIALIZED (
		SELECT id, embedding <-> :q AS distance FROM items WHERE category_id = 1 ORDER BY distance LIMIT 5
	) SELECT * FROM relaxed_results ORDER BY distance + 0",
	"WITH nearest_results AS MATERIALIZED (SELECT id, embedding <-> :q AS distance FROM items ORDER BY distance LIMIT 5)
	 SELECT * FROM nearest_results WHERE distance < 15 ORDER BY distance",
	"SET hnsw.iterative_scan = strict_order; SET hnsw.max_scan_tuples = 20000; SET hnsw.scan_mem_multiplier = 2;
	 SELECT * FROM items WHERE category_id = 1 ORDER BY embedding <-> :q LIMIT 20");

# ---- halfvec, bits, sparse vectors, parts of vectors ----

recipe('half precision, column', ['halfvec_l2_ops'], 'CREATE INDEX ON half_items USING hnsw (embedding halfvec_l2_ops)',
	"SELECT * FROM half_items ORDER BY embedding <-> :q $top");
recipe('half precision, index', ['halfvec_l2_ops'], 'CREATE INDEX ON items USING hnsw ((embedding::halfvec(16)) halfvec_l2_ops)',
	"SELECT * FROM items ORDER BY embedding::halfvec(16) <-> :q $top");
recipe('half precision, cosine', ['halfvec_cosine_ops'],
	'CREATE INDEX ON items USING hnsw ((embedding::halfvec(16)) halfvec_cosine_ops)',
	"SELECT * FROM items ORDER BY embedding::halfvec(16) <=> :q $top");
# many rows are as far: their distances are compared, not the rows
my $bits = '(SELECT embedding FROM bit_items WHERE id = 17)';
recipe('bits, Hamming', ['bit_hamming_ops'], 'CREATE INDEX ON bit_items USING hnsw (embedding bit_hamming_ops)',
	"SELECT count(*), sum(d) FROM (SELECT embedding <~> $bits AS d FROM bit_items ORDER BY embedding <~> $bits LIMIT 5) x");
recipe('bits, Jaccard', ['bit_jaccard_ops'], 'CREATE INDEX ON bit_items USING hnsw (embedding bit_jaccard_ops)',
	"SELECT count(*), round(sum(d)::numeric, 6) FROM (SELECT embedding <%> $bits AS d FROM bit_items ORDER BY embedding <%> $bits LIMIT 5) x");
my $long = '(SELECT v FROM queries WHERE id = 100004)';
recipe('binary quantization', ['bit_hamming_ops'],
	'CREATE INDEX ON long_items USING hnsw ((binary_quantize(embedding)::bit(64)) bit_hamming_ops)',
	"SELECT sum(d) FROM (SELECT binary_quantize(embedding)::bit(64) <~> binary_quantize($long) AS d FROM long_items
	 ORDER BY binary_quantize(embedding)::bit(64) <~> binary_quantize($long) LIMIT 20) x",
	"SELECT id FROM (SELECT * FROM long_items ORDER BY binary_quantize(embedding)::bit(64) <~> binary_quantize($long) LIMIT 200) x
	 ORDER BY embedding <=> $long LIMIT 5");
recipe('sparse vectors', ['sparsevec_l2_ops'], 'CREATE INDEX ON sparse_items USING hnsw (embedding sparsevec_l2_ops)',
	"SELECT * FROM sparse_items ORDER BY embedding <-> (SELECT sparse(v) FROM queries WHERE id = 100002) $top");
recipe('sparse vectors, inner product', ['sparsevec_ip_ops'], 'CREATE INDEX ON sparse_items USING hnsw (embedding sparsevec_ip_ops)',
	"SELECT * FROM sparse_items ORDER BY embedding <#> (SELECT sparse(v) FROM queries WHERE id = 100002) $top");
recipe('subvectors', ['vector_cosine_ops'],
	'CREATE INDEX ON long_items USING hnsw ((subvector(embedding, 1, 12)::vector(12)) vector_cosine_ops)',
	"SELECT * FROM long_items ORDER BY subvector(embedding, 1, 12)::vector(12) <=> subvector($long, 1, 12) $top",
	"SELECT id FROM (SELECT * FROM long_items ORDER BY subvector(embedding, 1, 12)::vector(12) <=> subvector($long, 1, 12)
	 LIMIT 20) x ORDER BY embedding <=> $long LIMIT 5");
recipe('other dimensions', ['vector_l2_ops'],
	'CREATE INDEX ON embeddings USING hnsw ((embedding::vector(16)) vector_l2_ops) WHERE (model_id = 123);
	 CREATE INDEX ON embeddings USING hnsw ((embedding::vector(8)) vector_l2_ops) WHERE (model_id = 124)',
	"SELECT * FROM embeddings WHERE model_id = 123 ORDER BY embedding::vector(16) <-> :q $top",
	"SELECT * FROM embeddings WHERE model_id = 124 ORDER BY embedding::vector(8) <-> subvector(:q::vector, 1, 8) $top");
recipe('more precise values', ['vector_l2_ops'], 'CREATE INDEX ON precise_items USING hnsw ((embedding::vector(16)) vector_l2_ops)',
	"SELECT * FROM precise_items ORDER BY embedding::vector(16) <-> :q $top");

# ---- text and vectors, joins, cursors, what is written meanwhile ----

recipe('hybrid search', ['vector_cosine_ops'],
	'CREATE INDEX words ON items USING gin (textsearch); CREATE INDEX ON items USING hnsw (embedding vector_cosine_ops)',
	"SELECT id, content FROM items, plainto_tsquery('hello') query WHERE textsearch @@ query ORDER BY embedding <=> :q $top",
	"WITH near AS (SELECT id, row_number() OVER (ORDER BY embedding <=> :q) AS rank FROM items ORDER BY embedding <=> :q LIMIT 20),
	 worded AS (SELECT id, row_number() OVER (ORDER BY ts_rank_cd(textsearch, query) DESC, id) AS rank
		FROM items, plainto_tsquery('english', 'hello') query WHERE textsearch @@ query ORDER BY 2 LIMIT 20)
	 SELECT coalesce(near.id, worded.id), coalesce(1.0 / (60 + near.rank), 0) + coalesce(1.0 / (60 + worded.rank), 0) AS score
	 FROM near FULL OUTER JOIN worded ON near.id = worded.id ORDER BY score DESC, 1 LIMIT 10");
number($node, 'DROP INDEX words');
recipe('a join with the nearest', ['vector_l2_ops'], $l2,
	"SELECT a.id, b.id FROM items a CROSS JOIN LATERAL (SELECT id FROM items WHERE id != a.id ORDER BY embedding <-> a.embedding LIMIT 3) b
	 WHERE a.id <= 10");
recipe('writes', ['vector_l2_ops'], $l2,
	"BEGIN; INSERT INTO items (id, embedding) VALUES (1, :q), (4001, :q) ON CONFLICT (id) DO UPDATE SET embedding = EXCLUDED.embedding;
	 UPDATE items SET embedding = embedding * :q WHERE id = 2; DELETE FROM items WHERE id = 3;
	 SELECT id FROM items ORDER BY embedding <-> :q $top");
recipe('an exact answer', ['vector_l2_ops'], $l2,
	"table: BEGIN; SET LOCAL enable_indexscan = off; SELECT * FROM items ORDER BY embedding <-> :q $top");

# A cursor over a query with LIMIT, and COPY in binary.
number($node, $l2 =~ s/hnsw/$method/r);
is(number($node, "SET enable_seqscan = off; BEGIN; DECLARE c CURSOR FOR SELECT id FROM items ORDER BY embedding <-> $q LIMIT 9;
		FETCH 3 FROM c; FETCH 6 FROM c"),
	number($node, "SET enable_indexscan = off; SELECT id FROM items ORDER BY embedding <-> $q LIMIT 9"), 'a cursor');
my $file = PostgreSQL::Test::Utils::tempdir . '/rows';
is(number($node, "COPY (SELECT id + 10000, embedding FROM items) TO '$file' WITH (FORMAT BINARY);
		COPY items (id, embedding) FROM '$file' WITH (FORMAT BINARY);
		SET enable_seqscan = off; SELECT string_agg((id % 10000)::text, ' ') FROM (SELECT id FROM items
		ORDER BY embedding <-> (SELECT embedding FROM items WHERE id = 8) LIMIT 2) x"), '8 8', 'COPY in binary');
like(number($node, "SET enable_seqscan = off; EXPLAIN (ANALYZE, BUFFERS) SELECT * FROM items ORDER BY embedding <-> $q LIMIT 5"),
	qr/Index Scan using items_embedding_idx.*\n.*Order By.*(\n.*)*Buffers/, 'EXPLAIN (ANALYZE, BUFFERS)');
cmp_ok(number($node, "SELECT pg_relation_size('items_embedding_idx')"), '>', 0, 'the size of an index');
for my $statement ('REINDEX INDEX CONCURRENTLY items_embedding_idx', 'VACUUM items')
{
	is($node->psql('postgres', $statement), 0, $statement);
}

done_testing();
