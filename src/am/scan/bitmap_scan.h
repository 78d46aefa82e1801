/*
 * bitmap_scan.h - searches among the rows of other indexes' bitmaps: plans (bitmap_path.c) and
 * their execution (bitmap_scan.c).
 */
#ifndef GRNND_BITMAP_SCAN_H
#define GRNND_BITMAP_SCAN_H

#include "postgres.h"

#include "nodes/execnodes.h"
#include "nodes/extensible.h"

#define GRNND_BITMAP_NAME "grnnd bitmap"

extern const CustomScanMethods grnnd_bitmap_methods;

/* Installs the hook that adds paths, and makes plans known to the executor. */
extern void grnnd_install_bitmap_scan(void);
/* The index scan below a node of this kind; NULL: another kind of node. */
extern IndexScanState *grnnd_scan_with_bitmap(PlanState * node);

#endif							/* GRNND_BITMAP_SCAN_H */
