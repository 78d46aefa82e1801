/*
 * gpus.h - the GPUs that this process has opened.
 */
#ifndef GRN_GPUS_H
#define GRN_GPUS_H

#include <pthread.h>

#include "builder/host.h"
#include "cuda/gpu.h"
#include "space/rows.h"

/* The devices that may build a graph, with their limits. */
typedef struct GrnDeviceChoice
{
	uint32_t	device;			/* GrnDevice */
	const char *gpu_devices;	/* such as "0,1"; empty or NULL: the first GPU */
	GrnGpuOptions options;
	uint64_t	work_limit;		/* limit of the workspace in bytes if cores build; 0: free memory */
	float		overlap;		/* share of rows that are in two parts; 0: the default */
} GrnDeviceChoice;

/*
 * Opens all GPUs of the choice.  Sets *gpu to the first, or to NULL if the processor builds, and
 * `name` to a description of the devices.  Errors: SQLSTATE 22023, and the errors of
 * grn_gpu_refused() if the choice demands a GPU.
 */
extern bool grn_device_open(const GrnDeviceChoice *choice, int threads,
							const GrnHost *host, GrnGpu **gpu, char *name,
							size_t name_size, GrnFailure *failure);
/* Returns the number of open GPUs. */
extern int	grn_open_gpus(void);
#define GRN_HANDLES 2			/* handles of a device */
/*
 * Returns handle number `handle` of device i.  The first handle is always open.  The second has
 * streams and buffers of its own and is opened at the first call.  Returns NULL if the handle
 * cannot be opened.
 */
extern GrnGpu *grn_open_handle(int i, int handle);
/* Returns a handle only if the handle is open already, otherwise NULL. */
extern GrnGpu *grn_handle(int i, int handle);
/* Closes all open handles. */
extern void grn_device_close(void);
/* Fills *failure for an error of a GPU, with the SQLSTATE of the error's kind.  Returns false. */
extern bool grn_gpu_refused(GrnFailure *failure, const GrnGpuError *err);

/* list_gpus.c: the list of GPUs for grnnd_devices(). */

/* Prints the list.  Returns the exit status. */
extern int	grn_list_gpus(void);

/* gpu_team.c: the open GPUs that share the steps of a build; a GPU that fails is left out. */

/* The open GPUs, by their numbers in gpus.h. */
typedef struct GrnTeam
{
	int			n;
	bool		lost[GRN_MAX_GPUS]; /* the device has failed in an earlier step and is not used any
									 * more */
	bool		failing[GRN_MAX_GPUS];	/* the device has failed in the running step */
	const GrnHost *host;
	uint64_t	peak_bytes;		/* largest number of bytes that the handles of a single GPU held
								 * together in any finished step */
} GrnTeam;

/* Marks a failed device as lost, and sends a notice. */
extern void grn_team_lose(GrnTeam *team, int device, const GrnGpuError *err);
/* Whether a device is still usable.  Any thread may call this function. */
extern bool grn_team_has(const GrnTeam *team, int device);
/* Updates peak_bytes after a step. */
extern void grn_team_note_peak(GrnTeam *team);

/* Functions of a thread: before its first item, and for each item.  On failure err is filled. */
typedef GrnGpuStatus (*GrnBeginFn) (void *ctx, int device, GrnGpu *gpu, GrnGpuError *err);
typedef GrnGpuStatus (*GrnItemFn) (void *ctx, int device, GrnGpu *gpu, size_t item,
								   GrnGpuError *err);

#define GRN_TEAM_THREADS (GRN_MAX_GPUS * GRN_HANDLES)

typedef struct GrnTeamThread
{
	struct GrnTeamStep *step;
	int			device;
	int			handle;
	pthread_t	thread;
} GrnTeamThread;

/* A step of a build: items that the team's devices take. */
typedef struct GrnTeamStep
{
	GrnTeam    *team;
	GrnBeginFn	begin;			/* may be NULL */
	GrnItemFn	item;
	void	   *ctx;
	pthread_mutex_t mutex;		/* protects the fields below */
	pthread_cond_t changed;
	size_t		nitems;
	size_t		next;			/* first item that no thread has taken */
	size_t		returned[GRN_TEAM_THREADS]; /* items that failed devices have given back */
	int			nreturned;
	int			busy;			/* threads that hold an item */
	GrnTeamThread threads[GRN_TEAM_THREADS];
	int			nthreads;
	GrnGpuError err;			/* error of the device that failed last */
} GrnTeamStep;

/*
 * Starts item() for 0 .. nitems - 1, in ascending order, on all usable devices.  Each device has
 * `handles` threads, and each thread has a handle of its own.  A device that fails gives its item
 * back and takes no more items.
 */
extern void grn_team_start(GrnTeamStep *step, GrnTeam *team, int handles, size_t nitems,
						   GrnBeginFn begin, GrnItemFn item, void *ctx);
/*
 * Waits for the end of the step.  If items are left, the status is the error of the device that
 * failed last.  Otherwise the status is GRN_GPU_OK, and devices that failed are lost to later
 * steps.
 */
extern GrnGpuStatus grn_team_finish(GrnTeamStep *step, GrnGpuError *err);

/* upload.c: copies rows to a GPU. */

/*
 * Copies rows to the GPU for a build.  A buffer on the host collects rows that are scattered or
 * scaled, or whose form no device takes.  The device itself expands rows of shorter forms.
 * progress: the progress of the enclosing step, or NULL.
 */
extern GrnGpuStatus grn_upload(GrnGpu *gpu, const GrnRows *rows, GrnParallel *parallel, GrnProgress *progress,
							   GrnGpuError *err);
/* Whether a device takes rows of this form without conversion. */
extern bool grn_gpu_takes(const GrnRows *rows);
/* Describes the rows to the GPU: address, order, stride, and kind of numbers. */
extern GrnGpuSource grn_gpu_source(const GrnRows *rows);
/* Whether the digests of the rows can be GRN_GPU_BIT_DIGESTS. */
extern bool grn_has_bit_digests(const GrnRows *rows);
/* Whether a GPU build of the rows needs GrnGpuFit.few_directions. */
extern bool grn_few_directions(const GrnRows *rows);
/* Computes the places of rows [first, first + count), and writes them to out [count][dim]. */
extern void grn_copy_rows(const GrnRows *rows, size_t first, size_t count, float *out);

#endif							/* GRN_GPUS_H */
