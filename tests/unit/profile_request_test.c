// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * What a sample says beside its stack: the requested bytes, and the slab that would have had the
 * block. Readers of the table find the loss by rounding and pinned memory by them.
 */
#include "pools/engine/harden/guard.h"
#include "pools/engine/profile/table.h"
#include "pools/engine/record/layout.h"
#include "tests/unit/engine.h"

size_t ps_guard_trace(uintptr_t *sites, size_t limit, uintptr_t instruction) {
    (void)limit;
    (void)instruction;
    sites[0] = 1;
    return 1;
}

/* Every block is sampled. */
static void start(void) {
    engine_config.profile = true;
    engine_config.profile_interval_bytes = 1;
    engine_config.profile_seed = 1;
    ps_engine_start();
    (void)ps_heap_alloc(64); /* not the first of the heap, whose countdowns are drawn by it */
}

/* The sample of a block; leaves it in the table. */
static struct ps_sample sample_of(const void *block) {
    struct ps_sample *sample = ps_table_take(block);
    REQUIRE(sample != NULL);
    struct ps_sample copy = *sample;
    ps_table_put(sample, block);
    return copy;
}

FRESH_TEST(a_small_sample_has_its_request_and_the_slab_of_its_class) {
    start();
    (void)ps_heap_alloc(1000);
    char *block = ps_heap_alloc(1000);
    struct ps_sample sample = sample_of(block);
    CHECK_EQ(sample.requested_bytes, 1000);
    CHECK_EQ(sample.bytes, ps_block_usable(block));
    CHECK_CMP(sample.bytes, >, 1000);
}

FRESH_TEST(the_slab_is_one_of_the_class) {
    engine_config.profile = true;
    engine_config.profile_interval_bytes = 16 * KIB;
    engine_config.profile_seed = 1;
    ps_engine_start();
    size_t found = 0;
    for (int i = 0; i < 4000; i++) {
        char *block = ps_heap_alloc(1000);
        struct ps_sample *sample = ps_table_take(block);
        if (sample == NULL) {
            continue;
        }
        ps_table_put(sample, block);
        if (sample->slab != NULL) {
            CHECK_EQ(sample->slab->run.kind, PS_RUN_SLAB);
            CHECK_EQ(ps_slab_class(sample->slab)->block_bytes, sample->bytes);
            found++;
        }
    }
    CHECK_CMP(found, >, 100);
}

FRESH_TEST(a_realloc_in_place_changes_the_request) {
    start();
    char *block = ps_heap_alloc(1000);
    CHECK_EQ(ps_block_resize(block, 1010) == (void *)block, true);
    CHECK_EQ(sample_of(block).requested_bytes, 1010);
    char *medium = ps_heap_alloc(20000);
    CHECK_EQ(ps_block_resize(medium, 20100) == (void *)medium, true);
    CHECK_EQ(sample_of(medium).requested_bytes, 20100);
}

FRESH_TEST(larger_blocks_have_a_request_and_no_slab) {
    start();
    size_t sizes[] = {20000, 300000, 900000, 6000000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct ps_sample sample = sample_of(ps_heap_alloc(sizes[i]));
        CHECK_EQ(sample.requested_bytes, sizes[i]);
        CHECK(sample.slab == NULL);
    }
}

FRESH_TEST(the_layout_leads_to_the_samples) {
    start();
    char *block = ps_heap_alloc(500);
    const struct ps_layout *layout = &poolshim_layout;
    const struct ps_table_memory *table = NULL;
    for (uint32_t i = 0; i < layout->place_count; i++) {
        if (strcmp(layout->places[i].name, "table") == 0) {
            table = layout->places[i].address;
        }
    }
    REQUIRE(table != NULL);
    size_t met = 0;
    struct ps_sample *const *heads = (struct ps_sample **)(void *)table->base + table->bucket_count;
    for (size_t i = 0; i < table->bucket_count; i++) {
        for (const struct ps_sample *one = heads[i]; one != NULL; one = one->chain) {
            CHECK((const char *)one >= table->base && (const char *)one < table->x_used_end);
            met += one->block == (uintptr_t)block && one->requested_bytes == 500;
        }
    }
    CHECK_EQ(met, 1);
}

UNIT_MAIN
