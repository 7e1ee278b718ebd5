# Each scenario is a test of its own; then the reader of scenes, and the pictures.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
file(GLOB scenes CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/sim/scenarios/*.scene)
foreach(scene IN LISTS scenes)
  get_filename_component(name ${scene} NAME_WE)
  add_test(NAME sim.scene.${name} COMMAND redlock-sim ${scene})
endforeach()

# Slots are in no picture: their scenes show the mutants of slots, and hold without them.
foreach(name SLOT-COUNTED SLOT-SPLIT)
  add_test(NAME sim.scene.${name} COMMAND redlock-sim ${PROJECT_SOURCE_DIR}/sim/mutants/scenes/${name}.scene)
endforeach()

add_test(NAME sim.scene_reader
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_LIST_DIR}/scene_reader.py $<TARGET_FILE:redlock-sim>)

add_executable(sim_story ${CMAKE_CURRENT_LIST_DIR}/test_story.c ${REDLOCK_SIM_OBJECTS})
target_link_libraries(sim_story PRIVATE redlock_sim PkgConfig::CMOCKA)
add_test(NAME sim.story COMMAND sim_story)

# --update rewrites docs/pictures/ on purpose.
add_test(NAME sim.pictures
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_LIST_DIR}/pictures.py $<TARGET_FILE:redlock-sim> ${PROJECT_SOURCE_DIR}/docs/pictures)
add_test(NAME sim.pictures_in_browser
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_LIST_DIR}/browser.py $<TARGET_FILE:redlock-sim>)
set_tests_properties(sim.pictures_in_browser PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300)
sampled(4 sim.pictures_in_browser)
busy(20 sim.pictures_in_browser)
