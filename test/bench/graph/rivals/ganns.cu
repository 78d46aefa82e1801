/*
 * ganns.cu - builds an NSW graph with GANNS and writes it as .ibin.  Its
 * dimension is a macro, PLACE_HOLDER_DIM, so there is a program per dimension.
 *
 *   ganns BASE.fbin GRAPH.ibin THREADS D_MIN M [BUILDS]
 *
 * Prints "seconds X" of the fastest build, which copies the rows to the device and the
 * graph back, as GANNS's own timing does.
 */
#include <algorithm>
#include <iostream>
#include <vector>

#include "data.h"
#include "nsw.h"
#include "matrix.h"

int
main(int argc, char **argv)
{
	if (argc != 6 && argc != 7)
		stop("ganns", "usage: ganns BASE.fbin GRAPH.ibin THREADS D_MIN M [BUILDS]");
	Matrix		base = read_fbin(argv[1]);
	std::string vectors = std::string(argv[2]) + ".fvecs";
	int			builds = argc == 7 ? atoi(argv[6]) : 1;
	double		best = 1e9;

	if (base.columns != PLACE_HOLDER_DIM)
		stop(argv[1], "another dimension than this program was compiled for");
	/* it reads nothing but .fvecs */
	FILE	   *f = fopen(vectors.c_str(), "wb");

	if (!f)
		stop(vectors.c_str(), "cannot write");
	for (uint32_t i = 0; i < base.rows; i++)
		if (fwrite(&base.columns, 4, 1, f) != 1 ||
			fwrite(&base.x[(size_t) i * base.columns], 4, base.columns, f) != base.columns)
			stop(vectors.c_str(), "cannot write");
	fclose(f);
	std::cout.setstate(std::ios::failbit);	/* it prints each merge */
	cudaFree(0);

	Data		data(vectors);
	std::vector<int32_t> ids;
	uint32_t	degree = 0;

	remove(vectors.c_str());
	for (int b = 0; b < builds; b++)
	{
		NSW			graph(&data);
		double		start = seconds();

		graph.build(atoi(argv[4]), atoi(argv[5]));
		best = std::min(best, seconds() - start);
		if (cudaGetLastError() != cudaSuccess)
			stop("ganns", "a kernel failed");
		degree = 1u << graph.s_bits_;
		ids.assign(graph.graph_, graph.graph_ + (size_t) base.rows * degree);
		cudaFreeHost(graph.graph_);
	}
	for (size_t i = 0; i < ids.size(); i++)
		if (ids[i] < 0 || (uint32_t) ids[i] >= base.rows || (size_t) ids[i] == i / degree)
			ids[i] = -1;		/* an empty place holds the number of rows */
	printf("seconds %.4f\n", best);
	write_ibin(argv[2], ids, base.rows, degree);
	return 0;
}
