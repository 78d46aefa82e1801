/*
 * record.h - the bytes of a node's record, and where records lie on pages.  README has a picture.
 *
 * All records of an index have one size, so arithmetic maps a node id to (block, slot).  A record
 * is a "hot" part followed by the node's own vector.  The hot part has
 *   header | heap TIDs | filter columns' values per TID | own code | own signature |
 *   neighbors' ids | factors | codes | signatures
 * Values and signatures serve filters; most indexes have none.
 *
 * If both parts fit a page's payload, a page has per_page records.  Otherwise per_page is 1, the
 * hot part lies on the first page, and the record continues on span - 1 following pages with
 * vector bytes alone.  One step of a search therefore reads one page, or span pages.
 */
#ifndef GRN_RECORD_H
#define GRN_RECORD_H

#include <string.h>

#include "space/form.h"
#include "space/kernels/dist.h"
#include "store/codec.h"

#define GRN_TID_BYTES 6			/* PostgreSQL's ItemPointerData */
#define GRN_MIN_TIDS 2			/* TIDs that every record has room for, at least */
#define GRN_MAX_TIDS 16
#define GRN_MAX_ATTR_BYTES 256	/* 32 columns of 8 */
#define GRN_MAX_SIG_BYTES 32	/* 32 columns of 1 */

/* State of a record.  On-disk values: never renumber. */
typedef enum GrnState
{
	GRN_FREE = 0,				/* never used, or freed: GrnFreed replaces the TIDs */
	GRN_NODE = 1,				/* a vertex of the graph */
	GRN_DEAD = 2,				/* a vertex without rows; searches still follow its edges */
	GRN_TIDS = 3,				/* not a vertex: further TIDs of a node (its `next` chain) */
	GRN_LIST = 4				/* not a vertex: rows of a list, see grn_list_row() */
} GrnState;

/*
 * Flag of a GRN_NODE record written by an insert: lists may lack the values of its TIDs, because
 * the insert is still at work or has failed.  The insert of the next TID first adds the node to
 * the lists of all values of the record, and then clears the flag.
 */
#define GRN_UNLISTED 2

/*
 * Flags of a GRN_LIST record outside the chain of its list's rows.  GRN_GROUP: a group, named by
 * the list's guide.  GRN_GUIDE: part of a guide, whose rows are the middles of groups with the ids
 * of the groups' records.
 */
#define GRN_GROUP 4
#define GRN_GUIDE 8

typedef struct GrnRecord
{
	uint8_t		state;			/* GrnState */
	uint8_t		ntids;			/* TIDs in use, <= tids_max (GRN_TIDS records use ntids16) */
	uint8_t		count;			/* neighbors in use, <= degree */
	uint8_t		flags;			/* GRN_UNLISTED, GRN_GROUP or GRN_GUIDE, or 0 */
	uint16_t	version;		/* incremented each time the slot is freed */
	uint16_t	ntids16;		/* TIDs of a GRN_TIDS record, rows of a GRN_LIST record */
	uint32_t	next;			/* GRN_NODE, GRN_DEAD: first GRN_TIDS record of further TIDs;
								 * GRN_TIDS, GRN_LIST: next record of the chain; GRN_INVALID_ID:
								 * none */
	float		error;			/* |x - stored x|; 0: the stored vector is exact */
	GrnFactor	factor;			/* of the own code */
} GrnRecord;					/* 20 bytes */

/*
 * Replaces the TIDs in a GRN_FREE record that was in use.  The edges of a freed node stay valid,
 * because a search may still hold its id.
 */
typedef struct GrnFreed
{
	uint32_t	xid_low;		/* low half of the freeing FullTransactionId */
	uint32_t	xid_high;		/* high half; see "Slot reuse" in src/am/write/README */
} GrnFreed;

typedef struct GrnLayout
{
	/* chosen by the caller */
	uint32_t	dim;			/* dimensions of the column */
	uint32_t	degree;
	GrnCodeShape shape;			/* shape of codes */
	GrnForm		form;
	uint32_t	attr_bytes;		/* bytes of filter columns' values beside each TID; 0: none */
	uint32_t	sig_bytes;		/* bytes of a signature beside each code; 0: none */
	/* derived; offsets are in bytes from the record's start */
	uint32_t	code_bytes;		/* 0: no codes */
	uint32_t	factor_bytes;	/* bytes of an edge's factor; 0 without codes, and if codes are
								 * rows */
	uint32_t	tids_max;		/* room for heap TIDs in a GRN_NODE record */
	uint32_t	off_tids;		/* [tids_max] of GRN_TID_BYTES */
	uint32_t	off_attrs;		/* [tids_max] of attr_bytes */
	uint32_t	off_code;		/* own code; equals off_vec if codes are rows */
	uint32_t	off_sig;		/* own signature */
	uint32_t	off_ids;		/* [degree] uint32, 4-aligned */
	uint32_t	off_factors;	/* [degree] GrnFactor, or none */
	uint32_t	off_codes;		/* [degree] of code_bytes */
	uint32_t	off_sigs;		/* [degree] of sig_bytes */
	uint32_t	off_vec;		/* own vector */
	uint32_t	vec_bytes;
	uint32_t	hot_bytes;		/* off_vec, or record_bytes if the vector is the own code */
	uint32_t	record_bytes;	/* hot part and vector, a multiple of 4 */
	uint32_t	payload;		/* usable bytes of a page */
	uint32_t	per_page;		/* records on a page; 1 if span > 1 */
	uint32_t	span;			/* pages of a record; 1 if per_page > 1 */
	uint32_t	vec_first;		/* vector bytes on the record's first page */
	uint32_t	chain_tids;		/* TIDs that fit the first page of a GRN_TIDS record */
	uint32_t	off_chain_attrs;	/* [chain_tids] of attr_bytes, behind the TIDs */
	const struct GrnCenter *center; /* center of own vectors (own.c), set by the caller; NULL: none */
} GrnLayout;

/* The choices that determine a layout. */
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
 * Fills a layout.  Spare bytes of a page are used for more TIDs.  Returns false if the hot part
 * does not fit into the payload, or the whole record if codes are rows.  Also returns false if the
 * shape is for rows of another form.
 */
extern GRN_EXPORT bool grn_layout_of(GrnLayout *layout, const GrnLayoutSpec *spec);

/* grn_layout_of() without filter columns. */
static inline bool
grn_layout(GrnLayout *layout, uint32_t dim, uint32_t degree, GrnCodeShape shape,
		   GrnForm form, uint32_t payload)
{
	return grn_layout_of(layout, &(GrnLayoutSpec) {.dim = dim, .degree = degree,
												   .shape = shape, .form = form,
												   .payload = payload});
}

/* Fills the costs of codes for GrnCodecFit.costs.  The shape of spec is ignored. */
extern GRN_EXPORT void grn_layout_code_costs(const GrnLayoutSpec *spec, GrnCodeCosts *costs);

/* grn_own_shape(), or no codes if records with such codes do not fit a page. */
extern GrnCodeShape grn_layout_own_shape(const GrnMetricInfo *metric, const GrnLayoutSpec *spec);

/* Gives codes of up to `most` bytes equal costs, and excludes longer codes and no codes. */
extern void grn_forget_costs(GrnCodeCosts *costs, uint32_t most);

/* Bytes of the longest codes that the costs allow. */
extern GRN_EXPORT uint32_t grn_most_code_bytes(const GrnCodeCosts *costs);

/* How own vectors are kept: the storage parameter `layout`. */
typedef enum GrnKeep
{
	GRN_KEEP_DEFAULT = 0,		/* in 8 or 4 bits if that saves pages, else as EXACT */
	GRN_KEEP_EXACT,				/* in the smallest form that holds all rows exactly */
	GRN_KEEP_COMPACT,			/* in about 100 bytes, without codes of neighbors */
	GRN_KEEP_BYTES				/* as DEFAULT, but never in a rotated form; internal */
} GrnKeep;

/* True for records of layout = compact.  Other layouts keep more of a row. */
extern bool grn_is_compact(GrnForm form, uint32_t dim);
/* True if own vectors are so long that a page has few records. */
extern bool grn_is_long(GrnForm form, uint32_t dim);

/* The default degree of records of a form.  codes: records will have codes. */
extern uint32_t grn_default_degree(uint32_t dim, GrnForm form, bool codes, uint32_t payload);

/*
 * spec->degree is the default degree of records without filter columns.  Returns the degree beside
 * the columns of spec at which a page has as many records as without columns.  Returns
 * spec->degree if even an eighth fewer edges are not enough.
 */
extern uint32_t grn_degree_beside_columns(const GrnLayoutSpec *spec);

/*
 * The form of own vectors in a layout.  exact: the form that holds all rows exactly.  The default
 * layout returns GRN_FORM_ROUNDED if rounding saves pages, or GRN_FORM_ROUNDED_MORE if further
 * rounding saves more.  degree: 0 for the default degree of each form.  codes: the records will
 * have codes.
 */
extern GrnForm grn_layout_form(GrnKeep keep, uint32_t dim, uint32_t degree, bool codes,
							   GrnForm exact, uint32_t payload);
/*
 * grn_layout_form() for records with filter columns.  If the degree of `rows` is the default
 * beside columns, returns the form for which grn_degree_beside_columns() gave this degree.  rows:
 * records of the exact form; their codes are ignored.
 */
extern GRN_EXPORT GrnForm grn_layout_form_beside_columns(GrnKeep keep, bool codes, const GrnLayoutSpec *rows);

/* The page of a record, counted from the first page of the node area. */
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

/* The factor of neighbor i; 0 if edges have no factors. */
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

/* The filter columns' values beside the TIDs of a node or of a GRN_TIDS record. */
static inline uint8_t *
grn_rec_attrs(const GrnLayout *l, const void *rec)
{
	return GRN_REC_PTR(rec, ((const GrnRecord *) rec)->state == GRN_TIDS ? l->off_chain_attrs
					   : l->off_attrs);
}

/*
 * Writes a new GRN_NODE record into rec (record_bytes in one buffer; the caller splits a spanning
 * record into pages).
 *
 * x: [dim] in the stored metric's form.  Own code and factor: from grn_encode(); a NULL code
 * writes zeroes, and codes are ignored in layouts without codes.  Neighbors: nearest first, with
 * codes, factors and signatures from all_codes, all_factors and all_sigs at index code_index[i]
 * (code_index NULL: at ids[i]).  sig, attrs and all_sigs are read only if the layout has filter
 * columns.
 */
typedef struct GrnRecordSource
{
	const float *x;				/* may be NULL if `stored` is set */
	const void *stored;			/* x in the records' form, or NULL */
	float		error;			/* rounding error of `stored`; 0: equals x */
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
 * Checks the structure of a record read from disk: known state, counts within limits, TIDs not
 * empty, neighbors' ids below `nodes`.  self: the record's id.  Returns NULL for a sound record,
 * else a static string that names the damage.  Every reader must call this function before it uses
 * a record.  The check takes O(degree).
 */
extern const char *grn_record_check(const GrnLayout *l, const void *rec,
									uint32_t self, uint32_t nodes);
/* The same but for the neighbors, for readers that do not use them. */
extern const char *grn_record_check_own(const GrnLayout *l, const void *rec,
										uint32_t self, uint32_t nodes);

/* An edge and the data stored beside the neighbor's id; NULL or 0 without codes. */
typedef struct GrnEdge
{
	uint32_t	id;
	GrnFactor	factor;
	const uint8_t *code;		/* [code_bytes] */
	const uint8_t *sig;			/* [sig_bytes] */
} GrnEdge;

/* Edge i of a record; the result points into the record. */
extern GrnEdge grn_get_edge(const GrnLayout *l, const GrnRecord *rec, uint32_t i);
/* An edge to node id, from the node's record. */
extern GrnEdge grn_own_edge(const GrnLayout *l, const GrnRecord *rec, uint32_t id);
/* Appends an edge to a record with room. */
extern void grn_add_edge(const GrnLayout *l, GrnRecord *rec, const GrnEdge *edge);
/* Moves edge `from` away by shifting the edges between, so that position `to` is free to be set. */
extern void grn_shift_edges(const GrnLayout *l, GrnRecord *rec, uint32_t from, uint32_t to);
/* Sets edge i. */
extern void grn_set_edge(const GrnLayout *l, GrnRecord *rec, uint32_t i, const GrnEdge *edge);

/* Do searches follow the record's edges? */
static inline bool
grn_record_leads_on(const GrnRecord *rec)
{
	return rec->state == GRN_NODE || rec->state == GRN_DEAD ||
		(rec->state == GRN_FREE && rec->count > 0);
}

/*
 * A GRN_TIDS record names the node that owns its heap TIDs.  A scan may reach the record by an old
 * link, and must not take another row's TIDs.  So a scan continues only if the owner's id and
 * version match the node that the scan came from.  Both are stored in the bytes of `error` and
 * `factor`, which only nodes use.
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
 * A GRN_LIST record belongs to a list, the rows of one bucket of values.  The list's number is
 * stored in place of an owner's id (grn_tids_set_owner()).  In place of TIDs the record has arrays
 * of ids, ranks, factors, codes and signatures, so that one call can estimate the distances of all
 * rows.
 */
typedef struct GrnListRow
{
	uint32_t	id;				/* id of the row's node */
	uint32_t	rank;			/* rank of the row's value */
	GrnFactor	factor;
	const uint8_t *code;
	const uint8_t *sig;
} GrnListRow;

/* The bucket of a rank, counted across all columns, of `buckets` each. */
static inline uint32_t
grn_list_bucket(uint32_t buckets, uint32_t column, uint32_t rank)
{
	return column * buckets + (uint32_t) ((uint64_t) rank * buckets >> 32);
}

/* Initializes an empty record of a bucket.  flags: 0 for its chain; GRN_GROUP; GRN_GUIDE. */
static inline void
grn_list_start(GrnRecord *rec, uint32_t bucket, uint16_t generation, uint8_t flags)
{
	rec->state = GRN_LIST;
	rec->flags = flags;
	rec->next = GRN_INVALID_ID;
	grn_tids_set_owner(rec, bucket, generation);
}

/* Number of rows that a GRN_LIST record has room for. */
static inline uint32_t
grn_list_rows(const GrnLayout *l)
{
	return ((l->span > 1 ? l->payload : l->record_bytes) - l->off_tids) /
		(2 * (uint32_t) sizeof(uint32_t) + (uint32_t) sizeof(GrnFactor) + l->code_bytes + l->sig_bytes);
}

/* The arrays of a GRN_LIST record, [grn_list_rows()] each. */
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

/* Row i of a GRN_LIST record. code and signature point into the record. */
static inline GrnListRow
grn_list_row(const GrnLayout *l, const void *rec, uint32_t i)
{
	GrnListArrays a = grn_list_arrays(l, rec);
	GrnListRow	row = {a.ids[i], a.ranks[i], a.factors[i], a.codes + (size_t) i * l->code_bytes,
		a.sigs + (size_t) i * l->sig_bytes};

	return row;
}

/* Writes row i.  `row` may point into the same record. */
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

/*
 * own.c: the own vector of a record: the row in the index's form (space/form.h).
 *
 * The embeddings of many models lie far from the origin and near to each other.  In forms with few
 * bits a number (space/rotated.c), most bits would describe the common part of all rows and not
 * their differences.  So an index with such a form may have a center: the own vectors are rows
 * minus the center.
 */

/* The center of own vectors in forms with few bits a number. */
typedef struct GrnCenter
{
	const float *x;				/* [dim] */
	double		norm2;			/* |x|^2 */
	bool		products;		/* rows are compared by inner products, see own.c */
} GrnCenter;

/* Does a build of `rows` rows have a center?  Fewer than 16 rows have no reliable mean. */
static inline bool
grn_has_center(GrnForm form, uint64_t rows)
{
	return grn_form(form)->rotated && rows >= 16;
}

/*
 * Gives a layout the center x [dim], described in *center.  The caller keeps both alive.  No center
 * is given if x is NULL, or for a form without centers.
 */
extern void grn_layout_set_center(GrnLayout *l, GrnCenter *center, GrnComparison comparison, const float *x);

/* Loads the row of a stored vector into x [dim]. */
extern void grn_own_load(const GrnLayout *l, const void *vec, float *x);
/*
 * Stored vectors and rows x [dim] in the space of forms with few bits: rotated, and without the
 * center.  Squared distances are equal in both spaces, and loading skips the inverse rotation,
 * which takes most of the time.
 */
extern void grn_own_load_turned(const GrnLayout *l, const void *vec, float *x);
extern void grn_own_turn(const GrnLayout *l, const float *x, float *out);
/* The squared length of the row.  With a center only if rows are compared by inner products. */
extern float grn_own_norm2(const GrnLayout *l, const void *vec);
/*
 * Prepares a query q [dim] for grn_query_compare(), in an aligned buffer of grn_query_bytes().
 * Returns false if the form has no prepared query; the caller must then use grn_compare().
 */
extern bool grn_own_query(const GrnLayout *l, const float *q, void *query);
/*
 * The length of q [dim] without its part along the center, as a share of |q|.  With inner products
 * the error of a stored vector counts in proportion to this length.
 */
extern double grn_own_query_share(const GrnLayout *l, const float *q);

/* Writes an own vector [vec_bytes] from x or `stored`.  Returns the rounding error. */
extern float grn_own_store(const GrnLayout *l, const float *x, const void *stored, void *vec);

/* Bytes of an own vector made before its record, with its error behind it; a multiple of 4. */
static inline size_t
grn_own_item_bytes(GrnForm form, uint32_t dim)
{
	return ((grn_form_bytes(form, dim) + 3) & ~(size_t) 3) + sizeof(float);
}

/* A layout of own vectors alone, without a center, for the functions of this file. */
extern GrnLayout grn_own_layout(GrnForm form, uint32_t dim);
extern void grn_own_item_make(const GrnLayout *l, const float *x, void *item);
static inline float
grn_own_item_error(GrnForm form, uint32_t dim, const void *item)
{
	float		error;

	memcpy(&error, (const char *) item + grn_own_item_bytes(form, dim) - sizeof(float), sizeof(float));
	return error;
}

/*
 * The distance of x and its stored vector, rounded up: a scan subtracts the error to get a lower
 * bound.  The sum of squares may overflow or vanish for finite x.
 */
extern float grn_own_error(const GrnLayout *l, const float *x, const void *vec);

#endif							/* GRN_RECORD_H */
