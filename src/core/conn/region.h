/* Regions: memory of this process that peers of connections access by handles. */
#ifndef AQI_CORE_CONN_REGION_H
#define AQI_CORE_CONN_REGION_H

#include "core/conn/conn.h"

/* Hook of the transport: find the memory that a peer accesses by a handle. */
enum aqi_refusal conn_region_find(void *conn, const uint32_t ticket[AQI_TICKET], uint64_t offset,
                                  size_t len, bool write, void **at);
/* Hook of the transport: note why the peer has refused an access, for the message of its failure.
 */
void conn_region_refused(void *conn, const struct aqi_comp *comp, bool write, uint64_t offset,
                         size_t len, enum aqi_refusal why);
/* A connection is closed: disable its regions. */
void conn_regions_forget(const aq_connection *conn);
void conn_regions_close(void);

#endif
