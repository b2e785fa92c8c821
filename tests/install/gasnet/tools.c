/* A program that uses only the GASNet tools library, without a job. */
#include <gasnet_tools.h>

int main(void)
{
    gasnett_tick_t now = gasnett_ticks_now();
    gasnett_atomic_t count = gasnett_atomic_init(1);
    gasnett_atomic_increment(&count, GASNETT_ATOMIC_NONE);
    if (now == GASNETT_TICK_MIN || gasnett_atomic_read(&count, 0) != 2) return 1;
    printf("tools %s\n", GASNETT_CONFIG_STRING);
    return 0;
}
