/*
 * serve.h - the builder process of a leader.
 */
#ifndef GRN_SERVE_H
#define GRN_SERVE_H

/* Serves the leader at the socket `fd` until the leader closes the socket.  Never returns. */
extern int	grn_serve(int fd);

#endif							/* GRN_SERVE_H */
