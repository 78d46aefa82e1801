/* maintenance.h - memory and pauses of vacuum, fits and checks. */
#ifndef GRNND_MAINTENANCE_H
#define GRNND_MAINTENANCE_H

#include "postgres.h"

/* Memory that this process may use for maintenance, in bytes. */
extern Size grnnd_maintenance_memory(void);

/* vacuum_delay_point(), whose arguments differ between versions. */
extern void grnnd_delay_point(void);

#endif							/* GRNND_MAINTENANCE_H */
