/*
 * write_index_impl.h - an index that is about to be written: write_index.c lays it out and
 * has leader and workers write it, write_index_check.c checks what the builder has sent, and
 * write_index_pages.c forms the pages.
 */
#ifndef GRNND_WRITE_INDEX_IMPL_H
#define GRNND_WRITE_INDEX_IMPL_H

#include "am/build/write_index.h"
#include "graph/rows.h"

/* A GRN_TIDS record to write: TIDs that a node's own record has no room for. */
typedef struct GrnndChain
{
	uint32		node;
	uint32		first;			/* index of its first TID among the node's */
	uint32		ntids;
} GrnndChain;

/* What an index is written from: what its metapage is to say, and where the rest lies. */
typedef struct GrnndNewIndex
{
	GrnndMeta	meta;
	GrnLayout	layout;
	uint32		nodes;
	uint64		records;		/* nodes and chains */
	uint32		nentries;
	const uint32 *entries;
	/* in the mapping */
	GrnRows		vectors;
	const uint64 *tids;			/* [rows], packed */
	const uint32 *ids;			/* [nodes][degree] */
	const uint8 *counts;		/* [nodes] */
	const uint32 *row_start;	/* [nodes + 1] */
	const uint32 *rows;			/* [rows] */
	const uint8 *codes;			/* [nodes][code_bytes] */
	const GrnFactor *factors;	/* [nodes] */
	const float *codec;			/* mean, basis */
	GrnndChain *chains;			/* [records - nodes], by node; in segment ORDER */
	/* palloc'd */
	float	   *floats;			/* [dim] */
	uint8	   *scratch;		/* one spanning record, */
	uint64		scratch_id;		/* this one */
} GrnndNewIndex;

/* ---- write_index_check.c ---- */

/* All of these report a fault by ERROR, XX000. */
extern GRNND_NORETURN void grnnd_bad_result(const char *what);
extern void grnnd_check_result_numbers(const GrnndBuild *build, const GrnBuildResult *r);
/* Finds the arrays of the result, as this process has them mapped. */
extern void grnnd_find_result_arrays(GrnndNewIndex *new, const GrnndMapping *map,
									 const GrnBuildResult *r, uint64 nrows);
extern void grnnd_check_result_codec(const GrnndNewIndex *new);
/* Checks what belongs to nodes [begin, end). */
extern void grnnd_check_result_nodes(const GrnndNewIndex *new, uint32 begin, uint32 end);
/* Each row belongs to exactly one node, and each node has one. */
extern void grnnd_check_result_rows(const GrnndNewIndex *new, uint64 nrows);

/* ---- write_index_pages.c ---- */

/* Forms page number `number` of the node area. */
extern void grnnd_form_node_page(GrnndNewIndex *new, BlockNumber number, Page page);
extern void grnnd_form_entry_page(const GrnndNewIndex *new, Page page);
/* Forms the page of the codec's bytes with that number. */
extern void grnnd_form_codec_page(const GrnndNewIndex *new, uint32 number, Page page);
extern void grnnd_form_meta_page(GrnndNewIndex *new, Page page);

#endif							/* GRNND_WRITE_INDEX_IMPL_H */
