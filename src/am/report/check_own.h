/*
 * check_own.h - compares the vectors in records with the rows of the table, for grnnd_check().
 */
#ifndef GRNND_CHECK_OWN_H
#define GRNND_CHECK_OWN_H

#include "postgres.h"

#include "executor/tuptable.h"
#include "utils/relcache.h"

#include "am/grnnd.h"

typedef struct GrnndOwn GrnndOwn;

/* The digest of an unknown vector; no vector has this digest. */
#define GRNND_NO_DIGEST 0

extern GrnndOwn *grnnd_own_begin(Relation index, const GrnndIndex *ix);
extern void grnnd_own_end(GrnndOwn *own);
/* The digest of a stored vector [vec_bytes] and its error. */
extern uint64 grnnd_own_digest(GrnndOwn *own, const void *vec, float error);
/* Computes the digest of a row with this value.  Returns false if the row is not indexed. */
extern bool grnnd_own_wanted(GrnndOwn *own, Datum value, uint64 *digest);
/* Do a stored vector and its error belong to a row of the table, by any processor's arithmetic? */
extern bool grnnd_own_matches(GrnndOwn *own, TupleTableSlot *row, const void *vec, float error);

#endif							/* GRNND_CHECK_OWN_H */
