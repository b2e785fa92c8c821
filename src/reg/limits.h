/* The settings of src/reg, and how much they let be pinned on this machine. */
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
    uint64_t locked;    /* bytes that a process may lock; UINT64_MAX: all */
    uint32_t processes; /* of the job on this host, which share it */
    bool on_demand;     /* segments are registered on demand, too; else only what is outside */
};

/* What the system says; `processes` and `on_demand` are the caller's. Nothing is tried. */
void aqi_reg_machine_look(struct aqi_reg_machine *machine);

/*
 * The limits that follow. AQ_REG_MAX is a share of the machine's memory for all processes of the
 * host together, AQ_REG_MAIN and AQ_REG_VICTIM are shares of what that leaves for each.
 *
 * @return AQ_ESETTING  A setting is no share, or both pools are more than there is.
 */
aq_status aqi_reg_limits_from(const struct aqi_reg_config *config,
                              const struct aqi_reg_machine *machine, struct aqi_reg_limits *limits);

/* AQ_REG_PROBE: how much of `most` bytes can really be pinned, found out by doing so; slow. */
uint64_t aqi_reg_probe(const struct aqi_reg_hooks *hooks, uint64_t most);

#endif
