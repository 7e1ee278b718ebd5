/* SPDX-License-Identifier: BSD-2-Clause
 *
 * doctor: reports whether this set of servers is fit to hold locks, and if not, why, and the cure.
 */
#include "doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "explain/votes.h"
#include "frame/commands.h"
#include "config/duration.h"
#include "process/boottime.h"
#include "process/exit_codes.h"
#include "process/message.h"

struct doctor {
    struct session session;
    struct checkup before, now;
    struct findings findings;
};

enum { EXIT_UNFIT = 1 };

/* The servers may be fit: the configuration of this command is not. */
static bool is_of_configuration(const struct finding *finding) {
    return strcmp(finding->name, "TWO-QUORUMS") == 0;
}

/* If no node could be asked, nothing is known about the servers: the exit status is that of any
 * other command. */
static int status_of(struct doctor *doctor) {
    bool only_absent = true;
    for (size_t i = 0; i < doctor->findings.count; i++) {
        const struct finding *finding = &doctor->findings.list[i];
        bool of_absence =
            strcmp(finding->name, "NO-QUORUM") == 0 || strcmp(finding->name, "PASSWORD") == 0 ||
            strcmp(finding->name, "PROTECTED-MODE") == 0 || strcmp(finding->name, "TLS") == 0 ||
            strcmp(finding->name, "NOT-A-SERVER") == 0;
        if (is_of_configuration(finding)) return EXIT_CONFIG;
        if (finding->severity == SEVERITY_ERROR && !of_absence) only_absent = false;
    }
    for (size_t i = 0; i < doctor->now.count; i++) {
        if (is_served(&doctor->now.nodes[i])) only_absent = false;
    }
    if (only_absent) return session_shut_out(&doctor->session, NULL) ? EXIT_CONFIG : EXIT_NO_QUORUM;
    return doctor->findings.errors > 0 ? EXIT_UNFIT : EXIT_OK;
}

static void print_hour(bool first) {
    char hour[32];
    time_t now = time(NULL);
    struct tm local;
    localtime_r(&now, &local);
    strftime(hour, sizeof hour, "%F %T", &local);
    if (isatty(STDOUT_FILENO)) {
        printf("\033[H\033[2J%s\n\n", hour);
    } else {
        printf("%s%s\n\n", first ? "" : "\n", hour);
    }
}

static int examine(struct doctor *doctor, bool first) {
    const struct settings *settings = doctor->session.settings;
    int result = checkup_take(&doctor->session, first ? NULL : &doctor->before, &doctor->now);
    if (result != REDLOCK_OK) {
        complain("%s", redlock_result_text(result));
        return EXIT_SYSTEM;
    }
    findings_judge(&doctor->now, &doctor->findings);
    if (settings->json) {
        prescription_json(&doctor->now, &doctor->findings);
    } else {
        if (settings->look.watch_ms > 0) print_hour(first);
        if (!settings->quiet) chart_print(&doctor->now);
        prescription_print(&doctor->now, &doctor->findings, settings->quiet);
    }
    fflush(stdout);
    return status_of(doctor);
}

static int examine_often(struct doctor *doctor) {
    const int64_t interval = doctor->session.settings->look.watch_ms * MS;
    int status = EXIT_OK;
    for (bool first = true; ferror(stdout) == 0; first = false) {
        int64_t began = now_ns();
        status = examine(doctor, first);
        if (status == EXIT_SYSTEM) break;
        doctor->before = doctor->now;
        session_live_until(&doctor->session, began + interval);
    }
    return status;
}

int command_doctor(struct settings *settings, int argc, char **argv) {
    if (argc > 0) {
        complain(
            "doctor takes no operands, but got '%.60s'; name nodes with -N, an interval with --watch=5s",
            argv[0]);
        return EXIT_USAGE_ERROR;
    }
    struct doctor *doctor = calloc(1, sizeof *doctor);
    if (doctor == NULL) return EXIT_SYSTEM;
    settings->only_looks = true;
    int status = session_open(&doctor->session, settings);
    if (status == 0) {
        status = settings->look.watch_ms > 0 ? examine_often(doctor) : examine(doctor, true);
        session_close(&doctor->session);
    } else {
        refuse_any(settings, status, 0, NULL);
    }
    free(doctor);
    return status;
}
