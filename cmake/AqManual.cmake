# The manual pages: calls and topics from the public headers, tools from what they print for --help.
if(NOT AQ_BUILD_MANUAL)
  return()
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
add_custom_target(manual ALL DEPENDS ${AQ_MAN_DIR}/calls.stamp)

install(DIRECTORY ${AQ_MAN_DIR}/man3 ${AQ_MAN_DIR}/man7
  DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT doc)
