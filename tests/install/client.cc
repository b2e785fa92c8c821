/*
 * The same program as C++, since the headers and AQ_ARGS must work in both languages; and features
 * of the headers for C++ only.
 */
#include "client.c"
#include <initializer_list>
#include <stdlib.h>

enum class large : uint64_t { value = 0x100000002 };
enum small { negative = -3 };

static int evaluated;

static aq_arg evaluate()
{
    return ++evaluated;
}

static bool is(const aq_arg *args, unsigned count, std::initializer_list<uint32_t> expected)
{
    bool same = count == expected.size();
    for (unsigned i = 0; same && i < count; i++)
        same = (uint32_t)args[i] == expected.begin()[i];
    return same;
}

static bool args_work()
{
    const aq_rank rank = 0xfffffffe;
    constexpr auto constant = aq_args(1, 2u, large::value, negative, int64_t{-5});
    static_assert(constant.size() == 7 && constant.data()[3] == 1, "packed by the compiler");
    const auto pointers = aq_args(&evaluated, static_cast<void (*)(aq_am *)>(wide), true);
    aq_am am = aq_am();
    am.args = pointers.data();
    return is(AQ_ARGS(evaluate(), rank, negative), {1, rank, 0xfffffffd}) &&
           is(AQ_ARGS(AQ_ARG64(evaluate())), {2, 0}) && evaluated == 2 && is(AQ_NO_ARGS, {}) &&
           is(constant.data(), constant.size(), {1, 2, 2, 1, 0xfffffffd, 0xfffffffb, 0xffffffff}) &&
           pointers.size() == 5 && aq_arg_ptr(&am, 0) == &evaluated && am.args[4] == 1;
}

static const int checked = args_work() ? 0 : (fputs("client: arguments\n", stderr), exit(1), 1);

#ifdef REFUSED /* this must not compile */
static const auto refused = REFUSED;
#endif
