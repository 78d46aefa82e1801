/*
 * fuzz_files.c - files of vectors and of neighbors, of any bytes.
 */
#include "fuzz.h"

#include <fcntl.h>
#include <stdarg.h>
#include <unistd.h>

#include "paper/files.h"
#include "paper/options.h"

/* Messages go nowhere, but are formed. */
void
grn_cli_error(const char *format,...)
{
	char		text[1024];
	va_list		args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const endings[] = {"fvecs", "bvecs", "fbin", "u8bin", "other"};
	static const uint32_t metrics[] = {1, 2, 3, 4, 6, 7};
	Input		in = {data, size};
	char		path[64];
	const char *ending = endings[take_number(&in, 0, 4)];
	const GrnMetricInfo *metric = grn_metric(metrics[take_number(&in, 0, 5)]);
	size_t		most = take_number(&in, 0, 3);
	GrnVectors	v;
	int32_t    *values;
	volatile int32_t last;
	size_t		rows;
	size_t		columns;
	int			f;

	snprintf(path, sizeof(path), "/dev/shm/fuzz-%d.%s", (int) getpid(), ending);
	f = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	MUST(f >= 0 && write(f, in.data, in.size) == (ssize_t) in.size);
	close(f);
	if (grn_read_vectors(path, metric, most, &v))
	{
		for (size_t i = 0; i < v.n; i++)
			for (uint32_t j = 0; j < v.dim; j++)
				MUST(isfinite(v.base[i * v.stride + j]));
		grn_free_vectors(&v);
	}
	if (grn_read_ibin(path, &values, &rows, &columns))
	{
		MUST(rows > 0 && columns > 0);
		last = values[rows * columns - 1];
		(void) last;
		free(values);
	}
	unlink(path);
	return 0;
}
