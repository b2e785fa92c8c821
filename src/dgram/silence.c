/*
 * Peers from which nothing arrives: the user is warned after a while, and one that was never
 * reached is reported lost.
 *
 * Only time in which the program makes calls counts: a process that was stopped, perhaps with the
 * rest of the job, has not waited.
 */
#include "dgram/conn.h"

enum {
    SILENCE_STEP = 1000000000 /* maximum ns counted between two calls, unless timeouts are longer */
};

void dgram_silence_begin(struct dgram_env *env, struct dgram_conn *conn)
{
    conn->looked = env->now;
    conn->waited = 0;
}

void dgram_silence_look(struct dgram_env *env, struct dgram_peer *peer)
{
    struct dgram_conn *conn = peer->conn;
    uint64_t most = aqi_max(SILENCE_STEP, 2 * env->config.rto_max);
    conn->waited += aqi_min(env->now - conn->looked, most);
    conn->looked = env->now;
    if (env->config.warn_after == 0 || conn->waited < env->config.warn_after) return;
    if (peer->silence_reported) return;
    peer->silence_reported = true;
    if (env->hooks.silent != NULL) env->hooks.silent(env->hooks.arg, peer->id, conn->waited);
}

bool dgram_silence_too_long(const struct dgram_env *env, const struct dgram_peer *peer)
{
    uint64_t within = env->config.reach_within;
    return within != 0 && !peer->reached && peer->conn->waited >= within;
}
