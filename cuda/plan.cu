/*
 * plan.cu - chooses the parameters that the caller has left open, and makes the layout of
 * a build's device memory.  The same layout tells whether the build fits.
 */
#include "handle.h"

/*
 * Rows of a bin of the coarse order, about.  Half and twice change recall@10 by .002 at most, as
 * two builds do (SIFT, GIST, sentences).
 */
constexpr uint32_t ROWS_PER_BIN = 256;
/* Measured on SIFT and GIST: 1,024 and 2,048 bins lose 0 to .004 of recall@10, 8,192 gain none. */
constexpr uint32_t MAX_BINS = 4096;
/*
 * Rows of more dimensions get shorter lists, because each edge costs a search one distance.
 * Recall@10 and distances of a search at L = 64: 200,000 GIST rows of 960 dimensions .9773@1244,
 * with twice .9809@1325; 19,000 sentences of 384 dimensions .9965@1113, with half .9950@1053.
 */
constexpr uint32_t MANY_DIMS = 512;

static_assert(GRN_GPU_MOST_R == MAX_POOL && GRN_GPU_MOST_S == WARP, "as gpu.h says");

/* Measured on a million SIFT rows: s = 20 loses .0045 of recall@10 and saves 2.5 ms. */
static const GrnGraphParams DEFAULTS = {
	.r = DEFAULT_POOL, .s = 32, .t1 = 4, .t2 = 3, .rho = 1.0f};

extern "C" void
grn_gpu_default_params(GrnGraphParams *params, uint32_t dim)
{
	if (params->r == 0)
		params->r = DEFAULTS.r;
	if (params->degree == 0)
		params->degree = grn_bare_degree(dim);
	if (params->s == 0)
		params->s = DEFAULTS.s;
	if (params->t1 == 0)
		params->t1 = DEFAULTS.t1;
	if (params->t2 == 0)
		params->t2 = DEFAULTS.t2;
	if (params->rho <= 0)
		params->rho = DEFAULTS.rho;
}

Tuning
tuning_for(const GrnGraphParams *given, uint32_t dim, uint64_t n)
{
	GrnGraphParams p = *given;
	Tuning		   t = {};
	bool		   projected = dim > PROJECTED_DIMS;

	grn_gpu_default_params(&p, dim);
	/*
	 * Measured on a million SIFT rows on one H200: 32 keys lose .0055 of recall@10 and save
	 * 5 ms; 64 keys take 6 ms and 256 MB more.
	 */
	t.inbox = 48;
	t.random_edges = p.s < WARP ? p.s : WARP;
	t.bins = (uint32_t) (n / ROWS_PER_BIN);
	t.bins = t.bins < MAX_BINS ? t.bins : MAX_BINS;
	/*
	 * Measured on 20,000 tight clusters: recall@10 is .986 with bins and window, .964 without.  On
	 * SIFT and GIST they lose .001 to .002; windows of 512 to 2048 lose up to .004 more.
	 */
	t.window = 256;
	t.outer = p.t1;
	t.inner = p.t2;
	/* The first outer iteration starts from random neighbors and needs more rounds. */
	t.first = p.t2 + (projected ? 1 : 2);
	/*
	 * Measured on GIST (960 dimensions): 1/2 of the degree has recall@10 .933 with 1016
	 * distances for each query, 5/8 .939 with 1096, 3/4 .947 with 1184.
	 */
	t.fill = dim > MANY_DIMS ? p.degree * 5 / 8 : p.degree;
	t.keep = p.r < MAX_POOL ? p.r : MAX_POOL;
	t.pool = t.keep < WARP ? WARP : t.keep;
	t.rho = p.rho < 1.0f ? p.rho : 1.0f;
	t.seed = p.seed;
	return t;
}

static uint32_t
power_of_two_dims(uint32_t dim)
{
	return dim <= 32 ? 32 : dim <= 64 ? 64 : dim <= 128 ? 128 : 256;
}

uint32_t
digest_dims_of(uint32_t dim)
{
	return dim <= PROJECTED_DIMS ? power_of_two_dims(dim) : PROJECTED_DIMS;
}

uint32_t
most_digest_dims(uint32_t dim, RowFormat format, bool few)
{
	uint32_t dims = digest_dims_of(dim);

	return format == ROWS_S8 && dim > dims && !few ? MORE_DIMS : dims;
}

uint32_t
bit_digest_dims(uint32_t dim)
{
	return dim <= 512 ? 512 : dim <= 1024 ? 1024 : GRN_GPU_MOST_BITS;
}

static size_t
larger(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* Decides the place of each array of a build.  plan.total is the size of the arena. */
Plan
make_plan(const GrnGpu *gpu, const GrnGraphParams *given, const GrnGpuOptions *options,
		  uint64_t n, uint32_t dim, DigestSize size)
{
	GrnGraphParams params = *given;
	Plan		   plan = {};
	Layout		   layout;
	auto		   take = [&](size_t bytes) { return layout.reserve<uint8_t>(bytes); };

	grn_gpu_default_params(&params, dim);
	plan.degree = params.degree;
	plan.tuning = gpu && gpu->overridden ? gpu->override_ : tuning_for(given, dim, n);
	Tuning &t = plan.tuning;
	bool	digested = options && options->rows != GRN_GPU_FLOATS;

	if (size == DIGESTS_WIDE || (options && options->rows == GRN_GPU_WIDE_DIGESTS))
		t.format = ROWS_F16;
	if (options && options->rows == GRN_GPU_BIT_DIGESTS)
		t.format = ROWS_B1;
	plan.counts = take(n);
	plan.digest_dims = t.format == ROWS_B1				  ? bit_digest_dims(dim)
					   : size == DIGESTS_MORE			  ? MORE_DIMS
					   : digested && options->digest_dims ? options->digest_dims
														  : digest_dims_of(dim);
	plan.stride = format_bytes((RowFormat) t.format, plan.digest_dims);
	size_t inbox_bytes = larger(larger(n * t.inbox * sizeof(Key), n * plan.stride),
								n * plan.degree * sizeof(uint32_t));
	size_t start = start_layout(NULL, (uint32_t) n, t.bins, plan.stride).bytes,
		   project = digested ? 0 : project_bytes((uint32_t) n, dim, plan.digest_dims);

	plan.digests = take(n * plan.stride);
	plan.order = take(4 * n);
	plan.norms = take(4 * n);
	plan.pool_count = take(n);
	plan.inbox_count[0] = take(4 * n);
	plan.inbox_count[1] = take(4 * n);
	plan.list = take(NCLASSES * n * sizeof(uint64_t));
	plan.list_count = take(NCLASSES * sizeof(uint32_t));
	plan.flag = take(sizeof(int));
	plan.members = take(digested ? 4 * n : 0);
	/* All users of the scratch end before the first use of pools and inboxes. */
	plan.scratch = plan.pool = take(larger(n * t.pool * sizeof(Key), start));
	plan.inbox[0] = take(inbox_bytes);
	if (layout.bytes < plan.scratch + project)
		take(plan.scratch + project - layout.bytes);
	plan.inbox[1] = plan.bare_digests = take(inbox_bytes);
	plan.total = layout.bytes;
	return plan;
}
