/*
 * files.c - reads and writes vectors and graphs in the file formats of common benchmarks.
 */
#include "paper/files.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <fcntl.h>

#include "space/form.h"
#include "space/space.h"
#include "paper/options.h"

typedef struct Mapped
{
	const char *path;
	const uint8_t *bytes;
	size_t		size;
} Mapped;

static bool
map_file(const char *path, Mapped *file)
{
	struct stat st;
	int			fd = open(path, O_RDONLY | O_CLOEXEC);
	void	   *p = NULL;

	if (fd < 0 || fstat(fd, &st) != 0)
	{
		grn_cli_error("cannot read %s: %s", path, strerror(errno));
		if (fd >= 0)
			close(fd);
		return false;
	}
	if (!S_ISREG(st.st_mode))
	{
		grn_cli_error("cannot read %s: not a plain file", path);
		close(fd);
		return false;
	}
	file->path = path;
	file->size = (size_t) st.st_size;
	if (file->size > 0)
		p = mmap(NULL, file->size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (p == MAP_FAILED)
	{
		grn_cli_error("cannot read %s: %s", path, strerror(errno));
		return false;
	}
	file->bytes = p;
	return true;
}

static void
unmap_file(Mapped *file)
{
	if (file->bytes)
		munmap((void *) file->bytes, file->size);
}

/* The arrangement of rows in a file. */
typedef struct FileShape
{
	size_t		n;
	uint32_t	dim;
	size_t		first;			/* offset of the first row's first value, in bytes */
	size_t		step;			/* bytes from row to row */
	bool		bytes;			/* values are bytes instead of floats */
} FileShape;

static bool
ends_with(const char *path, const char *ending)
{
	size_t		n = strlen(path);
	size_t		m = strlen(ending);

	return n > m && strcmp(path + n - m, ending) == 0;
}

static bool
find_shape(const Mapped *file, FileShape *shape)
{
	bool		vecs = ends_with(file->path, ".fvecs") || ends_with(file->path, ".bvecs");
	bool		bin = ends_with(file->path, ".fbin") || ends_with(file->path, ".u8bin");
	size_t		head = vecs ? 4 : 8;
	int32_t		ints[2];
	int32_t		dim;

	if (!vecs && !bin)
	{
		grn_cli_error("%s: the name must end with .fvecs, .bvecs, .fbin or .u8bin", file->path);
		return false;
	}
	if (file->size < head)
	{
		grn_cli_error("%s: has no rows", file->path);
		return false;
	}
	shape->bytes = ends_with(file->path, ".bvecs") || ends_with(file->path, ".u8bin");
	memcpy(ints, file->bytes, head);
	dim = vecs ? ints[0] : ints[1];
	if (dim < 1 || dim > GRN_MAX_DIM)
	{
		grn_cli_error("%s: says that rows have %d dimensions (1 to %d are possible)",
					  file->path, dim, GRN_MAX_DIM);
		return false;
	}
	shape->dim = (uint32_t) dim;
	shape->first = head;
	shape->step = (size_t) dim * (shape->bytes ? 1 : 4) + (vecs ? 4 : 0);
	if (vecs)
	{
		shape->n = file->size / shape->step;
		if (file->size % shape->step != 0)
		{
			grn_cli_error("%s: cut short, or rows of different dimensions: %zu bytes are no whole number of rows of %d dimensions",
						  file->path, file->size, dim);
			return false;
		}
	}
	else
	{
		if (ints[0] < 1)
		{
			grn_cli_error("%s: has no rows", file->path);
			return false;
		}
		shape->n = (size_t) ints[0];
		if ((file->size - head) / shape->step < shape->n)
		{
			grn_cli_error("%s: cut short: holds %zu of %zu rows", file->path,
						  (file->size - head) / shape->step, shape->n);
			return false;
		}
	}
	if (shape->n >= GRN_MAX_NODES)
	{
		grn_cli_error("%s: has more than %u rows", file->path, GRN_MAX_NODES - 1);
		return false;
	}
	return true;
}

static bool
read_rows(const Mapped *file, const FileShape *shape, const GrnMetricInfo *metric, GrnVectors *v)
{
	bool		vecs = shape->first == 4;

	for (size_t i = 0; i < v->n; i++)
	{
		const uint8_t *from = file->bytes + shape->first + i * shape->step;
		float	   *x = v->base + i * v->stride;
		double		norm2 = 0;

		if (vecs && memcmp(from - 4, &v->dim, 4) != 0)
		{
			grn_cli_error("%s: row %zu has other dimensions than the first", file->path, i + 1);
			return false;
		}
		if (shape->bytes)
			for (uint32_t j = 0; j < v->dim; j++)
				x[j] = from[j];
		else
			memcpy(x, from, 4 * (size_t) v->dim);
		for (uint32_t j = 0; j < v->dim; j++)
			norm2 += (double) x[j] * x[j];
		if (!isfinite(norm2))
		{
			grn_cli_error("%s: row %zu holds a value that is NaN or infinite", file->path, i + 1);
			return false;
		}
		if (metric->normalized && !grn_form_normalize(GRN_FORM_FLOATS, x, v->dim))
		{
			grn_cli_error("%s: row %zu is zero, which has no %s", file->path, i + 1, grn_metric_name(metric));
			return false;
		}
	}
	return true;
}

bool
grn_read_vectors(const char *path, const GrnMetricInfo *metric, size_t most, GrnVectors *out)
{
	Mapped		file = {0};
	FileShape	shape;
	bool		fine = false;

	memset(out, 0, sizeof(*out));
	if (!map_file(path, &file))
		return false;
	if (find_shape(&file, &shape))
	{
		out->n = most && most < shape.n ? most : shape.n;
		out->dim = shape.dim;
		out->stride = (grn_row_floats(metric, shape.dim) + 3) & ~(size_t) 3;
		out->base = mmap(NULL, out->n * out->stride * 4, PROT_READ | PROT_WRITE,
						 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (out->base == MAP_FAILED)
		{
			out->base = NULL;
			grn_cli_error("%s: out of memory for %zu rows of %u dimensions", path, out->n, out->dim);
		}
		else
			fine = read_rows(&file, &shape, metric, out);
	}
	unmap_file(&file);
	if (!fine)
		grn_free_vectors(out);
	return fine;
}

void
grn_free_vectors(GrnVectors *v)
{
	if (v->base)
		munmap(v->base, v->n * v->stride * 4);
	v->base = NULL;
}

bool
grn_read_ibin(const char *path, int32_t **values, size_t *rows, size_t *columns)
{
	Mapped		file = {0};
	int32_t		ints[2];
	size_t		bytes;

	if (!map_file(path, &file))
		return false;
	if (file.size < sizeof(ints))
	{
		grn_cli_error("%s: cut short", path);
		unmap_file(&file);
		return false;
	}
	memcpy(ints, file.bytes, sizeof(ints));
	if (ints[0] < 1 || ints[1] < 1)
	{
		grn_cli_error("%s: says that it has %d rows of %d columns", path, ints[0], ints[1]);
		unmap_file(&file);
		return false;
	}
	*rows = (size_t) ints[0];
	*columns = (size_t) ints[1];
	bytes = *rows * *columns * sizeof(int32_t);
	if (file.size - sizeof(ints) < bytes)
	{
		grn_cli_error("%s: cut short: %zu bytes where %zu rows of %zu columns take %zu",
					  path, file.size, *rows, *columns, bytes + sizeof(ints));
		unmap_file(&file);
		return false;
	}
	*values = malloc(bytes);
	if (*values)
		memcpy(*values, file.bytes + sizeof(ints), bytes);
	else
		grn_cli_error("%s: out of memory", path);
	unmap_file(&file);
	return *values != NULL;
}

bool
grn_write_graph(const char *path, const GrnGraph *graph)
{
	FILE	   *f = fopen(path, "wb");
	int32_t		head[2] = {(int32_t) graph->n, (int32_t) graph->degree};
	bool		fine = f && fwrite(head, sizeof(head), 1, f) == 1;

	for (size_t v = 0; fine && v < graph->n; v++)
	{
		int32_t		row[GRN_MAX_DEGREE];

		for (uint32_t i = 0; i < graph->degree; i++)
			row[i] = i < graph->counts[v] ? (int32_t) graph->ids[v * graph->degree + i] : -1;
		fine = fwrite(row, 4 * (size_t) graph->degree, 1, f) == 1;
	}
	if (f && fclose(f) != 0)
		fine = false;
	if (!fine)
		grn_cli_error("cannot write %s: %s", path, strerror(errno));
	return fine;
}

bool
grn_take_metric(void *target, const char *name)
{
	const GrnMetricInfo *metric = grn_metric_named(name);

	if (!metric)
		grn_cli_error("--metric cannot be \"%s\" (see --help)", name);
	else
		*(const GrnMetricInfo **) target = metric;
	return metric != NULL;
}
