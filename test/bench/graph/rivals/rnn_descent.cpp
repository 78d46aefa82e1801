/*
 * rnn_descent.cpp - builds a graph with RNN-Descent's reference and writes it as
 * .ibin, each list cut to the degree its search uses.
 *
 *   rnn_descent BASE.fbin GRAPH.ibin THREADS DEGREE
 *
 * Prints "seconds X".  Distances are a loop over floats that the compiler turns into
 * the widest vector instructions of this machine, as in Faiss.
 */
#include <faiss/impl/DistanceComputer.h>
#include <omp.h>
#include <rnn-descent/RNNDescent.h>

#include <algorithm>

#include "matrix.h"

struct L2 : faiss::DistanceComputer
{
	const Matrix &base;

	explicit L2(const Matrix &m) : base(m) {}
	void set_query(const float *) override {}
	float operator()(faiss::idx_t) override { return 0; }
	float symmetric_dis(faiss::idx_t i, faiss::idx_t j) override
	{
		const float *a = &base.x[(size_t) i * base.columns];
		const float *b = &base.x[(size_t) j * base.columns];
		float		sum = 0;

#pragma omp simd reduction(+ : sum)
		for (uint32_t d = 0; d < base.columns; d++)
			sum += (a[d] - b[d]) * (a[d] - b[d]);
		return sum;
	}
};

int
main(int argc, char **argv)
{
	if (argc != 5)
		stop("rnn_descent", "usage: rnn_descent BASE.fbin GRAPH.ibin THREADS DEGREE");
	Matrix		base = read_fbin(argv[1]);
	uint32_t	degree = (uint32_t) atoi(argv[4]);
	rnndescent::RNNDescent builder((int) base.columns);
	L2			distances(base);

	omp_set_num_threads(atoi(argv[3]));
	builder.S = 20;				/* its own benchmark's settings */
	builder.R = 96;
	builder.T1 = 4;
	builder.T2 = 15;
	double		start = seconds();

	builder.build(distances, (int) base.rows, false);
	printf("seconds %.3f\n", seconds() - start);

	std::vector<int32_t> ids((size_t) base.rows * degree, -1);

	for (uint32_t i = 0; i < base.rows; i++)
	{
		uint32_t	count = (uint32_t) (builder.offsets[i + 1] - builder.offsets[i]);

		std::copy_n(&builder.final_graph[builder.offsets[i]], std::min(count, degree),
					&ids[(size_t) i * degree]);
	}
	write_ibin(argv[2], ids, base.rows, degree);
	return 0;
}
