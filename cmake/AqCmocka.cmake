# cmocka for the unit tests or, if there is none for the target system, our own subset of it.
include(CheckCSourceCompiles)
set(CMAKE_REQUIRED_LIBRARIES cmocka)
check_c_source_compiles("#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
int main(void) { print_message(\"\"); return 0; }" AQ_CMOCKA)
unset(CMAKE_REQUIRED_LIBRARIES)
if(NOT AQ_CMOCKA)
  set(cmocka ${PROJECT_SOURCE_DIR}/tests/common/cmocka)
  add_library(cmocka STATIC ${cmocka}/cmocka.c)
  target_include_directories(cmocka PUBLIC ${cmocka})
endif()
