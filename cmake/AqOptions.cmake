# Language level, warnings and the build options.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_CXX_STANDARD 11)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
endif()
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo) # set in this folder, not in a parent project
endif()

# A project that embeds this one (docs/embedding.md) gets the library only.
set(aq_default ${PROJECT_IS_TOP_LEVEL})
option(AQ_WERROR "Treat warnings as errors" OFF)
option(AQ_BUILD_TESTS "Build the tests" ${aq_default})
option(AQ_BUILD_TOOLS "Build the tools (aqrun, aqinfo, aqperf, aqtop)" ${aq_default})
option(AQ_BUILD_EXAMPLES "Build the examples" ${aq_default})
option(AQ_BUILD_MANUAL "Generate the manual pages" ${aq_default})
option(AQ_INSTALL "Define the rules for installing" ${aq_default})
option(AQ_GASNET "Build and install the GASNet interface" ${aq_default})
option(AQ_CCI "Build and install CCI's interface" ${aq_default})
set(AQ_IBV AUTO CACHE STRING
  "The transport ibv (InfiniBand, RoCE): AUTO, if the headers of libibverbs are here, ON or OFF")
set(AQ_OFI AUTO CACHE STRING
  "The transport ofi (libfabric): AUTO, if its headers are here, ON or OFF")
set(aq_default OFF)
if(PROJECT_IS_TOP_LEVEL)
  set(aq_default AUTO)
endif()
set(AQ_FI ${aq_default} CACHE STRING
  "The provider for libfabric (libaqueduct-fi): AUTO, if libfabric is here, ON or OFF")
set_property(CACHE AQ_IBV AQ_OFI AQ_FI PROPERTY STRINGS AUTO ON OFF)
set(AQ_TREES lib/aqueduct CACHE STRING
  "The folder of the trees gasnet and cci, which other build systems look for, below the prefix")
set(AQ_SANITIZE "" CACHE STRING "Sanitizers, such as address,undefined or thread")
option(AQ_FUZZ "Build the libFuzzer targets (clang)" OFF)
option(AQ_COVERAGE "Instrument for coverage" OFF)

if(AQ_BUILD_TESTS)
  enable_language(CXX)
endif()
foreach(part BUILD_TOOLS GASNET CCI INSTALL)
  if(AQ_BUILD_TESTS AND NOT AQ_${part})
    message(FATAL_ERROR "AQ_BUILD_TESTS=ON needs AQ_${part}=ON: the tests cover all parts")
  endif()
endforeach()

if(NOT CMAKE_SIZEOF_VOID_P EQUAL 8 OR NOT CMAKE_C_BYTE_ORDER STREQUAL LITTLE_ENDIAN)
  message(FATAL_ERROR "Aqueduct needs a little-endian system of 64 bits (x86_64, aarch64): it "
    "shares memory with a fixed layout, and maps that of every peer. The compiler "
    "makes programs of ${CMAKE_SIZEOF_VOID_P} bytes per pointer, ${CMAKE_C_BYTE_ORDER}: leave out "
    "-m32 or -mx32, or take a compiler for such a system")
endif()
include(AqLibc)

# Only the headers are needed: the libraries of networks are loaded at run time.
include(CheckIncludeFile)
function(aq_network name header package)
  unset(AQ_HAVE_${name}_H CACHE) # the header may have appeared or disappeared since
  if(AQ_${name})
    check_include_file(${header} AQ_HAVE_${name}_H)
  endif()
  if(AQ_${name} AND NOT AQ_${name} STREQUAL AUTO AND NOT AQ_HAVE_${name}_H)
    message(FATAL_ERROR "AQ_${name}=ON: ${header} is not found: install ${package}")
  endif()
  if(AQ_${name} AND AQ_HAVE_${name}_H)
    set(AQ_WITH_${name} TRUE PARENT_SCOPE)
  endif()
endfunction()
aq_network(IBV infiniband/verbs.h libibverbs-dev)
aq_network(OFI rdma/fabric.h libfabric-dev)
aq_network(FI rdma/providers/fi_prov.h libfabric-dev)

find_package(Threads REQUIRED)
# System libraries that the library needs; users of the static library link them, too.
set(AQ_SYSTEM_LIBRARIES pthread dl)

# Instrumented objects are linked differently. A parent project may request instrumentation in two
# places.
get_directory_property(aq_flags COMPILE_OPTIONS)
list(APPEND aq_flags ${CMAKE_C_FLAGS})
set(AQ_INSTRUMENTED FALSE)
if(AQ_SANITIZE OR AQ_COVERAGE OR AQ_FUZZ OR
   aq_flags MATCHES "-fsanitize|-fprofile|-fcoverage|--coverage|-fxray|-pg")
  set(AQ_INSTRUMENTED TRUE)
endif()

add_compile_definitions(_GNU_SOURCE)
add_compile_options(
  -Wall -Wextra -Wshadow -Wundef -Wvla
  $<$<AND:$<COMPILE_LANGUAGE:C>,$<BOOL:${AQ_GLIBC}>>:-Wconversion>
  $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes>
  $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>)
if(AQ_WERROR)
  add_compile_options(-Werror)
endif()
if(AQ_SANITIZE)
  add_compile_options(-fsanitize=${AQ_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${AQ_SANITIZE})
endif()
if(NOT AQ_SANITIZE AND NOT aq_flags MATCHES "-fsanitize")
  # The runtime of a sanitizer is linked into programs only, so its symbols are undefined in
  # libraries.
  add_link_options(-Wl,--no-undefined)
endif()
if(AQ_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(AQ_COVERAGE)
  add_compile_options(--coverage -fprofile-update=atomic)
  add_link_options(--coverage)
endif()
