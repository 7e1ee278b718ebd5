# The judges of histories, on histories written by hand. They link nothing of the project: here that is shown.
set(sim ${PROJECT_SOURCE_DIR}/sim)
add_library(redlock_judges STATIC
  ${sim}/check.c ${sim}/breaks.c ${sim}/leases.c ${sim}/linear.c ${sim}/lists.c ${sim}/liveness.c ${sim}/observed.c ${sim}/orphans.c ${sim}/register.c ${sim}/storms.c ${sim}/eligibility.c)
target_link_libraries(redlock_judges PUBLIC redlock_flags)
target_include_directories(redlock_judges PUBLIC ${sim})
foreach(name check check_breaks check_observed check_register check_orphans check_order check_eligibility check_storms)
  add_executable(sim_${name} ${CMAKE_CURRENT_LIST_DIR}/test_${name}.c)
  target_link_libraries(sim_${name} PRIVATE redlock_judges PkgConfig::CMOCKA)
  add_test(NAME sim.${name} COMMAND sim_${name})
endforeach()
