/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Any bytes as the configuration file: each value that is taken is within its range, and what is
 * refused is refused with the file's name and a line that it has.
 */
#include "frame/config.h"

#include <sys/mman.h>
#include <unistd.h>

#include "must.h"
#include "redlock.h"

static char path[64];
static int file;

static void open_file(void) {
    file = memfd_create("config", MFD_CLOEXEC);
    must(file >= 0, "no file");
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    must(setenv("REDLOCK_CONFIG", path, 1) == 0, "no environment");
}

static bool is_within(int64_t value, int64_t least, int64_t most) {
    return value >= least && value <= most;
}

static void check(const struct settings *settings) {
    must(is_within(settings->ttl_ms, REDLOCK_TTL_MS_MIN, REDLOCK_TTL_MS_MAX), "a TTL out of range");
    must(is_within(settings->client.node_timeout_ms, 0, 60000), "a node timeout out of range");
    must(is_within(settings->client.connect_timeout_ms, 1, 60000),
         "a connect timeout out of range");
    must(settings->wait_ms == WAIT_UNSET || settings->wait_ms >= REDLOCK_WAIT_FOREVER,
         "a wait out of range");
    must(is_within(settings->kill_after_ms, 0, REDLOCK_TTL_MS_MAX), "a kill-after out of range");
    must(settings->retry_delay_ms_min <= settings->retry_delay_ms_max,
         "the least delay is above the most");
    must(is_within(settings->conflict_exit_code, 0, 255), "an exit status out of range");
    must(settings->client.nodes == NULL && settings->client.quorum_id == NULL &&
             settings->client.mode == MODE_UNSET,
         "taken for the command line");
    must(settings->file.quorum_id == NULL || is_quorum_id(settings->file.quorum_id),
         "no quorum id");
    must(settings->file.ttl_max_ms == 0 ||
             is_within(settings->file.ttl_max_ms, REDLOCK_TTL_MS_MIN, REDLOCK_TTL_MS_MAX),
         "a ttl_max out of range");
}

/* "PATH:LINE: what is wrong" */
static void check_error(const char *error, const uint8_t *data, size_t size) {
    long lines = 1;
    char *end = NULL;
    const size_t bytes = strlen(path);
    for (size_t i = 0; i < size; i++) lines += data[i] == '\n';
    must(strncmp(error, path, bytes) == 0 && error[bytes] == ':', "a refusal without the file");
    const long line = strtol(error + bytes + 1, &end, 10);
    must(line >= 1 && line <= lines, "a refusal of no line");
    must(end[0] == ':' && end[1] == ' ' && end[2] != '\0', "a refusal without a reason");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct settings settings;
    char error[600] = "";
    if (path[0] == '\0') open_file();
    must(ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == (ssize_t)size, "not written");
    settings_init(&settings);
    if (config_load(&settings, error, sizeof error) == 0)
        check(&settings);
    else
        check_error(error, data, size);
    settings_free(&settings);
    return 0;
}
