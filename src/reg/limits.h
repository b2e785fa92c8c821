/* The settings of src/reg, and how much memory they allow to be pinned on this machine. */
#ifndef AQI_REG_LIMITS_H
#define AQI_REG_LIMITS_H

#include "base/settings.h"
#include "reg/reg.h"

/* AQ_REG_MONITOR. */
enum aqi_reg_monitor { AQI_REG_MONITOR_AUTO, AQI_REG_MONITOR_NONE };

/* Filled by aqi_settings_load. */
struct aqi_reg_config {
    const char *max, *main, *victim; /* shares: see aqi_reg_limits_from */
    uint64_t main_regions, victim_regions;
    uint64_t region, ride;
    uint64_t probe, monitor;
};
extern struct aqi_reg_config aqi_reg_config;
extern struct aqi_settings_table aqi_reg_settings;

struct aqi_reg_machine {
    uint64_t page, memory;
    uint64_t locked;    /* bytes that a process may lock; UINT64_MAX: no limit */
    uint32_t processes; /* processes of the job on this host, which share it */
    bool on_demand; /* segments are also registered on demand; otherwise only memory outside them */
};

/* Get the limits that the system reports; the caller sets `processes` and `on_demand`. */
void aqi_reg_machine_look(struct aqi_reg_machine *machine);

/*
 * The resulting limits. AQ_REG_MAX is a share of the machine's memory for all processes of the host
 * together; AQ_REG_MAIN and AQ_REG_VICTIM are shares of what that leaves for each.
 *
 * @return AQ_ESETTING  A setting is malformed, or both pools together exceed the limit.
 */
aq_status aqi_reg_limits_from(const struct aqi_reg_config *config,
                              const struct aqi_reg_machine *machine, struct aqi_reg_limits *limits);

/* AQ_REG_PROBE: find out by trial how many of `most` bytes can be pinned; slow. */
uint64_t aqi_reg_probe(const struct aqi_reg_hooks *hooks, uint64_t most);

#endif
