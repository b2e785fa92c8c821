/* A program that crashes before main. */
#include <signal.h>

static void __attribute__((constructor)) crash(void)
{
    raise(SIGSEGV);
}

int main(void)
{
    return 0;
}
