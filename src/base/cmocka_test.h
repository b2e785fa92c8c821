/* For tests: cmocka, with the headers that it requires. */
#ifndef AQI_CMOCKA_TEST_H
#define AQI_CMOCKA_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
