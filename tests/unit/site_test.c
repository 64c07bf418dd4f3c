// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * Heaps by call site: which part of the heap a site has, also when there are more sites than parts,
 * or than places in the table, and for threads that meet a new one at the same moment; and that an
 * address never passes from one part to another.
 */
#include "pools/engine/harden/site.h"
#include "pools/engine/heap/partition_path.h"
#include "tests/unit/announced.h"
#include "tests/unit/engine.h"

#define PAGE_SHIFT 12
#define CODE ((uintptr_t)0x400000) /* sites are addresses from here on */

static void start(void) {
    engine_config.harden = 3;
    engine_config.guard_sample = UINT32_MAX; /* samples have no part */
    ps_engine_start();
}

static uintptr_t site_at(size_t index) { return CODE + index * 0x35; }

static size_t part_of_site(size_t index) {
    const struct ps_partition *part = ps_site_find(site_at(index));
    REQUIRE(part != NULL);
    return (size_t)(part - ps_partition_parts);
}

/* The part of a live small block; PS_PARTITION_PARTS: it is in none. */
static size_t part_of_block(const void *block) {
    const struct ps_slab *slab = ps_slab_holding(ps_page_map_slot(block), block);
    const struct ps_partition *partition =
        slab != NULL && slab->extent != NULL ? ps_partition_of_slab(slab) : NULL;
    return ps_partition_is_part(partition) ? (size_t)(partition - ps_partition_parts)
                                           : PS_PARTITION_PARTS;
}

static void *alloc_at(size_t index, size_t bytes) {
    ps_site_note(site_at(index));
    return ps_heap_alloc(bytes);
}

/* ---- the table ---- */

FRESH_TEST(the_first_sites_have_a_part_each) {
    bool is_taken[PS_PARTITION_PARTS] = {false};
    start();
    for (size_t i = 0; i < PS_PARTITION_PARTS; i++) {
        size_t part = part_of_site(i);
        CHECK(!is_taken[part]);
        is_taken[part] = true;
    }
    CHECK_EQ(ps_site_counts.x_known, PS_PARTITION_PARTS);
    CHECK_EQ(ps_site_counts.x_shared, 0);
    WHEN("there is one more");
    (void)part_of_site(PS_PARTITION_PARTS);
    CHECK_EQ(ps_site_counts.x_shared, 2);
}

FRESH_TEST(later_sites_share_parts_evenly) {
    enum { ROUNDS = 20 };
    size_t counts[PS_PARTITION_PARTS] = {0};
    start();
    for (size_t i = 0; i < ROUNDS * PS_PARTITION_PARTS; i++) {
        counts[part_of_site(i)]++;
    }
    for (size_t i = 0; i < PS_PARTITION_PARTS; i++) {
        CHECK_EQ(counts[i], ROUNDS);
    }
    CHECK_EQ(ps_site_counts.x_shared, ROUNDS * PS_PARTITION_PARTS);
}

FRESH_TEST(a_site_keeps_its_part_when_the_table_is_full) {
    enum { SITES = 4 * PS_SITE_PLACES };
    static uint8_t parts[SITES];
    size_t counts[PS_PARTITION_PARTS] = {0};
    start();
    for (size_t i = 0; i < SITES; i++) {
        parts[i] = (uint8_t)part_of_site(i);
        counts[parts[i]]++;
    }
    CHECK(ps_site_counts.x_known > PS_SITE_PLACES * 9 / 10);
    CHECK(ps_site_counts.x_known <= PS_SITE_PLACES);
    for (size_t i = 0; i < SITES; i++) {
        CHECK_EQ(part_of_site(i), parts[i]);
    }
    for (size_t i = 0; i < PS_PARTITION_PARTS; i++) { /* those of the hash are not all in one */
        CHECK(counts[i] > SITES / PS_PARTITION_PARTS / 4);
    }
}

#define THREADS 4
#define MET 600

static uint8_t x_met[THREADS][MET];
static uint32_t x_ready;

static void *meet_sites(void *number) {
    uint8_t *met = x_met[(uintptr_t)number];
    __atomic_add_fetch(&x_ready, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&x_ready, __ATOMIC_ACQUIRE) < THREADS) { /* ends: all are created */
    }
    for (size_t i = 0; i < MET; i++) {
        const struct ps_partition *part;
        do { /* ends: another thread completes the part */
            part = ps_site_find(site_at(i));
        } while (part == NULL);
        met[i] = (uint8_t)(part - ps_partition_parts);
    }
    return NULL;
}

FRESH_TEST(threads_agree_on_the_part_of_a_new_site) {
    pthread_t threads[THREADS];
    start();
    for (uintptr_t i = 0; i < THREADS; i++) {
        threads[i] = announced_create(meet_sites, (void *)i);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    for (size_t i = 1; i < THREADS; i++) {
        CHECK_EQ(memcmp(x_met[0], x_met[i], MET), 0);
    }
    CHECK_EQ(ps_site_counts.x_known, MET);
}

/* ---- requests ---- */

FRESH_TEST(a_note_is_for_one_request) {
    start();
    void *noted = alloc_at(1, 64);
    void *other = ps_heap_alloc(64);
    CHECK_EQ(part_of_block(noted), part_of_site(1));
    CHECK_NE(part_of_block(other), part_of_site(1));
    WHEN("the request is for a block above the classes, or of no bytes");
    void *large = alloc_at(1, MIB);
    CHECK_EQ(part_of_block(large), PS_PARTITION_PARTS);
    CHECK_EQ(ps_front_thread.noted_part, 0);
    (void)alloc_at(1, 0);
    CHECK_EQ(ps_front_thread.noted_part, 0);
}

FRESH_TEST(a_small_block_stays_in_its_part_when_it_is_resized) {
    start();
    for (size_t i = 0; i < 50; i++) {
        char *block = alloc_at(i, 100);
        memset(block, 'x', 100);
        for (size_t bytes = 120; bytes < 60 * KIB; bytes = bytes * 5 / 4) {
            block = ps_block_resize(block, bytes);
            CHECK_EQ(part_of_block(block), part_of_site(i));
        }
        block = ps_block_resize(block, 300 * KIB);
        CHECK_EQ(part_of_block(block), PS_PARTITION_PARTS);
        CHECK(block[0] == 'x' && block[99] == 'x');
        CHECK_EQ(ps_front_thread.noted_part, 0);
        ps_heap_free(block);
    }
}

FRESH_TEST(blocks_of_parts_belong_to_the_plain_heap_for_programs) {
    start();
    void *block = alloc_at(1, 64);
    struct ps_partition *partition = ps_partition_create("other", 0);
    REQUIRE(partition != NULL);
    CHECK(ps_partition_of(block) == NULL);
    void *apart = ps_partition_alloc(partition, 64, 1, false);
    CHECK_PTR_EQ(ps_partition_of(apart), partition);
    ps_heap_free(block);
    ps_heap_free(apart);
    CHECK(ps_partition_destroy(partition));
}

/* ---- addresses ---- */

#define OWNERS_BITS 18
#define SITES 45
#define LIVE 1500

static uint64_t x_owners[(size_t)1 << OWNERS_BITS]; /* page << 6 | part; 0: none yet */
static void *x_live[LIVE];

/* Notes that a page is of a part, from now on for ever; false: it was another's. */
static bool note_page(uintptr_t page, size_t part) {
    uint64_t wanted = (uint64_t)page << 6 | part;
    size_t at = (size_t)(page * UINT64_C(0x9e3779b97f4a7c15) >> (64 - OWNERS_BITS));
    for (;; at = (at + 1) % ((size_t)1 << OWNERS_BITS)) { /* ends: there are fewer pages */
        uint64_t found = __atomic_load_n(&x_owners[at], __ATOMIC_RELAXED);
        if (found == 0) {
            (void)__atomic_compare_exchange_n(&x_owners[at], &found, wanted, false,
                                              __ATOMIC_RELAXED, __ATOMIC_RELAXED);
            found = __atomic_load_n(&x_owners[at], __ATOMIC_RELAXED);
        }
        if (found >> 6 == page) {
            return found == wanted;
        }
    }
}

static void check_block(void *block, size_t bytes, size_t part) {
    CHECK_EQ(part_of_block(block), part);
    for (uintptr_t page = (uintptr_t)block >> PAGE_SHIFT;
         page <= ((uintptr_t)block + bytes - 1) >> PAGE_SHIFT; page++) {
        CHECK(note_page(page, part));
    }
}

static void churn(uint64_t seed, size_t calls) {
    uint64_t state = seed;
    for (size_t i = 0; i < calls; i++) {
        size_t site = engine_random(&state) % SITES;
        size_t bytes = engine_random(&state) % (engine_random(&state) % 8 == 0 ? 9000 : 400) + 1;
        void **place = &x_live[engine_random(&state) % LIVE];
        char *block = alloc_at(site, bytes);
        REQUIRE(block != NULL);
        check_block(block, bytes, part_of_site(site));
        memset(block, 'a', bytes);
        block = __atomic_exchange_n(place, block, __ATOMIC_ACQ_REL);
        if (block != NULL && engine_random(&state) % 4 == 0) {
            size_t part = part_of_block(block);
            bytes = engine_random(&state) % 3000 + 1;
            block = ps_block_resize(block, bytes);
            check_block(block, bytes, part);
        }
        if (block != NULL) {
            ps_heap_free(block);
        }
        if (i % 4096 == 0) {
            fake_os_advance_ms(60);
            ps_maintenance_tick_now();
        }
    }
}

static void *churn_thread(void *seed) {
    churn((uintptr_t)seed, 30000 / FRESH_SLOWNESS);
    return NULL;
}

static void meet_all(void) {
    for (size_t i = 0; i < SITES; i++) {
        (void)part_of_site(i);
    }
}

FRESH_TEST(no_page_serves_two_parts_over_time) {
    start();
    meet_all();
    churn(7, 60000 / FRESH_SLOWNESS);
    ps_maintenance_trim(0);
    churn(11, 60000 / FRESH_SLOWNESS);
    for (size_t i = 0; i < LIVE; i++) {
        ps_heap_free(x_live[i]);
    }
    CHECK_EQ(engine_census().small_live_bytes, 0);
}

FRESH_TEST(no_page_serves_two_parts_of_threads_nor_of_a_child) {
    pthread_t threads[THREADS];
    start();
    meet_all();
    for (uintptr_t i = 0; i < THREADS; i++) {
        threads[i] = announced_create(churn_thread, (void *)(i + 3));
    }
    pid_t child = fork();
    if (child == 0) {
        memset(x_live, 0, sizeof x_live); /* others may have been between two steps */
        churn(5, 20000 / FRESH_SLOWNESS);
        _exit(unit_failures != 0);
    }
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
}

FRESH_TEST(without_memory_for_a_part_the_plain_heap_serves) {
    start();
    ps_site_note_part(NULL);
    char *plain = ps_heap_alloc(5000);
    CHECK_EQ(part_of_block(plain), PS_PARTITION_PARTS);
    ps_heap_free(plain);
    CHECK_EQ(part_of_block(alloc_at(1, 5000)), part_of_site(1));
    fake_os_fail_from(1);
    size_t in_plain = 0;
    char *last = NULL;
    for (;;) { /* ends: memory is exhausted */
        errno = 0;
        char *block = alloc_at(1, 5000);
        if (block == NULL) {
            break;
        }
        CHECK_EQ(errno, 0);
        memset(block, 'x', 5000);
        in_plain += part_of_block(block) != part_of_site(1);
        *(char **)block = last;
        last = block;
    }
    CHECK_EQ(errno, ENOMEM);
    CHECK(in_plain > 0);
    CHECK_EQ(ps_front_thread.noted_part, 0);
    while (last != NULL) {
        char *next = *(char **)last;
        ps_heap_free(last);
        last = next;
    }
    CHECK(alloc_at(1, 5000) != NULL);
}

UNIT_MAIN
