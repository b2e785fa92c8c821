# Toolchain file for Linux on aarch64 with Debian's cross compiler. Programs run under qemu, if
# installed.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
find_program(qemu_aarch64 NAMES qemu-aarch64 qemu-aarch64-static)
if(qemu_aarch64)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${qemu_aarch64} -L /usr/aarch64-linux-gnu)
endif()
