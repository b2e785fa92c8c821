/* Every error that recvmsg may report has its own verdict, and a reason. */
#include "dgram/ports/receive_error.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* recv(2), udp(7), and errors made of ICMP messages (icmp_err_convert, tab_unreach). */
static const struct {
    int error;
    enum ports_receive_verdict verdict;
} known[] = {
    {EAGAIN, PORTS_NOTHING},      {EWOULDBLOCK, PORTS_NOTHING},  {ENOMEM, PORTS_NOTHING},
    {ENOBUFS, PORTS_NOTHING},     {EINTR, PORTS_REREAD},         {ECONNREFUSED, PORTS_REPORTED},
    {EMSGSIZE, PORTS_REPORTED},   {ENETUNREACH, PORTS_REPORTED}, {EHOSTUNREACH, PORTS_REPORTED},
    {EHOSTDOWN, PORTS_REPORTED},  {ENONET, PORTS_REPORTED},      {ENOPROTOOPT, PORTS_REPORTED},
    {EOPNOTSUPP, PORTS_REPORTED}, {EPROTO, PORTS_REPORTED},      {EACCES, PORTS_REPORTED},
    {ENETDOWN, PORTS_REPORTED},   {EBADF, PORTS_GONE},           {ENOTSOCK, PORTS_GONE},
};

static void each_error_has_its_decision(void **state)
{
    for (size_t i = 0; i < AQI_COUNT_OF(known); i++) {
        const struct ports_receive_error *row = ports_receive_error(known[i].error);
        assert_int_equal(row->error, known[i].error);
        assert_int_equal(row->verdict, known[i].verdict);
        assert_true(strlen(row->reason) > 10);
    }
}

/* An unknown error may persist: it is logged, and the call is not repeated. */
static void all_others_are_reported(void **state)
{
    for (int error = 1; error < 4096; error++) {
        bool in_list = false;
        for (size_t i = 0; i < AQI_COUNT_OF(known); i++)
            in_list = in_list || known[i].error == error;
        const struct ports_receive_error *row = ports_receive_error(error);
        assert_int_equal(row->error, in_list ? error : 0);
        if (!in_list) assert_int_equal(row->verdict, PORTS_DEAF);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_error_has_its_decision),
        cmocka_unit_test(all_others_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
