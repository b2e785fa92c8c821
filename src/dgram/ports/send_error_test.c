/* Every error of sendmsg, or of an AF_XDP ring, has its own verdict, once, and a reason. */
#include "dgram/ports/send_error.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* send(2), ip(7), udp(7), and errors made of ICMP messages (icmp_err_convert, tab_unreach). */
static const struct {
    int error;
    enum ports_verdict verdict;
    bool late, uncut;
} known[] = {
    {EINTR, PORTS_REPEAT, false, false},
    {EAGAIN, PORTS_NO_ROOM, false, false},
    {EWOULDBLOCK, PORTS_NO_ROOM, false, false},
    {ENOMEM, PORTS_NO_ROOM, false, false},
    {ENOBUFS, PORTS_LOST, false, false},
    {EFAULT, PORTS_UNREADABLE, false, false},
    {EMSGSIZE, PORTS_LOST, true, false},
    {EINVAL, PORTS_LOST, true, true},
    {EIO, PORTS_LOST, true, true},
    {ENOPROTOOPT, PORTS_LOST, true, true},
    {EOPNOTSUPP, PORTS_LOST, true, true},
    {EPERM, PORTS_LOST, true, false},
    {EACCES, PORTS_LOST, true, false},
    {ECONNREFUSED, PORTS_LOST, true, false},
    {ENETUNREACH, PORTS_LOST, true, false},
    {EHOSTUNREACH, PORTS_LOST, true, false},
    {EHOSTDOWN, PORTS_LOST, true, false},
    {ENONET, PORTS_LOST, true, false},
    {EPROTO, PORTS_LOST, true, false},
    {ENETDOWN, PORTS_LOST, true, false},
    {ENODEV, PORTS_LOST, true, false},
    {ENXIO, PORTS_LOST, true, false},
    {EBUSY, PORTS_LOST, true, false},
    {EADDRNOTAVAIL, PORTS_LOST, true, false},
    {EAFNOSUPPORT, PORTS_LOST, true, false},
    {EDESTADDRREQ, PORTS_LOST, true, false},
    {ENOTCONN, PORTS_LOST, true, false},
    {EPIPE, PORTS_LOST, true, false},
    {EBADF, PORTS_LOST, false, false},
    {ENOTSOCK, PORTS_LOST, false, false},
};

static void each_error_has_its_decision(void **state)
{
    for (size_t i = 0; i < AQI_COUNT_OF(known); i++) {
        const struct ports_send_error *row = ports_send_error(known[i].error);
        assert_int_equal(row->error, known[i].error);
        assert_int_equal(row->verdict, known[i].verdict);
        assert_int_equal(row->final, !known[i].late);
        assert_int_equal(row->uncut, known[i].uncut);
    }
}

/* An unknown error is a loss, and is logged. A call that fails is made at most twice, whatever the
 * error, except after signals; and no error that persists may count as "no room", which is retried
 * forever. */
static void all_others_are_losses(void **state)
{
    for (int error = 1; error < 4096; error++) {
        const struct ports_send_error *row = ports_send_error(error);
        bool in_list = false;
        for (size_t i = 0; i < AQI_COUNT_OF(known); i++)
            in_list = in_list || known[i].error == error;
        assert_int_equal(row->error, in_list ? error : 0);
        assert_true(row->verdict < PORTS_VERDICTS);
        assert_true(strlen(row->reason) > 10);
        if (row->verdict == PORTS_REPEAT) assert_int_equal(error, EINTR);
        if (row->verdict == PORTS_NO_ROOM) assert_true(error == EAGAIN || error == ENOMEM);
        if (!in_list) assert_int_equal(row->verdict, PORTS_LOST);
        if (!in_list) assert_false(row->silent);
        /* xsk_sendmsg; any other error ends the use of the ring. */
        bool stays = error == EINTR || error == EAGAIN || error == ENOMEM || error == ENOBUFS ||
                     error == ENETDOWN || error == EBUSY;
        assert_int_equal(row->stays, stays);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_error_has_its_decision),
        cmocka_unit_test(all_others_are_losses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
