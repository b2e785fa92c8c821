# The manual pages: those of calls and topics are made from the public headers, those of tools and
# launchers from their --help.
set(aq_tools_run ${AQ_BUILD_TOOLS})
if(AQ_BUILD_TOOLS AND CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
  set(aq_tools_run FALSE)
  message(STATUS "No manual pages of the tools: they are made from the output of the tools, which "
    "cannot run here (no CMAKE_CROSSCOMPILING_EMULATOR)")
endif()
string(TIMESTAMP aq_date "%Y-%m-%d" UTC) # honors SOURCE_DATE_EPOCH
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

# aq_page(NAME FILE EMULATOR BRIEF DEPENDS…): the page of a program, generated after the program has
# been built.
function(aq_page name file emulator brief)
  set(page ${AQ_MAN_DIR}/man1/${name}.1)
  add_custom_command(OUTPUT ${page}
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/dev/mkman1.py
      --emulator "${emulator}" --tool ${file}
      --brief ${brief} --out ${page}
      --version ${PROJECT_VERSION} --date ${aq_date}
    DEPENDS ${ARGN}
      ${PROJECT_SOURCE_DIR}/tools/dev/mkman1.py ${PROJECT_SOURCE_DIR}/tools/dev/mkman.py
    COMMENT "Manual page of ${name}" VERBATIM)
  set(aq_pages ${aq_pages} ${page} PARENT_SCOPE)
endfunction()
macro(aq_tool_page tool brief)
  aq_page(${tool} $<TARGET_FILE:${tool}> "${CMAKE_CROSSCOMPILING_EMULATOR}" ${brief} ${tool})
endmacro()
if(aq_tools_run)
  aq_tool_page(aqrun "start the processes of a job")
  aq_tool_page(aqinfo "show transports, limits and settings of this machine")
  aq_tool_page(aqperf "measure messages and one-sided operations")
  aq_tool_page(aqtop "show the activity of the ranks of a running job")
endif()
get_property(aq_launchers GLOBAL PROPERTY AQ_LAUNCHERS)
foreach(launcher IN LISTS aq_launchers)
  get_filename_component(name ${launcher} NAME)
  aq_page(${name} ${launcher} sh "start the processes of a GASNet program" ${launcher})
endforeach()

add_custom_target(aqueduct_manual ALL DEPENDS ${aq_pages})
file(MAKE_DIRECTORY ${AQ_MAN_DIR}/man1)
if(AQ_INSTALL)
  install(DIRECTORY ${AQ_MAN_DIR}/man1 ${AQ_MAN_DIR}/man3 ${AQ_MAN_DIR}/man7
    DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT doc)
endif()
