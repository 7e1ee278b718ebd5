/* SPDX-License-Identifier: BSD-2-Clause */
#include "descent.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process/boottime.h"

#define LOOKS 3

struct member {
    pid_t pid;
    int error; /* of kill(2): errno */
};

struct members {
    struct member *list;
    size_t count, room;
};

static void add(struct members *members, pid_t pid) {
    /* one whose parent ended meanwhile is listed twice */
    for (size_t i = 0; i < members->count; i++)
        if (members->list[i].pid == pid) return;
    if (members->count == members->room) {
        const size_t room = members->room > 0 ? 2 * members->room : 64;
        void *list = realloc(members->list, room * sizeof *members->list);
        if (list == NULL) return;
        members->list = list;
        members->room = room;
    }
    members->list[members->count++] = (struct member){.pid = pid};
}

/* Each thread has children of its own. To look at every process of the machine would take so long
 * that processes that live for milliseconds are always gone. */
static void add_children(pid_t parent, struct members *members) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/task", (long)parent);
    DIR *threads = opendir(path);
    if (threads == NULL) return;
    for (struct dirent *entry; (entry = readdir(threads)) != NULL;) {
        if (!isdigit((unsigned char)entry->d_name[0])) continue;
        snprintf(path, sizeof path, "/proc/%ld/task/%.15s/children", (long)parent, entry->d_name);
        FILE *file = fopen(path, "re");
        if (file == NULL) continue;
        for (int pid; fscanf(file, "%d", &pid) == 1;) add(members, pid);
        fclose(file);
    }
    closedir(threads);
}

static void signal_each(struct members *members, size_t from, int signal, pid_t group) {
    for (size_t i = from; i < members->count; i++) {
        struct member *member = &members->list[i];
        const bool has_it = group > 0 && getpgid(member->pid) == group;
        if (kill(member->pid, has_it ? 0 : signal) != 0) member->error = errno;
        /* a stopped process cannot act on TERM */
        if (signal == SIGTERM && !has_it) kill(member->pid, SIGCONT);
    }
}

static void leave_out(struct members *members, const struct spared *spared) {
    size_t kept = 0;
    for (size_t i = 0; i < members->count; i++) {
        bool meant = true;
        for (size_t j = 0; spared != NULL && j < spared->count; j++)
            meant = meant && spared->list[j] != members->list[i].pid;
        if (meant) members->list[kept++] = members->list[i];
    }
    members->count = kept;
}

/* Of another user, where the mount of /proc hides those. */
static bool is_hidden(pid_t pid, char *name, size_t size, uid_t *user) {
    if (kill(pid, 0) == 0 || errno == ESRCH) return false;
    snprintf(name, size, "?");
    *user = (uid_t)-1;
    return true;
}

/* "PID (NAME) STATE ...": a name may contain anything, also ") ". False: it has ended. */
static bool lives(pid_t pid, char *name, size_t size, uid_t *user) {
    char path[32], line[512];
    struct stat status;
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return is_hidden(pid, name, size, user);
    const ssize_t got = read(fd, line, sizeof line - 1);
    const bool known = got > 0 && fstat(fd, &status) == 0;
    close(fd);
    if (!known) return false;
    line[got] = '\0';
    char *begin = strchr(line, '('), *end = strrchr(line, ')');
    if (begin == NULL || end == NULL || end < begin || end[1] != ' ') return false;
    *end = '\0';
    *user = status.st_uid;
    snprintf(name, size, "%s", begin + 1);
    return end[2] != 'Z' && end[2] != 'X';
}

struct descent descent_signal(pid_t root, int signal, pid_t group, const struct spared *spared) {
    struct descent found = {.living = 0};
    struct members members = {.count = 0};
    add_children(root, &members);
    leave_out(&members, spared);
    signal_each(&members, 0, signal, group);
    for (size_t i = 0; i < members.count; i++) {
        const size_t known = members.count;
        add_children(members.list[i].pid, &members);
        signal_each(&members, known, signal, group);
    }
    for (size_t i = 0; i < members.count; i++) {
        const struct member *member = &members.list[i];
        char name[sizeof found.name];
        uid_t user;
        if (!lives(member->pid, name, sizeof name, &user)) continue;
        /* a security module may have an error of its own for what is not permitted */
        const bool refused = member->error != 0 && member->error != ESRCH;
        if (found.living == 0 || (refused && found.refused == 0)) {
            found.error = member->error;
            found.pid = member->pid;
            found.user = user;
            memcpy(found.name, name, sizeof name);
        }
        found.living++;
        found.refused += refused;
    }
    free(members.list);
    return found;
}

struct descent descent_kill(pid_t root, const struct spared *spared, int64_t until_ns) {
    struct descent found;
    int quiet = 0;
    do {
        found = descent_signal(root, SIGKILL, 0, spared);
        quiet = found.living == found.refused ? quiet + 1 : 0;
    } while (quiet < LOOKS && now_ns() < until_ns);
    return found;
}

struct spared descent_children(void) {
    struct members members = {.count = 0};
    add_children(getpid(), &members);
    struct spared spared = {.list = calloc(members.count + 1, sizeof *spared.list)};
    for (size_t i = 0; spared.list != NULL && i < members.count; i++)
        spared.list[spared.count++] = members.list[i].pid;
    free(members.list);
    return spared;
}

char *descent_text(const struct descent *descent, size_t count, char *out, size_t size) {
    char more[32] = "";
    if (count > 1) snprintf(more, sizeof more, " and %zu more", count - 1);
    snprintf(out, size, "pid %ld (%s, uid %lu)%s", (long)descent->pid, descent->name,
             (unsigned long)descent->user, more);
    return out;
}
