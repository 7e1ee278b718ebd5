/* SPDX-License-Identifier: BSD-2-Clause */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* Each slot in a block of its own: a write torn inside one block leaves the other slot whole. */
#define BLOCK 4096
#define SLOTS 2
#define BUCKETS_AT ((SLOTS + 1) * BLOCK)
/* The last version: after it a bucket would start at 0 again, and look older than it is. */
#define VERSION_MAX UINT64_MAX
/* A file has no room for more. */
#define BUCKETS_MAX ((INT64_MAX - BUCKETS_AT) / sizeof(struct gate_bucket))

/* No text file begins with this byte; the number is in this machine's byte order. */
static const char magic[8] = "\x89rlgat2";
#define ORDER UINT64_C(0x0102030405060708)

struct header {
    char magic[8];
    uint64_t order;
    uint64_t salt;
    uint64_t buckets;
    uint64_t sum;
};

static off_t place_of(uint64_t index) {
    return (off_t)(BUCKETS_AT + index * sizeof(struct gate_bucket));
}
static off_t place_of_slot(unsigned slot) { return (off_t)(slot + 1) * BLOCK; }

static int write_at(int fd, const void *data, size_t bytes, off_t at) {
    const char *next = data;
    while (bytes > 0) {
        ssize_t written = pwrite(fd, next, bytes, at);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return -1;
        next += written;
        at += written;
        bytes -= (size_t)written;
    }
    return 0;
}

static int read_at(int fd, void *data, size_t bytes, off_t at) {
    char *next = data;
    while (bytes > 0) {
        ssize_t got = pread(fd, next, bytes, at);
        if (got < 0 && errno == EINTR) continue;
        if (got == 0) errno = EBADMSG;
        if (got <= 0) return -1;
        next += got;
        at += got;
        bytes -= (size_t)got;
    }
    return 0;
}

/* ---- creation: a file gets its name when it is complete ---- */

static uint64_t header_sum(const struct header *header) {
    return gate_hash(header->salt, header, offsetof(struct header, sum));
}

static int fill(int fd, uint64_t buckets) {
    struct header header = {.order = ORDER, .buckets = buckets};
    memcpy(header.magic, magic, sizeof magic);
    if (getrandom(&header.salt, sizeof header.salt, 0) != (ssize_t)sizeof header.salt) return -1;
    header.sum = header_sum(&header);
    if (ftruncate(fd, place_of(buckets)) != 0) return -1;
    if (write_at(fd, &header, sizeof header, 0) != 0) return -1;
    for (uint64_t i = 0; i < buckets; i++) {
        struct gate_bucket bucket = {.index = i};
        gate_bucket_seal(&bucket, header.salt);
        if (write_at(fd, &bucket, sizeof bucket, place_of(i)) != 0) return -1;
    }
    return fsync(fd);
}

static int directory_of(const char *path, char *directory, size_t size) {
    const char *slash = strrchr(path, '/');
    size_t length = !slash || slash == path ? 1 : (size_t)(slash - path);
    if (length >= size) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(directory, slash ? path : ".", length);
    directory[length] = '\0';
    return 0;
}

static int sync_directory(const char *directory) {
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return -1;
    int result = fsync(fd);
    int error = errno;
    close(fd);
    errno = error;
    return result;
}

/* A program without standard output prints to the first file that it opens. */
static int open_above_standard(const char *path, int flags) {
    const int fd = open(path, flags | O_CLOEXEC, 0666);
    if (fd < 0 || fd > STDERR_FILENO) return fd;
    const int above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), error = errno;
    close(fd);
    errno = error;
    return above;
}

/* Without the name of the file, which may be as long as a name can be. */
static int draft_name(const char *directory, char *draft, size_t size) {
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random) return -1;
    int length = snprintf(draft, size, "%s/.redlock-gate.%016" PRIx64 ".tmp", directory, random);
    if (length >= 0 && (size_t)length < size) return 0;
    errno = ENAMETOOLONG;
    return -1;
}

/* Another process may be first (EEXIST): its file serves as well. On a file system without
 * O_TMPFILE, a process that is killed here leaves its draft behind, which is never read. */
static int create_file(const char *path, uint64_t buckets) {
    char directory[PATH_MAX], draft[PATH_MAX];
    bool named = false;
    if (directory_of(path, directory, sizeof directory) != 0) return -1;
    int fd = open_above_standard(directory, O_TMPFILE | O_RDWR);
    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
        if (draft_name(directory, draft, sizeof draft) != 0) return -1;
        fd = open_above_standard(draft, O_CREAT | O_EXCL | O_RDWR);
        named = true;
    }
    if (fd < 0) return -1;
    if (!named) snprintf(draft, sizeof draft, "/proc/self/fd/%d", fd);
    int result = fill(fd, buckets);
    if (result == 0)
        result = linkat(AT_FDCWD, draft, AT_FDCWD, path, named ? 0 : AT_SYMLINK_FOLLOW);
    int error = errno;
    if (named) unlink(draft);
    close(fd);
    errno = error;
    return result == 0 || errno == EEXIST ? sync_directory(directory) : -1;
}

/* ---- opening ---- */

static int read_header(struct gate_file *file) {
    struct header header;
    struct stat status;
    if (fstat(file->fd, &status) != 0 || read_at(file->fd, &header, sizeof header, 0) != 0)
        return -1;
    bool ours = memcmp(header.magic, magic, sizeof magic) == 0 && header.order == ORDER &&
                header.sum == header_sum(&header);
    bool counted = header.buckets >= 1 && header.buckets <= BUCKETS_MAX;
    if (!ours || !counted || !S_ISREG(status.st_mode) ||
        status.st_size != place_of(header.buckets)) {
        errno = EBADMSG;
        return -1;
    }
    file->salt = header.salt;
    file->buckets = header.buckets;
    return 0;
}

int gate_file_open(struct gate_file *file, const char *path, bool create, uint64_t buckets,
                   const char **failed) {
    *file = (struct gate_file){.fd = open_above_standard(path, O_RDWR)};
    if (file->fd < 0 && errno == ENOENT && create) {
        *failed = "create";
        if (create_file(path, buckets) != 0) return -1;
        file->fd = open_above_standard(path, O_RDWR);
    }
    *failed = "open";
    if (file->fd < 0) return -1;
    *failed = "read";
    if (read_header(file) == 0) return 0;
    int error = errno;
    gate_file_close(file);
    errno = error;
    return -1;
}

void gate_file_close(struct gate_file *file) {
    if (file->fd >= 0) close(file->fd);
    file->fd = -1;
}

static int set_lock(struct gate_file *file, short type) {
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET};
    int result;
    do {
        result = fcntl(file->fd, F_OFD_SETLKW, &lock);
    } while (result != 0 && errno == EINTR);
    return result;
}

int gate_file_lock(struct gate_file *file) { return set_lock(file, F_WRLCK); }
void gate_file_unlock(struct gate_file *file) { set_lock(file, F_UNLCK); }

/* ---- reading and writing ---- */

static int sync_data(struct gate_file *file) {
    if (fdatasync(file->fd) == 0) return 0;
    file->broken = true;
    return -1;
}

static bool is_sound(const struct gate_file *file, const struct gate_bucket *bucket) {
    return bucket->index < file->buckets && gate_bucket_is_sound(bucket, file->salt);
}

/* An unsound slot (torn, or never written) reads as version 0. */
static int read_slots(const struct gate_file *file, struct gate_bucket slots[SLOTS]) {
    for (unsigned i = 0; i < SLOTS; i++) {
        if (read_at(file->fd, &slots[i], sizeof slots[i], place_of_slot(i)) != 0) return -1;
        if (!is_sound(file, &slots[i])) slots[i] = (struct gate_bucket){.version = 0};
    }
    return 0;
}

/* Writes a slot's bucket to its place, unless the one there is sound and as new. Versions only
 * grow, so an old slot takes nothing back. */
static int put_in_place(struct gate_file *file, const struct gate_bucket *slot, bool *changed) {
    struct gate_bucket there;
    if (slot->version == 0) return 0;
    if (read_at(file->fd, &there, sizeof there, place_of(slot->index)) != 0) return -1;
    if (is_sound(file, &there) && there.index == slot->index && there.version >= slot->version)
        return 0;
    *changed = true;
    return write_at(file->fd, slot, sizeof *slot, place_of(slot->index));
}

/* A process that died between a slot and the place left the place old. The slot may not be on disk
 * yet either, and must be before a caller relies on it. */
static int finish_begun(struct gate_file *file, const struct gate_bucket slots[SLOTS]) {
    bool changed = false;
    unsigned newer = slots[1].version > slots[0].version;
    if (put_in_place(file, &slots[1 - newer], &changed) != 0) return -1;
    if (put_in_place(file, &slots[newer], &changed) != 0) return -1;
    return changed ? sync_data(file) : 0;
}

int gate_file_load(struct gate_file *file, uint64_t index, struct gate_bucket *bucket) {
    struct gate_bucket slots[SLOTS];
    if (file->broken) {
        errno = EIO;
        return -1;
    }
    if (read_slots(file, slots) != 0 || finish_begun(file, slots) != 0) return -1;
    if (read_at(file->fd, bucket, sizeof *bucket, place_of(index)) != 0) return -1;
    if (is_sound(file, bucket) && bucket->index == index) return 0;
    errno = EBADMSG;
    return -1;
}

int gate_file_store(struct gate_file *file, struct gate_bucket *bucket) {
    struct gate_bucket slots[SLOTS];
    if (read_slots(file, slots) != 0) return -1;
    unsigned newer = slots[1].version > slots[0].version;
    uint64_t last = slots[newer].version > bucket->version ? slots[newer].version : bucket->version;
    if (last == VERSION_MAX) {
        errno = EBADMSG;
        return -1;
    }
    bucket->version = last + 1;
    gate_bucket_seal(bucket, file->salt);
    if (write_at(file->fd, bucket, sizeof *bucket, place_of_slot(1 - newer)) != 0) return -1;
    if (sync_data(file) != 0) return -1;
    return write_at(file->fd, bucket, sizeof *bucket, place_of(bucket->index));
}
