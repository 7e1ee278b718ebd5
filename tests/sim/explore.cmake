# The world itself, and the exploration of seeds.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(sim_program $<TARGET_FILE:redlock-sim>)

foreach(name world faults changes wakes explore)
  add_executable(sim_${name} ${CMAKE_CURRENT_LIST_DIR}/test_${name}.c ${CMAKE_CURRENT_LIST_DIR}/stage.c ${REDLOCK_SIM_OBJECTS})
  target_link_libraries(sim_${name} PRIVATE redlock_sim PkgConfig::CMOCKA)
  add_test(NAME sim.${name} COMMAND sim_${name})
endforeach()

# The line at a node, against the script on a real server.
add_executable(sim_queue ${CMAKE_CURRENT_LIST_DIR}/test_queue.c ${PROJECT_SOURCE_DIR}/sim/queue.c
  $<TARGET_OBJECTS:redlock_node>)
target_include_directories(sim_queue PRIVATE ${PROJECT_SOURCE_DIR}/sim)
target_link_libraries(sim_queue PRIVATE redlock_flags tests_support PkgConfig::CMOCKA)
target_compile_options(sim_queue PRIVATE -UNDEBUG)
add_test(NAME sim.queue COMMAND sim_queue $<TARGET_FILE:stepclock>)
set_tests_properties(sim.queue PROPERTIES TIMEOUT 120)

# What CI promises: 20,000 seeds within three minutes. Under sanitizers each takes ten times as long.
set(seeds 20000)
if(REDLOCK_SANITIZE)
  set(seeds 2000)
endif()
add_test(NAME sim.classic COMMAND redlock-sim --seeds ${seeds})
set_tests_properties(sim.classic PROPERTIES TIMEOUT 180 PROCESSORS 2)

# Guarded mode, with every fault that there is; then with the data of more than a minority lost at a time, where nothing need
# be granted any more, but whatever is must be right.
math(EXPR guarded_seeds "${seeds} / 4")
add_test(NAME sim.guarded COMMAND redlock-sim --mode guarded --seeds ${guarded_seeds})
add_test(NAME sim.guarded.data-loss COMMAND redlock-sim --mode guarded --break data-loss --seeds ${guarded_seeds})
set_tests_properties(sim.guarded sim.guarded.data-loss PROPERTIES TIMEOUT 300 PROCESSORS 2)

foreach(assumption data-loss clock-step pause-write mixed-config)
  add_test(NAME sim.break.${assumption}
    COMMAND Python3::Interpreter ${CMAKE_CURRENT_LIST_DIR}/breaks.py ${sim_program} ${assumption})
endforeach()

# The same seeds, the same bytes: this build, and (compilers) two others, against the hashes that are checked in.
add_test(NAME sim.hashes COMMAND ${CMAKE_CURRENT_LIST_DIR}/hashes.sh ${sim_program})
add_test(NAME sim.compilers COMMAND ${CMAKE_CURRENT_LIST_DIR}/compilers.sh ${PROJECT_SOURCE_DIR})
set_tests_properties(sim.compilers PROPERTIES TIMEOUT 900 SKIP_RETURN_CODE 77 PROCESSORS 2)

add_test(NAME sim.command_line COMMAND Python3::Interpreter ${CMAKE_CURRENT_LIST_DIR}/command_line.py ${sim_program})
add_test(NAME sim.symbols COMMAND ${CMAKE_CURRENT_LIST_DIR}/symbols.sh $<TARGET_FILE:redlock_sim>)
