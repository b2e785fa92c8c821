/* Signatures: which operations have the same one, and their texts. */
#include "core/coll/coll.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define GIB ((size_t)1 << 30)

static const size_t table[4];

static const struct {
    struct coll_args args;
    const char *text;
} cases[] = {
    {{.kind = COLL_BARRIER, .nbytes = 1}, "aq_barrier_nb"},
    {{.kind = COLL_BROADCAST, .nbytes = 8, .root = 2}, "aq_coll_broadcast of 8 bytes with root 2"},
    {{.kind = COLL_BROADCAST, .nbytes = 8, .root = 3}, "aq_coll_broadcast of 8 bytes with root 3"},
    {{.kind = COLL_BROADCAST, .nbytes = 5 * GIB},
     "aq_coll_broadcast of 5368709120 bytes with root 0"},
    {{.kind = COLL_BROADCAST, .nbytes = GIB}, "aq_coll_broadcast of 1073741824 bytes with root 0"},
    {{.kind = COLL_ALLREDUCE, .nbytes = 4, .code = 1 + AQ_TYPE_I32 * COLL_CODE_OPS + AQ_OP_ADD},
     "aq_coll_allreduce of 4 bytes (AQ_TYPE_I32, AQ_OP_ADD)"},
    {{.kind = COLL_ALLREDUCE, .nbytes = 4, .code = 1 + AQ_TYPE_F32 * COLL_CODE_OPS + AQ_OP_ADD},
     "aq_coll_allreduce of 4 bytes (AQ_TYPE_F32, AQ_OP_ADD)"},
    {{.kind = COLL_ALLREDUCE, .nbytes = 8, .code = 1 + AQ_TYPE_F64 * COLL_CODE_OPS + AQ_OP_MIN},
     "aq_coll_allreduce of 8 bytes (AQ_TYPE_F64, AQ_OP_MIN)"},
    {{.kind = COLL_ALLREDUCE, .nbytes = 8}, "aq_coll_allreduce of 8 bytes"},
    {{.kind = COLL_REDUCE, .nbytes = 8, .ordered = true, .root = 1},
     "aq_coll_reduce of 8 bytes, in order with root 1"},
    {{.kind = COLL_GATHER, .nbytes = 8, .root = 1}, "aq_coll_gather of 8 bytes with root 1"},
    {{.kind = COLL_GATHER, .nbytes = 8, .root = 1, .vary = true}, "aq_coll_gatherv with root 1"},
    {{.kind = COLL_ALLGATHER, .nbytes = 8, .recv_counts = table}, "aq_coll_allgatherv"},
    {{.kind = COLL_SCATTER, .nbytes = 8, .vary = true}, "aq_coll_scatterv with root 0"},
    {{.kind = COLL_ALLTOALL, .nbytes = 8}, "aq_coll_alltoall of 8 bytes"},
    {{.kind = COLL_ALLTOALL, .vary = true}, "aq_coll_alltoallv"},
    {{.kind = COLL_ALLREDUCE, .nbytes = 8, .code = COLL_CODE_BARRIER}, "aq_barrier"},
    {{.kind = COLL_ALLREDUCE, .nbytes = 8, .code = COLL_CODE_DESTROY}, "aq_team_destroy"},
    {{.kind = COLL_ALLREDUCE, .nbytes = 8, .code = COLL_CODE_FINALIZE}, "aq_finalize"},
    {{.kind = COLL_ALLREDUCE, .nbytes = 8, .code = COLL_CODE_ATTACH}, "aq_segment_attach"},
    {{.kind = COLL_ALLGATHER, .nbytes = 8, .code = COLL_CODE_TEAM}, "a call that creates teams"},
    {{.kind = COLL_THROTTLE}, "16 collectives before it"},
    {{.kind = COLL_KINDS}, "another one, which has ended"},
};

static void each_operation_has_a_signature_and_a_text(void **state)
{
    char text[COLL_TEXT];
    for (size_t i = 0; i < AQI_COUNT_OF(cases); i++) {
        struct coll_signature signature = coll_signature_of(&cases[i].args);
        coll_signature_text(signature, text);
        assert_string_equal(text, cases[i].text);
        for (size_t k = 0; k < AQI_COUNT_OF(cases); k++) {
            struct coll_signature other = coll_signature_of(&cases[k].args);
            assert_int_equal(coll_signature_same(&signature, &other), i == k);
        }
    }
}

/* In a v-form members may give different sizes. */
static void sizes_of_a_v_form_do_not_matter(void **state)
{
    struct coll_args a = {.kind = COLL_GATHER, .nbytes = 8, .vary = true}, b = a;
    b.nbytes = 9;
    struct coll_signature first = coll_signature_of(&a), second = coll_signature_of(&b);
    assert_true(coll_signature_same(&first, &second));
}

static void barriers_are_distinguished_by_their_call(void **state)
{
    static const struct {
        uint32_t code;
        const char *text;
    } barriers[] = {{0, "aq_barrier"},
                    {COLL_CODE_DESTROY, "aq_team_destroy"},
                    {COLL_CODE_FINALIZE, "aq_finalize"},
                    {COLL_CODE_ATTACH, "aq_segment_attach"}};
    char text[COLL_TEXT];
    for (size_t i = 0; i < AQI_COUNT_OF(barriers); i++) {
        coll_signature_text(coll_signature_of_barrier(barriers[i].code), text);
        assert_string_equal(text, barriers[i].text);
    }
}

/* A signature comes from a peer: nothing in it may index beyond a table or the text. */
static void any_bits_have_a_text(void **state)
{
    char text[COLL_TEXT + 1];
    for (uint32_t what = 0; what < 1u << 16; what++) {
        struct coll_signature signature = {what | UINT32_MAX << 16, UINT32_MAX, UINT32_MAX};
        memset(text, 'x', sizeof(text));
        coll_signature_text(signature, text);
        assert_true(strlen(text) < COLL_TEXT - 1);
        assert_int_equal(text[COLL_TEXT], 'x');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_operation_has_a_signature_and_a_text),
        cmocka_unit_test(sizes_of_a_v_form_do_not_matter),
        cmocka_unit_test(barriers_are_distinguished_by_their_call),
        cmocka_unit_test(any_bits_have_a_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
