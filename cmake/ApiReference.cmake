# The reference of the public headers, by doxygen, where it is installed: HTML and manual pages in the build directory's api/.
find_program(DOXYGEN doxygen)
if(DOXYGEN)
  configure_file(${PROJECT_SOURCE_DIR}/docs/api/Doxyfile.in ${PROJECT_BINARY_DIR}/Doxyfile @ONLY)
  add_custom_target(api COMMAND ${DOXYGEN} ${PROJECT_BINARY_DIR}/Doxyfile COMMENT "The API reference, in api/" VERBATIM)
endif()
