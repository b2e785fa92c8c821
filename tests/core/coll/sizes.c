/*
 * Block sizes of v-forms that do not match between members: all of them get the error, nothing is
 * transferred, and the team remains usable. One member passes a wrong size for one block: slightly
 * wrong, very wrong, or zero instead of non-zero.
 */
#include "../support.h"

#include <string.h>

enum { MOST = 20000, UNTOUCHED = 0x5a };

static unsigned char in[17 * MOST], out[17 * MOST];
static size_t send_counts[17], recv_counts[17], offsets[17];

/* The number of bytes that i sends to k if all sizes are right. */
static size_t size_of(aq_rank i, aq_rank k, size_t scale)
{
    return (i * 7 + k * 3) % 5 * scale;
}

enum form { GATHERV, SCATTERV, ALLTOALLV, FORMS };

static aq_status call(enum form form, aq_rank root, bool nb, unsigned flags)
{
    aq_event ev = AQ_EVENT_DONE;
    aq_status st = AQ_OK;
    if (form == GATHERV && nb)
        st = aq_coll_gatherv_nb(job.team, root, out, recv_counts, offsets, in, send_counts[root],
                                flags, &ev);
    else if (form == GATHERV)
        return aq_coll_gatherv(job.team, root, out, recv_counts, offsets, in, send_counts[root], 0);
    else if (form == SCATTERV && nb)
        st = aq_coll_scatterv_nb(job.team, root, out, recv_counts[root], in, send_counts, offsets,
                                 flags, &ev);
    else if (form == SCATTERV)
        return aq_coll_scatterv(job.team, root, out, recv_counts[root], in, send_counts, offsets,
                                0);
    else if (nb)
        st = aq_coll_alltoallv_nb(job.team, out, recv_counts, offsets, in, send_counts, offsets,
                                  flags, &ev);
    else
        return aq_coll_alltoallv(job.team, out, recv_counts, offsets, in, send_counts, offsets, 0);
    CHECK_OK(st);
    return aq_event_wait(&ev, AQ_FOREVER);
}

/*
 * The size that rank `wrong` passes for its block with the root is off by `by` bytes. If `by` is 0,
 * all sizes are right.
 */
static void try_form(enum form form, aq_rank wrong, size_t scale, size_t by, bool nb)
{
    aq_rank root = job.size - 1;
    unsigned flags = nb && scale % 2 == 0 ? AQ_COLL_IN_ALL | AQ_COLL_OUT_ALL : 0;
    for (aq_rank i = 0; i < job.size; i++) {
        offsets[i] = i * (size_t)MOST;
        send_counts[i] = size_of(job.self, i, scale);
        recv_counts[i] = size_of(i, job.self, scale);
    }
    if (job.self == wrong && form == SCATTERV) recv_counts[root] += by;
    if (job.self == wrong && form != SCATTERV) send_counts[root] += by;
    memset(out, UNTOUCHED, sizeof(out));
    memset(in, 1 + (int)job.self, sizeof(in));
    CHECK_STATUS(call(form, root, nb, flags), by != 0 ? AQ_EMISMATCH : AQ_OK);
    CHECK(by == 0 || aq_error_message()[0] != '\0');
    if (by != 0) CHECK(all_bytes(out, sizeof(out), UNTOUCHED));
    if (by == 0 && form == ALLTOALLV)
        for (aq_rank i = 0; i < job.size; i++)
            CHECK(all_bytes(out + offsets[i], recv_counts[i], (unsigned char)(1 + i)));
}

int main(void)
{
    static const size_t scales[] = {1, 100, 4000}, by[] = {1, 0, 3000, 0, 20, 0};
    job_open(AQ_THREAD_SINGLE, 4096);
    aq_error_log(0);
    for (int form = 0; form < FORMS; form++)
        for (size_t s = 0; s < COUNT_OF(scales); s++)
            for (size_t b = 0; b < COUNT_OF(by); b++)
                for (aq_rank wrong = 0; wrong < job.size; wrong++)
                    for (int nb = 0; nb < 2; nb++)
                        try_form((enum form)form, wrong, scales[s], by[b], nb != 0);
    job_close();
    return 0;
}
