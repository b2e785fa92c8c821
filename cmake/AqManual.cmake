# The manual pages: calls and topics from the public headers, tools from what they print for --help.
if(NOT AQ_BUILD_MANUAL)
  return()
endif()
set(aq_tools_run TRUE)
if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
  set(aq_tools_run FALSE)
  message(STATUS "No manual pages of the tools: they are made from what the tools print, which "
    "cannot run here (no CMAKE_CROSSCOMPILING_EMULATOR)")
endif()
find_package(Python3 REQUIRED COMPONENTS Interpreter)
string(TIMESTAMP aq_date "%Y-%m-%d" UTC) # honours SOURCE_DATE_EPOCH
set(AQ_MAN_DIR ${PROJECT_BINARY_DIR}/man)

file(GLOB aq_public_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/aqueduct/*.h)
add_custom_command(OUTPUT ${AQ_MAN_DIR}/calls.stamp
  COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/dev/mkman.py
    --include ${PROJECT_SOURCE_DIR}/include/aqueduct --out ${AQ_MAN_DIR}
    --version ${PROJECT_VERSION} --date ${aq_date}
  COMMAND ${CMAKE_COMMAND} -E touch ${AQ_MAN_DIR}/calls.stamp
  DEPENDS ${aq_public_headers}
    ${PROJECT_SOURCE_DIR}/tools/dev/mkman.py ${PROJECT_SOURCE_DIR}/tools/dev/aqheaders.py
  COMMENT "Manual pages of the calls" VERBATIM)
set(aq_pages ${AQ_MAN_DIR}/calls.stamp)

# aq_tool_page(TOOL BRIEF): the page of a tool, made when the tool is built.
function(aq_tool_page tool brief)
  set(page ${AQ_MAN_DIR}/man1/${tool}.1)
  add_custom_command(OUTPUT ${page}
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/dev/mkman1.py
      --emulator "${CMAKE_CROSSCOMPILING_EMULATOR}" --tool $<TARGET_FILE:${tool}>
      --brief ${brief} --out ${page}
      --version ${PROJECT_VERSION} --date ${aq_date}
    DEPENDS ${tool}
      ${PROJECT_SOURCE_DIR}/tools/dev/mkman1.py ${PROJECT_SOURCE_DIR}/tools/dev/mkman.py
    COMMENT "Manual page of ${tool}" VERBATIM)
  set(aq_pages ${aq_pages} ${page} PARENT_SCOPE)
endfunction()
if(aq_tools_run)
  aq_tool_page(aqrun "start the processes of a job")
  aq_tool_page(aqinfo "show transports, limits and settings of this machine")
  aq_tool_page(aqperf "measure messages and one-sided operations")
endif()

add_custom_target(manual ALL DEPENDS ${aq_pages})
file(MAKE_DIRECTORY ${AQ_MAN_DIR}/man1)
install(DIRECTORY ${AQ_MAN_DIR}/man1 ${AQ_MAN_DIR}/man3 ${AQ_MAN_DIR}/man7
  DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT doc)
