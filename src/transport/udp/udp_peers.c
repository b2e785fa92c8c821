/* udp: the state of peers on the process's board, for `aqinfo --peers`, with its counters. */
#include "transport/udp/udp_impl.h"

#include "base/board.h"
#include "base/log.h"

enum { PEERS_LINE = 320, PEERS_EVERY = 100000000, PEERS_EACH = 1000000 /* ns */ };

void udp_peers_open(struct udp_tp *udp)
{
    if (udp->own.is_connection)
        udp->own.sheet = aqi_board_sheet_take();
    else if (aqi_board_open((size_t)PEERS_LINE * (udp->params.size + 4)) != AQ_OK)
        aqi_log(AQI_LOG_INFO, "udp", "no information for aqinfo --peers: %s", aq_error_message());
    else
        udp_peers_show(udp, 0); /* at once: aqinfo may read the board before the first packet */
    udp->show_next = 0;
}

void udp_peers_close(struct udp_tp *udp)
{
    aqi_board_sheet_give(udp->own.sheet);
    udp->own.sheet = NULL;
}

/* The two ends that a line is about: ranks have numbers, connected programs have addresses. */
static void udp_peers_names(const struct udp_tp *udp, const struct aqi_dgram_peer_info *info,
                            uint32_t id, struct aqi_safe_text *to)
{
    char at[96];
    if (!udp->own.is_connection) {
        aqi_safe_number(to, "rank ", udp->params.self);
        aqi_safe_number(to, ": peer ", id);
        return;
    }
    ports_address_text(&info->addr, at, sizeof(at));
    aqi_safe_number(to, "rank ", aqi_log_rank());
    aqi_safe_add(to, ": connection ");
    aqi_safe_add(to, at);
}

static void udp_peers_line(const struct udp_tp *udp, uint32_t id, struct aqi_safe_text *to)
{
    struct aqi_dgram_peer_info info;
    if (!aqi_dgram_peer_info(udp->dgram, id, &info)) return;
    if (!info.connected && !info.lost && info.queued == 0) return;
    udp_peers_names(udp, &info, id, to);
    aqi_safe_add(to, info.lost ? " lost" : info.connected ? " up" : " connecting");
    aqi_safe_thousandths(to, " rtt_us ", info.rtt);
    aqi_safe_thousandths(to, " least_us ", info.base_rtt);
    aqi_safe_thousandths(to, " rto_us ", info.rto);
    aqi_safe_number(to, " window ", info.window);
    aqi_safe_number(to, " flying ", info.in_flight);
    aqi_safe_number(to, " queued ", info.queued);
    aqi_safe_number(to, " packet ", info.packet);
    aqi_safe_number(to, " sent ", info.sent);
    aqi_safe_number(to, " again ", info.resent);
    aqi_safe_number(to, " received ", info.received);
    aqi_safe_number(to, " repeated ", info.duplicates);
    aqi_safe_add(to, "\n");
}

static void udp_peers_show_connection(struct udp_tp *udp, uint64_t now)
{
    char text[PEERS_LINE + 100];
    struct aqi_safe_text to = {.text = text, .room = sizeof(text)};
    if (udp->own.sheet == NULL) return;
    udp_peers_line(udp, 1 - udp->params.self, &to);
    aqi_board_sheet_write(udp->own.sheet, &to);
    udp->shown = now;
    udp->show_next = now + PEERS_EVERY;
}

void udp_peers_show(struct udp_tp *udp, uint64_t now)
{
    uint64_t drops = udp_count_drops(udp);
    if (udp->own.is_connection) {
        udp_peers_show_connection(udp, now);
        return;
    }
    struct aqi_safe_text *to = aqi_board_begin();
    uint32_t count = 0;
    udp->shown = udp->show_next = AQI_DGRAM_NEVER;
    if (to == NULL) return;
    for (uint32_t id = 0; id < udp->params.size; id++) {
        if (udp->peers[id] == NULL) continue;
        udp_peers_line(udp, id, to);
        count++;
    }
    aqi_safe_number(to, "rank ", udp->params.self);
    aqi_safe_add(to, ": dropped");
    for (unsigned i = AQI_DGRAM_DROP_SHORT; i < AQI_DGRAM_COUNTERS; i++) {
        aqi_safe_add(to, " ");
        aqi_safe_add(to, aqi_dgram_counter_names[i] + sizeof("drop_") - 1);
        aqi_safe_number(to, " ", aqi_dgram_count(udp->dgram, (enum aqi_dgram_counter)i));
    }
    aqi_safe_number(to, " port ", drops);
    aqi_safe_add(to, "\n");
    aqi_board_end();
    udp->shown = now;
    udp->show_next = now + PEERS_EVERY + (uint64_t)count * PEERS_EACH;
}
