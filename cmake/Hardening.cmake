# What makes a memory error harder to use, in every build. tests/house/hardening.py reads the built files for it.
include(CheckCCompilerFlag)
include(CheckCSourceCompiles)
include(CheckPIESupported)
if(NOT REDLOCK_STATIC) # there -static-pie stands for -pie, which would undo it
  check_pie_supported(LANGUAGES C)
endif()

set(CMAKE_REQUIRED_FLAGS -Werror) # clang only warns of a flag that another processor has
foreach(flag -fstack-protector-strong -fstack-clash-protection -fcf-protection=full -mbranch-protection=standard)
  string(MAKE_C_IDENTIFIER "REDLOCK_HAS${flag}" known)
  check_c_compiler_flag(${flag} ${known}) # the last two are those of x86 and of ARM
  if(${known})
    add_compile_options(${flag})
  endif()
endforeach()
unset(CMAKE_REQUIRED_FLAGS)
add_link_options(-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)

# Checked memory functions need an optimising compiler, and a sanitizer has checks of its own.
if(NOT REDLOCK_SANITIZE)
  set(level 2)
  set(CMAKE_REQUIRED_FLAGS "-O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -Werror") # an older C library warns
  check_c_source_compiles("#include <string.h>\n#if __USE_FORTIFY_LEVEL < 3\n#error\n#endif\nint main(void) { return 0; }"
    REDLOCK_HAS_FORTIFY_3)
  unset(CMAKE_REQUIRED_FLAGS)
  if(REDLOCK_HAS_FORTIFY_3)
    set(level 3)
  endif()
  add_compile_options($<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE> $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=${level}>)
endif()
