/* SPDX-License-Identifier: MIT */
/*
 * The life of a region: first chunks and buffers, reset and the memory it retains, cleanups,
 * descriptors, data, trees, and every call when memory runs out.
 */
#include "tests/unit/unit.h"

#include "tests/pools/counting_source.h"
#include "tests/pools/modes.h"
#include "tests/pools/respawn.h"

#include <fcntl.h>
#include <poolshim/region.h>
#include <pthread.h>

static char journal[256];

static void note(void *text) {
    REQUIRE(strlen(journal) + strlen(text) + 1 < sizeof journal);
    strcat(journal, text);
}

static struct ps_region_stats stats_of(struct ps_region *region) {
    struct ps_region_stats stats;
    ps_region_stats(region, &stats);
    return stats;
}

static void *destroy_it(void *region) {
    ps_region_destroy(region);
    return NULL;
}

static void *use_it(void *region) {
    CHECK(ps_region_alloc(region, 8) != NULL);
    return NULL;
}

static void in_another_thread(void *(*function)(void *), void *argument) {
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, function, argument) == 0);
    pthread_join(thread, NULL);
}

static void *adopt_and_destroy(void *region) {
    ps_region_adopt(region);
    return destroy_it(region);
}

DEBUG_TEST(a_checked_region_belongs_to_the_thread_that_adopted_it, "check") {
    struct ps_region *region = ps_region_create(NULL);
    CHECK_ABORTS(in_another_thread(use_it, region), "used by another thread than its owner");
    in_another_thread(adopt_and_destroy, region);
}

TEST(a_region_costs_one_chunk_and_a_buffer_none) {
    NEEDS_CHUNKS();
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_region_options options = {.chunks = {.source = &source.source}};
    struct ps_region *region = ps_region_create(&options);
    CHECK(ps_region_alloc(region, 1000) != NULL);
    CHECK_EQ(source.calls, 1);
    CHECK_EQ(source.live_bytes, 4096);
    CHECK_EQ(stats_of(region).reserved_bytes, 4096);
    ps_region_destroy(region);
    CHECK_EQ(source.live_count, 0);
    WHEN("the first chunk is the caller's, at any address");
    static char buffer[4096 + 16];
    for (size_t shift = 0; shift < 16; shift++) {
        region = ps_region_init(buffer + shift, 4096, &options);
        char *block = ps_region_alloc(region, 3500);
        CHECK(block >= buffer && block + 3500 <= buffer + shift + 4096);
        CHECK_EQ(source.calls, 1 + shift);
        CHECK(ps_region_alloc(region, 600) != NULL);
        CHECK_EQ(source.calls, 2 + shift);
        ps_region_destroy(region);
        CHECK_EQ(source.live_count, 0);
    }
}

/* Trap: a first chunk too short for the region itself. */
TEST(short_buffers_are_refused_and_short_chunks_made_longer) {
    char buffer[PS_REGION_INIT_BYTES];
    errno = 0;
    CHECK(ps_region_init(buffer, sizeof buffer - 1, NULL) == NULL);
    CHECK_EQ(errno, EINVAL);
    CHECK(ps_region_init(NULL, 4096, NULL) == NULL);
    struct ps_region *region = ps_region_init(buffer, sizeof buffer, NULL);
    REQUIRE(region != NULL);
    CHECK(ps_region_alloc(region, 100) != NULL);
    ps_region_destroy(region);
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_region_options options = {.chunks = {.source = &source.source, .first_bytes = 1}};
    region = ps_region_create(&options);
    CHECK(ps_region_alloc(region, 100) != NULL);
    ps_region_destroy(region);
}

TEST(a_region_and_its_first_block_are_one_chunk) {
    NEEDS_CHUNKS();
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_region_options options = {.chunks = {.source = &source.source}};
    for (size_t bytes = 0; bytes < 3000000; bytes = bytes * 3 + 1) {
        struct ps_region *region = NULL;
        size_t calls = source.calls;
        char *block = ps_region_create_for(bytes, &options, &region);
        REQUIRE(block != NULL && region != NULL);
        CHECK_EQ(source.calls, calls + 1);
        CHECK_EQ((uintptr_t)block % 16, 0);
        memset(block, 1, bytes);
        ps_region_destroy(region);
    }
    CHECK_EQ(source.live_count, 0);
}

/* Traps: room lost at each reset; cleanups still registered while their memory is used again; the
 * memory of a burst retained for ever. */
TEST(reset_makes_as_new_and_keeps_what_it_may) {
    NEEDS_CHUNKS();
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_region_options options = {.chunks = {.source = &source.source},
                                        .retain_bytes = 200000};
    struct ps_region *region = ps_region_create(&options);
    size_t calls = 0;
    for (int round = 0; round < 10; round++) {
        journal[0] = '\0';
        ps_region_on_destroy(region, note, "a");
        for (int i = 0; i < 1000; i++) {
            memset(ps_region_alloc(region, 48), round, 48);
        }
        CHECK(ps_region_alloc(region, 2000000) != NULL);
        CHECK_EQ(stats_of(region).large_count, 1);
        ps_region_reset(region);
        CHECK_STR_EQ(journal, "a");
        struct ps_region_stats stats = stats_of(region);
        CHECK_EQ(stats.used_bytes, 0);
        CHECK_EQ(stats.chunk_count, 1);
        CHECK_EQ(stats.large_count, 0);
        CHECK_CMP(stats.waiting_bytes, >, 0);
        CHECK_CMP(stats.waiting_bytes, <=, 200000);
        CHECK_CMP(stats.peak_bytes, >=, 2000000);
        if (round == 1) {
            calls = source.calls;
        }
    }
    CHECK_EQ(source.calls, calls + 8); /* the large ones */
    size_t waiting = stats_of(region).waiting_bytes;
    CHECK_EQ(ps_region_trim_to(region, 0), waiting);
    CHECK_EQ(source.live_count, 1);
    ps_region_destroy(region);
    CHECK_EQ(source.live_count, 0);
}

TEST(nothing_waits_when_nothing_may) {
    NEEDS_CHUNKS();
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_region_options options = {.chunks = {.source = &source.source}, .retain_bytes = 1};
    struct ps_region *region = ps_region_create(&options);
    void *blocks[2000];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 2000; i++) {
            blocks[i] = ps_region_alloc(region, 48);
        }
        for (int i = 2000; i-- > 0;) {
            CHECK(ps_region_free_last(region, blocks[i], 48));
        }
        CHECK_EQ(source.live_count, 1);
        CHECK_CMP(stats_of(region).next_chunk_bytes, <=, 65536);
    }
    ps_region_destroy(region);
}

TEST(cleanups_run_newest_first_and_can_be_cancelled_or_run_at_once) {
    struct ps_region *region = ps_region_create(NULL);
    journal[0] = '\0';
    ps_region_on_destroy(region, note, "a");
    struct ps_region_cleanup *second = ps_region_on_destroy(region, note, "b");
    struct ps_region_cleanup *third = ps_region_on_destroy(region, note, "c");
    ps_region_on_destroy(region, note, "d");
    ps_region_on_destroy_early(region, note, "e");
    ps_region_cancel(region, second);
    ps_region_run_now(region, third);
    CHECK_STR_EQ(journal, "c");
    errno = 77;
    ps_region_destroy(region);
    CHECK_EQ(errno, 77);
    CHECK_STR_EQ(journal, "ceda");
}

TEST(cancelled_cleanups_cost_no_memory) {
    struct ps_region *region = ps_region_create(NULL);
    ps_region_cancel(region, ps_region_on_destroy(region, note, "a"));
    size_t used = stats_of(region).used_bytes;
    for (int i = 0; i < 1000; i++) {
        ps_region_cancel(region, ps_region_on_destroy(region, note, "a"));
    }
    CHECK_EQ(stats_of(region).used_bytes, used);
    ps_region_destroy(region);
}

static struct ps_region *busy; /* the region whose callbacks run */
static int rounds_left;

static void note_data(void *value) { note(value); }

/* Everything that a callback may do. */
static void register_more(void *text) {
    note(text);
    char *block = ps_region_printf(busy, "%0*d", 5000, 7); /* trap: allocating while it ends */
    CHECK_EQ(strlen(block), 5000);
    if (rounds_left-- > 0) {
        ps_region_on_destroy(busy, register_more, "r");
        ps_region_on_destroy_early(busy, note, "e");
        struct ps_region *child = ps_region_create_child(busy, NULL);
        ps_region_on_destroy(child, note, "k");
        ps_region_set_data(busy, "key", (void *)"d", note_data);
    }
}

TEST(callbacks_may_use_the_region_and_register_more) {
    for (int is_reset = 0; is_reset < 2; is_reset++) {
        busy = ps_region_create(NULL);
        rounds_left = 2;
        journal[0] = '\0';
        ps_region_on_destroy(busy, note, "z");
        ps_region_on_destroy(busy, register_more, "r");
        if (is_reset) {
            ps_region_reset(busy);
            CHECK_EQ(stats_of(busy).used_bytes, 0);
            CHECK(ps_region_get_data(busy, "key") == NULL);
        }
        ps_region_destroy(busy);
        CHECK_STR_EQ(journal, "rrdrzeekkd"); /* the first d: its value was replaced */
    }
}

static void destroy_busy(void *unused) {
    (void)unused;
    ps_region_destroy(busy);
}

TEST(a_callback_cannot_end_its_own_region) {
    busy = ps_region_create(NULL);
    struct ps_region_cleanup *cleanup = ps_region_on_destroy(busy, destroy_busy, NULL);
    CHECK_ABORTS(ps_region_destroy(busy), "ended by one of its own callbacks");
    ps_region_cancel(busy, cleanup);
    ps_region_destroy(busy);
}

static bool is_open(int fd) { return fcntl(fd, F_GETFD) != -1; }

TEST(descriptors_and_temporary_files_end_with_the_region) {
    struct ps_region *region = ps_region_create(NULL);
    char path[] = "/tmp/poolshim-region-XXXXXX";
    char gone[] = "/tmp/poolshim-region-XXXXXX";
    int fds[4] = {open("/dev/null", O_RDONLY), open("/dev/null", O_RDONLY), mkstemp(path),
                  mkstemp(gone)};
    CHECK(ps_region_own_fd(region, fds[0]) != NULL);
    CHECK(ps_region_own_fd(region, fds[1]) != NULL);
    CHECK(ps_region_own_tmpfile(region, fds[2], path) != NULL);
    CHECK(ps_region_own_tmpfile(region, fds[3], gone) != NULL);
    CHECK_EQ(ps_region_close_fd(region, fds[1]), 0);
    CHECK(!is_open(fds[1]));
    errno = 0;
    CHECK_EQ(ps_region_close_fd(region, fds[1]), -1);
    CHECK_EQ(errno, EBADF);
    CHECK_EQ(access(path, F_OK), 0);
    unlink(gone);
    ps_region_destroy(region);
    for (int i = 0; i < 4; i++) {
        CHECK(!is_open(fds[i]));
    }
    CHECK_EQ(access(path, F_OK), -1);
}

TEST(a_temporary_file_can_be_closed_early) {
    struct ps_region *region = ps_region_create(NULL);
    char path[] = "/tmp/poolshim-region-XXXXXX";
    int fd = mkstemp(path);
    CHECK(ps_region_own_tmpfile(region, fd, path) != NULL);
    CHECK_EQ(ps_region_close_fd(region, fd), 0);
    CHECK_EQ(access(path, F_OK), -1);
    CHECK(!is_open(fd));
    ps_region_destroy(region);
}

TEST(data_is_found_by_the_text_of_its_key) {
    struct ps_region *region = ps_region_create(NULL);
    char key[] = "one";
    journal[0] = '\0';
    CHECK(ps_region_get_data(region, "one") == NULL);
    CHECK(ps_region_set_data(region, "one", (void *)"1", note_data));
    CHECK(ps_region_set_data(region, "two", (void *)"2", note_data));
    CHECK(ps_region_set_data(region, "none", (void *)"0", NULL));
    CHECK_STR_EQ((char *)ps_region_get_data(region, key), "1");
    CHECK(ps_region_set_data(region, key, (void *)"3", note_data));
    CHECK_STR_EQ(journal, "1");
    CHECK_STR_EQ((char *)ps_region_get_data(region, "one"), "3");
    ps_region_destroy(region);
    CHECK_STR_EQ(journal, "123");
}

TEST(children_end_first_newest_first) {
    NEEDS_CHUNKS();
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_region_options options = {.chunks = {.source = &source.source, .name = "top"}};
    struct ps_region *top = ps_region_create(&options);
    struct ps_region *left = ps_region_create_child(top, NULL);
    struct ps_region *right = ps_region_create_child(top, NULL);
    struct ps_region *leaf = ps_region_create_child(left, NULL);
    CHECK_EQ(source.live_count, 4); /* the source is inherited */
    CHECK_STR_EQ(ps_region_name(top), "top");
    CHECK_STR_EQ(ps_region_name(left), "region");
    ps_region_set_name(left, "left");
    CHECK_STR_EQ(ps_region_name(left), "left");
    CHECK_EQ(stats_of(top).child_count, 2);
    CHECK(ps_region_parent(leaf) == left);
    CHECK(ps_region_is_ancestor(top, leaf));
    CHECK(ps_region_is_ancestor(leaf, leaf));
    CHECK(!ps_region_is_ancestor(right, leaf));
    journal[0] = '\0';
    ps_region_on_destroy_early(top, note, "T");
    ps_region_on_destroy(top, note, "t");
    ps_region_on_destroy(left, note, "l");
    ps_region_on_destroy(right, note, "r");
    ps_region_on_destroy(leaf, note, "f");
    ps_region_reset(top);
    CHECK_STR_EQ(journal, "Trflt");
    CHECK_EQ(source.live_count, 1);
    ps_region_destroy(top);
    CHECK_EQ(source.live_count, 0);
}

TEST(regions_can_be_moved_in_the_tree) {
    struct ps_region *top = ps_region_create(NULL);
    struct ps_region *left = ps_region_create_child(top, NULL);
    struct ps_region *right = ps_region_create_child(top, NULL);
    struct ps_region *leaf = ps_region_create_child(left, NULL);
    errno = 0;
    CHECK(!ps_region_set_parent(left, leaf));
    CHECK_EQ(errno, EINVAL);
    CHECK(!ps_region_set_parent(left, left));
    CHECK(ps_region_set_parent(leaf, right));
    CHECK(ps_region_parent(leaf) == right);
    CHECK(ps_region_set_parent(right, NULL));
    journal[0] = '\0';
    ps_region_on_destroy(leaf, note, "f");
    ps_region_destroy(top);
    CHECK_STR_EQ(journal, "");
    ps_region_destroy(right);
    CHECK_STR_EQ(journal, "f");
}

/* No recursion: a deep tree needs no deep stack. */
TEST(a_chain_of_many_regions_ends) {
    struct ps_region_options options = {.chunks = {.source = ps_source_malloc()}};
    options.chunks.first_bytes = 1024;
    struct ps_region *top = ps_region_create(&options);
    struct ps_region *last = top;
    for (int i = 0; i < 20000; i++) {
        last = ps_region_create_child(last, &options);
    }
    ps_region_destroy(top);
}

/* Each call as often as it takes until it needs no more memory, the source failing one call later
 * each time: it either works, or refuses and leaves the region as it was. */
static bool call_all(struct ps_region *region, int fd) {
    void *block = ps_region_alloc(region, 900);
    bool is_good = block != NULL;
    is_good &= ps_region_alloc_aligned(region, 100, 256) != NULL;
    is_good &= ps_region_alloc(region, 100000) != NULL;
    is_good &= ps_region_zalloc(region, 700) != NULL;
    is_good &= ps_region_strdup(region, "some text") != NULL;
    is_good &= ps_region_strndup(region, "some text", 3) != NULL;
    is_good &= ps_region_memdup(region, "some bytes", 10) != NULL;
    is_good &= ps_region_printf(region, "%0*d", 3000, 1) != NULL;
    void *moved = block != NULL ? ps_region_realloc(region, block, 900, 200000) : NULL;
    is_good &= moved != NULL;
    for (int i = 0; i < 50; i++) {
        is_good &= ps_region_on_destroy_early(region, note, "e") != NULL;
        is_good &= ps_region_set_data(region, "key", (void *)"d", note_data);
    }
    is_good &= ps_region_own_tmpfile(region, fd, "/nonexistent/poolshim") != NULL;
    is_good &= ps_region_create_child(region, NULL) != NULL;
    return is_good;
}

TEST(every_call_survives_a_source_without_memory) {
    bool is_done = false;
    for (size_t calls = 0; !is_done; calls++) {
        REQUIRE(calls < 100);
        struct counting_source source = new_source(calls);
        struct ps_region_options options = {.chunks = {.source = &source.source}};
        options.chunks.first_bytes = 1024;
        options.chunks.max_bytes = 2048;
        errno = 0;
        struct ps_region *region = ps_region_create(&options);
        if (region == NULL) {
            CHECK_EQ(calls, 0);
            CHECK_EQ(errno, ENOMEM);
            CHECK(ps_region_create_for(5000, &options, &region) == NULL);
            continue;
        }
        journal[0] = '\0';
        is_done = call_all(region, open("/dev/null", O_RDONLY));
        journal[0] = '\0';
        rounds_left = 0;
        ps_region_reset(region);
        CHECK_EQ(stats_of(region).used_bytes, 0);
        ps_region_destroy(region);
        CHECK_EQ(source.live_count, 0);
        CHECK_EQ(source.live_bytes, 0);
    }
}

static int asked;

static int give_memory(void *source, size_t bytes) {
    (void)bytes;
    ((struct counting_source *)source)->calls_max = SIZE_MAX;
    asked++;
    return 1;
}

TEST(children_inherit_the_oom_handler) {
    NEEDS_CHUNKS();
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_region_options options = {
        .chunks = {.source = &source.source, .oom = give_memory, .oom_context = &source}};
    struct ps_region *top = ps_region_create(&options);
    struct ps_region *child = ps_region_create_child(top, NULL);
    source.calls_max = source.calls;
    CHECK(ps_region_alloc(child, 50000) != NULL);
    CHECK_EQ(asked, 1);
    ps_region_destroy(top);
    CHECK_EQ(source.live_count, 0);
}

UNIT_MAIN
