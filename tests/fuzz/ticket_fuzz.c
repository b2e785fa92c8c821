/*
 * Any bytes as an agent's ticket: an accepted ticket is well-formed, and encodes to the same bytes.
 * The first byte says whether the rest is a whole ticket, or follows a valid head.
 */
#include "../../tools/aqrun/ticket.h"
#include "fuzz.h"

#include <aqueduct/version.h>
#include <string.h>

static void check_again(const struct ticket *ticket)
{
    char why[TICKET_WHY];
    size_t len;
    struct ticket again;
    uint8_t *bytes = ticket_encode(ticket, &len, why);
    fuzz_require(bytes != NULL, "a decoded ticket can be encoded");
    fuzz_require(ticket_decode(bytes, len, true, "aqrun", &again, why) == (ssize_t)len,
                 "an encoded ticket can be decoded");
    fuzz_require(again.tree_count == ticket->tree_count && again.ranks == ticket->ranks &&
                     strcmp(again.folder, ticket->folder) == 0 &&
                     strcmp(again.argv[0], ticket->argv[0]) == 0,
                 "encoding reproduces the ticket");
    ticket_free(&again);
    free(bytes);
}

static void check_sense(const struct ticket *t)
{
    fuzz_require(t->ranks <= AQI_MAX_RANKS && t->host < t->hosts, "the host is in the job");
    fuzz_require(t->argv[0] != NULL && t->addresses[0] != NULL, "it has a command and an address");
    for (uint32_t i = 0; i < t->tree_count; i++)
        fuzz_require(t->tree[i].first + (uint64_t)t->tree[i].count <= t->ranks,
                     "the ranks of a host are ranks of the job");
}

/* In a block of its own, so that reads beyond its end are detected. */
static uint8_t *make(const uint8_t *data, size_t *size)
{
    char head[80] = "";
    bool whole = *size > 0 && data[0] % 2 == 0;
    size_t skip = *size > 0, head_len = 0;
    uint32_t body = (uint32_t)(*size - skip);
    if (!whole) {
        snprintf(head, sizeof(head), "aqrun ticket %u %s\n", aqi_wire_version(AQI_WIRE_AGENTS),
                 aq_version());
        head_len = strlen(head);
        memcpy(head + head_len, &body, sizeof(body));
        head_len += sizeof(body);
    }
    *size = head_len + body;
    uint8_t *bytes = malloc(*size > 0 ? *size : 1);
    if (bytes == NULL) abort();
    memcpy(bytes, head, head_len);
    if (body > 0) memcpy(bytes + head_len, data + skip, body);
    return bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char why[TICKET_WHY] = "";
    struct ticket ticket;
    uint8_t *bytes = make(data, &size);
    ssize_t taken = ticket_decode(bytes, size, true, "aqrun", &ticket, why);
    fuzz_require(taken != 0, "at the end of input it is accepted or refused");
    if (taken > 0) {
        fuzz_require((size_t)taken <= size, "no more is consumed than the input has");
        check_sense(&ticket);
        check_again(&ticket);
        ticket_free(&ticket);
    } else {
        fuzz_require(why[0] != '\0' && strlen(why) < TICKET_WHY,
                     "a failure is reported with its cause");
    }
    free(bytes);
    return 0;
}
