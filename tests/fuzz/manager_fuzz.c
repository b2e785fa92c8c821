/*
 * Any bytes as input from a job manager: the first one selects the format (a line of PMI-1, a
 * message of PMI-2, a mapping of hosts, a value, a length), the rest is the input.
 */
#include "fuzz.h"
#include "job/manager/manager_impl.h"

#include <stdlib.h>
#include <string.h>

static void fields(char *text, size_t len, char separator)
{
    struct manager_fields fields;
    uint32_t number = 12;
    if (!manager_cut(text, separator, &fields)) return;
    fuzz_require(fields.count != 0 && fields.count <= MANAGER_FIELDS, "a message has some fields");
    for (size_t i = 0; i < fields.count; i++) {
        fuzz_require(fields.name[i] >= text && fields.name[i] < fields.value[i],
                     "a name precedes its value");
        fuzz_require(fields.value[i] + strlen(fields.value[i]) <= text + len,
                     "a value is inside the message");
        fuzz_require(strchr(fields.name[i], '=') == NULL, "a name ends where its value begins");
        fuzz_require(manager_field(&fields, fields.name[i]) != NULL,
                     "a field that exists is found");
        if (manager_number(fields.value[i], &number))
            fuzz_require(strtoul(fields.value[i], NULL, 10) == number, "a number is read");
    }
}

static void mapping(const char *text)
{
    enum { SIZE = 50 };
    uint64_t node_of[SIZE + 1];
    struct aqi_manager manager = {.info = {.rank = 7, .size = SIZE}};
    node_of[SIZE] = 77;
    if (!manager_mapping(text, SIZE, node_of)) return;
    fuzz_require(node_of[SIZE] == 77, "ranks that do not exist get no node");
    fuzz_require(manager_set_hosts(&manager, node_of) == AQ_OK, "any node numbers are valid");
    fuzz_require(manager.info.hosts >= 1 && manager.info.hosts <= SIZE,
                 "the number of hosts is in range");
    fuzz_require(manager.info.local_rank < manager.info.local_size, "the local rank is in range");
    fuzz_require(aqi_manager_first(&manager, manager.info.hosts - 1) < SIZE, "a host has ranks");
    free(manager.info.host_of);
}

static void value(const char *text)
{
    static uint8_t bytes[AQI_MANAGER_VALUE];
    static char again[MANAGER_TEXT];
    size_t len, all = manager_encoded_length(text);
    fuzz_require(all < MANAGER_TEXT, "a value is not longer than its limit");
    if (!manager_decode(text, bytes, &len)) return;
    fuzz_require(len <= AQI_MANAGER_VALUE, "a value is not longer than its limit");
    fuzz_require(all == strlen(text), "its length is known from its beginning");
    fuzz_require(manager_encode(bytes, len, again) <= all, "a decoded value can be encoded");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    size_t length;
    if (len == 0) return 0;
    /* An exact copy, so that a sanitizer detects a read beyond it. */
    char *text = malloc(len);
    if (text == NULL) abort();
    memcpy(text, data + 1, len - 1);
    text[len - 1] = '\0';
    switch (data[0]) {
    case '1':
        fields(text, len - 1, ' ');
        break;
    case '2':
        fields(text, len - 1, ';');
        break;
    case 'm':
        mapping(text);
        break;
    case 'v':
        value(text);
        break;
    default:
        if (len >= 7 && manager_read_length(text, &length))
            fuzz_require(length <= 999999, "a length has six digits");
    }
    free(text);
    return 0;
}
