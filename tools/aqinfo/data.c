/* Collects the library's data about itself and the machine. */
#include "data.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Make room for another element after `count`; the array grows at powers of two. */
static void *room_for(void *array, size_t count, size_t element)
{
    if ((count & (count - 1)) != 0) return array;
    void *larger = realloc(array, (count == 0 ? 1 : 2 * count) * element);
    if (larger != NULL) return larger;
    fprintf(stderr, "aqinfo: out of memory\n");
    exit(1);
}

static int by_group_and_name(const void *a, const void *b)
{
    const aq_setting_info *left = a, *right = b;
    int groups = strcmp(left->group, right->group);
    return groups != 0 ? groups : strcmp(left->name, right->name);
}

/* Record the library's last error message. The same message is recorded only once. */
static void add_problem(struct data *data)
{
    const char *message = aq_error_message();
    for (size_t i = 0; i < data->problem_count; i++)
        if (strcmp(data->problems[i], message) == 0) return;
    data->problems = room_for(data->problems, data->problem_count, sizeof *data->problems);
    char *text = strdup(message);
    if (text != NULL) data->problems[data->problem_count++] = text;
}

static void collect_settings(struct data *data)
{
    for (size_t index = 0;; index++) {
        data->settings = room_for(data->settings, data->setting_count, sizeof *data->settings);
        aq_setting_info *setting = &data->settings[data->setting_count];
        *setting = (aq_setting_info){0};
        aq_status status = aq_info_setting(index, setting);
        if (status != AQ_OK && status != AQ_ESETTING) break;
        if (status == AQ_ESETTING) add_problem(data);
        if (setting->name != NULL) data->setting_count++;
    }
    if (data->setting_count > 1)
        qsort(data->settings, data->setting_count, sizeof *data->settings, by_group_and_name);
}

/* A transport that does not work is shown with the reason. */
static void collect_transports(struct data *data)
{
    aq_error_log(0);
    for (size_t i = 0;; data->transport_count = ++i) {
        data->transports = room_for(data->transports, i, sizeof *data->transports);
        aq_status status = aq_info_transport(i, &data->transports[i]);
        if (status == AQ_ESETTING) add_problem(data);
        if (status != AQ_OK && status != AQ_ESETTING) break;
    }
    aq_error_log(1);
}

static void collect_limits(struct data *data)
{
    for (size_t i = 0;; data->limit_count = ++i) {
        data->limits = room_for(data->limits, i, sizeof *data->limits);
        if (aq_info_limit(i, &data->limits[i]) != AQ_OK) break;
    }
}

void data_collect(struct data *data, unsigned sections)
{
    *data = (struct data){0};
    if (sections & SHOW_TRANSPORTS) collect_transports(data);
    if (sections & SHOW_LIMITS) collect_limits(data);
    if (sections & (SHOW_SETTINGS | SHOW_CHANGED)) collect_settings(data);
}

int setting_is_changed(const aq_setting_info *setting)
{
    return strcmp(setting->origin, "default") != 0;
}
