/*
 * check_own.h - grnnd_check(): the vectors that records keep, compared with the table's rows.
 */
#ifndef GRNND_CHECK_OWN_H
#define GRNND_CHECK_OWN_H

#include "postgres.h"

#include "executor/tuptable.h"
#include "utils/relcache.h"

#include "am/grnnd.h"

typedef struct GrnndOwn GrnndOwn;

/* Of what is not known: no vector has this digest. */
#define GRNND_NO_DIGEST 0

extern GrnndOwn *grnnd_own_begin(Relation index, const GrnndIndex *ix);
extern void grnnd_own_end(GrnndOwn *own);
/* Of a stored vector [vec_bytes] and its error.  Equal ones have equal digests. */
extern uint64 grnnd_own_digest(GrnndOwn *own, const void *vec, float error);
/* The digest that the record of a row with this value should have; false: the row has none. */
extern bool grnnd_own_wanted(GrnndOwn *own, Datum value, uint64 *digest);
/*
 * Whether a stored vector and its error are those of a row of the table, but for what another
 * processor's arithmetic would change.
 */
extern bool grnnd_own_matches(GrnndOwn *own, TupleTableSlot *row, const void *vec, float error);

#endif							/* GRNND_CHECK_OWN_H */
