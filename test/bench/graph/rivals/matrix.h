/*
 * matrix.h - what the drivers of other libraries share: .fbin in, .ibin out, a
 * clock.  Files: int32 rows, int32 columns, then the rows.
 */
#ifndef BENCH_MATRIX_H
#define BENCH_MATRIX_H

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

struct Matrix
{
	uint32_t	rows,
				columns;
				std::vector < float >x;
};

static inline void
stop(const char *path, const char *what)
{
	fprintf(stderr, "%s: %s\n", path, what);
	exit(1);
}

static inline Matrix
read_fbin(const char *path)
{
	FILE	   *f = fopen(path, "rb");
	Matrix		m;

	if (!f)
		stop(path, "cannot open");
	if (fread(&m.rows, 4, 1, f) != 1 || fread(&m.columns, 4, 1, f) != 1)
		stop(path, "cut short");
	m.x.resize((size_t) m.rows * m.columns);
	if (fread(m.x.data(), 4, m.x.size(), f) != m.x.size())
		stop(path, "cut short");
	fclose(f);
	return m;
}

/* ids [rows][columns], -1 after a row's last neighbor. */
static inline void
write_ibin(const char *path, const std::vector < int32_t >&ids, uint32_t rows, uint32_t columns)
{
	FILE	   *f = fopen(path, "wb");

	if (!f)
		stop(path, "cannot write");
	if (fwrite(&rows, 4, 1, f) != 1 || fwrite(&columns, 4, 1, f) != 1 ||
		fwrite(ids.data(), 4, ids.size(), f) != ids.size() || fclose(f) != 0)
		stop(path, "cannot write");
}

static inline double
seconds()
{
return std::chrono::duration < double >(std::chrono::steady_clock::now().time_since_epoch()).count();
}

#endif
