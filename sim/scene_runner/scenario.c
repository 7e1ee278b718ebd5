/* SPDX-License-Identifier: BSD-2-Clause */
#include "scenario.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "pictures/draw.h"
#include "history/memory.h"
#include "pictures/phrase.h"
#include "scene.h"
#include "pictures/story.h"

enum { END_OK = 0, END_UNEXPECTED = 1, END_USAGE = 64, END_DATA = 65, END_WRITE = 73 };

struct request {
    bool list, words, all, trace;
    const char *svg, *html, *gallery, *name, *mode;
};

/* ---- arguments ------------------------------------------------------------------------------- */

void scenario_help(FILE *out) {
    fputs(
        "  NAME            play a scenario, built in or from a file FILE.scene, and tell it in sentences,\n"
        "                  in each mode that it says something of\n"
        "    --mode MODE   only in this one\n"
        "    --svg FILE    and draw it as a picture (-: to standard output), in the first of its modes\n"
        "    --html FILE   and as a page\n"
        "    --trace       and print everything that happens\n"
        "  --list          the scenarios built in, one line each\n"
        "  --all           play all of them, one line each\n"
        "  --gallery DIR   draw all of them, with a page that shows them\n"
        "  --words         the sentences that a scene may use\n",
        out);
}

bool scenario_wants(int argc, char **argv) {
    static const char *const ours[] = {"--list",    "--words", "--all",
                                       "--gallery", "--svg",   "--html"};
    for (int i = 1; i < argc; i++) {
        for (size_t j = 0; j < sizeof ours / sizeof ours[0]; j++) {
            if (strcmp(argv[i], ours[j]) == 0) return true;
        }
    }
    return argc > 1 && argv[1][0] != '-';
}

static bool usage(const char *what, const char *which) {
    fprintf(stderr, "redlock sim: %s%s; try 'redlock sim --help'\n", what, which);
    return false;
}

static bool read_arguments(struct request *request, int argc, char **argv) {
    const struct {
        const char *name, **value;
        bool *flag;
    } options[] = {
        {"--svg", &request->svg, NULL},         {"--html", &request->html, NULL},
        {"--gallery", &request->gallery, NULL}, {"--mode", &request->mode, NULL},
        {"--list", NULL, &request->list},       {"--words", NULL, &request->words},
        {"--all", NULL, &request->all},         {"--trace", NULL, &request->trace},
    };
    const size_t count = sizeof options / sizeof options[0];
    for (int i = 1; i < argc; i++) {
        const char *argument = argv[i];
        size_t at = 0;
        while (at < count && strcmp(argument, options[at].name) != 0) at++;
        if (at < count && options[at].value != NULL) {
            if (i + 1 == argc) return usage("a value is missing after ", argument);
            *options[at].value = argv[++i];
        } else if (at < count) {
            *options[at].flag = true;
        } else if (argument[0] == '-') {
            return usage("unknown option ", argument);
        } else if (request->name != NULL) {
            return usage("one scenario at a time, not also ", argument);
        } else {
            request->name = argument;
        }
    }
    bool known = request->mode == NULL;
    for (int mode = 0; mode < SCENE_MODES && !known; mode++)
        known = strcmp(request->mode, scene_mode_names[mode]) == 0;
    if (!known)
        return usage("scenarios are played in mode classic, guarded or native, not ",
                     request->mode);
    bool others = request->list || request->words || request->all || request->gallery != NULL;
    if (request->name == NULL && !others) return usage("which scenario?", "");
    return true;
}

/* ---- reading --------------------------------------------------------------------------------- */

static int read_text(struct scene *scene, const char *name, const char *file, const char *text) {
    char error[512];
    if (scene_read(scene, name, file, text, error, sizeof error)) return END_OK;
    fprintf(stderr, "%s\n", error);
    return END_DATA;
}

static int read_built_in(struct scene *scene, const struct scenario_text *text) {
    char file[256];
    snprintf(file, sizeof file, "%s.scene", text->name);
    return read_text(scene, text->name, file, (const char *)text->text);
}

static int read_file(struct scene *scene, const char *path) {
    char text[16384], name[64];
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        fprintf(stderr, "redlock sim: cannot read %s: %s\n", path, strerror(errno));
        return END_DATA;
    }
    size_t length = fread(text, 1, sizeof text, file);
    fclose(file);
    if (length == sizeof text) {
        fprintf(stderr, "redlock sim: %s is longer than a scene can be\n", path);
        return END_DATA;
    }
    text[length] = '\0';
    const char *base = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(base, "."), base);
    return read_text(scene, name, path, text);
}

/* The length of the longest piece that two names have in common. */
static size_t common_bytes(const char *a, const char *b) {
    size_t longest = 0;
    for (const char *from = a; *from != '\0'; from++) {
        for (const char *at = b; *at != '\0'; at++) {
            size_t length = 0;
            while (from[length] != '\0' && strncasecmp(from + length, at + length, 1) == 0)
                length++;
            if (length > longest) longest = length;
        }
    }
    return longest;
}

/* The names most like it, if any is. */
static void suggest(const char *name) {
    enum { LEAST_BYTES = 3, NAMES_MAX = 4 };
    size_t most = LEAST_BYTES, shown = 0;
    for (unsigned i = 0; i < scenario_texts_count; i++) {
        const size_t bytes = common_bytes(name, scenario_texts[i].name);
        if (bytes > most) most = bytes;
    }
    for (unsigned i = 0; i < scenario_texts_count && shown < NAMES_MAX; i++) {
        if (common_bytes(name, scenario_texts[i].name) != most) continue;
        fprintf(stderr, "%s%s", shown++ == 0 ? "; the nearest: " : ", ", scenario_texts[i].name);
    }
}

static int read_named(struct scene *scene, const char *name) {
    if (strchr(name, '/') != NULL || strstr(name, ".scene") != NULL) return read_file(scene, name);
    for (unsigned i = 0; i < scenario_texts_count; i++) {
        if (strcasecmp(scenario_texts[i].name, name) == 0)
            return read_built_in(scene, &scenario_texts[i]);
    }
    fprintf(stderr, "redlock sim: no scenario is called '%.60s'", name);
    suggest(name);
    fputs("; redlock sim --list shows them\n", stderr);
    return END_USAGE;
}

/* ---- printing -------------------------------------------------------------------------------- */

/* The result of a scene, one run for each mode that it names. */
struct runs {
    struct scene_result result[SCENE_MODES];
    struct picture picture[SCENE_MODES];
    size_t count;
    int status;
};

static struct picture picture_of(const struct scene *scene, const struct scene_result *result) {
    struct picture picture = {.name = scene->name,
                              .title = scene->title,
                              .prose = scene->prose,
                              .verdict = result->verdict,
                              .why = scene->expects[result->mode].why,
                              .breaks = result->violations_count > 0 || !result->as_expected,
                              .names = {scene_client_names, scene_resource_names},
                              .history = &result->history,
                              .violations = result->violations,
                              .violations_count = result->violations_count};
    for (size_t i = 0; i < scene->sources_count; i++) picture.sources[i] = scene->source_text[i];
    return picture;
}

static void run_all(const struct scene *scene, const char *only, struct runs *runs) {
    runs->count = 0;
    runs->status = END_OK;
    for (int mode = 0; mode < SCENE_MODES; mode++) {
        if (!scene->expects[mode].given ||
            (only != NULL && strcmp(only, scene_mode_names[mode]) != 0))
            continue;
        struct scene_result *result = &runs->result[runs->count];
        scene_run(scene, (enum scene_mode)mode, result);
        runs->picture[runs->count++] = picture_of(scene, result);
        fputs(result->unmet, stderr);
        if (!result->as_expected) runs->status = END_UNEXPECTED;
    }
}

static void free_all(struct runs *runs) {
    for (size_t i = 0; i < runs->count; i++) scene_result_free(&runs->result[i]);
}

/* Wraps at 78 columns. */
static void print_wrapped(const char *text, int indent) {
    int column = indent;
    printf("%*s", indent, "");
    while (*text != '\0') {
        size_t length = strcspn(text, " \n");
        if (column > indent && column + 1 + (int)length > 78) {
            printf("\n%*s", indent, "");
            column = indent;
        }
        if (column > indent) column += printf(" ");
        column += printf("%.*s", (int)length, text);
        text += length;
        if (text[0] == '\n' && text[1] == '\n') {
            printf("\n\n%*s", indent, "");
            column = indent;
        }
        while (*text == ' ' || *text == '\n') text++;
    }
    printf("\n");
}

static void print_head(const struct scene *scene) {
    printf("%s: %s\n\n", scene->name, scene->title);
    print_wrapped(scene->prose, 2);
    printf("\n");
    for (size_t i = 0; i < scene->sources_count; i++) {
        char source[400];
        snprintf(source, sizeof source, "Source: %s", scene->source_text[i]);
        print_wrapped(source, 2);
    }
    printf("\n");
}

static void print_story(const struct scene_result *result) {
    struct story story;
    const struct story_names names = {scene_client_names, scene_resource_names};
    story_describe(&story, &result->history, &names);
    for (size_t i = 0; i < story.count; i++) {
        printf("%3zu  %10s  %s\n", i + 1, phrase_time(story.events[i].at).text,
               story.events[i].text);
    }
    story_free(&story);
}

static void print_verdict(const struct scene *scene, const struct scene_result *result) {
    for (size_t i = 0; i < result->violations_count; i++) {
        printf("     %s: %s\n", check_rule_name(result->violations[i].rule),
               result->violations[i].text);
    }
    printf("\n%s\n", result->verdict);
    const char *why = scene->expects[result->mode].why;
    if (why[0] != '\0') print_wrapped(why, 2);
}

/* ---- drawing --------------------------------------------------------------------------------- */

enum drawing { DRAW_SVG, DRAW_THUMBNAIL, DRAW_HTML };

static int complain_of(const char *path) {
    fprintf(stderr, "redlock sim: cannot write %s: %s\n", path, strerror(errno));
    return END_WRITE;
}

static int close_file(FILE *out, const char *path) {
    bool bad = ferror(out) != 0;
    bool standard = out == stdout;
    if ((standard ? fflush(out) : fclose(out)) != 0 || bad) return complain_of(path);
    return END_OK;
}

static int draw_to(const char *path, enum drawing drawing, const struct picture *pictures,
                   size_t count) {
    FILE *out = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
    if (out == NULL) return complain_of(path);
    switch (drawing) {
    case DRAW_SVG: draw_svg(out, pictures); break;
    case DRAW_THUMBNAIL: draw_thumbnail(out, pictures); break;
    case DRAW_HTML: draw_html(out, pictures, count); break;
    }
    return close_file(out, path);
}

/* The path of a file in the directory; false: it is too long. */
static bool name_file(char *path, size_t size, const char *directory, const char *name,
                      const char *suffix) {
    if ((size_t)snprintf(path, size, "%s/%s%s", directory, name, suffix) < size) return true;
    errno = ENAMETOOLONG;
    return false;
}

static int draw_in(const char *directory, const char *name, const char *suffix,
                   enum drawing drawing, const struct picture *pictures, size_t count) {
    char path[512];
    if (!name_file(path, sizeof path, directory, name, suffix)) return complain_of(directory);
    return draw_to(path, drawing, pictures, count);
}

static int worse(int a, int b) { return a > b ? a : b; }

/* The page of all pictures, and where they are. */
struct gallery {
    FILE *index;
    const char *directory;
};

static int gallery_entry(const struct scene *scene, const void *context) {
    const struct gallery *gallery = context;
    const char *directory = gallery->directory, *name = scene->name;
    if (scene->later[0] != '\0') {
        draw_gallery_later(gallery->index, name, scene->title, scene->later);
        return END_OK;
    }
    struct runs runs;
    run_all(scene, NULL, &runs);
    const struct picture *pictures = runs.picture;
    int status = runs.status;
    status = worse(status, draw_in(directory, name, ".svg", DRAW_SVG, pictures, 1));
    for (size_t i = 1; i < runs.count; i++) {
        char suffix[24];
        snprintf(suffix, sizeof suffix, ".%s.svg", scene_mode_names[runs.result[i].mode]);
        status = worse(status, draw_in(directory, name, suffix, DRAW_SVG, &pictures[i], 1));
    }
    status = worse(status, draw_in(directory, name, ".html", DRAW_HTML, pictures, runs.count));
    status = worse(status, draw_in(directory, name, ".thumb.svg", DRAW_THUMBNAIL, pictures, 1));
    draw_gallery_entry(gallery->index, pictures, runs.count);
    free_all(&runs);
    return status;
}

static int for_all(int (*one)(const struct scene *scene, const void *context),
                   const void *context) {
    struct scene *scene = memory_new(sizeof *scene);
    int status = END_OK;
    for (unsigned i = 0; i < scenario_texts_count; i++) {
        int result = read_built_in(scene, &scenario_texts[i]);
        status = worse(status, result != END_OK ? result : one(scene, context));
    }
    free(scene);
    return status;
}

static int make_gallery(const char *directory) {
    char path[512];
    if (mkdir(directory, 0777) != 0 && errno != EEXIST) return complain_of(directory);
    if (!name_file(path, sizeof path, directory, "index", ".html")) return complain_of(directory);
    struct gallery gallery = {fopen(path, "w"), directory};
    if (gallery.index == NULL) return complain_of(path);
    draw_gallery_open(gallery.index);
    int status = for_all(gallery_entry, &gallery);
    draw_gallery_close(gallery.index);
    return worse(status, close_file(gallery.index, path));
}

/* ---- commands -------------------------------------------------------------------------------- */

static int play(const struct scene *scene, const struct request *request) {
    /* A picture on standard output must be the only one. */
    bool quiet = (request->svg != NULL && strcmp(request->svg, "-") == 0) ||
                 (request->html != NULL && strcmp(request->html, "-") == 0);
    if (!quiet) print_head(scene);
    if (scene->later[0] != '\0') {
        fprintf(quiet ? stderr : stdout, "Nothing to play yet: %s\n", scene->later);
        return request->svg != NULL || request->html != NULL ? END_UNEXPECTED : END_OK;
    }
    struct runs runs;
    run_all(scene, request->mode, &runs);
    for (size_t i = 0; i < runs.count && !quiet; i++) {
        if (request->trace) history_print_all(&runs.result[i].history, stdout);
        print_story(&runs.result[i]);
        print_verdict(scene, &runs.result[i]);
        if (i + 1 < runs.count) printf("\n");
    }
    int status = runs.count > 0 ? runs.status : END_UNEXPECTED;
    if (runs.count == 0)
        fprintf(stderr, "redlock sim: this scenario is not played in mode %s\n", request->mode);
    if (request->svg != NULL && runs.count > 0)
        status = worse(status, draw_to(request->svg, DRAW_SVG, runs.picture, 1));
    if (request->html != NULL && runs.count > 0)
        status = worse(status, draw_to(request->html, DRAW_HTML, runs.picture, runs.count));
    free_all(&runs);
    return status;
}

static int list_one(const struct scene *scene, const void *context) {
    (void)context;
    char what[200] = "";
    struct phrase phrase;
    phrase_begin(&phrase, what, sizeof what);
    phrase_add(&phrase, "%s", scene->later);
    for (int mode = 0; mode < SCENE_MODES; mode++) {
        const struct scene_expectation *expects = &scene->expects[mode];
        if (!expects->given) continue;
        phrase_add(&phrase, "%s%s %s", what[0] != '\0' ? ", " : "", scene_mode_names[mode],
                   expects->breaks != 0 ? "breaks" : "holds");
    }
    printf("%-18s %s (%s)\n", scene->name, scene->title, what);
    return END_OK;
}

static int play_briefly(const struct scene *scene, const void *context) {
    (void)context;
    if (scene->later[0] != '\0') {
        printf("%-18s not yet: %s\n", scene->name, scene->later);
        return END_OK;
    }
    struct runs runs;
    run_all(scene, NULL, &runs);
    for (size_t i = 0; i < runs.count; i++)
        printf("%-18s %s\n", i == 0 ? scene->name : "", runs.result[i].verdict);
    fflush(stdout);
    free_all(&runs);
    return runs.status;
}

static int print_words(void) {
    printf("Options, before the first step:\n");
    for (int i = 0; i < SCENE_OPTION_COUNT; i++) printf("    %s\n", scene_option_sentences[i]);
    printf("Steps, each after 'at DURATION':\n");
    for (int i = 0; i < SCENE_STEP_COUNT; i++) printf("    %s\n", scene_step_sentences[i]);
    printf(
        "Expectations, below 'classic: holds' or 'classic: breaks RULE...', or the same of 'guarded:' or 'native:', each "
        "after 'and':\n");
    for (int i = 0; i < SCENE_CLAIM_COUNT; i++) printf("    %s\n", scene_claim_sentences[i]);
    printf("Rules:\n");
    for (int i = 0; i < CHECK_RULE_COUNT; i++)
        printf("    %s\n", check_rule_name((enum check_rule)i));
    return END_OK;
}

int scenario_main(int argc, char **argv) {
    struct request request = {0};
    if (!read_arguments(&request, argc, argv)) return END_USAGE;
    if (request.words) return print_words();
    if (request.list) return for_all(list_one, NULL);
    if (request.all) return for_all(play_briefly, NULL);
    if (request.gallery != NULL) return make_gallery(request.gallery);
    struct scene *scene = memory_new(sizeof *scene);
    int status = read_named(scene, request.name);
    if (status == END_OK) status = play(scene, &request);
    free(scene);
    return status;
}
