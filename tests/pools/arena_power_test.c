/* SPDX-License-Identifier: MIT */
/*
 * Arenas and power cuts, on a disk that preserves only what it must. The test records all writes of
 * a run on their way to the system. It makes files with all writes before the last fdatasync, and
 * random pieces of later writes, smaller than any sector. Such a file, opened with PS_ARENA_SYNC,
 * has the last commit that was reported or the one under way.
 * Without the flag it may be refused, but what opens with PS_ARENA_VERIFY is a commit.
 *
 * pwrite and its like are defined here, before the system's library defines them.
 */
#include "tests/pools/arena_work.h"
#include "tests/unit/fresh.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static const char *const path = "power.arena";
static const char *const journal = "power.arena-journal";

enum record_kind { RECORD_WRITE, RECORD_LENGTH, RECORD_SYNC, RECORD_UNLINK, RECORD_COMMIT };
enum { RECORDS_MAX = 20000, PIECE = 40, FILE_MAX = 4 << 20 };

static struct record {
    enum record_kind kind;
    int file; /* 0: the arena, 1: its journal */
    size_t offset;
    size_t count; /* of bytes; the length; the number of the commit */
    char *bytes;
} records[RECORDS_MAX];
static size_t record_count;
static bool is_recording;

static void record(struct record entry) {
    if (is_recording && entry.file >= 0) {
        REQUIRE(record_count < RECORDS_MAX);
        records[record_count++] = entry;
    }
}

/* -1: of no interest. */
static int file_of(int fd) {
    char link[64], name[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, name, sizeof name - 1);
    if (length < 0) {
        return -1;
    }
    name[length] = 0;
    const char *at = strstr(name, path);
    return at == NULL ? -1 : strcmp(at, path) == 0 ? 0 : strcmp(at, journal) == 0 ? 1 : -1;
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t offset) {
    if (is_recording) {
        char *copy = malloc(count);
        memcpy(copy, bytes, count);
        record((struct record){RECORD_WRITE, file_of(fd), (size_t)offset, count, copy});
    }
    return syscall(SYS_pwrite64, fd, bytes, count, offset);
}

int fdatasync(int fd) {
    record((struct record){RECORD_SYNC, file_of(fd), 0, 0, NULL});
    return 0; /* the real disk has no part in this */
}

int fsync(int fd) {
    (void)fd;
    return 0;
}

int ftruncate(int fd, off_t length) {
    record((struct record){RECORD_LENGTH, file_of(fd), 0, (size_t)length, NULL});
    return (int)syscall(SYS_ftruncate, fd, length);
}

int unlink(const char *name) {
    if (strstr(name, journal) != NULL) {
        record((struct record){RECORD_UNLINK, 1, 0, 0, NULL});
    }
    return (int)syscall(SYS_unlinkat, AT_FDCWD, name, 0);
}

static void forget_records(void) {
    for (size_t i = 0; i < record_count; i++) {
        free(records[i].bytes);
    }
    record_count = 0;
}

/* A run of some commits, with a close and an open in between and a reader for a while. */
static void run(unsigned flags, int commits) {
    forget_records();
    unlink(path);
    unlink(journal);
    is_recording = true;
    struct ps_arena *arena, *reader = NULL;
    REQUIRE(ps_arena_open(&arena, path, flags | PS_ARENA_CREATE, &work_options) == PS_ARENA_OK);
    for (int i = 1; i <= commits; i++) {
        CHECK(work_arena_step(arena));
        REQUIRE(ps_arena_commit(arena) == PS_ARENA_OK);
        record((struct record){RECORD_COMMIT, 0, 0, (size_t)i, NULL});
        if (i % 5 == 0) {
            ps_arena_close(arena);
            REQUIRE(ps_arena_open(&arena, path, flags, &work_options) == PS_ARENA_OK);
        }
        if (i % 7 == 0) {
            REQUIRE(ps_arena_open(&reader, path, PS_ARENA_READ, &work_options) == PS_ARENA_OK);
        } else if (i % 7 == 3) {
            ps_arena_close(reader);
            reader = NULL;
        }
    }
    ps_arena_close(reader);
    ps_arena_close(arena);
    is_recording = false;
}

struct image {
    size_t count;
    char bytes[FILE_MAX];
};
static struct image images[2];

static bool is_lucky(unsigned luck) { return unit_random() % 100 < luck; }

static void put(struct image *image, const struct record *entry, unsigned luck) {
    size_t end = entry->offset + entry->count;
    REQUIRE(end <= FILE_MAX);
    for (size_t at = entry->offset; at < end;) {
        size_t next = (at / PIECE + 1) * PIECE < end ? (at / PIECE + 1) * PIECE : end;
        if (is_lucky(luck)) {
            memcpy(image->bytes + at, entry->bytes + (at - entry->offset), next - at);
            image->count = image->count > next ? image->count : next;
        }
        at = next;
    }
}

static void set_length(struct image *image, size_t length) {
    if (length < image->count) {
        memset(image->bytes + length, 0, image->count - length);
    }
    image->count = length;
}

/* Makes possible disk contents after a power cut before record number `cut`. Returns the last
 * commit that was reported. */
static size_t make_images(size_t cut, unsigned luck) {
    size_t synced[2] = {0, 0}, reported = 0;
    memset(images, 0, sizeof images);
    for (size_t i = 0; i < cut; i++) {
        if (records[i].kind == RECORD_SYNC) {
            synced[records[i].file] = i;
        } else if (records[i].kind == RECORD_COMMIT) {
            reported = records[i].count;
        }
    }
    for (size_t i = 0; i < cut; i++) {
        const struct record *entry = &records[i];
        unsigned chance = i < synced[entry->file] ? 100 : luck;
        if (entry->kind == RECORD_WRITE) {
            put(&images[entry->file], entry, chance);
        } else if (entry->kind == RECORD_LENGTH && is_lucky(chance)) {
            set_length(&images[entry->file], entry->count);
        } else if (entry->kind == RECORD_UNLINK && is_lucky(chance)) {
            set_length(&images[1], 0);
        }
    }
    return reported;
}

static void write_image(const char *name, const struct image *image) {
    int fd = open(name, O_WRONLY | O_CREAT, 0666);
    REQUIRE(fd >= 0);
    REQUIRE(pwrite(fd, image->bytes, image->count, 0) == (ssize_t)image->count);
    REQUIRE(ftruncate(fd, (off_t)image->count) == 0);
    close(fd);
}

/* -1 when the arena does not open, else its commits; all must be as the model has it. */
static int64_t commits_found(unsigned flags) {
    struct ps_arena *arena;
    if (ps_arena_open(&arena, path, flags | PS_ARENA_VERIFY | PS_ARENA_CREATE, &work_options) !=
        PS_ARENA_OK) {
        return -1;
    }
    uint64_t commits = work_commits(arena);
    struct work_model model = {0};
    while (model.commits < commits) {
        work_model_step(&model);
    }
    WORK_CHECK(arena, &model);
    ps_arena_close(arena);
    return (int64_t)commits;
}

static void cut_power(unsigned flags, size_t cut, unsigned luck, size_t *refused) {
    size_t reported = make_images(cut, luck);
    write_image(path, &images[0]);
    write_image(journal, &images[1]);
    int64_t found = commits_found(flags);
    bool is_founded = false; /* the first header is on the disk */
    for (size_t i = 0; i < cut; i++) {
        is_founded = is_founded || (records[i].kind == RECORD_SYNC && records[i].file == 0);
    }
    if ((flags & PS_ARENA_SYNC) != 0 && is_founded) {
        CHECK_CMP(found, >=, reported);
        CHECK_CMP(found, <=, reported + 1);
    }
    *refused += found < 0;
}

static void cut_power_everywhere(unsigned flags, int commits) {
    run(flags, commits);
    size_t refused = 0, tried = 0;
    static const unsigned luck[] = {0, 50, 90, 100};
    for (size_t cut = 0; cut <= record_count; cut += 1 + (FRESH_SLOWNESS - 1) * 3) {
        for (size_t i = 0; i < 4; i++) {
            if (records[cut].kind != RECORD_COMMIT) {
                cut_power(flags, cut, luck[i], &refused);
                tried++;
            }
        }
    }
    printf("%zu cuts, %zu files refused\n", tried, refused);
    forget_records();
}

TEST(with_sync_a_power_cut_loses_what_was_not_committed) {
    cut_power_everywhere(PS_ARENA_SYNC, 12);
}

TEST(without_sync_what_opens_verified_is_a_commit) { cut_power_everywhere(0, 12); }

UNIT_MAIN
