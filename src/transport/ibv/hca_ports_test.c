/* Tests hca_ports.c: the filter of ports, on simulated adapters. */
#include "base/settings.h"
#include "transport/ibv/hca_impl.h"
#include "transport/ibv/ibv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* Ports as letters: active, down, initializing; none: it cannot be opened. */
static struct card {
    const char *name, *ports;
    struct ibv_context context;
} cards[] = {
    {.name = "mlx5_10", .ports = "a"},
    {.name = "mlx5_1", .ports = "da"},
    {.name = "mlx5_0", .ports = "ad"},
    {.name = "dark", .ports = "di"},
    {.name = "closed"},
};
static struct ibv_device devices[AQI_COUNT_OF(cards)];
static unsigned opened;

static struct card *card_of(const struct ibv_device *device)
{
    return &cards[device - devices];
}

static struct ibv_device **list_get(int *count)
{
    struct ibv_device **list = calloc(AQI_COUNT_OF(devices) + 1, sizeof(*list));
    assert_non_null(list);
    for (size_t i = 0; i < AQI_COUNT_OF(devices); i++)
        list[i] = &devices[i];
    *count = (int)AQI_COUNT_OF(devices);
    return list;
}

static void list_free(struct ibv_device **list)
{
    free(list);
}

static const char *device_name(struct ibv_device *device)
{
    return card_of(device)->name;
}

static struct ibv_context *device_open(struct ibv_device *device)
{
    struct card *card = card_of(device);
    if (card->ports == NULL) return NULL;
    card->context.device = device;
    opened++;
    return &card->context;
}

static int device_close(struct ibv_context *context)
{
    opened--;
    return 0;
}

static int device_query(struct ibv_context *context, struct ibv_device_attr *attr)
{
    attr->phys_port_cnt = (uint8_t)strlen(card_of(context->device)->ports);
    return 0;
}

static int port_query(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
    char state = card_of(context->device)->ports[port - 1];
    attr->state = state == 'a' ? IBV_PORT_ACTIVE : state == 'i' ? IBV_PORT_INIT : IBV_PORT_DOWN;
    return 0;
}

/* The first ports that the filter selects, in order: "name:port", followed by + if active. */
static const char *found_by(const char *filter, unsigned most)
{
    static char text[1024];
    struct hca_port ports[HCA_PORTS];
    size_t len = 0;
    hca_config.ports = filter;
    unsigned count = (unsigned)aqi_min(hca_ports_find(ports), most);
    text[0] = '\0';
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(ports[i].active, ports[i].why[0] == '\0');
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s:%u%s", i == 0 ? "" : " ",
                                ports[i].device, ports[i].number, ports[i].active ? "+" : "");
    }
    assert_int_equal(opened, 0);
    return text;
}

static void filters(void **unused)
{
    static const struct {
        const char *filter, *found;
    } rows[] = {
        {"", "mlx5_0:1+ mlx5_1:2+ mlx5_10:1+ closed:1 dark:1 dark:2"},
        {"mlx5_0", "mlx5_0:1+ mlx5_0:2"},
        {"mlx5_0:1", "mlx5_0:1+"},
        {"mlx5_0:2", "mlx5_0:2"},
        {"mlx5_1", "mlx5_1:2+ mlx5_1:1"}, /* nothing but that name */
        {"mlx5_1:1,2", "mlx5_1:2+ mlx5_1:1"},
        {"mlx5_1:1+mlx5_1:2", "mlx5_1:2+ mlx5_1:1"},
        {"mlx5_10+mlx5_0:1", "mlx5_0:1+ mlx5_10:1+"},
        {"+mlx5_10++mlx5_0:1+", "mlx5_0:1+ mlx5_10:1+"},
        {"mlx5_10+mlx5_9:1", "mlx5_10:1+"},
        {"closed", "closed:1"},
        {"closed:2", ""},
        {"mlx5_0:3", ""},
        {"mlx5", ""},
        {"mlx5_", ""},
        {"+", ""},
    };
    for (size_t i = 0; i < AQI_COUNT_OF(rows); i++)
        assert_string_equal(found_by(rows[i].filter, HCA_PORTS), rows[i].found);
}

static void invalid_filters_are_rejected(void **unused)
{
    static const struct {
        const char *filter;
        bool legal;
    } rows[] = {
        {"", true},
        {"+", true},
        {"mlx5_0", true},
        {"a++b:1+", true},
        {"mlx5_0:", false},
        {"mlx5_0:1,2+mlx5_1:1", true},
        {"mlx5_0:x", false},
        {"mlx5_0:1x", false},
        {"mlx5_0:1,", false},
        {"a:1:2", false},
        {":1", false},
        {"mlx5_0,mlx5_1", false},
        {"a+mlx5_0;b", false},
        {"a:-1", false},
        {"mlx5_0 + mlx5_1", false},
        {"a:1, 2", false},
    };
    for (size_t i = 0; i < AQI_COUNT_OF(rows); i++) {
        const char *ports;
        assert_int_equal(aqi_setting_read(&aqi_ibv_settings.rows[0], rows[i].filter, &ports),
                         rows[i].legal);
    }
}

/* AQ_IBV_PORT, if the filter names no port of the device. */
static void one_number_for_all_devices(void **unused)
{
    hca_config.port = 2;
    assert_string_equal(found_by("", HCA_PORTS), "mlx5_1:2+ closed:1 dark:2 mlx5_0:2");
    assert_string_equal(found_by("mlx5_0+mlx5_1:1", HCA_PORTS), "mlx5_0:2 mlx5_1:1");
    hca_config.port = 3;
    assert_string_equal(found_by("mlx5_0", HCA_PORTS), "");
    hca_config.port = 0;
}

static void the_best_when_there_is_no_room_for_all(void **unused)
{
    assert_string_equal(found_by("", 1), "mlx5_0:1+");
    assert_string_equal(found_by("dark+mlx5_10", 2), "mlx5_10:1+ dark:1");
}

/* If the system reports which processors are close. */
static void near_say(struct ibv_device *device, const char *list)
{
    char folder[] = "/tmp/aq-ports-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(device->ibdev_path, sizeof(device->ibdev_path), "%s", folder);
    snprintf(path, sizeof(path), "%s/device", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    strcat(path, "/local_cpulist");
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(list, file);
    assert_int_equal(fclose(file), 0);
}

static void near_say_no_more(struct ibv_device *device)
{
    char path[IBV_SYSFS_PATH_MAX + 32];
    snprintf(path, sizeof(path), "%s/device/local_cpulist", device->ibdev_path);
    unlink(path);
    *strrchr(path, '/') = '\0';
    rmdir(path);
    rmdir(device->ibdev_path);
    device->ibdev_path[0] = '\0';
}

static void near_ones_first_where_they_are_spread(void **unused)
{
    near_say(&devices[2], "60000-60001\n");
    near_say(&devices[1], "0-65535\n");
    assert_string_equal(found_by("", 3), "mlx5_0:1+ mlx5_1:2+ mlx5_10:1+");
    hca_config.spread = true;
    assert_string_equal(found_by("", 3), "mlx5_1:2+ mlx5_10:1+ mlx5_0:1+");
    assert_string_equal(found_by("mlx5_0", HCA_PORTS), "mlx5_0:1+ mlx5_0:2");
    hca_config.spread = false;
    near_say_no_more(&devices[1]);
    near_say_no_more(&devices[2]);
}

static void unusable_ports_have_a_reason(void **unused)
{
    struct hca_port ports[HCA_PORTS];
    hca_config.ports = "dark";
    assert_int_equal(hca_ports_find(ports), 2);
    assert_non_null(strstr(ports[0].why, "down: check the cable"));
    assert_non_null(strstr(ports[1].why, "not configured yet: check the cable"));
    hca_config.ports = "closed";
    assert_int_equal(hca_ports_find(ports), 1);
    assert_non_null(strstr(ports[0].why, "cannot open /dev/infiniband/uverbs*"));
    strcpy(devices[4].dev_name, "uverbs-99");
    assert_int_equal(hca_ports_find(ports), 1);
    assert_string_equal(ports[0].why, "cannot open /dev/infiniband/uverbs-99 (No such file or "
                                      "directory): check its permissions");
    devices[4].dev_name[0] = '\0';
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(filters),
        cmocka_unit_test(invalid_filters_are_rejected),
        cmocka_unit_test(one_number_for_all_devices),
        cmocka_unit_test(the_best_when_there_is_no_room_for_all),
        cmocka_unit_test(near_ones_first_where_they_are_spread),
        cmocka_unit_test(unusable_ports_have_a_reason),
    };
    hca_verbs = (struct hca_verbs){.get_device_list = list_get,
                                   .free_device_list = list_free,
                                   .get_device_name = device_name,
                                   .open_device = device_open,
                                   .close_device = device_close,
                                   .query_device = device_query,
                                   .query_port = port_query};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
