/* Computes rates from two samples of a rank's counters. */
#include "aqtop.h"

static double rates_grown(const struct aqi_top_row *before, const struct aqi_top_row *now,
                          enum aqi_counter counter)
{
    return (double)(now->value[counter] - before->value[counter]);
}

struct rates rates_between(const struct aqi_top_row *before, const struct aqi_top_row *now)
{
    double seconds = (double)(now->at_ns - before->at_ns) / 1e9;
    double looks = now->looks - before->looks, waits = now->waits - before->waits;
    double calls = rates_grown(before, now, AQI_CTR_AM_SENT) +
                   rates_grown(before, now, AQI_CTR_PUT) + rates_grown(before, now, AQI_CTR_GET) +
                   rates_grown(before, now, AQI_CTR_ATOMIC);
    double out =
        rates_grown(before, now, AQI_CTR_AM_BYTES) + rates_grown(before, now, AQI_CTR_PUT_BYTES);
    double in =
        rates_grown(before, now, AQI_CTR_AM_BYTES_IN) + rates_grown(before, now, AQI_CTR_GET_BYTES);
    double sends =
        rates_grown(before, now, AQI_CTR_AM_SENT) + rates_grown(before, now, AQI_CTR_PUT);
    if (now->at_ns <= before->at_ns) return (struct rates){0};
    return (struct rates){.messages = calls / seconds,
                          .out = out / seconds,
                          .in = in / seconds,
                          .size = sends > 0 ? out / sends : 0,
                          .again = rates_grown(before, now, AQI_CTR_PACKETS_AGAIN) / seconds,
                          .waits = looks > 0 ? waits / looks : 0};
}

/*
 * Add up all rates. The size is a mean weighted by messages; the time waiting is a sum, which the
 * caller divides by the number of ranks.
 */
void rates_add(struct rates *total, const struct rates *one)
{
    double messages = total->messages + one->messages;
    if (messages > 0)
        total->size = (total->size * total->messages + one->size * one->messages) / messages;
    total->messages = messages;
    total->out += one->out;
    total->in += one->in;
    total->again += one->again;
    total->waits += one->waits;
}
