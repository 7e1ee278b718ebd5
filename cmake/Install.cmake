# What `cmake --install` puts where; the command line's own files are in cli/. Everything is found relative to the prefix, so a tree can be moved.
include(CMakePackageConfigHelpers)

install(TARGETS redlock-sim redlock-bench redlock-top RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/redlock)
if(REDLOCK_STATIC)
  return()
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${PROJECT_SOURCE_DIR}/bindings/cpp/redlock.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set_target_properties(redlock_shared PROPERTIES EXPORT_NAME redlock)
set_target_properties(redlock_static PROPERTIES EXPORT_NAME static)
# Two export files, so that who links the shared library needs no development files of what is inside it.
foreach(kind shared static)
  install(TARGETS redlock_${kind} EXPORT redlock-${kind}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT redlock-${kind} NAMESPACE redlock:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/redlock)
endforeach()

configure_package_config_file(${PROJECT_SOURCE_DIR}/packaging/redlock-config.cmake.in
  ${PROJECT_BINARY_DIR}/redlock-config.cmake INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/redlock)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/redlock-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/redlock-config.cmake ${PROJECT_BINARY_DIR}/redlock-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/redlock)

file(RELATIVE_PATH REDLOCK_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" REDLOCK_PC_PREFIX "${REDLOCK_PC_PREFIX}")
configure_file(${PROJECT_SOURCE_DIR}/packaging/redlock.pc.in ${PROJECT_BINARY_DIR}/redlock.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/redlock.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# For Prometheus and Grafana, next to the documents that explain them. The alerts name the runbook where it is installed.
set(alerts ${PROJECT_SOURCE_DIR}/packaging/kubernetes/chart/alerts.yml)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${alerts})
file(READ ${alerts} text)
string(REPLACE docs/operate/ ${CMAKE_INSTALL_FULL_DOCDIR}/ text "${text}")
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/alerts.yml CONTENT "${text}" @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/alerts.yml ${PROJECT_SOURCE_DIR}/packaging/kubernetes/chart/dashboard.json
  DESTINATION ${CMAKE_INSTALL_DOCDIR}/observability)

if(NOT REDLOCK_GATEWAY)
  return()
endif()
install(TARGETS redlock-serve redlock-script redlock-exporter RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/redlock)
# The units, under the prefix: after an installation elsewhere, link them to where systemd looks. A package sets the
# directory of its distribution.
set(REDLOCK_UNIT_DIR lib/systemd/system CACHE STRING "Where the systemd units go")
file(STRINGS ${PROJECT_SOURCE_DIR}/packaging/systemd/hardening.conf hardening REGEX "^[A-Z]")
list(JOIN hardening "\n" REDLOCK_HARDENING)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/packaging/systemd/hardening.conf)
foreach(unit redlock-serve redlock-exporter redlock-quorum-init@ redlock-elect@ redlock-run@)
  configure_file(${PROJECT_SOURCE_DIR}/packaging/systemd/${unit}.service.in ${PROJECT_BINARY_DIR}/${unit}.service @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${unit}.service DESTINATION ${REDLOCK_UNIT_DIR})
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/packaging/systemd/redlock-serve.socket ${PROJECT_SOURCE_DIR}/packaging/systemd/redlock-run@.timer
  DESTINATION ${REDLOCK_UNIT_DIR})

# For the instance "redlock" of the distribution's unit for several servers, and no other.
configure_file(${PROJECT_SOURCE_DIR}/packaging/systemd/redlock-node.conf.in ${PROJECT_BINARY_DIR}/redlock-node.conf @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/redlock-node.conf DESTINATION ${REDLOCK_UNIT_DIR}/redis-server@redlock.service.d RENAME redlock.conf)
