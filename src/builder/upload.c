/*
 * upload.c - copies rows to a GPU.
 */
#include "builder/gpus.h"

#include <stdio.h>
#include <stdlib.h>


/* Bytes of the buffer that collects rows for the GPU if rows are scattered or scaled. */
#define STAGE_BYTES ((size_t) 64 << 20)
/*
 * Bytes of rows copied straight to the GPU between two reports of progress.  A million SIFT rows
 * take .0125 s, with half and twice .014 and .0135 s.
 */
#define PIECE_BYTES ((size_t) 256 << 20)
#define AHEAD_BYTES ((size_t) 16 << 20) /* the same if the rows are on a disk, where the next piece
										 * is read ahead */

void
grn_copy_rows(const GrnRows *rows, size_t first, size_t count, float *out)
{
	for (size_t i = 0; i < count; i++)
		grn_row_place(rows, grn_row(rows, first + i), 0, rows->dim, out + i * rows->dim);
}

typedef struct Stage
{
	const GrnRows *rows;
	size_t		first;
	float	   *out;
} Stage;

static void
stage_range(void *arg, int worker, size_t begin, size_t end)
{
	const Stage *stage = arg;

	(void) worker;
	grn_copy_rows(stage->rows, stage->first + begin, end - begin,
				  stage->out + begin * stage->rows->dim);
}

/* Requests the piece of rows behind this piece, and for the first piece this piece too. */
static void
request_next_piece(const GrnRows *rows, size_t first, size_t piece)
{
	size_t		begin = first == 0 ? 0 : first + piece;
	size_t		end = first + 2 * piece < rows->n ? first + 2 * piece : rows->n;

	grn_prefetch_rows(rows, begin, end);
}

GrnGpuStatus
grn_upload(GrnGpu *gpu, const GrnRows *rows, GrnParallel *parallel, GrnProgress *progress,
		   GrnGpuError *err)
{
	size_t		piece = STAGE_BYTES / (4 * (size_t) rows->dim);
	GrnGpuStatus status = GRN_GPU_OK;
	Stage		stage = {rows, 0, NULL};
	GrnGpuSource source = grn_gpu_source(rows);

	grn_progress_done(progress, 0, rows->n);
	if (grn_gpu_takes(rows) &&
		(grn_gpu_expands(&source) || (!rows->order && !grn_is_scaled(rows->embedding))))
	{
		piece = (rows->on_disk ? AHEAD_BYTES : PIECE_BYTES) / rows->row_bytes + 1;
		for (size_t first = 0; first < rows->n && status == GRN_GPU_OK; first += piece)
		{
			if (rows->on_disk)
				request_next_piece(rows, first, piece);
			status = grn_gpu_rows_from(gpu, &source, first,
									   rows->n - first < piece ? rows->n - first : piece, err);
			grn_progress_done(progress, first + piece, rows->n);
		}
		return status;
	}
	if (piece == 0)
		piece = 1;
	if (piece > rows->n)
		piece = rows->n;
	stage.out = malloc(piece * rows->dim * sizeof(float));
	if (!stage.out)
	{
		snprintf(err->text, sizeof(err->text), "out of host memory");
		return GRN_GPU_FAILED;
	}
	for (; stage.first < rows->n && status == GRN_GPU_OK; stage.first += piece)
	{
		size_t		count = rows->n - stage.first < piece ? rows->n - stage.first : piece;

		if (rows->on_disk)
			request_next_piece(rows, stage.first, piece);
		parallel->run(parallel, count, GRN_GRAIN, stage_range, &stage);
		status = grn_gpu_rows(gpu, stage.first, count, stage.out, rows->dim, err);
		grn_progress_done(progress, stage.first + count, rows->n);
	}
	free(stage.out);
	return status;
}

bool
grn_gpu_takes(const GrnRows *rows)
{
	return grn_form(rows->form)->numbers != GRN_NUMBERS_NONE;
}

GrnGpuSource
grn_gpu_source(const GrnRows *rows)
{
	const GrnFormInfo *form = grn_form(rows->form);
	GrnGpuSource source = {rows->base, rows->order, rows->row_bytes, form->head, 0,
		form->numbers};

	if (grn_is_scaled(rows->embedding))
		source.scale = (uint32_t) (grn_row_scale_offset(rows) + offsetof(GrnScale, scale));
	return source;
}

/*
 * Digests of bits are the rows themselves.  Up to GRN_GPU_MOST_BITS bits such digests take no more
 * memory than projected digests.  Rows of few bits have byte digests, because bytes are exact for
 * these rows and no digest is shorter.
 */
bool
grn_has_bit_digests(const GrnRows *rows)
{
	GrnGpuSource source = grn_gpu_source(rows);

	return source.numbers == GRN_NUMBERS_BITS && source.head == 0 && source.scale == 0 &&
		rows->dim > GRN_GPU_EXACT_DIMS && rows->dim <= GRN_GPU_MOST_BITS;
}

/*
 * In the space of the inner product, long rows lie in the middle and are near all rows.  With more
 * directions this effect grows, and more rows are in no list (test/bench/decisions.md).
 */
bool
grn_few_directions(const GrnRows *rows)
{
	return grn_is_scaled(rows->embedding);
}
