/*
 * fuzz_builder.c - messages of any kind to the builder: its listener, on one thread.  Where it
 * would exit it leaves here.
 */
#include "fuzz.h"

#include <setjmp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static jmp_buf left;

static void leave(int status) __attribute__((noreturn));
static void
leave(int status)
{
	(void) status;
	longjmp(left, 1);
}

/* After a violation the builder reads on until the leader closes: here, until all is read. */
static ssize_t
receive_or_leave(int fd, struct msghdr *head, int flags)
{
	ssize_t		got = recvmsg(fd, head, flags | MSG_DONTWAIT);

	if (got < 0)
		leave(1);
	return got;
}

#define _exit leave
#define recvmsg receive_or_leave
#define pause() leave(1)
#include "builder/serve.c"
#undef _exit
#undef recvmsg
#undef pause

/* A number that an argument may be. */
static uint64_t
take_argument(Input *in)
{
	return take_number(in, 0, 8) > 0 ? (uint64_t) take_number(in, 0, 20) << (12 * take_number(in, 0, 4))
		: UINT64_MAX - take_number(in, 0, 8191);
}

/* One message of the input; with or without a descriptor, and of any length. */
static void
send_one(Input *in, int fd)
{
	static const uint32_t types[] = {GRN_MSG_START, GRN_MSG_EXTENT, GRN_MSG_ROWS, GRN_MSG_BUILD, GRN_MSG_GRANT,
		GRN_MSG_RELEASE};
	union
	{
		struct cmsghdr align;
		char		space[CMSG_SPACE(sizeof(int))];
	}			control = {0};
	GrnMsg		msg = {0};
	struct iovec iov = {&msg, sizeof(msg)};
	struct msghdr head = {.msg_iov = &iov, .msg_iovlen = 1};
	uint32_t	kind = take_number(in, 0, 15);
	int			file = -1;

	msg.type = kind < 6 ? types[kind] : kind < 10 ? GRN_MSG_EXTENT : kind < 14 ? GRN_MSG_START
		: take_number(in, 0, 100);
	for (int i = 0; i < 4; i++)
		msg.arg[i] = take_argument(in);
	if (msg.type == GRN_MSG_START)
	{
		msg.u.spec.version = take_number(in, 0, 7) ? GRN_PROTOCOL_VERSION : take_number(in, 0, 9);
		msg.u.spec.metric = take_number(in, 0, 9);
		msg.u.spec.dim = take_number(in, 0, 65535);
		msg.u.spec.form = take_number(in, 0, 6);
		msg.u.spec.row_bytes = take_number(in, 0, 65535);
		msg.u.spec.device = take_number(in, 0, 3);
		msg.u.spec.threads = take_number(in, 0, 5000);
		for (int i = 0; i < GRN_NSEGMENTS; i++)
			msg.u.spec.segment_max[i] = take_number(in, 0, 8) > 0 ? (uint64_t) take_number(in, 0, 64) << 12 : UINT64_MAX;
	}
	if (take_number(in, 0, 9) == 9)
		iov.iov_len = take_number(in, 1, sizeof(msg));
	if ((msg.type == GRN_MSG_EXTENT) == (take_number(in, 0, 9) != 9))
	{
		struct cmsghdr *c;

		file = memfd_create("fuzz", MFD_CLOEXEC);
		MUST(file >= 0 && ftruncate(file, 65536) == 0);
		head.msg_control = &control;
		head.msg_controllen = sizeof(control);
		c = CMSG_FIRSTHDR(&head);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &file, sizeof(file));
	}
	(void) !sendmsg(fd, &head, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (file >= 0)
		close(file);
}

/* Takes what has been sent; a build begins and is over at once. */
static void
serve(Server *s, bool last)
{
	struct pollfd p = {s->fd, POLLIN, 0};

	while (poll(&p, 1, 0) > 0)
	{
		receive(s);
		if (s->started && s->build)
		{
			if (!spec_makes_sense(s))
				violation(s, "a START that makes no sense");
			s->started = s->build = false;
		}
	}
	MUST(!last);				/* the end of file would have left */
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Input		in = {data, size};
	static Server server;
	static int	failures;
	volatile bool lost = false;
	int			pair[2];
	int			first;
	GrnMsg		msg;

	memset(&server, 0, sizeof(server));
	MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	first = pair[0];
	MUST(pair[1] == first + 1);
	server.fd = pair[0];
	server.listener = pthread_self();
	pthread_mutex_init(&server.mutex, NULL);
	pthread_cond_init(&server.changed, NULL);
	failures = 0;
	while (!lost && in.size > 0)
	{
		for (int i = 0; i < 4 && in.size > 0; i++)
			send_one(&in, pair[1]);
		if (setjmp(left) != 0)
			lost = true;
		else
			serve(&server, false);
		/* one failure is said, and what is said is whole */
		while (recv(pair[1], &msg, sizeof(msg), MSG_DONTWAIT) == sizeof(msg))
			if (msg.type == GRN_MSG_FAILED)
			{
				MUST(++failures == 1);
				MUST(strnlen(msg.u.say.text, sizeof(msg.u.say.text)) < sizeof(msg.u.say.text));
				MUST(strnlen(msg.sqlstate, sizeof(msg.sqlstate)) == 5);
			}
	}
	/* only a process that exits may leave descriptors open */
	if (!lost)
	{
		int			next = dup(pair[0]);

		MUST(next == first + 2);
		shutdown(pair[1], SHUT_WR);
		if (setjmp(left) == 0)
			serve(&server, true);
	}
	drop_segments(&server);
	free(server.connection);
	pthread_mutex_destroy(&server.mutex);
	close_range((unsigned) first, ~0U, 0);
	return 0;
}
