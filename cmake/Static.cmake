# With REDLOCK_STATIC: programs that need no shared library. They are position-independent all the same. The gateway is left out,
# because libsystemd has no static library; the tests and the examples are for the other builds.
if(NOT REDLOCK_GATEWAY)
  set(REDLOCK_TESTS OFF) # they use it
endif()
if(NOT REDLOCK_STATIC)
  return()
endif()
set(CMAKE_FIND_LIBRARY_SUFFIXES .a) # for pkg_check_modules too
add_link_options(-static-pie)
if(NOT REDLOCK_TLS STREQUAL off)
  set(REDLOCK_TLS linked)
endif()
set(REDLOCK_GATEWAY OFF)
set(REDLOCK_TESTS OFF)
set(REDLOCK_EXAMPLES OFF)
