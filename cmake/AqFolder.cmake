# The functions by which each folder declares its contents.
define_property(GLOBAL PROPERTY AQ_LIBRARY_OBJECTS
  BRIEF_DOCS "object libraries" FULL_DOCS "object libraries")
define_property(GLOBAL PROPERTY AQ_UNIT_TESTS
  BRIEF_DOCS "unit test sources" FULL_DOCS "unit test sources")

# aq_add_subdirectory(FOLDER CONDITION…): if the condition is false, targets of the folder are built
# only if others need them.
function(aq_add_subdirectory folder)
  if(${ARGN})
    add_subdirectory(${folder})
  else()
    add_subdirectory(${folder} EXCLUDE_FROM_ALL)
  endif()
endfunction()

# aq_folder(NAME SOURCES a.c … [TESTS a_test.c …]): a folder of the library. Its sources become part
# of the library; each test becomes one of the programs in unit_NAME, which is linked with the
# internals and cmocka.
function(aq_folder name)
  cmake_parse_arguments(arg "" "" "SOURCES;TESTS" ${ARGN})
  add_library(aq_${name} OBJECT ${arg_SOURCES})
  target_include_directories(aq_${name} PRIVATE
    ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  set_property(GLOBAL APPEND PROPERTY AQ_LIBRARY_OBJECTS aq_${name})
  foreach(test IN LISTS arg_TESTS)
    set_property(GLOBAL APPEND PROPERTY AQ_UNIT_TESTS
      ${name}|${CMAKE_CURRENT_SOURCE_DIR}|${test})
  endforeach()
endfunction()

# aq_join(OUTPUT LIBRARY…): join object libraries into one object, in which hidden symbols are
# local. It is linked with the compile flags, which include the machine (--target). Not for
# instrumented objects (AQ_INSTRUMENTED).
function(aq_join output)
  string(TOUPPER "CMAKE_C_FLAGS_${CMAKE_BUILD_TYPE}" flags)
  separate_arguments(flags UNIX_COMMAND "${CMAKE_C_FLAGS} ${${flags}}")
  string(TOUPPER "CMAKE_INTERPROCEDURAL_OPTIMIZATION_${CMAKE_BUILD_TYPE}" ipo)
  if(CMAKE_INTERPROCEDURAL_OPTIMIZATION OR ${ipo})
    list(APPEND flags ${CMAKE_C_COMPILE_OPTIONS_IPO})
  endif()
  if(flags MATCHES "-flto" AND CMAKE_C_COMPILER_ID STREQUAL GNU)
    list(APPEND flags -flinker-output=nolto-rel)
  endif()
  list(TRANSFORM ARGN REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE files)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_C_COMPILER} ${flags} -r -nostdlib -o ${output} ${files}
    COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${output}
    DEPENDS ${ARGN} ${files} COMMAND_EXPAND_LISTS VERBATIM COMMENT "Joining ${output}")
endfunction()

# aq_internal_program(NAME SOURCES …): a program with access to the library's internals (tests,
# aqrun).
function(aq_internal_program name)
  add_executable(${name} ${ARGN})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE aqueduct_internal)
endfunction()

# aq_many_programs(NAME PROGRAM=SOURCE…): one binary, linked once, that contains many programs
# (tests/common/many). Its first argument selects the program to run.
function(aq_many_programs name)
  set(table)
  set(sources)
  foreach(entry IN LISTS ARGN)
    string(REGEX MATCH "^([^=]*)=(.*)$" matched ${entry})
    set(program ${CMAKE_MATCH_1})
    set(source ${CMAKE_MATCH_2})
    # main() is renamed after its path, since several binaries may contain the source.
    file(RELATIVE_PATH main ${PROJECT_SOURCE_DIR} ${source})
    string(MAKE_C_IDENTIFIER main_of_${main} main)
    list(APPEND sources ${source})
    string(APPEND table "PROGRAM(${program}, ${main})\n")
    get_property(options SOURCE ${source} PROPERTY COMPILE_OPTIONS)
    if(NOT options MATCHES many/main.h)
      set_property(SOURCE ${source} APPEND PROPERTY COMPILE_DEFINITIONS AQT_MAIN=${main})
      set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS
        -include ${PROJECT_SOURCE_DIR}/tests/common/many/main.h)
    endif()
  endforeach()
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${name}.programs)
  file(CONFIGURE OUTPUT ${folder}/programs.h CONTENT "${table}")
  add_executable(${name} ${PROJECT_SOURCE_DIR}/tests/common/many/many.c ${sources})
  target_include_directories(${name} PRIVATE ${folder})
endfunction()

# aq_program_links(NAME PROGRAM…): makes each program a target as well: a symbolic link next to the
# binary.
function(aq_program_links name)
  foreach(program IN LISTS ARGN)
    add_custom_command(TARGET ${name} POST_BUILD
      COMMAND ${CMAKE_COMMAND} -E create_symlink ${name} ${program}
      WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR} VERBATIM)
    add_executable(${program} IMPORTED GLOBAL)
    set_target_properties(${program} PROPERTIES
      IMPORTED_LOCATION ${CMAKE_CURRENT_BINARY_DIR}/${program})
    add_dependencies(${program} ${name})
  endforeach()
endfunction()

# aq_unit_tests(): a program for each folder, and a ctest test for each *_test.c. To be called after
# the library has been defined.
function(aq_unit_tests)
  get_property(tests GLOBAL PROPERTY AQ_UNIT_TESTS)
  set(folders)
  foreach(entry IN LISTS tests)
    string(REGEX MATCH "^([^|]*)\\|([^|]*)\\|(.*)_test\\.c$" matched ${entry})
    set(folder ${CMAKE_MATCH_1})
    set(path ${CMAKE_MATCH_2}/${CMAKE_MATCH_3}_test.c)
    string(REPLACE "/" "." short ${CMAKE_MATCH_3})
    string(REPLACE "/" "_" program ${CMAKE_MATCH_3}_test)
    list(APPEND folders ${folder})
    list(APPEND programs_${folder} ${program}=${path})
    add_test(NAME unit.${folder}.${short} COMMAND unit_${folder} ${program})
    set_tests_properties(unit.${folder}.${short} PROPERTIES
      TIMEOUT 300 LABELS unit SKIP_RETURN_CODE 77)
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(folder IN LISTS folders)
    aq_many_programs(unit_${folder} ${programs_${folder}})
    target_include_directories(unit_${folder} PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(unit_${folder} PRIVATE aqueduct_internal cmocka)
    # Few tests use the `state` that cmocka passes to each.
    target_compile_options(unit_${folder} PRIVATE -Wno-unused-parameter)
  endforeach()
endfunction()
