/*
 * serve.h - the builder process of a leader.
 */
#ifndef GRN_SERVE_H
#define GRN_SERVE_H

/* Serves the leader at the other end of the socket until that is closed; the exit status. */
extern int	grn_serve(int fd);

#endif							/* GRN_SERVE_H */
