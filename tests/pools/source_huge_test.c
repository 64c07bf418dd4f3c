/* SPDX-License-Identifier: MIT */
/*
 * Huge pages as a source: the requested mappings, their replacement, refusals. Most
 * machines have set no huge pages aside, so mmap is this file's own: it notes the requests and
 * answers as a system with, without, or with too few of them. source_huge_system_test.c takes real
 * ones.
 */
#include <poolshim/pages.h>
#include <poolshim/region.h>

#include "pools/engine/os/os.h"
#include "pools/engine/os/syscall.h"
#include "tests/pools/modes.h"
#include "tests/pools/refused_call.h"
#include "tests/pools/source_chunks.h"
#include "tests/unit/fresh.h"

#include <sys/mman.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

static enum { PAGES_GIVEN, PAGES_USED_UP } pages;
static struct {
    size_t count; /* of mappings of huge pages */
    size_t bytes; /* of the last one, with its flags */
    int flags;
} asked;

/* ThreadSanitizer's start calls mmap before what it has put into functions works. */
#define NOT_WATCHED __attribute__((no_sanitize("thread")))

/* Answers as the system would: an ordinary mapping, aligned as one of huge pages is. */
NOT_WATCHED static long map_aligned(size_t bytes, int protection, int flags) {
    size_t page = (size_t)1 << ((unsigned)flags >> MAP_HUGE_SHIFT);
    flags &= MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    long start = ps_syscall6(SYS_mmap, 0, (long)(bytes + page), protection, flags, -1, 0);
    if (ps_syscall_failed(start)) {
        return start;
    }
    size_t before = (size_t)-start & (page - 1);
    (void)ps_syscall3(SYS_munmap, start, (long)before, 0);
    (void)ps_syscall3(SYS_munmap, start + (long)(before + bytes), (long)(page - before), 0);
    return start + (long)before;
}

NOT_WATCHED void *mmap(void *address, size_t bytes, int protection, int flags, int fd,
                       off_t offset) {
    bool is_huge = (flags & MAP_HUGETLB) != 0;
    bool is_probe = protection == PROT_NONE;
    long result;
    if (!is_huge) {
        result = ps_syscall6(SYS_mmap, (long)address, (long)bytes, protection, flags, fd, offset);
    } else if (pages == PAGES_USED_UP && !is_probe) {
        result = -ENOMEM;
    } else {
        result = map_aligned(bytes, protection, flags);
    }
    if (is_huge && !is_probe) {
        asked.count++;
        asked.bytes = bytes;
        asked.flags = flags;
    }
    if (ps_syscall_failed(result)) {
        errno = (int)-result;
        return MAP_FAILED;
    }
    return (void *)result; // NOLINT(performance-no-int-to-ptr): the kernel's word
}

static struct ps_source_huge make(size_t page_bytes, unsigned flags) {
    struct ps_source_huge huge;
    memset(&asked, 0, sizeof asked);
    REQUIRE(ps_source_huge_init(&huge, page_bytes, flags));
    CHECK_EQ(asked.count, 0);
    return huge;
}

static struct ps_source_huge_stats stats_of(const struct ps_source_huge *huge) {
    struct ps_source_huge_stats stats;
    ps_source_huge_stats(huge, &stats);
    return stats;
}

TEST(a_chunk_of_a_page_and_more_is_whole_huge_pages) {
    pages = PAGES_GIVEN;
    static const size_t page_bytes[] = {2 * MIB, GIB};
    for (size_t i = 0; i < 2; i++) {
        struct ps_source_huge huge = make(page_bytes[i], 0);
        CHECK_EQ(huge.page_bytes, page_bytes[i]);
        size_t bytes = page_bytes[i] + 1;
        char *chunk = take(&huge.source, bytes, 64 * KIB);
        REQUIRE(chunk != NULL);
        CHECK_EQ(asked.bytes, 2 * page_bytes[i]);
        CHECK_EQ((unsigned)asked.flags >> MAP_HUGE_SHIFT, i == 0 ? 21 : 30);
        CHECK_EQ(asked.flags & MAP_NORESERVE, 0); /* reserved now, or refused now */
        CHECK(ps_os_is_mapped(chunk + 2 * page_bytes[i] - 1));
        give(&huge.source, chunk, bytes);
        CHECK(!ps_os_is_mapped(chunk) && !ps_os_is_mapped(chunk + 2 * page_bytes[i] - 1));
        CHECK_EQ(stats_of(&huge).huge_count, 1);
        CHECK_EQ(stats_of(&huge).refused_count, 0);
        CHECK_EQ(stats_of(&huge).page_bytes, page_bytes[i]);
    }
}

TEST(a_shorter_chunk_comes_from_the_page_cache) {
    pages = PAGES_GIVEN;
    struct ps_source_huge huge = make(2 * MIB, 0);
    char *chunk = take(&huge.source, 2 * MIB - 1, 4096);
    REQUIRE(chunk != NULL);
    CHECK_EQ(asked.count, 0);
    give(&huge.source, chunk, 2 * MIB - 1);
    CHECK_EQ(stats_of(&huge).huge_count, 0);
}

TEST(with_huge_only_a_short_chunk_takes_a_huge_page) {
    pages = PAGES_GIVEN;
    struct ps_source_huge huge = make(2 * MIB, PS_HUGE_ONLY);
    char *chunk = take(&huge.source, 100, 16);
    REQUIRE(chunk != NULL);
    CHECK_EQ(asked.bytes, 2 * MIB);
    give(&huge.source, chunk, 100);
    CHECK(!ps_os_is_mapped(chunk + 2 * MIB - 1));
}

TEST(ordinary_memory_takes_the_place_of_pages_that_are_used_up) {
    pages = PAGES_USED_UP;
    struct ps_source_huge huge = make(2 * MIB, 0);
    char *chunk = take(&huge.source, 3 * MIB, 64 * KIB);
    REQUIRE(chunk != NULL);
    CHECK_EQ(asked.count, 1);
    CHECK_EQ((uintptr_t)chunk % (2 * MIB), 0); /* for transparent huge pages */
    CHECK_EQ(stats_of(&huge).refused_count, 1);
    CHECK_EQ(stats_of(&huge).huge_count, 0);
    CHECK(ps_os_is_mapped(chunk + 4 * MIB - 1));
    pages = PAGES_GIVEN; /* which pages it has makes no difference to the way back */
    give(&huge.source, chunk, 3 * MIB);
    CHECK(!ps_os_is_mapped(chunk) && !ps_os_is_mapped(chunk + 4 * MIB - 1));
}

static size_t oom_count;

static int note_oom(void *context, size_t bytes) {
    (void)context;
    (void)bytes;
    oom_count++;
    return 0;
}

TEST(with_huge_only_pages_that_are_used_up_are_memory_that_is_out) {
    pages = PAGES_GIVEN;
    struct ps_source_huge huge = make(2 * MIB, PS_HUGE_ONLY);
    pages = PAGES_USED_UP;
    CHECK(take(&huge.source, 2 * MIB, 16) == NULL && errno == ENOMEM);
    CHECK_EQ(stats_of(&huge).refused_count, 1);
    NEEDS_CHUNKS();
    pages = PAGES_GIVEN;
    struct ps_region_options options = {
        .chunks = {.source = &huge.source, .oom = note_oom},
    };
    struct ps_region *region = ps_region_create(&options);
    REQUIRE(region != NULL);
    pages = PAGES_USED_UP;
    CHECK(ps_region_alloc(region, 4 * MIB) == NULL && errno == ENOMEM);
    CHECK_CMP(oom_count, >, 0);
    pages = PAGES_GIVEN;
    CHECK(ps_region_alloc(region, 4 * MIB) != NULL);
    ps_region_destroy(region);
}

TEST(the_usual_size_is_the_systems) {
    pages = PAGES_GIVEN;
    struct ps_source_huge huge;
    if (!ps_source_huge_init(&huge, 0, 0)) { /* a kernel without hugetlbfs */
        CHECK_EQ(errno, ENOSYS);
        return;
    }
    FILE *file = fopen("/proc/meminfo", "r");
    REQUIRE(file != NULL);
    char line[256];
    size_t kib = 0;
    while (kib == 0 && fgets(line, sizeof line, file) != NULL) {
        (void)sscanf(line, "Hugepagesize: %zu kB", &kib);
    }
    fclose(file);
    CHECK_EQ(huge.page_bytes, kib << 10);
}

TEST(what_cannot_be_is_refused) {
    pages = PAGES_GIVEN;
    struct ps_source_huge huge;
    CHECK(!ps_source_huge_init(&huge, 3 * MIB, 0) && errno == EINVAL);
    CHECK(!ps_source_huge_init(&huge, (size_t)1 << 63, 0) && errno == EINVAL);
    CHECK(!ps_source_huge_init(&huge, 2 * MIB, 2) && errno == EINVAL);
    CHECK(take(&huge.source, 1, 1) == NULL && errno == ENOMEM);
    huge = make(2 * MIB, 0);
    CHECK(take(&huge.source, SIZE_MAX, 1) == NULL && errno == ENOMEM);
    CHECK(take(&huge.source, PTRDIFF_MAX, 1) == NULL && errno == ENOMEM);
    CHECK(take(&huge.source, 2 * MIB, 3) == NULL && errno == EINVAL);
    CHECK(take(&huge.source, 2 * MIB, 128 * KIB) == NULL && errno == EINVAL);
}

/* The probe is a system call, past this file's mmap: the system refuses it. */
FRESH_TEST(a_system_without_such_pages_is_told) {
    struct ps_source_huge huge;
    refuse_call(SYS_mmap, EINVAL);
    CHECK(!ps_source_huge_init(&huge, 2 * MIB, 0) && errno == ENOSYS);
    CHECK(take(&huge.source, 2 * MIB, 1) == NULL && errno == ENOMEM);
}

FRESH_TEST(a_process_without_addresses_is_told) {
    struct ps_source_huge huge;
    refuse_call(SYS_mmap, ENOMEM);
    CHECK(!ps_source_huge_init(&huge, 2 * MIB, 0) && errno == ENOMEM);
    CHECK(take(&huge.source, 2 * MIB, 1) == NULL && errno == ENOMEM);
}

UNIT_MAIN
