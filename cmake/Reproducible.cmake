# The same source makes the same bytes in every directory. Not in a build for debuggers, which look for the source.
foreach(flag -ffile-prefix-map=${PROJECT_BINARY_DIR}/= -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
  add_compile_options($<$<CONFIG:Release>:${flag}>)
endforeach()
