# The reference of the public headers, by doxygen: HTML and manual pages in the build directory's api/. The target exists
# always, and looks for doxygen when it is built: it may have been installed after the last run of CMake.
configure_file(${PROJECT_SOURCE_DIR}/docs/api/Doxyfile.in ${PROJECT_BINARY_DIR}/Doxyfile @ONLY)
add_custom_target(api
  COMMAND sh -c "command -v doxygen > /dev/null || { echo 'There is no doxygen: apt-get install doxygen' >&2; exit 1; }"
  COMMAND doxygen ${PROJECT_BINARY_DIR}/Doxyfile
  COMMENT "The API reference, in api/" VERBATIM)
