/* Everything that aqinfo can show, collected once. */
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
    char **problems; /* settings with an illegal value, as the library words it */
    size_t problem_count;
};

/* The sections of the output. */
#define SHOW_TRANSPORTS 1u
#define SHOW_LIMITS     2u
#define SHOW_SETTINGS   4u
#define SHOW_CHANGED    8u /* only the settings that are not at their default */

/* Fill in the sections of `*data` that `sections` names; ends the program when memory is short. */
void data_collect(struct data *data, unsigned sections);

/* 1 if the setting has another value than its default, or was set to it. */
int setting_is_changed(const aq_setting_info *setting);

/* text.c, json.c, markdown.c */
void text_show(const struct data *data, unsigned sections);
void text_setting(const aq_setting_info *setting);
void text_transport(const aq_transport_info *transport);
void text_limit(const aq_limit_info *limit);
void json_show(const struct data *data, unsigned sections);
void markdown_show(const struct data *data);

/* merge.c: print the events of all these trace files as one; 1 if one could not be read. */
int merge_traces(char *const *names);

/* way.c: do packets of UDP get to these hosts, from `interface`, or "" for that of the route? 0:
 * some address of each host answers. */
int way_show(char *const *hosts, const char *interface);

/* peers.c: a table of the peers that processes or files tell of; 1 if one tells of none. */
int peers_show(char *const *names);

#endif
