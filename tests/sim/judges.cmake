# The judges of histories, on histories written by hand. They link nothing of the project: here that is shown.
set(sim ${PROJECT_SOURCE_DIR}/sim)
add_library(redlock_judges STATIC
  ${sim}/judges/check.c ${sim}/judges/breaks.c ${sim}/judges/leases.c ${sim}/judges/linear.c ${sim}/judges/lists.c ${sim}/judges/liveness.c ${sim}/judges/observed.c ${sim}/judges/orphans.c ${sim}/judges/register.c ${sim}/judges/report.c ${sim}/judges/storms.c ${sim}/judges/eligibility.c)
target_link_libraries(redlock_judges PUBLIC redlock_flags)
target_include_directories(redlock_judges PUBLIC ${sim})
foreach(name check check_breaks check_observed check_register check_orphans check_order check_eligibility check_storms)
  add_executable(sim_${name} ${CMAKE_CURRENT_LIST_DIR}/test_${name}.c)
  target_link_libraries(sim_${name} PRIVATE redlock_judges PkgConfig::CMOCKA)
  add_test(NAME sim.${name} COMMAND sim_${name})
endforeach()
