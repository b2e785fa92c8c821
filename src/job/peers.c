/* The boards of a host's ranks, sent as packets of text. */
#include "job/peers.h"

#include "base/array.h"
#include "base/board.h"
#include "job/top.h"

#include <stdlib.h>
#include <string.h>

#define PEERS_AGAIN_NS 10000000u

static struct {
    struct aqi_hub *hub;
    uint32_t asked, answered; /* queries, numbered from 1; each is answered */
    bool read;                /* `text` is to be sent next */
    char *text;
    size_t used, room, sent;
} peers;

void aqi_peers_open(struct aqi_hub *hub)
{
    peers.hub = hub;
}

void aqi_peers_close(void)
{
    free(peers.text);
    memset(&peers, 0, sizeof(peers));
}

void aqi_peers_report(void *arg, uint32_t turn)
{
    (void)arg;
    peers.asked = turn;
}

/* If memory runs out, boards are omitted. */
static void peers_add(void *arg, char *text)
{
    size_t len = strlen(text);
    (void)arg;
    if (!aqi_array_reserve(&peers.text, &peers.room, peers.used + len, 1)) return;
    memcpy(peers.text + peers.used, text, len);
    peers.used += len;
}

static void peers_other(uint32_t index, unsigned version)
{
    char why[200], name[AQI_RANK_NAME_BYTES];
    aqi_hub_name(peers.hub, aqi_hub_rank_at(peers.hub, index), name);
    aqi_wire_differs(why, sizeof(why), AQI_WIRE_BOARD, name, version, "its agent");
    aqi_hub_print(peers.hub, "%s", why);
}

static void peers_read(void)
{
    peers.read = true;
    peers.used = peers.sent = 0;
    for (uint32_t i = 0; i < aqi_hub_local_ranks(peers.hub); i++) {
        int pid = aqi_hub_pid(peers.hub, i);
        unsigned other = pid > 0 ? aqi_board_read(pid, peers_add, NULL) : 0;
        if (other != 0) peers_other(i, other);
    }
}

/* Send as many whole lines as fit. */
static void peers_send(void)
{
    static struct aqi_top_peers packet;
    const char *at = peers.used != 0 ? peers.text + peers.sent : "";
    size_t left = peers.used - peers.sent, len = aqi_min(left, sizeof(packet.text));
    const char *end = len < left ? memrchr(at, '\n', len) : NULL;
    if (end != NULL) len = (size_t)(end - at) + 1;
    packet = (struct aqi_top_peers){.version = aqi_wire_version(AQI_WIRE_TOP),
                                    .turn = peers.answered + 1,
                                    .last = len == left,
                                    .agents = aqi_hub_agents_here(peers.hub),
                                    .len = (uint32_t)len};
    if (len != 0) memcpy(packet.text, at, len);
    peers.sent += len;
    peers.answered += packet.last;
    peers.read = !packet.last;
    /* The root sends nothing if it has no ranks. */
    size_t bytes = offsetof(struct aqi_top_peers, text) + len;
    if (packet.agents != 0)
        aqi_top_peers_arrived(&packet, bytes);
    else
        aqi_hub_printed(peers.hub, aqi_hub_rank_at(peers.hub, 0), AQI_STREAM_PEERS, &packet, bytes);
}

uint64_t aqi_peers_tick(uint64_t now)
{
    while (peers.answered != peers.asked && aqi_hub_has_room(peers.hub)) {
        if (!peers.read) peers_read();
        peers_send();
    }
    return peers.answered != peers.asked ? now + PEERS_AGAIN_NS : UINT64_MAX;
}
