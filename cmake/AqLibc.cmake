# Requirements of C libraries other than glibc (musl).
include(CheckIncludeFile)
include(CheckSymbolExists)
check_symbol_exists(__GLIBC__ features.h AQ_GLIBC) # macros of other libraries fail -Wconversion
if(AQ_BUILD_TESTS)
  include(CheckCXXSymbolExists)
  check_cxx_symbol_exists(__GLIBC__ features.h AQ_CXX_GLIBC)
endif()

# Libraries that are loaded at run time (libcrypto, PMIx) may exist for glibc only: a test whose
# output reports that is skipped.
if(NOT AQ_GLIBC)
  function(add_test)
    _add_test(${ARGV})
    if(ARGV0 STREQUAL NAME AND NOT ARGV1 MATCHES "^unit\\.") # unit tests skip by themselves
      set_property(TEST ${ARGV1} PROPERTY SKIP_REGULAR_EXPRESSION
        "Error loading shared library")
    endif()
  endfunction()
endif()

# Debian's musl-gcc finds musl's headers only, but the kernel's headers fit any C library.
check_include_file(linux/futex.h AQ_KERNEL_HEADERS)
if(NOT AQ_KERNEL_HEADERS)
  set(kernel_headers ${PROJECT_BINARY_DIR}/kernel-headers)
  file(MAKE_DIRECTORY ${kernel_headers})
  foreach(folder linux asm asm-generic)
    file(GLOB found /usr/include/${folder}
      /usr/include/${CMAKE_SYSTEM_PROCESSOR}-linux-gnu/${folder})
    if(NOT found)
      message(FATAL_ERROR "The kernel's headers (${folder}) are not in /usr/include: install "
        "linux-libc-dev (Debian) or linux-headers (Alpine)")
    endif()
    list(GET found 0 found)
    file(CREATE_LINK ${found} ${kernel_headers}/${folder} SYMBOLIC)
  endforeach()
  include_directories(SYSTEM ${kernel_headers})
endif()
