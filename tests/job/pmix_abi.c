/* Checks that pmix_abi.h agrees with the headers of the installed libpmix. */
#include "job/manager/pmix_abi.h"

#include <pmix.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define SAME_FIELD(ours, our_field, theirs, their_field)                                           \
    static_assert(offsetof(struct ours, our_field) == offsetof(theirs, their_field) &&             \
                      sizeof(((struct ours *)0)->our_field) == sizeof(((theirs *)0)->their_field), \
                  #our_field)
#define SAME_NUMBER(ours, theirs) static_assert((int)(ours) == (int)(theirs), #ours)

static_assert(sizeof(struct pmix_abi_proc) == sizeof(pmix_proc_t), "pmix_proc_t");
static_assert(sizeof(struct pmix_abi_value) == sizeof(pmix_value_t), "pmix_value_t");
static_assert(sizeof(struct pmix_abi_info) == sizeof(pmix_info_t), "pmix_info_t");
SAME_FIELD(pmix_abi_proc, nspace, pmix_proc_t, nspace);
SAME_FIELD(pmix_abi_proc, rank, pmix_proc_t, rank);
SAME_FIELD(pmix_abi_value, type, pmix_value_t, type);
SAME_FIELD(pmix_abi_value, data.flag, pmix_value_t, data.flag);
SAME_FIELD(pmix_abi_value, data.u32, pmix_value_t, data.uint32);
SAME_FIELD(pmix_abi_value, data.string, pmix_value_t, data.string);
SAME_FIELD(pmix_abi_value, data.bytes.at, pmix_value_t, data.bo.bytes);
SAME_FIELD(pmix_abi_value, data.bytes.size, pmix_value_t, data.bo.size);
SAME_FIELD(pmix_abi_info, key, pmix_info_t, key);
SAME_FIELD(pmix_abi_info, flags, pmix_info_t, flags);
SAME_FIELD(pmix_abi_info, value, pmix_info_t, value);
SAME_NUMBER(PMIX_ABI_SCOPE_GLOBAL, PMIX_GLOBAL);
SAME_NUMBER(PMIX_ABI_TYPE_BOOL, PMIX_BOOL);
SAME_NUMBER(PMIX_ABI_TYPE_STRING, PMIX_STRING);
SAME_NUMBER(PMIX_ABI_TYPE_U32, PMIX_UINT32);
SAME_NUMBER(PMIX_ABI_TYPE_BYTES, PMIX_BYTE_OBJECT);
SAME_NUMBER(PMIX_ABI_STATUS_OK, PMIX_SUCCESS);
SAME_NUMBER(PMIX_ABI_STATUS_TIMEOUT, PMIX_ERR_TIMEOUT);
SAME_NUMBER(PMIX_ABI_STATUS_NOT_FOUND, PMIX_ERR_NOT_FOUND);
SAME_NUMBER(PMIX_ABI_STATUS_DONE, PMIX_OPERATION_SUCCEEDED);

static void the_names_of_keys(void **state)
{
    (void)state;
    assert_string_equal(PMIX_ABI_KEY_COLLECT, PMIX_COLLECT_DATA);
    assert_string_equal(PMIX_ABI_KEY_IMMEDIATE, PMIX_IMMEDIATE);
    assert_string_equal(PMIX_ABI_KEY_OPTIONAL, PMIX_OPTIONAL);
    assert_string_equal(PMIX_ABI_KEY_JOB_SIZE, PMIX_JOB_SIZE);
    assert_string_equal(PMIX_ABI_KEY_HOSTNAME, PMIX_HOSTNAME);
    assert_true(PMIX_ABI_RANK_ALL == PMIX_RANK_WILDCARD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_names_of_keys)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
