/*
 * test_parts_disk.c - builds in parts on the processor's cores, of rows that lie on a disk.
 */
#include "parts_build.h"

/*
 * Rows on a disk, which have copies between them, or lie backwards.  Parts are merged by bytes, but
 * for those that bytes do not tell apart.
 */
static void
test_on_disk(void)
{
	static const FillFn fills[] = {fill_normal, fill_bytes, fill_narrow};
	enum
	{
		N = 20000
	};
	uint32_t   *order = malloc(N * sizeof(uint32_t));
	GrnGraphParams params = {.degree = 24};
	GrnDeviceChoice cores = {.device = GRN_DEVICE_CPU};

	cores.work_limit = grn_rnnd_bytes(&params, N, 16) / 4;
	for (int i = 0; i < (unit_all() ? 3 : 1); i++)
		for (int backwards = 0; backwards < (unit_all() ? 2 : 1); backwards++)
		{
			Data		d = make_data(backwards ? N : 2 * N, 16, fills[i]);
			Built		b;
			double		in_memory;
			double		on_disk;

			for (uint32_t v = 0; v < N; v++)
				order[v] = backwards ? N - 1 - v : 2 * v;
			d.rows.order = order;
			d.rows.n = N;
			b = build(&d, cores);
			check_built(&d, &b);
			CHECK(b.host.most <= cores.work_limit + 4096, "%llu bytes of workspace",
				  (unsigned long long) b.host.most);
			in_memory = recall(&d, &b.graph, fills[i]);
			free_built(&b);

			d.rows.on_disk = true;
			b = build(&d, cores);
			check_built(&d, &b);
			on_disk = recall(&d, &b.graph, fills[i]);
			CHECK(b.job.part_times.nparts > 4, "%u parts", b.job.part_times.nparts);
			CHECK(on_disk >= in_memory - 0.01, "data %d: recall %g by bytes, %g by rows", i, on_disk, in_memory);
			free_built(&b);
			free(d.base);
		}
	free(order);
}

int
main(void)
{
	RUN(test_on_disk);
	UNIT_END();
}
