# The world itself, and the exploration of seeds.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(sim_program $<TARGET_FILE:redlock-sim>)

foreach(name world faults changes wakes native rates explore)
  add_executable(sim_${name} ${CMAKE_CURRENT_LIST_DIR}/test_${name}.c ${CMAKE_CURRENT_LIST_DIR}/stage.c ${REDLOCK_SIM_OBJECTS})
  target_link_libraries(sim_${name} PRIVATE redlock_sim PkgConfig::CMOCKA)
  add_test(NAME sim.${name} COMMAND sim_${name})
endforeach()

# The line at a node, against the script on a real server.
add_executable(sim_queue ${CMAKE_CURRENT_LIST_DIR}/test_queue.c ${PROJECT_SOURCE_DIR}/sim/nodes/queue.c
  $<TARGET_OBJECTS:redlock_node>)
target_include_directories(sim_queue PRIVATE ${PROJECT_SOURCE_DIR}/sim)
target_link_libraries(sim_queue PRIVATE redlock_flags tests_support PkgConfig::CMOCKA)
target_compile_options(sim_queue PRIVATE -UNDEBUG)
add_test(NAME sim.queue COMMAND sim_queue $<TARGET_FILE:stepclock>)
set_tests_properties(sim.queue PROPERTIES TIMEOUT 120)

# 20,000 seeds in four shares, each by one job: so several run at a time, and scripts/test runs one of them for each
# commit. Under sanitizers each seed takes ten times as long.
set(seeds 20000)
if(REDLOCK_SANITIZE)
  set(seeds 2000)
endif()
# explore NAME SEEDS OPTION...
function(explore name seeds)
  math(EXPR each "${seeds} / 4")
  foreach(share 1 2 3 4)
    math(EXPR start "(${share} - 1) * ${each} + 1")
    add_test(NAME ${name}.${share} COMMAND redlock-sim ${ARGN} --start ${start} --seeds ${each} --jobs 1)
    set_tests_properties(${name}.${share} PROPERTIES TIMEOUT 900)
    busy(50 ${name}.${share})
    sampled(8 ${name}.${share})
  endforeach()
endfunction()
explore(sim.classic ${seeds})

# Guarded mode, with every fault that there is, on stock, mixed and native nodes; then with the data of more than a minority lost at a time, where nothing need
# be granted any more, but whatever is must be right.
math(EXPR guarded_seeds "${seeds} / 4")
explore(sim.guarded ${guarded_seeds} --mode guarded)
# Classic mode on native nodes, and on nodes that become native or stock, with clients of other projects.
explore(sim.classic_native ${guarded_seeds} --native)
explore(sim.classic_mixed ${guarded_seeds} --mixed)
# Corner cases, where rules that seldom matter do.
explore(sim.classic_biased ${guarded_seeds} --biased)
explore(sim.guarded_biased ${guarded_seeds} --mode guarded --biased)
# Readers and writers.
explore(sim.classic_shared ${guarded_seeds} --shared)
explore(sim.guarded_shared ${guarded_seeds} --mode guarded --stock --shared)
explore(sim.native_shared ${guarded_seeds} --mode guarded --native --shared)
explore(sim.mixed_shared ${guarded_seeds} --mode guarded --mixed --shared)
explore(sim.classic_mixed_shared ${guarded_seeds} --mixed --shared)
# Two waiters that six nodes order differently split the votes for ever, before they stayed away after it.
add_test(NAME sim.split_votes COMMAND redlock-sim --mode guarded --native --start 22553 --seeds 1 --jobs 1)
add_test(NAME sim.split_votes_shared
  COMMAND redlock-sim --mode guarded --native --shared --start 25301 --seeds 1 --jobs 1)
explore(sim.guarded.data-loss ${guarded_seeds} --mode guarded --break data-loss)
explore(sim.guarded.vm-stop ${guarded_seeds} --mode guarded --break vm-stop --biased)

foreach(assumption data-loss clock-step pause-write mixed-config)
  add_test(NAME sim.break.${assumption}
    COMMAND Python3::Interpreter ${CMAKE_CURRENT_LIST_DIR}/breaks.py ${sim_program} ${assumption})
endforeach()

# The same seeds, the same bytes: this build, and (compilers) others, against the hashes that are checked in.
add_test(NAME sim.hashes COMMAND ${CMAKE_CURRENT_LIST_DIR}/hashes.sh ${sim_program})
foreach(compiler gcc clang)
  foreach(type Debug Release)
    add_test(NAME sim.compilers.${compiler}.${type}
      COMMAND ${CMAKE_CURRENT_LIST_DIR}/compilers.sh ${PROJECT_SOURCE_DIR} ${compiler} ${type})
    set_tests_properties(sim.compilers.${compiler}.${type} PROPERTIES TIMEOUT 600 SKIP_RETURN_CODE 77)
    busy(20 sim.compilers.${compiler}.${type})
    sampled(8 sim.compilers.${compiler}.${type})
  endforeach()
endforeach()

add_test(NAME sim.command_line COMMAND Python3::Interpreter ${CMAKE_CURRENT_LIST_DIR}/command_line.py ${sim_program})
add_test(NAME sim.symbols COMMAND ${CMAKE_CURRENT_LIST_DIR}/symbols.sh $<TARGET_FILE:redlock_sim>)
