/*
 * record.h - the bytes of a node's record and where records lie: one hop, one
 * page.  See README for the picture.
 *
 * All records of an index have one size, so a node id maps to (block, slot) by
 * arithmetic.  A record is a "hot" part followed by the node's own vector.  The hot part has
 *   header | heap TIDs | their values of further columns | own code | own signature |
 *   neighbours' ids | factors | codes | signatures
 * Values and signatures are for filters; most indexes have none.
 * Where both fit into a page's payload there are per_page records a page;
 * otherwise per_page is 1 and the record continues on span - 1 following
 * pages, which hold vector bytes alone.
 */
#ifndef GRN_RECORD_H
#define GRN_RECORD_H

#include "graph/kernels/dist.h"
#include "graph/form.h"
#include "graph/stored/codec_fit.h"

#include <string.h>

#define GRN_TID_BYTES 6			/* PostgreSQL's ItemPointerData */
#define GRN_MIN_TIDS 2			/* a record has room for at least these */
#define GRN_MAX_TIDS 16
#define GRN_MAX_ATTR_BYTES 256	/* 32 columns of 8 */
#define GRN_MAX_SIG_BYTES 32	/* 32 columns of 1 */

/* State of a record. On-disk values: never renumber. */
typedef enum GrnState
{
	GRN_FREE = 0,				/* never used, or freed: GrnFreed instead of TIDs */
	GRN_NODE = 1,				/* a vertex of the graph */
	GRN_DEAD = 2,				/* a vertex without rows; still traversed */
	GRN_TIDS = 3,				/* no vertex: more TIDs of a node (its `next` chain) */
	GRN_LIST = 4				/* no vertex: rows of a list, see grn_list_row() */
} GrnState;

/*
 * Flag of a GRN_NODE or GRN_TIDS record that holds TIDs: all of them are dead to every
 * transaction, as a scan has found out, and vacuum has yet to take them.  A TID that is added,
 * or the last one that is taken, clears the flag.
 */
#define GRN_KILLED 1

/*
 * Flag of a GRN_NODE record that an insert has written: the lists may lack the values of its TIDs,
 * because the insert is at work or has failed.  The next TID clears the flag, and comes when the
 * node is in the lists of all values that the record then has.
 */
#define GRN_UNLISTED 2

/*
 * Flags of a GRN_LIST record that is in no chain of rows: a group, which its list's guide names, or
 * part of a guide, whose rows are the middles of groups and have the ids of their records.
 */
#define GRN_GROUP 4
#define GRN_GUIDE 8

typedef struct GrnRecord
{
	uint8_t		state;			/* GrnState */
	uint8_t		ntids;			/* used of the layout's tids_max (GRN_TIDS: ntids16) */
	uint8_t		count;			/* neighbours, <= degree */
	uint8_t		flags;			/* GRN_KILLED and GRN_UNLISTED, GRN_GROUP or GRN_GUIDE, or 0 */
	uint16_t	version;		/* goes up each time the slot is freed */
	uint16_t	ntids16;		/* TIDs of a GRN_TIDS record, rows of a GRN_LIST record */
	uint32_t	next;			/* first GRN_TIDS record of further TIDs, or invalid; of such a
								 * record, and of a GRN_LIST record, the next of its chain */
	float		error;			/* |x - stored x|; 0: the stored vector is exact */
	GrnFactor	factor;			/* of the own code */
} GrnRecord;					/* 20 bytes */

/*
 * Instead of the TIDs of a GRN_FREE record that was in use.  Of a node the edges
 * stay, for searches that hold its id still.
 */
typedef struct GrnFreed
{
	uint32_t	xid_low;		/* FullTransactionId of the freeing, */
	uint32_t	xid_high;		/* see "Slot reuse" in src/am/write/README */
} GrnFreed;

typedef struct GrnLayout
{
	/* chosen */
	uint32_t	dim;			/* of the column */
	uint32_t	degree;
	GrnCodeShape shape;			/* of codes */
	GrnForm		form;
	uint32_t	attr_bytes;		/* of further columns' values beside each TID; 0: none */
	uint32_t	sig_bytes;		/* of their signatures beside each code; 0: none */
	/* derived, all in bytes from the record's start */
	uint32_t	code_bytes;		/* 0: no codes */
	uint32_t	factor_bytes;	/* of an edge; 0 without codes, and where codes are rows */
	uint32_t	tids_max;		/* heap TIDs in a GRN_NODE record */
	uint32_t	off_tids;		/* [tids_max] of GRN_TID_BYTES */
	uint32_t	off_attrs;		/* [tids_max] of attr_bytes */
	uint32_t	off_code;		/* own code: the own vector where codes are rows */
	uint32_t	off_sig;		/* own signature */
	uint32_t	off_ids;		/* [degree] uint32, 4-aligned */
	uint32_t	off_factors;	/* [degree] GrnFactor, or none */
	uint32_t	off_codes;		/* [degree] of code_bytes */
	uint32_t	off_sigs;		/* [degree] of sig_bytes */
	uint32_t	off_vec;		/* own vector */
	uint32_t	vec_bytes;
	uint32_t	hot_bytes;		/* = off_vec; with the vector where that is the own code */
	uint32_t	record_bytes;	/* hot + vector, multiple of 4 */
	uint32_t	payload;		/* usable bytes of a page */
	uint32_t	per_page;		/* records on a page, 1 where span > 1 */
	uint32_t	span;			/* pages a record takes, 1 where per_page > 1 */
	uint32_t	vec_first;		/* vector bytes on the record's first page */
	uint32_t	chain_tids;		/* TIDs that fit a GRN_TIDS record's first page part */
	uint32_t	off_chain_attrs;	/* [chain_tids] of attr_bytes, behind them */
	const struct GrnCentre *centre; /* of own vectors (own.h), set by who knows it; NULL: none */
} GrnLayout;

/* What fixes a layout. */
typedef struct GrnLayoutSpec
{
	uint32_t	dim;
	uint32_t	degree;
	GrnCodeShape shape;
	GrnForm		form;
	uint32_t	attr_bytes;
	uint32_t	sig_bytes;
	uint32_t	payload;
} GrnLayoutSpec;

/*
 * Fills a layout; spare bytes of a page go to more TIDs.  False where the hot part cannot
 * fit into payload, or the whole record where codes are rows; and where those are no rows of
 * this form.
 */
extern bool grn_layout_of(GrnLayout *layout, const GrnLayoutSpec *spec);

/* The same without further columns. */
static inline bool
grn_layout(GrnLayout *layout, uint32_t dim, uint32_t degree, GrnCodeShape shape,
		   GrnForm form, uint32_t payload)
{
	return grn_layout_of(layout, &(GrnLayoutSpec) {.dim = dim, .degree = degree,
												   .shape = shape, .form = form,
												   .payload = payload});
}

/* What codes cost, for GrnCodecFit.costs; the shape of spec does not matter. */
extern void grn_layout_code_costs_of(const GrnLayoutSpec *spec, GrnCodeCosts *costs);
static inline void
grn_layout_code_costs(uint32_t dim, uint32_t degree, GrnForm form, uint32_t payload,
					  GrnCodeCosts *costs)
{
	grn_layout_code_costs_of(&(GrnLayoutSpec) {.dim = dim, .degree = degree, .form = form,
											   .payload = payload}, costs);
}

/* grn_own_shape(), or no codes where records with such codes do not fit a page. */
extern GrnCodeShape grn_layout_own_shape(const GrnMetricInfo *metric, const GrnLayoutSpec *spec);

/* Makes codes of up to `most` bytes cost the same, and rules out longer ones and none. */
extern void grn_forget_costs(GrnCodeCosts *costs, uint32_t most);

/* The bytes of the longest codes that these costs allow. */
extern uint32_t grn_most_code_bytes(const GrnCodeCosts *costs);

/* How own vectors are kept: the layout that the user asks for. */
typedef enum GrnKeep
{
	GRN_KEEP_DEFAULT = 0,		/* in 8 or 4 bits where that saves pages, else as EXACT */
	GRN_KEEP_EXACT,				/* in the smallest form that holds all rows exactly */
	GRN_KEEP_COMPACT,			/* in about 100 bytes, with few edges and short codes */
	GRN_KEEP_BYTES,				/* as DEFAULT, but in no rotated form; no user asks for it by name */
	GRN_KEEP_SKETCH				/* in about 500 bytes; sketches, no option of users */
} GrnKeep;

/* Are these the records of layout = compact?  Those of other layouts keep more of a row. */
extern bool grn_is_compact(GrnForm form, uint32_t dim);
/* Are own vectors so long that a page has few records? */
extern bool grn_is_long(GrnForm form, uint32_t dim);

/*
 * The degree where the user gives none, of records of a form, that are to have codes or not
 * (test/bench/decisions.md).
 */
extern uint32_t grn_default_degree(uint32_t dim, GrnForm form, bool codes, uint32_t payload);

/*
 * spec->degree is the default of records like these.  How many of these edges they keep beside
 * further columns, so that a page has as many records as without columns; all of them where an
 * eighth less would not do.
 */
extern uint32_t grn_degree_beside_columns(const GrnLayoutSpec *spec);

/*
 * The form of a layout, where exact would hold all rows exactly: of the default one
 * GRN_FORM_ROUNDED where that saves pages, or GRN_FORM_ROUNDED_MORE where that saves more.
 * degree 0: that of each form's records.  codes: they are to have some.
 */
extern GrnForm grn_layout_form(GrnKeep keep, uint32_t dim, uint32_t degree, bool codes,
							   GrnForm exact, uint32_t payload);
/*
 * The same beside columns: of the degree that grn_degree_beside_columns() gives by default, the
 * form for which it does.  rows: of the exact form; their codes do not matter.
 */
extern GrnForm grn_layout_form_beside_columns(GrnKeep keep, bool codes, const GrnLayoutSpec *rows);

/*
 * Have records so few edges that searches should take all records of a page wherever it had to be
 * brought, and inserts always?  With 17 records a page and ten edges a record (sentences, layout
 * compact) half the pages then make the same recall.  With 7 to 10 and 24 to 32 edges a fifth of
 * the pages is saved, in three times the time: that pays where each page is
 * waited for, which the store finds out (am/page_store.c).
 */
#define GRN_LEAST_MATES 10
#define GRN_MOST_EDGES_OF_MATES 12
static inline bool
grn_has_few_edges(const GrnLayout *l)
{
	return l->code_bytes > 0 && l->per_page >= GRN_LEAST_MATES &&
		l->degree <= GRN_MOST_EDGES_OF_MATES;
}

/* Pages, counted from the first page of the node area. */
static inline uint32_t
grn_node_page(const GrnLayout *l, uint32_t id)
{
	return l->span > 1 ? id * l->span : id / l->per_page;
}
static inline uint32_t
grn_node_slot(const GrnLayout *l, uint32_t id)
{
	return l->span > 1 ? 0 : id % l->per_page;
}

#define GRN_REC_PTR(rec, off) ((uint8_t *) (rec) + (off))
static inline uint32_t *
grn_rec_ids(const GrnLayout *l, const void *rec)
{
	return (uint32_t *) GRN_REC_PTR(rec, l->off_ids);
}
static inline GrnFactor *
grn_rec_factors(const GrnLayout *l, const void *rec)
{
	return (GrnFactor *) GRN_REC_PTR(rec, l->off_factors);
}

/* The factor of neighbour i; 0 where edges have none. */
static inline GrnFactor
grn_rec_factor(const GrnLayout *l, const void *rec, uint32_t i)
{
	return l->factor_bytes > 0 ? grn_rec_factors(l, rec)[i] : (GrnFactor) {0};
}
static inline void
grn_rec_set_factor(const GrnLayout *l, void *rec, uint32_t i, GrnFactor factor)
{
	if (l->factor_bytes > 0)
		grn_rec_factors(l, rec)[i] = factor;
}
static inline uint8_t *
grn_rec_codes(const GrnLayout *l, const void *rec)
{
	return GRN_REC_PTR(rec, l->off_codes);
}
static inline uint8_t *
grn_rec_sigs(const GrnLayout *l, const void *rec)
{
	return GRN_REC_PTR(rec, l->off_sigs);
}

/* The values beside the TIDs of a node, or of a GRN_TIDS record. */
static inline uint8_t *
grn_rec_attrs(const GrnLayout *l, const void *rec)
{
	return GRN_REC_PTR(rec, ((const GrnRecord *) rec)->state == GRN_TIDS ? l->off_chain_attrs
					   : l->off_attrs);
}

/*
 * Writes a whole new record of state GRN_NODE at rec (record_bytes, in one
 * contiguous buffer; a spanning record is cut into pages by the caller).
 * x: [dim] in the stored metric's form; own code and factor as grn_encode()
 * gave them (NULL: none yet, zeroes; ignored without codes); neighbours by id, nearest first, with
 * their codes from all_codes/all_factors, and signatures from all_sigs, which are indexed by
 * code_index[i] (NULL: by ids[i]).  sig, attrs and all_sigs matter where the layout has them.
 */
typedef struct GrnRecordSource
{
	const float *x;				/* may be NULL with: */
	const void *stored;			/* x in the records' form, or NULL */
	float		error;			/* of stored: 0 where that is x exactly */
	const uint8_t *code;
	GrnFactor	factor;
	const uint8_t *sig;			/* [sig_bytes] */
	const uint8_t *tids;		/* [ntids] of GRN_TID_BYTES */
	const uint8_t *attrs;		/* [ntids] of attr_bytes */
	uint32_t	ntids;			/* <= tids_max */
	uint32_t	next;
	const uint32_t *ids;		/* [count] */
	const uint32_t *code_index;
	uint32_t	count;
	const uint8_t *all_codes;
	const GrnFactor *all_factors;
	const uint8_t *all_sigs;
} GrnRecordSource;
extern void grn_record_write(const GrnLayout *l, const GrnRecordSource *src, void *rec);

/*
 * Structural checks on bytes read from disk: state known, counts within
 * limits, heap TIDs not empty, neighbour ids below nodes.  NULL when sound, else what is wrong
 * (a static string).  self is the record's own id.  Every reader calls this
 * before it trusts a record; it is O(degree).
 */
extern const char *grn_record_check(const GrnLayout *l, const void *rec,
									uint32_t self, uint32_t nodes);

/* Does a search go on through it? */
static inline bool
grn_record_leads_on(const GrnRecord *rec)
{
	return rec->state == GRN_NODE || rec->state == GRN_DEAD ||
		(rec->state == GRN_FREE && rec->count > 0);
}

/*
 * A GRN_TIDS record names the node whose heap TIDs it holds, so that a scan that
 * comes to it by an old link does not take another row's TIDs for its own: it goes
 * on only where the owner's id and version are those it came from.  They lie
 * in the bytes of `error` and `factor`, which only nodes use.
 */
static inline void
grn_tids_set_owner(GrnRecord *rec, uint32_t id, uint16_t version)
{
	uint32_t	v = version;

	memcpy(&rec->error, &v, sizeof(v));
	memcpy(&rec->factor, &id, sizeof(id));
}
static inline uint32_t
grn_tids_owner(const GrnRecord *rec, uint16_t *version)
{
	uint32_t	v,
				owner;

	memcpy(&v, &rec->error, sizeof(v));
	memcpy(&owner, &rec->factor, sizeof(owner));
	*version = (uint16_t) v;
	return owner;
}
static inline bool
grn_tids_owned_by(const GrnRecord *rec, uint32_t id, uint16_t version)
{
	uint16_t	v;

	return rec->state == GRN_TIDS && grn_tids_owner(rec, &v) == id && v == version;
}

/*
 * A GRN_LIST record belongs to a list of rows that have a value in common, or rather to the
 * bucket of such values.  Its number stands in the place of an owner's id.  Where other records
 * have TIDs it has arrays, for as many rows as it has room for: ids, ranks, factors, codes and
 * signatures, so that estimates of all its rows are made at once.
 */
typedef struct GrnListRow
{
	uint32_t	id;				/* of the node */
	uint32_t	rank;			/* of the value */
	GrnFactor	factor;
	const uint8_t *code;
	const uint8_t *sig;
} GrnListRow;

/* Rows that a record has room for. */
static inline uint32_t
grn_list_rows(const GrnLayout *l)
{
	return ((l->span > 1 ? l->payload : l->record_bytes) - l->off_tids) /
		(2 * (uint32_t) sizeof(uint32_t) + (uint32_t) sizeof(GrnFactor) + l->code_bytes + l->sig_bytes);
}

/* Its arrays, [grn_list_rows()] each. */
typedef struct GrnListArrays
{
	uint32_t   *ids;
	uint32_t   *ranks;
	GrnFactor  *factors;
	uint8_t    *codes;
	uint8_t    *sigs;
} GrnListArrays;

static inline GrnListArrays
grn_list_arrays(const GrnLayout *l, const void *rec)
{
	uint32_t	room = grn_list_rows(l);
	GrnListArrays a;

	a.ids = (uint32_t *) GRN_REC_PTR(rec, l->off_tids);
	a.ranks = a.ids + room;
	a.factors = (GrnFactor *) (a.ranks + room);
	a.codes = (uint8_t *) (a.factors + room);
	a.sigs = a.codes + (size_t) room * l->code_bytes;
	return a;
}

/* Row i; its code and signature lie in the record. */
static inline GrnListRow
grn_list_row(const GrnLayout *l, const void *rec, uint32_t i)
{
	GrnListArrays a = grn_list_arrays(l, rec);
	GrnListRow	row = {a.ids[i], a.ranks[i], a.factors[i], a.codes + (size_t) i * l->code_bytes,
		a.sigs + (size_t) i * l->sig_bytes};

	return row;
}

/* Writes row i, which may lie in the same record before. */
static inline void
grn_list_set_row(const GrnLayout *l, void *rec, uint32_t i, const GrnListRow *row)
{
	GrnListArrays a = grn_list_arrays(l, rec);

	a.ids[i] = row->id;
	a.ranks[i] = row->rank;
	a.factors[i] = row->factor;
	if (l->code_bytes > 0)
		memmove(a.codes + (size_t) i * l->code_bytes, row->code, l->code_bytes);
	memmove(a.sigs + (size_t) i * l->sig_bytes, row->sig, l->sig_bytes);
}

#endif							/* GRN_RECORD_H */
