# SPDX-License-Identifier: BSD-2-Clause
#
# The reader that decodes replies: hiredis, or libvalkey, which has the same functions under names of its own.
option(REDLOCK_LIBVALKEY "Decode replies with libvalkey in place of hiredis" OFF)
if(NOT REDLOCK_LIBVALKEY)
  set(REDLOCK_CODEC hiredis)
  pkg_check_modules(HIREDIS REQUIRED IMPORTED_TARGET hiredis)
  return()
endif()

set(REDLOCK_CODEC valkey)
pkg_check_modules(HIREDIS REQUIRED IMPORTED_TARGET valkey)
set_property(TARGET PkgConfig::HIREDIS APPEND PROPERTY INTERFACE_INCLUDE_DIRECTORIES
  $<BUILD_INTERFACE:${CMAKE_CURRENT_LIST_DIR}/libvalkey>)
foreach(name Reader ReaderCreate ReaderCreateWithFunctions ReaderFree ReaderFeed ReaderGetReply ReadTask ReplyObjectFunctions
    Context Reply Connect ConnectWithTimeout SetTimeout Free Command CommandArgv vCommand AppendCommand AppendCommandArgv
    AppendFormattedCommand GetReply BufferWrite FormatCommandArgv FreeCommand)
  set_property(TARGET PkgConfig::HIREDIS APPEND PROPERTY INTERFACE_COMPILE_DEFINITIONS redis${name}=valkey${name})
endforeach()
foreach(name OK ERR ERR_OOM REPLY_STRING REPLY_ARRAY REPLY_INTEGER REPLY_NIL REPLY_STATUS REPLY_ERROR)
  set_property(TARGET PkgConfig::HIREDIS APPEND PROPERTY INTERFACE_COMPILE_DEFINITIONS REDIS_${name}=VALKEY_${name})
endforeach()
