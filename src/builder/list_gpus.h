/*
 * list_gpus.h - the list of GPUs for grnnd_devices().
 */
#ifndef GRN_LIST_GPUS_H
#define GRN_LIST_GPUS_H

/* Prints the list.  Returns the exit status. */
extern int	grn_list_gpus(void);

#endif							/* GRN_LIST_GPUS_H */
