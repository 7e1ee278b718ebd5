# Writes ${OUT}: every scene of ${DIR} as bytes, so that redlock-sim needs no file to find.
file(GLOB scenes ${DIR}/*.scene)
list(SORT scenes)
set(texts "")
set(table "")
foreach(scene IN LISTS scenes)
  get_filename_component(name ${scene} NAME_WE)
  string(REPLACE "-" "_" symbol ${name})
  file(READ ${scene} bytes HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  string(APPEND texts "static const unsigned char text_${symbol}[] = {${bytes}0};\n")
  string(APPEND table "    {\"${name}\", text_${symbol}},\n")
endforeach()
file(WRITE ${OUT} "/* Written by scenes.cmake. */\n#include \"scene_runner/scenario.h\"\n\n${texts}\n"
  "const struct scenario_text scenario_texts[] = {\n${table}};\n"
  "const unsigned scenario_texts_count = sizeof scenario_texts / sizeof scenario_texts[0];\n")
