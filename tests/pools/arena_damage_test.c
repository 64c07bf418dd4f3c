/* SPDX-License-Identifier: MIT */
/*
 * Files that are no arenas, and arenas that are damaged: one clear status, and not a byte of them
 * is changed. A disk that is full.
 */
#include "pools/common/poison.h"
#include "tests/pools/arena_work.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

static const char *const path = "damage.arena";
static const char *const journal = "damage.arena-journal";

struct contents {
    char *bytes;
    size_t count;
};

static struct contents read_file(const char *name) {
    struct contents contents = {NULL, 0};
    FILE *file = fopen(name, "rb");
    if (file != NULL) {
        fseek(file, 0, SEEK_END);
        contents.count = (size_t)ftell(file);
        contents.bytes = malloc(contents.count + 1);
        rewind(file);
        REQUIRE(fread(contents.bytes, 1, contents.count, file) == contents.count);
        fclose(file);
    }
    return contents;
}

static void write_file(const char *name, struct contents contents) {
    if (contents.bytes == NULL) {
        unlink(name);
        return;
    }
    /* Not truncated first: some file systems then sync the disk. */
    int fd = open(name, O_WRONLY | O_CREAT, 0666);
    REQUIRE(fd >= 0);
    REQUIRE(pwrite(fd, contents.bytes, contents.count, 0) == (ssize_t)contents.count);
    REQUIRE(ftruncate(fd, (off_t)contents.count) == 0);
    close(fd);
}

static bool is_same(const char *name, struct contents contents) {
    struct contents now = read_file(name);
    bool same = now.count == contents.count && (now.bytes == NULL) == (contents.bytes == NULL) &&
                (now.bytes == NULL || memcmp(now.bytes, contents.bytes, now.count) == 0);
    free(now.bytes);
    return same;
}

static enum ps_arena_status try_open(unsigned flags, const struct work_model *model) {
    struct ps_arena *arena;
    enum ps_arena_status status = ps_arena_open(&arena, path, flags, &work_options);
    if (status == PS_ARENA_OK) {
        WORK_CHECK(arena, model);
    }
    ps_arena_close(arena);
    return status;
}

/* A file of a few commits; left by a close, or by a death in the last moment. */
static void make_arena(struct work_model *model, bool is_closed) {
    unlink(path);
    unlink(journal);
    *model = (struct work_model){0};
    for (int i = 0; i < 6; i++) {
        work_model_step(model);
    }
    fflush(NULL);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        struct ps_arena *arena;
        int good = ps_arena_open(&arena, path, PS_ARENA_CREATE, &work_options) == PS_ARENA_OK;
        for (int i = 0; i < 6 && good; i++) {
            good = work_arena_step(arena) && ps_arena_commit(arena) == PS_ARENA_OK;
        }
        if (is_closed) {
            ps_arena_close(arena);
        }
        _exit(good ? 0 : 1);
    }
    int status;
    waitpid(pid, &status, 0);
    REQUIRE(status == 0);
}

TEST(files_of_others_are_refused_and_left_alone) {
    static char text[20000];
    for (size_t i = 0; i < sizeof text; i++) {
        text[i] = (char)(i * 7 + 1);
    }
    struct work_model model = {0};
    static const size_t lengths[] = {1, 87, 4095, 4096, 8192, 20000};
    for (size_t i = 0; i < 6; i++) {
        struct contents foreign = {text, lengths[i]};
        write_file(path, foreign);
        CHECK_EQ(try_open(PS_ARENA_CREATE, &model), PS_ARENA_FOREIGN);
        CHECK_EQ(try_open(PS_ARENA_READ, &model), PS_ARENA_FOREIGN);
        CHECK(is_same(path, foreign));
    }
    struct ps_arena *arena;
    CHECK_EQ(ps_arena_open(&arena, "/dev/null", 0, NULL), PS_ARENA_FOREIGN);
    CHECK_EQ(ps_arena_open(&arena, ".", PS_ARENA_READ, NULL), PS_ARENA_FOREIGN);
    CHECK_EQ(ps_arena_open(&arena, ".", 0, NULL), PS_ARENA_FOREIGN);
}

TEST(an_empty_file_becomes_an_arena_only_when_asked) {
    static char none;
    unlink(journal);
    write_file(path, (struct contents){&none, 0});
    struct work_model model = {0};
    CHECK_EQ(try_open(0, &model), PS_ARENA_FOREIGN);
    CHECK_EQ(try_open(PS_ARENA_CREATE, &model), PS_ARENA_OK);
    CHECK_EQ(try_open(0, &model), PS_ARENA_OK);
}

TEST(a_later_version_is_refused) {
    struct work_model model;
    make_arena(&model, true);
    struct contents file = read_file(path);
    for (size_t page = 0; page < 2; page++) {
        struct contents newer = {malloc(file.count), file.count};
        memcpy(newer.bytes, file.bytes, file.count);
        newer.bytes[page * 4096 + 8]++;
        write_file(path, newer);
        CHECK_EQ(try_open(0, &model), PS_ARENA_NEWER);
        CHECK_EQ(try_open(PS_ARENA_READ, &model), PS_ARENA_NEWER);
        CHECK(is_same(path, newer));
        free(newer.bytes);
    }
    free(file.bytes);
}

TEST(a_file_cut_short_is_refused) {
    for (int is_closed = 0; is_closed < 2; is_closed++) {
        struct work_model model;
        make_arena(&model, is_closed);
        struct contents file = read_file(path), batch = read_file(journal);
        for (size_t count = 1; count < file.count; count += 1531) {
            struct contents cut = {file.bytes, count};
            write_file(path, cut);
            enum ps_arena_status status = try_open(0, &model);
            CHECK(status == PS_ARENA_TRUNCATED || (count < 88 && status == PS_ARENA_FOREIGN) ||
                  (count < 88 && status == PS_ARENA_CORRUPT));
            CHECK_EQ(try_open(PS_ARENA_READ, &model), status);
            CHECK(is_same(path, cut));
            CHECK(is_same(journal, batch));
        }
        free(file.bytes);
        free(batch.bytes);
    }
}

/* Any one byte: the arena is refused and left alone, or it opens and is what it was. */
static void flip_bytes(const char *name, size_t step, bool is_closed) {
    struct work_model model;
    step *= ps_poison_is_memcheck ? 7 : 1; /* memcheck reads 5 MB/s */
    make_arena(&model, is_closed);
    struct contents file = read_file(path), batch = read_file(journal);
    struct contents damaged = read_file(name);
    size_t refused = 0, tried = 0;
    for (size_t at = 0; at < damaged.count; at += at < 100 || at % 4096 < 100 ? 3 : step) {
        damaged.bytes[at] ^= (char)(1 << (at % 8));
        write_file(path, file);
        write_file(journal, batch);
        write_file(name, damaged);
        enum ps_arena_status status = try_open(PS_ARENA_READ | PS_ARENA_VERIFY, &model);
        CHECK(status == PS_ARENA_OK || status == PS_ARENA_CORRUPT || status == PS_ARENA_NEWER ||
              status == PS_ARENA_FOREIGN);
        if (status != PS_ARENA_OK) {
            refused++;
            CHECK_EQ(try_open(PS_ARENA_VERIFY, &model), status);
            CHECK(is_same(name, damaged));
        }
        tried++;
        damaged.bytes[at] ^= (char)(1 << (at % 8));
    }
    printf("%s: %zu of %zu flips refused, the others did no harm\n", name, refused, tried);
    free(file.bytes);
    free(batch.bytes);
    free(damaged.bytes);
}

TEST(a_flipped_bit_does_no_harm) {
    flip_bytes(path, 701, true);
    flip_bytes(path, 701, false);
    flip_bytes(journal, 499, false);
}

TEST(a_damaged_header_makes_it_read_everything) {
    struct work_model model;
    make_arena(&model, true);
    struct contents file = read_file(path);
    GIVEN("a damaged header, and contents that are not those of the other one");
    file.bytes[20] ^= 1;
    file.bytes[file.count / 2 / 4096 * 4096 + 5] ^= 1;
    write_file(path, file);
    CHECK_EQ(try_open(0, &model), PS_ARENA_CORRUPT);
    CHECK(is_same(path, file));
    free(file.bytes);
}

TEST(a_missing_or_foreign_journal_is_noticed) {
    GIVEN("a process that ended after its commit was in its places");
    struct work_model model;
    make_arena(&model, false);
    struct contents file = read_file(path);
    unlink(journal);
    THEN("the journal is not needed");
    CHECK_EQ(try_open(PS_ARENA_READ, &model), PS_ARENA_OK);
    CHECK_EQ(try_open(0, &model), PS_ARENA_OK);
    WHEN("a page is not in its place");
    file.bytes[8192] ^= 1;
    write_file(path, file);
    CHECK_EQ(try_open(PS_ARENA_READ, &model), PS_ARENA_CORRUPT);
    write_file(journal, (struct contents){file.bytes, file.count});
    CHECK_EQ(try_open(0, &model), PS_ARENA_CORRUPT);
    CHECK(is_same(path, file));
    unlink(journal);
    free(file.bytes);
}

TEST(readers_are_told_when_nothing_is_committed) {
    struct work_model model;
    make_arena(&model, true);
    WHEN("only the first header has been written");
    struct contents file = read_file(path);
    unlink(path);
    struct ps_arena_options tiny = {.max_bytes = 1000};
    struct ps_arena *arena;
    CHECK_EQ(ps_arena_open(&arena, path, PS_ARENA_CREATE, &tiny), PS_ARENA_SYSTEM);
    CHECK_EQ(errno, ENOMEM);
    CHECK_EQ(try_open(PS_ARENA_READ, &model), PS_ARENA_EMPTY);
    model = (struct work_model){0};
    CHECK_EQ(try_open(0, &model), PS_ARENA_OK);
    CHECK_EQ(try_open(PS_ARENA_READ, &model), PS_ARENA_OK);
    free(file.bytes);
}

TEST(a_full_disk_refuses_the_commit_and_keeps_all) {
    struct work_model model;
    make_arena(&model, true);
    struct ps_arena *arena;
    REQUIRE(ps_arena_open(&arena, path, 0, &work_options) == PS_ARENA_OK);
    struct work_model old = model;
    size_t file_bytes = ((struct ps_arena_view *)(void *)arena)->bytes;
    char *block = ps_arena_alloc(arena, 400000);
    memset(block, 3, 400000);
    ps_arena_free(arena, block);
    CHECK(work_arena_step(arena));
    work_model_step(&model);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    for (rlim_t bytes = 0; bytes < 300000; bytes += 50000) {
        WHEN("files may not be longer than that");
        struct rlimit low = {bytes, limit.rlim_max};
        setrlimit(RLIMIT_FSIZE, &low);
        CHECK_EQ(ps_arena_commit(arena), PS_ARENA_SYSTEM);
        CHECK_EQ(errno, EFBIG);
        setrlimit(RLIMIT_FSIZE, &limit);
        struct ps_arena *reader;
        CHECK_EQ(ps_arena_open(&reader, path, PS_ARENA_READ, &work_options), PS_ARENA_OK);
        WORK_CHECK(reader, &old);
        CHECK_EQ(((struct ps_arena_view *)(void *)reader)->bytes, file_bytes);
        ps_arena_close(reader);
        WORK_CHECK(arena, &model);
    }
    CHECK_EQ(ps_arena_commit(arena), PS_ARENA_OK);
    ps_arena_close(arena);
    CHECK_EQ(try_open(PS_ARENA_VERIFY, &model), PS_ARENA_OK);
    CHECK_EQ(try_open(PS_ARENA_READ | PS_ARENA_VERIFY, &model), PS_ARENA_OK);
}

UNIT_MAIN
