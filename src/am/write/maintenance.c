/* maintenance.c - memory and pauses of vacuum, fits and checks. */
#include "am/write/write.h"

#include "commands/vacuum.h"
#include "miscadmin.h"
#include "postmaster/autovacuum.h"

Size
grnnd_maintenance_memory(void)
{
#if PG_VERSION_NUM >= 170000
	bool		autovacuum = AmAutoVacuumWorkerProcess();
#else
	bool		autovacuum = IsAutoVacuumWorkerProcess();
#endif

	return (Size) (autovacuum && autovacuum_work_mem != -1 ? autovacuum_work_mem
				   : maintenance_work_mem) * 1024;
}

void
grnnd_delay_point(void)
{
#if PG_VERSION_NUM >= 180000
	vacuum_delay_point(false);
#else
	vacuum_delay_point();
#endif
}
