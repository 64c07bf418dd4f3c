/* SPDX-License-Identifier: MIT */
/*
 * Sources: what each promises, random calls against a trivial model, and the edges of sizes.
 */
#include <poolshim/source.h>

#include "tests/unit/fresh.h"

#include <errno.h>
#include <poolshim/pages.h>
#include <pthread.h>
#include <sys/resource.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define CHUNK_LIMIT 64

struct chunk {
    unsigned char *address;
    size_t bytes;
};

static void fill(const struct chunk *chunk) {
    memset(chunk->address, (int)(chunk->bytes % 251), chunk->bytes);
}

static void check_filled(const struct chunk *chunk) {
    unsigned char byte = (unsigned char)(chunk->bytes % 251);
    for (size_t i = 0; i < chunk->bytes; i += i + 64 < chunk->bytes ? 61 : 1) {
        CHECK_EQ(chunk->address[i], byte);
    }
}

/* Random chunks: the contents of all live ones are intact. Returns how many were refused. */
static size_t use(struct ps_source *source, size_t limit_bytes, int rounds) {
    struct chunk chunks[CHUNK_LIMIT];
    size_t count = 0;
    size_t refused = 0;
    for (int round = 0; round < rounds || count > 0; round++) {
        if (round < rounds && count < CHUNK_LIMIT && unit_random() % 3 != 0) {
            size_t bytes = 1 + unit_random() % limit_bytes;
            size_t align = (size_t)1 << (unit_random() % 17);
            errno = 0;
            unsigned char *address = source->alloc(source, bytes, align);
            if (address == NULL) {
                CHECK_EQ(errno, ENOMEM);
                refused++;
                continue;
            }
            CHECK_EQ((uintptr_t)address & (align - 1), 0);
            chunks[count] = (struct chunk){address, bytes};
            fill(&chunks[count++]);
        } else if (count > 0) {
            size_t index = unit_random() % 4 == 0 ? unit_random() % count : count - 1;
            check_filled(&chunks[index]);
            errno = EDOM;
            source->free(source, chunks[index].address, chunks[index].bytes);
            CHECK_EQ(errno, EDOM);
            for (count--; index < count; index++) {
                chunks[index] = chunks[index + 1];
            }
        }
    }
    return refused;
}

TEST(malloc_and_mappings_give_every_chunk) {
    struct ps_source_mmap plain;
    struct ps_source_mmap guarded;
    ps_source_mmap_init(&plain, 0);
    ps_source_mmap_init(&guarded, PS_MMAP_GUARD);
    CHECK_EQ(use(ps_source_malloc(), 100 * KIB, 1000), 0);
    CHECK_EQ(use(&plain.source, 100 * KIB, 500), 0);
    CHECK_EQ(use(&guarded.source, 100 * KIB, 500), 0);
    CHECK(ps_source_malloc() == ps_source_malloc());
}

static void touch(const volatile char *address) { *(volatile char *)address = 1; }

static int signal_of_touch(const char *address) {
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL);
        touch(address);
        _exit(0);
    }
    int status = -1;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST(a_guard_lies_on_both_sides) {
    struct ps_source_mmap source;
    ps_source_mmap_init(&source, PS_MMAP_GUARD);
    static const size_t lengths[] = {1, 16, 1000, 4096, 4112, 65536};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (size_t align = 16; align <= 65536; align *= 64) {
            char *chunk = source.source.alloc(&source.source, lengths[i], align);
            size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
            size_t step = align < page_bytes ? align : page_bytes;
            char *end = chunk + (lengths[i] + step - 1) / step * step;
            char *first = (char *)((uintptr_t)chunk & ~(uintptr_t)(page_bytes - 1));
            memset(chunk, 1, lengths[i]);
            CHECK_EQ(signal_of_touch(end), SIGSEGV);
            CHECK_EQ(signal_of_touch(first - 1), SIGSEGV);
            CHECK_EQ(signal_of_touch(end - 1), 0);
            source.source.free(&source.source, chunk, lengths[i]);
        }
    }
}

TEST(huge_chunks_are_aligned_for_huge_pages) {
    struct ps_source_mmap source;
    ps_source_mmap_init(&source, PS_MMAP_HUGE | PS_MMAP_GUARD);
    char *chunk = source.source.alloc(&source.source, 4 * MIB, 16);
    REQUIRE(chunk != NULL);
    CHECK_EQ((uintptr_t)chunk % (2 * MIB), 0);
    memset(chunk, 1, 4 * MIB);
    source.source.free(&source.source, chunk, 4 * MIB);
    char *small = source.source.alloc(&source.source, 100, 16);
    memset(small, 1, 100);
    source.source.free(&source.source, small, 100);
}

TEST(sizes_that_overflow_are_memory_that_is_out) {
    struct ps_source_mmap mapping;
    struct ps_source_account account;
    struct ps_source_buffer buffer;
    static char room[100];
    ps_source_mmap_init(&mapping, PS_MMAP_GUARD | PS_MMAP_HUGE);
    ps_source_account_init(&account, NULL, 0);
    ps_source_buffer_init(&buffer, room, sizeof room);
    struct ps_source *sources[] = {&mapping.source, &account.source, &buffer.source};
    static const size_t lengths[] = {SIZE_MAX, SIZE_MAX - 4096, (size_t)PTRDIFF_MAX,
                                     (size_t)PTRDIFF_MAX + 1, (size_t)1 << 50};
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        for (size_t j = 0; j < sizeof lengths / sizeof *lengths; j++) {
            errno = 0;
            CHECK(sources[i]->alloc(sources[i], lengths[j], 16) == NULL);
            CHECK_EQ(errno, ENOMEM);
        }
    }
    CHECK_EQ(ps_source_account_used(&account), 0);
    CHECK_EQ(buffer.used_bytes, 0);
    errno = 0;
    CHECK(mapping.source.alloc(&mapping.source, 100, 24) == NULL);
    CHECK_EQ(errno, EINVAL);
    CHECK(mapping.source.alloc(&mapping.source, 100, 131072) == NULL);
}

TEST(a_buffer_gives_its_newest_chunk_again) {
    static char room[64 * 1024 + 16];
    struct ps_source_buffer buffer;
    ps_source_buffer_init(&buffer, room + 3, sizeof room - 3);
    struct ps_source *source = &buffer.source;
    char *first = source->alloc(source, 1000, 16);
    char *second = source->alloc(source, 1000, 16);
    CHECK(first >= room + 3 && second >= first + 1000);
    source->free(source, second, 1000);
    CHECK_PTR_EQ(source->alloc(source, 2000, 16), second);
    source->free(source, first, 1000);
    CHECK(source->alloc(source, 1000, 16) != first);
    CHECK(source->alloc(source, sizeof room, 16) == NULL);
    size_t left = buffer.bytes - buffer.used_bytes;
    CHECK(source->alloc(source, left, 1) != NULL);
    CHECK(source->alloc(source, 1, 1) == NULL);
    ps_source_buffer_init(&buffer, room, sizeof room);
    CHECK_CMP(use(source, 4 * KIB, 2000), >, 0);
    ps_source_buffer_init(&buffer, NULL, 0);
    CHECK(source->alloc(source, 1, 16) == NULL);
}

TEST(an_account_refuses_above_its_limit) {
    struct ps_source_account account;
    ps_source_account_init(&account, NULL, 100 * KIB);
    struct ps_source *source = &account.source;
    char *first = source->alloc(source, 60 * KIB, 16);
    CHECK(first != NULL);
    CHECK_EQ(ps_source_account_used(&account), 60 * KIB);
    errno = 0;
    CHECK(source->alloc(source, 60 * KIB, 16) == NULL);
    CHECK_EQ(errno, ENOMEM);
    CHECK_EQ(ps_source_account_used(&account), 60 * KIB);
    char *second = source->alloc(source, 40 * KIB, 16);
    CHECK(second != NULL);
    source->free(source, first, 60 * KIB);
    source->free(source, second, 40 * KIB);
    CHECK_EQ(ps_source_account_used(&account), 0);
    CHECK_CMP(use(source, 30 * KIB, 1000), >, 0);
    CHECK_EQ(ps_source_account_used(&account), 0);
}

TEST(accounts_behind_each_other_count_the_same) {
    struct ps_source_buffer buffer;
    struct ps_source_account inner;
    struct ps_source_account outer;
    static char room[32 * 1024];
    ps_source_buffer_init(&buffer, room, sizeof room);
    ps_source_account_init(&inner, &buffer.source, 0);
    ps_source_account_init(&outer, &inner.source, 0);
    CHECK_CMP(use(&outer.source, 4 * KIB, 2000), >, 0);
    CHECK_EQ(ps_source_account_used(&outer), 0);
    CHECK_EQ(ps_source_account_used(&inner), 0);
}

static void *share_account(void *source) {
    for (int i = 0; i < 2000 / FRESH_SLOWNESS; i++) {
        struct ps_source_account *account = source;
        char *chunk = account->source.alloc(&account->source, 16 * KIB, 16);
        if (chunk != NULL) {
            *chunk = 1;
            CHECK_CMP(ps_source_account_used(account), >=, 16 * KIB);
            account->source.free(&account->source, chunk, 16 * KIB);
        }
    }
    return NULL;
}

TEST(threads_share_an_account) {
    pthread_t threads[4];
    struct ps_source_account account;
    ps_source_account_init(&account, NULL, 40 * KIB);
    for (size_t i = 0; i < 4; i++) {
        REQUIRE(pthread_create(&threads[i], NULL, share_account, &account) == 0);
    }
    for (size_t i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK_EQ(ps_source_account_used(&account), 0);
}

UNIT_MAIN
