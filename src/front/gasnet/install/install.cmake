# The install tree that build systems of clients search for, <prefix>/lib/aqueduct/gasnet.
file(RELATIVE_PATH AQG_TO_AQRUN /prefix/${AQG_TREE}/bin /prefix/${CMAKE_INSTALL_BINDIR}/aqrun)
file(STRINGS include/gasnet_config.h aqg_release REGEX "define GASNET_RELEASE_VERSION_")
string(REGEX REPLACE "[^0-9;]" "" aqg_release "${aqg_release}")
string(REPLACE ";" "." AQG_RELEASE "${aqg_release}")
list(TRANSFORM AQ_SYSTEM_LIBRARIES PREPEND "-l" OUTPUT_VARIABLE AQG_LIBS)
list(JOIN AQG_LIBS " " AQG_LIBS)

# Clients get the name of the C++ compiler, which a build without tests does not need itself.
if(NOT CMAKE_CXX_COMPILER)
  include(CheckLanguage)
  check_language(CXX)
endif()
if(NOT CMAKE_CXX_COMPILER)
  set(CMAKE_CXX_COMPILER c++)
endif()

install(DIRECTORY include/ DESTINATION ${AQG_TREE}/include COMPONENT dev
  FILES_MATCHING PATTERN "*.h")

# aqg_install_library(TARGET FOLDER_OF_HEADERS…): a library, also as aqueduct::TARGET.
function(aqg_install_library target)
  list(TRANSFORM ARGN PREPEND ${AQG_TREE}/)
  install(TARGETS ${target} EXPORT aqueduct-gasnet
    ARCHIVE DESTINATION ${AQG_TREE}/lib COMPONENT dev INCLUDES DESTINATION ${ARGN})
endfunction()

foreach(net IN LISTS AQG_NETS)
  set(AQG_TRANSPORTS ${AQG_TRANSPORTS_${net}})
  string(TOUPPER ${net} NET)
  set(conduit ${AQG_BINARY}/install/${net}-conduit)
  foreach(launcher IN ITEMS gasnetrun_${net} ${AQG_LAUNCHERS_${net}})
    configure_file(install/gasnetrun.in ${AQG_BINARY}/install/${launcher} @ONLY)
    install(PROGRAMS ${AQG_BINARY}/install/${launcher}
      DESTINATION ${AQG_TREE}/bin COMPONENT tools)
    set_property(GLOBAL APPEND PROPERTY AQ_LAUNCHERS ${AQG_BINARY}/install/${launcher})
  endforeach()
  install(FILES ${AQG_BINARY}/include/${net}-conduit/gasnet_core.h
    DESTINATION ${AQG_TREE}/include/${net}-conduit COMPONENT dev)
  foreach(mode IN LISTS AQG_MODES)
    string(TOUPPER ${mode} MODE)
    set(AQG_MODE_DEFINES "-DGASNET_${MODE}")
    if(NOT mode STREQUAL seq)
      string(PREPEND AQG_MODE_DEFINES "-D_REENTRANT ")
    endif()
    configure_file(install/conduit.mak.in ${conduit}/${net}-${mode}.mak @ONLY)
    configure_file(install/conduit.pc.in ${AQG_BINARY}/install/gasnet-${net}-${mode}.pc @ONLY)
    install(FILES ${conduit}/${net}-${mode}.mak
      DESTINATION ${AQG_TREE}/include/${net}-conduit COMPONENT dev)
    install(FILES ${AQG_BINARY}/install/gasnet-${net}-${mode}.pc
      DESTINATION ${AQG_TREE}/lib/pkgconfig COMPONENT dev)
    aqg_install_library(gasnet-${net}-${mode} include include/${net}-conduit)
  endforeach()
endforeach()

foreach(mode IN ITEMS seq par)
  set(AQG_TOOLS_DEFINES -DGASNETT_THREAD_SINGLE)
  if(mode STREQUAL par)
    set(AQG_TOOLS_DEFINES "-D_REENTRANT -DGASNETT_THREAD_SAFE")
  endif()
  configure_file(install/tools.mak.in ${AQG_BINARY}/install/gasnet_tools-${mode}.mak @ONLY)
  configure_file(install/tools.pc.in ${AQG_BINARY}/install/gasnet_tools-${mode}.pc @ONLY)
  install(FILES ${AQG_BINARY}/install/gasnet_tools-${mode}.mak
    DESTINATION ${AQG_TREE}/include COMPONENT dev)
  install(FILES ${AQG_BINARY}/install/gasnet_tools-${mode}.pc
    DESTINATION ${AQG_TREE}/lib/pkgconfig COMPONENT dev)
  aqg_install_library(gasnet_tools-${mode} include)
endforeach()
install(EXPORT aqueduct-gasnet NAMESPACE aqueduct:: FILE aqueduct-gasnet.cmake
  DESTINATION ${AQG_TREE}/lib/cmake COMPONENT dev)
