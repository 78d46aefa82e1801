/*
 * edit.h - reading and changing records under their pages' locks.
 */
#ifndef GRNND_EDIT_H
#define GRNND_EDIT_H

#include "postgres.h"

#include "access/generic_xlog.h"

#include "am/index/page_store.h"

/* A change of records on at most MAX_GENERIC_XLOG_PAGES pages, in one WAL record. */
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

/* GrnStore.edit() of a GrnndStore: one WAL record. */
extern void grnnd_store_edit(GrnStore *self, uint32_t id, GrnEditFn fn, void *arg);

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
/* Bytes that grnnd_copy_record() writes. */
extern Size grnnd_copy_bytes(const GrnndIndex *ix);

/* Copies a live node's code [code_bytes] and factor.  Returns false if it is not alive. */
extern bool grnnd_copy_own_code(Relation index, const GrnndIndex *ix, uint32 id,
								BufferAccessStrategy strategy, uint8_t *code,
								GrnFactor *factor);

#endif							/* GRNND_EDIT_H */
