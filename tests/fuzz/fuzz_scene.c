/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Any text as a scene of the simulator. An error names the line. An accepted scene is played, in
 * each mode that it has an expectation for, and its result is printed. A play takes most of the
 * time of an input. So of the scenes that end after SHORT only one in eight is played.
 */
#include "scene_runner/scene.h"

#include "must.h"

#define FILE_NAME "x.scene"
#define SHORT (5000 * RL_MS)
#define PLAYED_MAX (60000 * RL_MS)

static void check_error(const char *error) {
    char *end = NULL;
    if (strncmp(error, FILE_NAME ":", sizeof FILE_NAME) != 0)
        must(false, "a refusal without the file");
    must(strtol(error + sizeof FILE_NAME, &end, 10) >= 0 && end[0] == ':' && end[1] == ' ',
         "a refusal without a line");
}

static void check(const struct scene *scene) {
    must(scene->steps_count <= SCENE_LINES_MAX && scene->sources_count <= DRAW_SOURCES_MAX,
         "too many");
    must(scene->options.nodes >= 1 && scene->options.nodes <= RL_NODES_MAX,
         "no such number of nodes");
    must(scene->options.clients >= 1 && scene->options.clients <= WORLD_CLIENTS_MAX,
         "no such number of clients");
    for (size_t i = 1; i < scene->steps_count; i++)
        must(scene->steps[i - 1].at <= scene->steps[i].at, "steps go back in time");
    for (size_t i = 0; i < scene->steps_count; i++) {
        must((scene->steps[i].nodes & ~rl_all(scene->options.nodes)) == 0,
             "a node that does not exist");
        must(scene->steps[i].clients >> scene->options.clients == 0,
             "a client that does not exist");
    }
}

static void play(const struct scene *scene) {
    static struct scene_result result;
    for (int mode = 0; mode < SCENE_MODES; mode++) {
        if (!scene->expects[mode].given) continue;
        scene_run(scene, (enum scene_mode)mode, &result);
        must(result.verdict[0] != '\0', "no verdict");
        must(result.as_expected == (result.unmet[0] == '\0'), "as expected, or not");
        scene_result_free(&result);
    }
}

static bool is_played(const struct scene *scene, const uint8_t *data, size_t size) {
    unsigned sum = 0;
    for (size_t i = 0; i < size; i++) sum = sum * 31 + data[i];
    if (scene->later[0] != '\0' || scene->ends > PLAYED_MAX) return false;
    return scene->ends <= SHORT || (sum >> 8) % 8 == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct scene scene;
    char error[512] = "";
    char *text = text_of(data, size);
    if (!scene_read(&scene, "x", FILE_NAME, text, error, sizeof error)) {
        check_error(error);
    } else {
        check(&scene);
        if (is_played(&scene, data, size)) play(&scene);
    }
    free(text);
    return 0;
}
