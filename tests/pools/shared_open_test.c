/* SPDX-License-Identifier: MIT */
/*
 * What files a shared heap may be opened from, and that no other is changed: empty, foreign, of
 * another version, truncated, damaged, from before the system's start, half made by a killed
 * process; creation by many at once.
 */
#include "tests/pools/new_shared.h"
#include "tests/unit/fresh.h"
#include "tests/unit/trap_flag.h"

#include "pools/shared/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

static const char *const path = "test.shared";

static enum ps_shared_status status_of(unsigned flags) {
    struct ps_shared *heap;
    enum ps_shared_status status = ps_shared_open(&heap, path, flags, NULL);
    CHECK_EQ(heap != NULL, status == PS_SHARED_OK);
    ps_shared_close(heap);
    return status;
}

static void make_heap(void) {
    unlink(path);
    struct ps_shared *heap;
    REQUIRE(ps_shared_open(&heap, path, PS_SHARED_CREATE, &shared_options) == PS_SHARED_OK);
    REQUIRE(ps_shared_alloc(heap, 100) != NULL);
    ps_shared_close(heap);
}

/* Writes over the file, and returns what opening says; the file is as it was written. */
static enum ps_shared_status status_with(uint64_t offset, const void *bytes, size_t count) {
    char before[4096], after[4096];
    make_heap();
    int fd = open(path, O_RDWR);
    REQUIRE(fd >= 0 && pwrite(fd, bytes, count, (off_t)offset) == (ssize_t)count);
    REQUIRE(pread(fd, before, sizeof before, 0) == sizeof before);
    enum ps_shared_status status = status_of(PS_SHARED_CREATE);
    CHECK_EQ(status_of(0), status);
    CHECK_EQ(status_of(PS_SHARED_READ), status);
    REQUIRE(pread(fd, after, sizeof after, 0) == sizeof after);
    CHECK_EQ(memcmp(before, after, sizeof before), 0);
    close(fd);
    return status;
}

TEST(another_process_opens_what_was_made) {
    make_heap();
    CHECK_EQ(status_of(0), PS_SHARED_OK);
    CHECK_EQ(status_of(PS_SHARED_CREATE), PS_SHARED_OK);
    CHECK_EQ(status_of(PS_SHARED_READ), PS_SHARED_OK);
    struct ps_shared *heap;
    REQUIRE(ps_shared_open(&heap, path, 0, NULL) == PS_SHARED_OK);
    CHECK_EQ(shared_stats(heap).used_count, 1);
    CHECK_EQ(shared_stats(heap).max_bytes, shared_options.max_bytes);
    ps_shared_close(heap);
}

TEST(without_a_heap_only_create_makes_one) {
    unlink(path);
    errno = 0;
    CHECK_EQ(status_of(0), PS_SHARED_SYSTEM);
    CHECK_EQ(errno, ENOENT);
    close(open(path, O_CREAT | O_RDWR, 0600));
    CHECK_EQ(status_of(0), PS_SHARED_EMPTY);
    CHECK_EQ(status_of(PS_SHARED_READ), PS_SHARED_EMPTY);
    CHECK_EQ(status_of(PS_SHARED_CREATE), PS_SHARED_OK);
    CHECK_EQ(status_of(0), PS_SHARED_OK);
}

TEST(wrong_arguments_are_refused) {
    struct ps_shared *heap;
    unlink(path);
    errno = 0;
    CHECK_EQ(status_of(8), PS_SHARED_SYSTEM);
    CHECK_EQ(errno, EINVAL);
    CHECK_EQ(status_of(PS_SHARED_CREATE | PS_SHARED_READ), PS_SHARED_SYSTEM);
    struct ps_shared_options options = {.initial_bytes = 1000};
    errno = 0;
    CHECK_EQ(ps_shared_open(&heap, path, PS_SHARED_CREATE, &options), PS_SHARED_SYSTEM);
    CHECK_EQ(errno, EINVAL);
    options = (struct ps_shared_options){.initial_bytes = 1 << 20, .max_bytes = 1 << 19};
    CHECK_EQ(ps_shared_open(&heap, path, PS_SHARED_CREATE, &options), PS_SHARED_SYSTEM);
    CHECK_EQ(ps_shared_open_fd(&heap, -1, 0, NULL), PS_SHARED_SYSTEM);
    CHECK_EQ(errno, EBADF);
    CHECK_EQ(ps_shared_open(&heap, ".", 0, NULL), PS_SHARED_FOREIGN);
    CHECK_EQ(ps_shared_open(&heap, ".", PS_SHARED_READ, NULL), PS_SHARED_FOREIGN);
    CHECK_EQ(ps_shared_open(&heap, "/dev/null", 0, NULL), PS_SHARED_FOREIGN);
    for (int status = 0; status <= PS_SHARED_STALE + 1; status++) {
        CHECK(ps_shared_explain((enum ps_shared_status)status)[0] != 0);
    }
}

TEST(a_foreign_or_damaged_file_is_refused_and_not_changed) {
    CHECK_EQ(status_with(0, "#!/bin/sh", 9), PS_SHARED_FOREIGN);
    CHECK_EQ(status_with(0, "\0\0\0\0\0\0\0\0", 8), PS_SHARED_FOREIGN);
    uint64_t version = SHARED_VERSION + 1;
    CHECK_EQ(status_with(offsetof(struct shared_label, version), &version, 8), PS_SHARED_VERSION);
    uint64_t bytes = (uint64_t)1 << 50;
    CHECK_EQ(status_with(offsetof(struct shared_label, max_bytes), &bytes, 8), PS_SHARED_CORRUPT);
    CHECK_EQ(status_with(offsetof(struct shared_label, boot), "x", 1), PS_SHARED_CORRUPT);
    CHECK_EQ(status_with(offsetof(struct shared_label, sum), "x", 1), PS_SHARED_CORRUPT);
    CHECK_EQ(status_with(offsetof(struct shared_header, heap.end), &version, 8), PS_SHARED_CORRUPT);
    CHECK_EQ(status_with(offsetof(struct shared_header, heap.end), &bytes, 8), PS_SHARED_CORRUPT);
}

TEST(a_file_that_is_too_short_is_refused) {
    make_heap();
    struct stat file;
    REQUIRE(stat(path, &file) == 0);
    CHECK_EQ(file.st_size, PS_SHARED_LEAST_BYTES);
    REQUIRE(truncate(path, file.st_size - 1) == 0);
    CHECK_EQ(status_of(0), PS_SHARED_TRUNCATED);
    REQUIRE(truncate(path, 100) == 0);
    CHECK_EQ(status_of(PS_SHARED_CREATE), PS_SHARED_TRUNCATED);
    REQUIRE(truncate(path, 5) == 0);
    CHECK_EQ(status_of(PS_SHARED_CREATE), PS_SHARED_FOREIGN);
    make_heap();
    struct ps_shared *heap;
    REQUIRE(ps_shared_open(&heap, path, 0, NULL) == PS_SHARED_OK);
    REQUIRE(ps_shared_alloc(heap, 1 << 20) != NULL);
    ps_shared_close(heap);
    REQUIRE(truncate(path, 1 << 20) == 0);
    CHECK_EQ(status_of(0), PS_SHARED_TRUNCATED);
}

/* With a sum that is right: it is another start of the system, another C library. */
TEST(a_heap_of_another_start_or_library_is_refused) {
    for (int is_start = 0; is_start < 2; is_start++) {
        make_heap();
        struct ps_shared *heap;
        REQUIRE(ps_shared_open(&heap, path, 0, NULL) == PS_SHARED_OK);
        struct shared_label *label = &shared_header(heap)->label;
        if (is_start != 0) {
            label->boot[0] = label->boot[0] == 'a' ? 'b' : 'a';
        } else {
            label->lock_sum ^= 1;
        }
        uint64_t sum = 0xcbf29ce484222325u;
        for (const unsigned char *at = (unsigned char *)&label->version;
             at < (unsigned char *)&label->sum; at++) {
            sum = (sum ^ *at) * 0x100000001b3u;
        }
        label->sum = sum;
        ps_shared_close(heap);
        CHECK_EQ(status_of(0), is_start != 0 ? PS_SHARED_STALE : PS_SHARED_FOREIGN);
    }
}

TEST(many_that_create_at_once_have_one_heap) {
    enum { PROCESSES = 6 };
    for (int round = 0; round < 20 / FRESH_SLOWNESS; round++) {
        unlink(path);
        fflush(NULL);
        pid_t pids[PROCESSES];
        for (int i = 0; i < PROCESSES; i++) {
            pids[i] = fork();
            REQUIRE(pids[i] >= 0);
            if (pids[i] == 0) {
                struct ps_shared *heap;
                if (ps_shared_open(&heap, path, PS_SHARED_CREATE, NULL) != PS_SHARED_OK) {
                    _exit(1);
                }
                uint64_t *fresh = ps_shared_zalloc(heap, sizeof *fresh);
                ps_offset won = ps_shared_claim_root(heap, "count", ps_shared_offset(heap, fresh));
                if (won != ps_shared_offset(heap, fresh)) {
                    ps_shared_free(heap, fresh);
                }
                uint64_t *counted = ps_shared_at(heap, won);
                _exit(__atomic_add_fetch(counted, 1, __ATOMIC_RELAXED) <= PROCESSES ? 0 : 2);
            }
        }
        for (int i = 0; i < PROCESSES; i++) {
            int status;
            REQUIRE(waitpid(pids[i], &status, 0) == pids[i]);
            CHECK_EQ(status, 0);
        }
        struct ps_shared *heap;
        REQUIRE(ps_shared_open(&heap, path, 0, NULL) == PS_SHARED_OK);
        CHECK_EQ(*PS_SHARED_AT(heap, uint64_t, ps_shared_root(heap, "count")), PROCESSES);
        CHECK_EQ(shared_stats(heap).used_count, 1);
        shared_check(heap);
        ps_shared_close(heap);
    }
}

static uint64_t steps, last_step;

static void step(int number) {
    (void)number;
    if (++steps == last_step) {
        kill(getpid(), SIGKILL);
    }
}

TEST(a_kill_at_any_instruction_of_a_creation_leaves_no_heap_or_a_whole_one) {
    struct sigaction action = {.sa_handler = step};
    REQUIRE(sigaction(SIGTRAP, &action, NULL) == 0);
    set_trap_flag(true);
    errno = 0;
    set_trap_flag(false);
    if (!CAN_STEP || steps == 0) {
        UNIT_SKIP("stepping needs the processor's trap flag, and no sanitizer");
    }
    unlink(path);
    struct ps_shared *made;
    steps = 0;
    set_trap_flag(true);
    enum ps_shared_status status = ps_shared_open(&made, path, PS_SHARED_CREATE, &shared_options);
    set_trap_flag(false);
    REQUIRE(status == PS_SHARED_OK);
    ps_shared_close(made);
    const char *wanted = getenv("KILL_STEP_EVERY");
    uint64_t every = wanted != NULL ? strtoull(wanted, NULL, 10) : steps / 30 | 1;
    REQUIRE(every != 0);
    int empty = 0, whole = 0;
    bool is_killed = true;
    for (uint64_t at = 1; is_killed; at += every) {
        unlink(path);
        fflush(NULL);
        pid_t pid = fork();
        REQUIRE(pid >= 0);
        if (pid == 0) {
            struct ps_shared *heap;
            steps = 0;
            last_step = at;
            set_trap_flag(true);
            ps_shared_open(&heap, path, PS_SHARED_CREATE, &shared_options);
            set_trap_flag(false);
            _exit(0);
        }
        int ended;
        REQUIRE(waitpid(pid, &ended, 0) == pid);
        is_killed = ended == SIGKILL;
        CHECK(is_killed || ended == 0);
        enum ps_shared_status found = access(path, F_OK) == 0 ? status_of(0) : PS_SHARED_EMPTY;
        empty += found == PS_SHARED_EMPTY;
        whole += found == PS_SHARED_OK;
        CHECK(found == PS_SHARED_EMPTY || found == PS_SHARED_OK);
        struct ps_shared *heap;
        REQUIRE(ps_shared_open(&heap, path, PS_SHARED_CREATE, NULL) == PS_SHARED_OK);
        CHECK(ps_shared_alloc(heap, 1000) != NULL);
        shared_check(heap);
        ps_shared_close(heap);
    }
    printf("%d kills left an empty file, %d a heap\n", empty, whole);
    CHECK(empty > 3 && whole > 0);
}

UNIT_MAIN
