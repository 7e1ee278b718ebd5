# SPDX-License-Identifier: BSD-2-Clause
#
# How the library gets OpenSSL: "loaded" with the first client that uses TLS, by the name that the linker would have noted, or
# "linked". REDLOCK_TLS_LIBRARIES is what a program of ours links for it.
set(REDLOCK_TLS loaded CACHE STRING "OpenSSL is loaded by the first client that uses TLS, or linked")
set_property(CACHE REDLOCK_TLS PROPERTY STRINGS loaded linked)
if(NOT REDLOCK_TLS MATCHES "^(loaded|linked)$")
  message(FATAL_ERROR "REDLOCK_TLS is '${REDLOCK_TLS}'; it can be loaded or linked")
endif()
pkg_check_modules(OPENSSL REQUIRED IMPORTED_TARGET openssl)
if(REDLOCK_TLS STREQUAL linked)
  set(REDLOCK_TLS_LIBRARIES PkgConfig::OPENSSL)
  set(REDLOCK_TLS_FLAGS "-lssl -lcrypto")
  return()
endif()

set(REDLOCK_TLS_LIBRARIES ${CMAKE_DL_LIBS})
list(TRANSFORM CMAKE_DL_LIBS PREPEND -l OUTPUT_VARIABLE REDLOCK_TLS_FLAGS)
set(libssl ${OPENSSL_LINK_LIBRARIES})
list(FILTER libssl INCLUDE REGEX "/libssl[.]so$")
if(libssl)
  execute_process(COMMAND ${CMAKE_READELF} -dW ${libssl} OUTPUT_VARIABLE dynamic)
endif()
if(NOT dynamic MATCHES "\\(SONAME\\)[^\n]*\\[([^]]+)\\]")
  message(FATAL_ERROR "No shared libssl with a soname in '${OPENSSL_LINK_LIBRARIES}': build with -DREDLOCK_TLS=linked")
endif()
set(REDLOCK_LIBSSL ${CMAKE_MATCH_1})
