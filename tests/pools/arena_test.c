/* SPDX-License-Identifier: MIT */
/*
 * Persistent arenas: the claims of arena.h but for the death of the process and of the system,
 * which arena_kill_test.c and arena_power_test.c see to.
 */
#include "tests/unit/unit.h"

#include "tests/pools/arena_work.h"
#include "tests/pools/counting_source.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

static const char *const path = "test.arena";
static const char *const journal = "test.arena-journal";

static struct ps_arena *open_arena(unsigned flags, enum ps_arena_status expected) {
    struct ps_arena *arena;
    enum ps_arena_status status = ps_arena_open(&arena, path, flags, NULL);
    CHECK_STR_EQ(ps_arena_explain(status), ps_arena_explain(expected));
    CHECK((arena != NULL) == (status == PS_ARENA_OK));
    return arena;
}

static void remove_files(void) {
    unlink(path);
    unlink(journal);
}

static struct ps_arena *new_arena(unsigned flags) {
    remove_files();
    struct ps_arena *arena = open_arena(PS_ARENA_CREATE | flags, PS_ARENA_OK);
    REQUIRE(arena != NULL);
    return arena;
}

static bool is_there(const char *file) { return access(file, F_OK) == 0; }

TEST(contents_outlast_the_close) {
    unsigned modes[] = {0, PS_ARENA_COMPARE, PS_ARENA_SYNC};
    for (size_t i = 0; i < 3; i++) {
        struct work_model model = {0};
        struct ps_arena *arena = new_arena(modes[i]);
        for (int round = 0; round < 40; round++) {
            CHECK(work_arena_step(arena));
            work_model_step(&model);
            CHECK_EQ(ps_arena_commit(arena), PS_ARENA_OK);
            CHECK_EQ(ps_arena_sequence(arena), round + 2);
            if (round % 8 == 0) {
                ps_arena_close(arena);
                CHECK(!is_there(journal));
                arena = open_arena(modes[i] | PS_ARENA_VERIFY, PS_ARENA_OK);
                WORK_CHECK(arena, &model);
            }
        }
        ps_arena_close(arena);
    }
}

TEST(locked_memory_is_rolled_back_too) {
    unsigned modes[] = {0, PS_ARENA_COMPARE};
    for (size_t i = 0; i < 2; i++) {
        struct work_model model = {0};
        struct ps_arena *arena = new_arena(modes[i]);
        CHECK(work_arena_step(arena));
        work_model_step(&model);
        CHECK_EQ(ps_arena_commit(arena), PS_ARENA_OK);
        struct ps_arena_view *view = (struct ps_arena_view *)(void *)arena;
        if (mlock(view->base, view->bytes) != 0) {
            UNIT_SKIP("no memory may be locked here");
        }
        for (int round = 0; round < 3; round++) {
            WHEN("the system does not drop the pages that were changed");
            CHECK(work_arena_step(arena));
            CHECK_EQ(ps_arena_rollback(arena), PS_ARENA_OK);
            WORK_CHECK(arena, &model);
            THEN("the next commit has the state of the rollback, and one more step");
            CHECK(work_arena_step(arena));
            work_model_step(&model);
            CHECK_EQ(ps_arena_commit(arena), PS_ARENA_OK);
            WORK_CHECK(arena, &model);
        }
        ps_arena_close(arena);
        arena = open_arena(PS_ARENA_VERIFY, PS_ARENA_OK);
        WORK_CHECK(arena, &model);
        ps_arena_close(arena);
    }
}

TEST(what_is_not_committed_is_gone_after_close_and_rollback) {
    struct work_model model = {0};
    struct ps_arena *arena = new_arena(0);
    size_t bytes = ((struct ps_arena_view *)(void *)arena)->bytes;
    CHECK(work_arena_step(arena));
    CHECK(ps_arena_alloc(arena, 1000000) != NULL);
    CHECK_CMP(((struct ps_arena_view *)(void *)arena)->bytes, >, bytes);
    CHECK_EQ(ps_arena_rollback(arena), PS_ARENA_OK);
    WORK_CHECK(arena, &model);
    CHECK_EQ(((struct ps_arena_view *)(void *)arena)->bytes, bytes);
    CHECK(work_arena_step(arena));
    ps_arena_close(arena);
    arena = open_arena(PS_ARENA_VERIFY, PS_ARENA_OK);
    WORK_CHECK(arena, &model);
    WHEN("memory that was grown and rolled back is grown again");
    char *block = ps_arena_alloc(arena, 1000000);
    memset(block, 1, 1000000);
    CHECK_EQ(ps_arena_commit(arena), PS_ARENA_OK);
    ps_arena_close(arena);
    arena = open_arena(PS_ARENA_VERIFY, PS_ARENA_OK);
    CHECK(ps_arena_check(arena) == NULL);
    ps_arena_close(arena);
}

TEST(a_commit_without_changes_is_none) {
    struct ps_arena *arena = new_arena(0);
    CHECK(work_arena_step(arena));
    CHECK_EQ(ps_arena_commit(arena), PS_ARENA_OK);
    uint64_t sequence = ps_arena_sequence(arena);
    ps_arena_set_root(arena, ps_arena_root(arena)); /* the page is written, with what it had */
    CHECK_EQ(ps_arena_commit(arena), PS_ARENA_OK);
    CHECK_EQ(ps_arena_sequence(arena), sequence);
    ps_arena_close(arena);
    ps_arena_close(NULL);
}

TEST(there_is_one_writer) {
    struct ps_arena *arena = new_arena(0);
    CHECK(open_arena(0, PS_ARENA_LOCKED) == NULL);
    CHECK(open_arena(PS_ARENA_CREATE, PS_ARENA_LOCKED) == NULL);
    ps_arena_close(arena);
    arena = open_arena(0, PS_ARENA_OK);
    ps_arena_close(arena);
}

TEST(readers_see_the_last_commit_and_no_later_one) {
    struct work_model model = {0};
    struct ps_arena *writer = new_arena(0);
    for (int i = 0; i < 5; i++) {
        CHECK(work_arena_step(writer));
        work_model_step(&model);
    }
    CHECK_EQ(ps_arena_commit(writer), PS_ARENA_OK);
    struct work_model old = model;
    struct ps_arena *reader = open_arena(PS_ARENA_READ | PS_ARENA_VERIFY, PS_ARENA_OK);
    CHECK(ps_arena_at(reader, 4096) != ps_arena_at(writer, 4096));
    for (int i = 0; i < 20; i++) {
        CHECK(work_arena_step(writer));
        work_model_step(&model);
        CHECK_EQ(ps_arena_commit(writer), PS_ARENA_OK);
        WORK_CHECK(reader, &old);
        struct ps_arena *late = open_arena(PS_ARENA_READ | PS_ARENA_VERIFY, PS_ARENA_OK);
        WORK_CHECK(late, &model);
        ps_arena_close(late);
        WORK_CHECK(writer, &model);
    }
    struct ps_arena_stats stats;
    ps_arena_stats(writer, &stats);
    CHECK_CMP(stats.pending_pages, >, 0);
    CHECK_EQ(ps_arena_refresh(reader), PS_ARENA_OK);
    WORK_CHECK(reader, &model);
    THEN("a writer may close and open while the reader looks");
    ps_arena_close(writer);
    CHECK(is_there(journal));
    WORK_CHECK(reader, &model);
    writer = open_arena(PS_ARENA_VERIFY, PS_ARENA_OK);
    old = model;
    CHECK(work_arena_step(writer));
    CHECK_EQ(ps_arena_rollback(writer), PS_ARENA_OK);
    WORK_CHECK(writer, &model);
    CHECK(work_arena_step(writer));
    work_model_step(&model);
    CHECK_EQ(ps_arena_commit(writer), PS_ARENA_OK);
    WORK_CHECK(reader, &old);
    ps_arena_close(reader);
    CHECK_EQ(ps_arena_commit(writer), PS_ARENA_OK); /* nothing new, but the batch goes home */
    ps_arena_stats(writer, &stats);
    CHECK_EQ(stats.pending_pages, 0);
    ps_arena_close(writer);
    CHECK(!is_there(journal));
    reader = open_arena(PS_ARENA_READ | PS_ARENA_VERIFY, PS_ARENA_OK);
    WORK_CHECK(reader, &model);
    ps_arena_close(reader);
}

TEST(a_pending_page_may_become_what_the_file_has) {
    static const unsigned modes[] = {0, PS_ARENA_COMPARE};
    for (size_t i = 0; i < 2; i++) {
        struct ps_arena *writer = new_arena(modes[i]);
        struct ps_arena *reader = open_arena(PS_ARENA_READ, PS_ARENA_OK);
        ps_arena_set_root(writer, 16);
        CHECK_EQ(ps_arena_commit(writer), PS_ARENA_OK);
        ps_arena_set_root(writer, 0);
        CHECK_EQ(ps_arena_commit(writer), PS_ARENA_OK);
        CHECK_EQ(ps_arena_sequence(writer), 3);
        struct ps_arena *late = open_arena(PS_ARENA_READ | PS_ARENA_VERIFY, PS_ARENA_OK);
        CHECK_EQ(ps_arena_root(late), 0);
        ps_arena_close(late);
        ps_arena_close(reader);
        ps_arena_close(writer);
        ps_arena_close(open_arena(PS_ARENA_VERIFY, PS_ARENA_OK));
    }
}

TEST(readers_change_nothing) {
    ps_arena_close(new_arena(0));
    struct ps_arena *reader = open_arena(PS_ARENA_READ, PS_ARENA_OK);
    errno = 0;
    CHECK(ps_arena_alloc(reader, 10) == NULL);
    CHECK_EQ(errno, EROFS);
    CHECK(!ps_arena_extend(reader, 1 << 20));
    CHECK_EQ(ps_arena_commit(reader), PS_ARENA_READ_ONLY);
    CHECK_EQ(ps_arena_rollback(reader), PS_ARENA_READ_ONLY);
    ps_arena_close(reader);
}

TEST(a_child_after_fork_looks_and_does_not_commit) {
    struct ps_arena *arena = new_arena(0);
    CHECK(work_arena_step(arena));
    CHECK_EQ(ps_arena_commit(arena), PS_ARENA_OK);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        int good = work_commits(arena) == 1 && work_arena_step(arena) &&
                   ps_arena_commit(arena) == PS_ARENA_FORKED;
        ps_arena_close(arena);
        _exit(good ? 0 : 1);
    }
    int status;
    waitpid(pid, &status, 0);
    CHECK_EQ(status, 0);
    CHECK(open_arena(0, PS_ARENA_LOCKED) == NULL);
    CHECK(work_arena_step(arena));
    CHECK_EQ(ps_arena_commit(arena), PS_ARENA_OK);
    CHECK_EQ(work_commits(arena), 2);
    ps_arena_close(arena);
}

TEST(offsets_stay_when_the_arena_moves) {
    remove_files();
    struct ps_arena_options options = {.reserve_bytes = 1 << 20};
    struct ps_arena *arena;
    REQUIRE(ps_arena_open(&arena, path, PS_ARENA_CREATE, &options) == PS_ARENA_OK);
    struct work_model model = {0};
    CHECK(work_arena_step(arena));
    work_model_step(&model);
    errno = 0;
    CHECK(ps_arena_alloc(arena, 2 << 20) == NULL);
    CHECK_EQ(errno, ENOMEM);
    struct work_model before = model;
    WORK_CHECK(arena, &before);
    CHECK(ps_arena_extend(arena, 64 << 20));
    WORK_CHECK(arena, &model);
    char *block = ps_arena_alloc(arena, 40 << 20);
    CHECK(block != NULL);
    memset(block, 7, 40 << 20);
    ps_arena_free(arena, block);
    CHECK_EQ(ps_arena_commit(arena), PS_ARENA_OK);
    WORK_CHECK(arena, &model);
    ps_arena_close(arena);
    arena = open_arena(PS_ARENA_VERIFY, PS_ARENA_OK);
    WORK_CHECK(arena, &model);
    ps_arena_close(arena);
}

TEST(a_reader_follows_growth) {
    struct ps_arena *writer = new_arena(0);
    struct ps_arena_options options = {.reserve_bytes = 1};
    struct ps_arena *reader;
    REQUIRE(ps_arena_open(&reader, path, PS_ARENA_READ, &options) == PS_ARENA_OK);
    char *block = ps_arena_alloc(writer, 10 << 20);
    memset(block, 5, 10 << 20);
    ps_arena_set_root(writer, ps_arena_offset(writer, block));
    CHECK_EQ(ps_arena_commit(writer), PS_ARENA_OK);
    CHECK_EQ(ps_arena_root(reader), 0);
    CHECK_EQ(ps_arena_refresh(reader), PS_ARENA_OK);
    CHECK_EQ(*((char *)ps_arena_at(reader, ps_arena_root(reader)) + (10 << 20) - 1), 5);
    ps_arena_close(writer);
    ps_arena_close(reader);
}

TEST(growth_ends_at_max_bytes) {
    remove_files();
    struct ps_arena_options options = {.max_bytes = 1 << 20};
    struct ps_arena *arena;
    REQUIRE(ps_arena_open(&arena, path, PS_ARENA_CREATE, &options) == PS_ARENA_OK);
    size_t count = 0;
    while (ps_arena_alloc(arena, 10000) != NULL) {
        count++;
    }
    CHECK_EQ(errno, ENOMEM);
    CHECK_CMP(count, >, 90);
    CHECK(!ps_arena_extend(arena, (1 << 20) + 1));
    CHECK_EQ(ps_arena_commit(arena), PS_ARENA_OK);
    struct stat file;
    CHECK_EQ(stat(path, &file), 0);
    CHECK_CMP(file.st_size, <=, 1 << 20);
    ps_arena_close(arena);
}

TEST(the_journal_of_a_link_lies_beside_the_file) {
    ps_arena_close(new_arena(0));
    unlink("link.arena");
    REQUIRE(symlink(path, "link.arena") == 0);
    struct ps_arena *arena;
    CHECK_EQ(ps_arena_open(&arena, "link.arena", 0, NULL), PS_ARENA_OK);
    CHECK(work_arena_step(arena));
    CHECK_EQ(ps_arena_commit(arena), PS_ARENA_OK);
    CHECK(is_there(journal));
    ps_arena_close(arena);
    CHECK(!is_there(journal));
    unlink("link.arena");
}

TEST(bad_arguments_are_refused) {
    remove_files();
    struct ps_arena *arena;
    CHECK_EQ(ps_arena_open(&arena, path, 0, NULL), PS_ARENA_SYSTEM);
    CHECK_EQ(errno, ENOENT);
    CHECK_EQ(ps_arena_open(&arena, path, PS_ARENA_READ | PS_ARENA_CREATE, NULL), PS_ARENA_SYSTEM);
    CHECK_EQ(errno, EINVAL);
    CHECK_EQ(ps_arena_open(&arena, path, 1u << 20, NULL), PS_ARENA_SYSTEM);
    CHECK_EQ(errno, EINVAL);
    CHECK(!is_there(path));
    arena = new_arena(0);
    volatile size_t huge[] = {SIZE_MAX, SIZE_MAX - 16, (size_t)1 << 63, (size_t)1 << 48};
    for (size_t i = 0; i < 4; i++) {
        errno = 0;
        CHECK(ps_arena_alloc(arena, huge[i]) == NULL);
        CHECK_EQ(errno, ENOMEM);
        CHECK(!ps_arena_extend(arena, huge[i]));
    }
    struct stat file;
    CHECK(stat(path, &file) == 0 && file.st_size <= 1 << 20);
    CHECK(ps_arena_alloc_aligned(arena, 1, 8192) == NULL);
    CHECK_EQ(errno, EINVAL);
    CHECK(ps_arena_alloc_aligned(arena, 1, 3) == NULL);
    CHECK_EQ(errno, EINVAL);
    for (size_t align = 1; align <= 4096; align *= 2) {
        void *block = ps_arena_alloc_aligned(arena, 100, align);
        CHECK_EQ((uintptr_t)block % align, 0);
    }
    CHECK(ps_arena_check(arena) == NULL);
    ps_arena_close(arena);
}

TEST(links_need_no_arena) {
    struct ps_arena *arena = new_arena(0);
    struct node {
        struct ps_link next;
        int value;
    } *first = NULL;
    for (int i = 0; i < 100; i++) {
        struct node *node = ps_arena_alloc(arena, sizeof *node);
        node->value = i;
        ps_link_set(&node->next, first);
        first = node;
    }
    struct node *self = ps_arena_alloc(arena, sizeof *self);
    ps_link_set(&self->next, self);
    CHECK_PTR_EQ(ps_link_get(&self->next), self);
    ps_arena_set_root(arena, ps_arena_offset(arena, first));
    CHECK_EQ(ps_arena_commit(arena), PS_ARENA_OK);
    struct ps_arena *reader = open_arena(PS_ARENA_READ, PS_ARENA_OK);
    int expected = 99;
    for (struct node *node = PS_ARENA_AT(reader, struct node, ps_arena_root(reader)); node != NULL;
         node = ps_link_get(&node->next)) {
        CHECK(ps_arena_owns(reader, node));
        CHECK_EQ(node->value, expected--);
    }
    CHECK_EQ(expected, -1);
    ps_arena_close(reader);
    ps_arena_close(arena);
}

TEST(a_source_that_fails_at_any_call_leaves_the_last_commit) {
    bool is_done = false;
    for (int until = 0; until < 20 && !is_done; until++) {
        ps_arena_close(new_arena(0));
        struct work_model model = {0};
        struct counting_source source = new_source((size_t)until);
        struct ps_arena_options options = {.chunks = {.source = &source.source}};
        struct ps_arena *arena;
        enum ps_arena_status status = ps_arena_open(&arena, path, 0, &options);
        if (status == PS_ARENA_OK) {
            CHECK(work_arena_step(arena));
            char *many_pages = ps_arena_alloc(arena, 5 << 20);
            memset(many_pages, 1, 5 << 20);
            ps_arena_free(arena, many_pages);
            status = ps_arena_commit(arena);
            if (status == PS_ARENA_OK) {
                work_model_step(&model);
                is_done = true;
            }
        }
        CHECK(is_done || (status == PS_ARENA_SYSTEM && errno == ENOMEM));
        ps_arena_close(arena);
        CHECK_EQ(source.live_count, 0);
        arena = open_arena(PS_ARENA_VERIFY, PS_ARENA_OK);
        WORK_CHECK(arena, &model);
        ps_arena_close(arena);
    }
    CHECK(is_done);
}

TEST(misuse_is_found) {
    struct ps_arena *arena = new_arena(0);
    char *block = ps_arena_alloc(arena, 100);
    char *wall = ps_arena_alloc(arena, 100);
    CHECK(wall != NULL);
    ps_arena_free(arena, block);
    ps_arena_free(arena, NULL);
    CHECK_ABORTS(ps_arena_free(arena, block), "poolshim: double free of 0x");
    CHECK_ABORTS(ps_arena_free(arena, wall + 8), "poolshim: not a block of this arena: 0x");
    CHECK_ABORTS(ps_arena_free(arena, wall + 32), "poolshim: not a block of this arena: 0x");
    CHECK_ABORTS(ps_arena_free(arena, &arena), "poolshim: not a block of this arena: 0x");
    ps_arena_close(arena);
}

UNIT_MAIN
