# The tools library alone, in C and C++, for one thread and for several.
foreach(source IN ITEMS tools_calls tools_sync tools_other)
  file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${source}.cc
    CONTENT "#include \"${CMAKE_CURRENT_SOURCE_DIR}/${source}.c\"\n")
  list(APPEND tools_c ${source}.c)
  list(APPEND tools_cxx ${CMAKE_CURRENT_BINARY_DIR}/${source}.cc)
endforeach()
foreach(mode IN ITEMS seq par)
  foreach(language IN ITEMS c ${cxx})
    set(target gasnet_tools_calls_${mode}_${language})
    add_executable(${target} ${tools_${language}})
    target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
    target_link_libraries(${target} PRIVATE gasnet_tools-${mode})
    add_test(NAME gasnet.tools.${mode}.${language} COMMAND ${target})
    set_tests_properties(gasnet.tools.${mode}.${language} PROPERTIES TIMEOUT 300 LABELS gasnet)
  endforeach()
endforeach()
# Likewise after a communication header, without a job.
foreach(mode IN LISTS modes)
  set(target gasnet_tools_calls_below_${mode})
  add_executable(${target} ${tools_c})
  target_compile_definitions(${target} PRIVATE TOOLS_WITH_GASNET=1)
  target_link_libraries(${target} PRIVATE gasnet-smp-${mode} Threads::Threads)
  add_test(NAME gasnet.tools.below.${mode} COMMAND ${target})
  set_tests_properties(gasnet.tools.below.${mode} PROPERTIES TIMEOUT 300 LABELS gasnet)
endforeach()
add_executable(gasnet_tools_threads tools_threads.c)
target_link_libraries(gasnet_tools_threads PRIVATE gasnet_tools-par)
add_test(NAME gasnet.tools.threads COMMAND gasnet_tools_threads)

# Combinations that are refused, and the order of the headers.
add_test(NAME gasnet.tools.refused COMMAND ${Python3_EXECUTABLE}
  ${CMAKE_CURRENT_SOURCE_DIR}/tools_refused.py ${CMAKE_C_COMPILER}
  ${PROJECT_SOURCE_DIR}/src/front/gasnet/include
  ${PROJECT_BINARY_DIR}/src/front/gasnet/include/smp-conduit)
set_tests_properties(gasnet.tools.threads gasnet.tools.refused PROPERTIES
  TIMEOUT 300 LABELS gasnet)
