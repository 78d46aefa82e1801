/*
 * ggnn.cu - builds a graph with GGNN from rows on the device and writes its
 * lowest layer as .ibin.
 *
 *   ggnn BASE.fbin GRAPH.ibin THREADS K_BUILD TAU REFINEMENTS
 *
 * Prints "seconds X".
 */
#include <cuda_runtime.h>

#include <ggnn/base/ggnn.cuh>
#include <ggnn/base/graph.h>

#include "matrix.h"

int
main(int argc, char **argv)
{
	if (argc != 7)
		stop("ggnn", "usage: ggnn BASE.fbin GRAPH.ibin THREADS K_BUILD TAU REFINEMENTS");
	Matrix		base = read_fbin(argv[1]);
	uint32_t	degree = (uint32_t) atoi(argv[4]);
	float	   *d_base;

	if (cudaMalloc(&d_base, base.x.size() * 4) != cudaSuccess ||
		cudaMemcpy(d_base, base.x.data(), base.x.size() * 4, cudaMemcpyHostToDevice) != cudaSuccess)
		stop("ggnn", "cannot put the rows on the device");

	ggnn::GGNN<int32_t, float> index;

	index.setBase(ggnn::Dataset<float>::referenceGPUData(d_base, base.rows, base.columns, 0));
	double		start = seconds();

	index.build(degree, (float) atof(argv[5]), (uint32_t) atoi(argv[6]));
	cudaDeviceSynchronize();
	printf("seconds %.3f\n", seconds() - start);

	const auto &lowest = index.getGraph().graph[0];
	std::vector<int32_t> ids((size_t) base.rows * degree);

	for (size_t i = 0; i < ids.size(); i++)
	{
		int32_t		id = lowest[i];

		ids[i] = id < 0 || (uint32_t) id >= base.rows || (size_t) id == i / degree ? -1 : id;
	}
	write_ibin(argv[2], ids, base.rows, degree);
	return 0;
}
