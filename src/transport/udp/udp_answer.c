/*
 * udp: the thread that answers at listeners and on control channels while the program makes no
 * call. It checks several times per AQ_UDP_KEEPALIVE whether the program has made one since the
 * last check, and again soon if something had arrived. It calls no hooks: a call is taken, so that
 * the caller knows that the listener is alive, and the caller's messages wait for the program.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "transport/udp/udp_channel.h"
#include "transport/udp/udp_impl.h"

#include <poll.h>
#include <string.h>

static const uint64_t answer_often_ns = 10000000, answer_rarely_ns = 1000000000;
enum { ANSWER_LOOKS = 8 /* per AQ_UDP_KEEPALIVE */ };

static void udp_answer_take(void *arg, enum aqi_dgram_channel lane,
                            const struct aqi_dgram_addr *from, unsigned char *packet, size_t len,
                            uint64_t waited)
{
    (void)lane, (void)from, (void)waited;
    udp_channel_answer(arg, packet, len);
}

bool udp_answer_look(struct aqi_rendezvous *rendezvous)
{
    struct pollfd fd = {.fd = rendezvous->epoll, .events = POLLIN};
    if (poll(&fd, 1, 0) <= 0) return false;
    rendezvous->now = aqi_now_ns();
    bool some = udp_rendezvous_hear_all(rendezvous);
    for (struct aqi_control_channel *c = rendezvous->channels; c != NULL; c = c->next) {
        if (c->dgram == NULL) continue;
        some |= c->port->ops->receive(c->port, AQI_PORT_DEEP, udp_answer_take, c) != 0;
        (void)aqi_dgram_progress(c->dgram, false, rendezvous->now);
        if (!aqi_dgram_parked(c->dgram)) continue;
        c->due = 0;
        udp_rendezvous_needs_turn(c);
    }
    return some;
}

uint64_t udp_answer_pause(uint64_t last, bool some)
{
    uint64_t most = udp_config.keepalive_ns / ANSWER_LOOKS;
    if (udp_config.keepalive_ns == 0) most = answer_rarely_ns;
    most = aqi_min(aqi_max(most, answer_often_ns), answer_rarely_ns);
    return some ? answer_often_ns : aqi_min(2 * last, most);
}

static void *udp_answer_main(void *arg)
{
    struct aqi_rendezvous *rendezvous = arg;
    struct udp_answer *answer = &rendezvous->answer;
    uint64_t pause = udp_answer_pause(answer_rarely_ns, false);
    pthread_mutex_lock(&answer->lock);
    while (!answer->stop) {
        uint32_t calls = answer->calls;
        uint64_t until = aqi_now_ns() + pause;
        const struct timespec time = {.tv_sec = (time_t)(until / 1000000000u),
                                      .tv_nsec = (long)(until % 1000000000u)};
        if (rendezvous->channels == NULL && rendezvous->listeners == NULL)
            pthread_cond_wait(&answer->changed, &answer->lock);
        else
            (void)pthread_cond_timedwait(&answer->changed, &answer->lock, &time);
        bool some = calls == answer->calls && udp_answer_look(rendezvous);
        pause = udp_answer_pause(pause, some);
    }
    pthread_mutex_unlock(&answer->lock);
    return NULL;
}

void udp_answer_open(struct aqi_rendezvous *rendezvous)
{
    struct udp_answer *answer = &rendezvous->answer;
    pthread_mutexattr_t recursive;
    pthread_condattr_t monotonic;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&answer->lock, &recursive);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&answer->changed, &monotonic);
    answer->owner = getpid();
    answer->running = true; /* before the thread exists */
    int err = aqi_thread_start(&answer->thread, udp_answer_main, rendezvous);
    if (err == 0) return;
    answer->running = false;
    aqi_log(AQI_LOG_INFO, "udp",
            "cannot start a thread that answers on connections (%s): peers are answered only "
            "during calls",
            strerror(err));
}

void udp_answer_close(struct aqi_rendezvous *rendezvous)
{
    struct udp_answer *answer = &rendezvous->answer;
    bool ours = answer->running && answer->owner == getpid();
    if (ours) {
        pthread_mutex_lock(&answer->lock);
        answer->stop = true;
        pthread_cond_signal(&answer->changed);
        pthread_mutex_unlock(&answer->lock);
        pthread_join(answer->thread, NULL);
        pthread_cond_destroy(&answer->changed);
        pthread_mutex_destroy(&answer->lock);
    }
    answer->running = false;
}
