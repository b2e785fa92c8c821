/* All data that aqinfo can show, collected once. */
#ifndef AQINFO_DATA_H
#define AQINFO_DATA_H

#include <aqueduct/info.h>

struct data {
    aq_transport_info *transports;
    size_t transport_count;
    aq_limit_info *limits;
    size_t limit_count;
    aq_setting_info *settings; /* by group, then by name */
    size_t setting_count;
    char **problems; /* the library's messages about settings with invalid values */
    size_t problem_count;
};

#define SHOW_TRANSPORTS 1u
#define SHOW_LIMITS     2u
#define SHOW_SETTINGS   4u
#define SHOW_CHANGED    8u /* only settings with non-default values */

/* Collect the data of `sections` in `*data`; ends the program if out of memory. */
void data_collect(struct data *data, unsigned sections);

/* Whether the setting differs from its default or was explicitly set to it. */
int setting_is_changed(const aq_setting_info *setting);

/* text.c, json.c, markdown.c */
void text_show(const struct data *data, unsigned sections);
void text_setting(const aq_setting_info *setting);
void text_transport(const aq_transport_info *transport);
void text_limit(const aq_limit_info *limit);
void json_show(const struct data *data, unsigned sections);
void markdown_show(const struct data *data);

/* merge.c: print the events of these trace files as one trace. Returns 1 if a file could not be
 * read. */
int merge_traces(char *const *names);

/*
 * probe.c: check whether UDP packets reach these hosts, from `interface`, or if "" from that of the
 * route. Returns 0 if an address of each host answers.
 */
int probe_show(char *const *hosts, const char *interface);

/* fi.c: print the path of the provider for libfabric and how to use it. Returns 1 if it is
 * missing. */
int fi_show(void);

/* peers.c: print a table of the peers of processes, or from files. Returns 1 if one of them has no
 * peers. */
int peers_show(char *const *names);

#endif
