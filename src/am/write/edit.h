/*
 * edit.h - reading and changing records under their pages' locks.
 */
#ifndef GRNND_EDIT_H
#define GRNND_EDIT_H

#include "postgres.h"

#include "access/generic_xlog.h"

#include "am/grnnd.h"

/*
 * A change of one record, or of several on at most MAX_GENERIC_XLOG_PAGES pages, in one WAL record.
 */
typedef struct GrnndEdit
{
	Relation	index;
	const GrnndIndex *ix;
	uint32		id;				/* the current record */
	GrnRecord  *rec;			/* for reading; a copy after grnnd_edit_change() */
	GenericXLogState *xlog;
	int			npages;
	Buffer		buffers[MAX_GENERIC_XLOG_PAGES];
	Page		pages[MAX_GENERIC_XLOG_PAGES];	/* copies of the changed pages */
	bool		changed[MAX_GENERIC_XLOG_PAGES];
} GrnndEdit;

/* Locks and checks the record, which may be of any state. */
extern void grnnd_edit_begin(GrnndEdit *e, Relation index, const GrnndIndex *ix, uint32 id);
/* Moves to a record of the same page or of a later page. */
extern void grnnd_edit_next(GrnndEdit *e, uint32 id);
/* Returns a copy for changes, valid until the edit ends. */
extern GrnRecord *grnnd_edit_change(GrnndEdit *e);
/* Logs the changes, if any, and releases the pages. */
extern void grnnd_edit_end(GrnndEdit *e);

/*
 * Raises an error unless the record is sound. *limit is the number of existing ids, read again if
 * an edge leads past *limit.
 */
extern void grnnd_check_record(Relation index, const GrnndIndex *ix, uint32 id,
							   const GrnRecord *rec, uint32 *limit);

/*
 * Copies the first record_bytes of record id, as far as they lie on the first page, to rec,
 * whatever the record's state. Returns the state.
 */
extern GrnState grnnd_copy_record(Relation index, const GrnndIndex *ix, uint32 id,
								  GrnRecord *rec, BufferAccessStrategy strategy);
/*
 * Returns the position of the neighbor to which most other neighbors of a record lead, so that
 * the record can give up this edge; *by: the last of these other neighbors.  -1: none.
 */
extern int	grnnd_spare_edge(Relation index, const GrnndIndex *ix, const GrnRecord *rec,
							 BufferAccessStrategy strategy, uint32 *by);
/* Bytes that grnnd_copy_record() writes. */
extern Size grnnd_copy_bytes(const GrnndIndex *ix);

/* An edge and the data stored beside the neighbor's id; NULL or 0 without codes. */
typedef struct GrnndEdge
{
	uint32		id;
	GrnFactor	factor;
	const uint8_t *code;		/* [code_bytes] */
	const uint8_t *sig;			/* [sig_bytes] */
} GrnndEdge;

/* Edge i of a record; the result points into the record. */
extern GrnndEdge grnnd_get_edge(const GrnLayout *l, const GrnRecord *rec, uint32 i);
/* An edge to node id, from the node's record. */
extern GrnndEdge grnnd_own_edge(const GrnLayout *l, const GrnRecord *rec, uint32 id);
/* Appends an edge to a record with room. */
extern void grnnd_add_edge(const GrnLayout *l, GrnRecord *rec, const GrnndEdge *edge);
/* Moves edge `from` away by shifting the edges between, so that position `to` is free to be set. */
extern void grnnd_shift_edges(const GrnLayout *l, GrnRecord *rec, uint32 from, uint32 to);
/* Sets edge i. */
extern void grnnd_set_edge(const GrnLayout *l, GrnRecord *rec, uint32 i, const GrnndEdge *edge);

/*
 * Copies a live node's own code [code_bytes] and factor. Returns false and copies nothing if the
 * node is not alive.
 */
extern bool grnnd_copy_own_code(Relation index, const GrnndIndex *ix, uint32 id,
								BufferAccessStrategy strategy, uint8_t *code,
								GrnFactor *factor);

#endif							/* GRNND_EDIT_H */
