/* A program that crashes before main. */
#include <signal.h>

static void __attribute__((constructor)) crash(void)
{
    signal(SIGSEGV, SIG_DFL); /* a sanitizer may handle it */
    raise(SIGSEGV);
}

int main(void)
{
    return 0;
}
