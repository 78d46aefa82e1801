/*
 * staging.cu - copies between the host's pageable memory and devices, by several threads
 * through pinned buffers.  One thread alone fills buffers at a fifth of the speed of the
 * bus.
 */
#include <string.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <new>
#include <thread>

#include "handle.h"

/*
 * Fewer bytes are copied by one thread.  Half and twice take as long (a million SIFT rows, 200,000
 * GIST rows).
 */
constexpr size_t COPY_ALONE = (size_t) 512 << 10;

namespace
{
/* One copy.  Rows are copied in pieces of at most one buffer. */
struct Job
{
	const CopyTarget   *targets; /* one target, or several for staging_spread() */
	int					ntargets;
	int					device; /* device of the first target */
	bool				to_device;
	uint8_t			   *h_rows;
	const uint32_t	   *index;				/* [rows] or NULL */
	size_t				width, pitch, rows; /* as the arguments of staging_copy() */
	size_t				piece;				/* rows of a piece */
	std::atomic<size_t> next;				/* the next piece for a thread to take */
	std::atomic<int>	failed;				/* the first cudaError_t */
	std::atomic<int>	at;					/* the target of the first error */
};

/* Copies rows [first, first + count) between the host's memory and a buffer. */
void
repack(const Job &job, uint8_t *h_buffer, size_t first, size_t count)
{
	uint8_t *h = job.h_rows + (job.index ? 0 : first * job.pitch);

	if (job.index)
	{
		const uint32_t *index = job.index + first;

		for (size_t i = 0; i < count; i++, h_buffer += job.width)
			if (!job.to_device)
				memcpy(h + index[i] * job.pitch, h_buffer, job.width);
			else if (index[i] != GRN_INVALID_ID)
				memcpy(h_buffer, h + index[i] * job.pitch, job.width);
			else
				memset(h_buffer, 0xFF, job.width);
		return;
	}
	if (job.width == job.pitch)
	{
		if (job.to_device)
			memcpy(h_buffer, h, count * job.width);
		else
			memcpy(h, h_buffer, count * job.width);
		return;
	}
	for (size_t i = 0; i < count; i++)
		if (job.to_device)
			memcpy(h_buffer + i * job.width, h + i * job.pitch, job.width);
		else
			memcpy(h + i * job.pitch, h_buffer + i * job.width, job.width);
}

/*
 * Copies pieces until no piece is left, as thread `me`.  `at` is the target of the
 * current call, for error reports.
 */
cudaError_t
work(Job &job, int me, int &at)
{
	Staging &s = *job.targets[0].staging;
	size_t	 first[2] = {0, 0},
		   count[2] = {0, 0}; /* rows that a buffer is receiving from the device */

	GRN_TRY(cudaSetDevice(job.device));
	for (int b = 0;; b ^= 1)
	{
		size_t begin = job.next.fetch_add(1) * job.piece;
		bool   any = begin < job.rows && job.failed == cudaSuccess;

		for (at = job.ntargets - 1; at >= 0; at--)
			GRN_TRY(cudaEventSynchronize(job.targets[at].staging->done[me][b]));
		at = 0;
		if (count[b] > 0)
		{
			repack(job, s.h_buffer[me][b], first[b], count[b]);
			count[b] = 0;
		}
		if (!any)
		{
			if (count[b ^ 1] == 0)
				return cudaSuccess;
			continue;
		}
		size_t n = job.rows - begin < job.piece ? job.rows - begin : job.piece;

		if (job.to_device)
			repack(job, s.h_buffer[me][b], begin, n);
		else
		{
			first[b] = begin;
			count[b] = n;
		}
		for (at = 0; at < job.ntargets; at++)
		{
			const CopyTarget &t = job.targets[at];
			uint8_t			 *d = t.d_rows + begin * job.width;

			if (job.to_device)
				GRN_TRY(cudaMemcpyAsync(d, s.h_buffer[me][b], n * job.width,
										cudaMemcpyHostToDevice, t.staging->stream[me]));
			else
				GRN_TRY(cudaMemcpyAsync(s.h_buffer[me][b], d, n * job.width,
										cudaMemcpyDeviceToHost, t.staging->stream[me]));
			GRN_TRY(cudaEventRecord(t.staging->done[me][b], t.staging->stream[me]));
		}
	}
}

void
run(Job &job, int me)
{
	int at = 0, rc = work(job, me, at), none = cudaSuccess;

	if (rc != cudaSuccess && job.failed.compare_exchange_strong(none, rc))
		job.at = at;
}
} // namespace

/*
 * Threads that help with large copies.  The threads live until the handle is closed,
 * because starting and ending a thread maps and unmaps its stack, which stops all other
 * threads of the process and slows down builds on several GPUs.
 */
struct Copiers
{
	std::mutex				mutex;
	std::condition_variable work, done;
	Job					   *job = nullptr; /* the copy to help with; NULL: none */
	uint64_t				number = 0;	   /* number of the job */
	int						busy = 0;
	bool					stop = false;
	std::thread				threads[COPY_THREADS];

	Copiers()
	{
		for (int i = 1; i < COPY_THREADS; i++)
		{
			try
			{
				threads[i] = std::thread(&Copiers::help, this, i);
			}
			catch (...)
			{
				break; /* The remaining threads do the work. */
			}
		}
	}

	~Copiers()
	{
		{
			std::lock_guard<std::mutex> lock(mutex);
			stop = true;
		}
		work.notify_all();
		for (std::thread &t : threads)
			if (t.joinable())
				t.join();
	}

	void help(int me)
	{
		std::unique_lock<std::mutex> lock(mutex);

		for (uint64_t seen = 0;;)
		{
			work.wait(lock, [&] { return stop || (job && number != seen); });
			if (stop)
				return;
			Job *mine = job;

			seen = number;
			busy++;
			lock.unlock();
			run(*mine, me);
			lock.lock();
			if (--busy == 0)
				done.notify_one();
		}
	}

	/* Does the job, together with the threads that wake up before the end of the job. */
	void share(Job &all)
	{
		{
			std::lock_guard<std::mutex> lock(mutex);
			job = &all;
			number++;
		}
		work.notify_all();
		run(all, 0);

		std::unique_lock<std::mutex> lock(mutex);

		job = nullptr;
		done.wait(lock, [&] { return busy == 0; });
	}
};

cudaError_t
staging_open(Staging *staging, size_t bytes)
{
	memset(staging, 0, sizeof(*staging));
	staging->bytes = bytes;
	for (int i = 0; i < COPY_THREADS; i++)
	{
		GRN_TRY(cudaStreamCreateWithFlags(&staging->stream[i], cudaStreamNonBlocking));
		for (int b = 0; b < 2; b++)
		{
			GRN_TRY(cudaHostAlloc((void **) &staging->h_buffer[i][b], bytes,
								  cudaHostAllocDefault));
			GRN_TRY(
				cudaEventCreateWithFlags(&staging->done[i][b], cudaEventDisableTiming));
		}
	}
	staging->copiers = new (std::nothrow) Copiers();
	return staging->copiers ? cudaSuccess : cudaErrorMemoryAllocation;
}

void
staging_close(Staging *staging)
{
	delete staging->copiers;
	for (int i = 0; i < COPY_THREADS; i++)
	{
		for (int b = 0; b < 2; b++)
		{
			if (staging->h_buffer[i][b])
				cudaFreeHost(staging->h_buffer[i][b]);
			if (staging->done[i][b])
				cudaEventDestroy(staging->done[i][b]);
		}
		if (staging->stream[i])
			cudaStreamDestroy(staging->stream[i]);
	}
	memset(staging, 0, sizeof(*staging));
}

/* Completes the fields of a job and runs the job. */
static cudaError_t
copy_all(Job &job)
{
	Staging *staging = job.targets[0].staging;

	/* Pieces of a small copy are small enough for each thread to get one. */
	job.piece = staging->bytes / job.width;
	if (job.piece > (job.rows + COPY_THREADS - 1) / COPY_THREADS)
		job.piece = (job.rows + COPY_THREADS - 1) / COPY_THREADS;
	job.next = 0;
	job.failed = cudaSuccess;
	job.at = 0;
	if (job.rows * job.width >= COPY_ALONE)
		staging->copiers->share(job);
	else
		run(job, 0);
	return (cudaError_t) job.failed.load();
}

cudaError_t
staging_copy(Staging *staging, int device, bool to_device, void *d_rows, void *h_rows,
			 size_t width, size_t pitch, size_t rows, const uint32_t *index)
{
	CopyTarget target = {staging, (uint8_t *) d_rows};
	Job		   job;

	if (rows == 0 || width == 0)
		return cudaSuccess;
	job.targets = &target;
	job.ntargets = 1;
	job.device = device;
	job.to_device = to_device;
	job.h_rows = (uint8_t *) h_rows;
	job.index = index;
	job.width = width;
	job.pitch = pitch;
	job.rows = rows;
	return copy_all(job);
}

cudaError_t
staging_spread(const CopyTarget *targets, int ntargets, int device, void *h_rows,
			   size_t width, size_t rows, int *failed)
{
	Job job;

	job.targets = targets;
	job.ntargets = ntargets;
	job.device = device;
	job.to_device = true;
	job.h_rows = (uint8_t *) h_rows;
	job.index = NULL;
	job.width = job.pitch = width;
	job.rows = rows;
	cudaError_t rc = copy_all(job);

	*failed = job.at;
	/* Wait after a failure, too: no copy may read the buffers after the function returns. */
	for (int i = 0; i < ntargets; i++)
	{
		cudaError_t waited = staging_wait(targets[i].staging);

		if (rc == cudaSuccess && waited != cudaSuccess)
			*failed = i;
		rc = rc == cudaSuccess ? waited : rc;
	}
	return rc;
}

cudaError_t
staging_wait(Staging *staging)
{
	for (int i = 0; i < COPY_THREADS; i++)
		GRN_TRY(cudaStreamSynchronize(staging->stream[i]));
	return cudaSuccess;
}
