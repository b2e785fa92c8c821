# The files to install and their destinations, in the components runtime, dev, tools, doc, fi
# (src/front/fi) and cci (src/front/cci). No installed file contains the prefix, so that the tree
# can be moved (tests/install does that).
include(CMakePackageConfigHelpers)

foreach(folder BIN INCLUDE LIB)
  if(IS_ABSOLUTE ${CMAKE_INSTALL_${folder}DIR})
    message(FATAL_ERROR "CMAKE_INSTALL_${folder}DIR=${CMAKE_INSTALL_${folder}DIR} is absolute: "
      "give it relative to the prefix, as the installed tree may be moved")
  endif()
endforeach()
set(AQ_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/aqueduct)

install(TARGETS aqueduct aqueduct_static EXPORT aqueductTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(AQ_BUILD_TOOLS)
  install(TARGETS aqrun aqinfo aqperf aqtop
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/aqueduct
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev FILES_MATCHING PATTERN "*.h")

install(EXPORT aqueductTargets NAMESPACE aqueduct:: DESTINATION ${AQ_PACKAGE_DIR} COMPONENT dev)
set(AQ_TRANSPORTS "loop shm udp")
foreach(net IBV OFI)
  set(AQ_HAS_${net} FALSE)
  if(AQ_WITH_${net})
    set(AQ_HAS_${net} TRUE)
    string(TOLOWER " ${net}" net)
    string(APPEND AQ_TRANSPORTS ${net})
  endif()
endforeach()
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/aqueductConfig.cmake.in
  ${PROJECT_BINARY_DIR}/package/aqueductConfig.cmake INSTALL_DESTINATION ${AQ_PACKAGE_DIR})
# Before 1.0, every minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/aqueductConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/package/aqueductConfig.cmake
  ${PROJECT_BINARY_DIR}/package/aqueductConfigVersion.cmake
  DESTINATION ${AQ_PACKAGE_DIR} COMPONENT dev)

file(RELATIVE_PATH AQ_PC_TO_PREFIX
  /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" AQ_PC_TO_PREFIX ${AQ_PC_TO_PREFIX})
list(TRANSFORM AQ_SYSTEM_LIBRARIES PREPEND "-l" OUTPUT_VARIABLE AQ_PC_LIBS_PRIVATE)
list(JOIN AQ_PC_LIBS_PRIVATE " " AQ_PC_LIBS_PRIVATE)
configure_file(${CMAKE_CURRENT_LIST_DIR}/aqueduct.pc.in
  ${PROJECT_BINARY_DIR}/package/aqueduct.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/package/aqueduct.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)

install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT doc)
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT doc
  FILES_MATCHING PATTERN "*.md" PATTERN "*.svg")
