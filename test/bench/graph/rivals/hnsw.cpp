/*
 * hnsw.cpp - builds an HNSW with hnswlib and writes its lowest layer as .ibin.
 *
 *   hnsw BASE.fbin GRAPH.ibin THREADS M EF_CONSTRUCTION
 *
 * Prints "seconds X", of the insertions alone.
 */
#include <atomic>
#include <thread>

#include "hnswlib/hnswlib.h"
#include "matrix.h"

int
main(int argc, char **argv)
{
	if (argc != 6)
		stop("hnsw", "usage: hnsw BASE.fbin GRAPH.ibin THREADS M EF_CONSTRUCTION");
	Matrix		base = read_fbin(argv[1]);
	int			threads = atoi(argv[3]);
	hnswlib::L2Space space(base.columns);
	hnswlib::HierarchicalNSW<float> index(&space, base.rows, atoi(argv[4]), atoi(argv[5]));
	std::atomic<uint32_t> next{1};
	std::vector<std::thread> workers;
	double		start = seconds();

	index.addPoint(base.x.data(), 0);
	for (int t = 0; t < threads; t++)
		workers.emplace_back([&] {
			for (uint32_t i; (i = next++) < base.rows;)
				index.addPoint(&base.x[(size_t) i * base.columns], i);
		});
	for (auto &w : workers)
		w.join();
	printf("seconds %.3f\n", seconds() - start);

	/* its own numbering follows the order of insertion: labels are the rows */
	uint32_t	degree = index.maxM0_;
	std::vector<int32_t> ids((size_t) base.rows * degree, -1);

	for (uint32_t i = 0; i < base.rows; i++)
	{
		auto	   *list = index.get_linklist0(i);
		auto	   *links = (hnswlib::tableint *) (list + 1);
		int32_t    *out = &ids[(size_t) index.getExternalLabel(i) * degree];

		for (int k = 0; k < index.getListCount(list); k++)
			out[k] = (int32_t) index.getExternalLabel(links[k]);
	}
	write_ibin(argv[2], ids, base.rows, degree);
	return 0;
}
