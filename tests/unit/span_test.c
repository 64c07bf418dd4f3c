// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* A span's account, against a record of every block: see span_owner.h. */
#include "tests/unit/span_owner.h"

#include "pools/engine/heap/fast_path.h"
#include "tests/unit/fake_os.h"

#define ROUNDS 4000

static const size_t some_sizes[] = {8, 16, 48, 256, 320, 1024, 4096, 20480, 65536};
#define SIZE_COUNT (sizeof some_sizes / sizeof some_sizes[0])

/* Frees as the owner does: settles when the countdown is over. */
static void push(size_t index) {
    owner_note_in(index);
    if (ps_heap_push(owned, ps_span_block(owned, index))) {
        ps_span_settle(owned);
    }
}

static void random_step(void) {
    void *head;
    void *tail;
    char *lowest;
    size_t blocks;
    switch (out_count == 0 ? 0 : unit_random() % 6) {
    case 0:
    case 1:
        owner_take(1 + unit_random() % 200);
        break;
    case 2:
        blocks = owner_link_random(1 + unit_random() % 64, &head, &tail);
        ps_span_settle(owned);
        ps_span_give_list(owned, head, tail, blocks);
        break;
    case 3:
        blocks = owner_cut_gap(1 + unit_random() % 300, &lowest);
        ps_span_settle(owned);
        ps_span_return_blocks(owned, lowest, blocks);
        break;
    default:
        for (size_t count = unit_random() % 50; count > 0 && out_count > 0; count--) {
            push(owner_random_out());
        }
    }
}

FRESH_TEST(every_block_is_in_one_place_after_any_operation) {
    owner_start();
    for (size_t i = 0; i < SIZE_COUNT; i++) {
        owner_create(some_sizes[i]);
        int rounds = owned->limit > 2000 ? ROUNDS / 8 : ROUNDS;
        for (int round = 0; round < rounds; round++) {
            random_step();
            owner_check();
        }
    }
}

FRESH_TEST(blocks_lie_side_by_side_inside_the_span_and_aligned) {
    owner_start();
    for (uint32_t class_index = 0; class_index < ps_size_class_count; class_index++) {
        size_t bytes = ps_size_classes[class_index].block_bytes;
        owner_create(bytes);
        CHECK_EQ(owned->block_bytes, bytes);
        CHECK_EQ(ps_span_capacity(owned), owned->limit - owned->first);
        for (size_t i = owned->first; i < owned->limit; i++) {
            char *block = ps_span_block(owned, i);
            CHECK_EQ(ps_span_index(owned, block), i);
            CHECK_EQ((uintptr_t)block % (bytes & -bytes), 0);
            CHECK(block + bytes <= owned->run.base + owned->run.granules * PS_GRANULE_BYTES);
        }
    }
}

FRESH_TEST(every_address_of_a_span_leads_to_its_head) {
    owner_start();
    for (uint32_t class_index = 0; class_index < ps_size_class_count; class_index++) {
        owner_create(ps_size_classes[class_index].block_bytes);
        CHECK_EQ(owned->x_owner, OWNER_KEY);
        CHECK_EQ(owned->run.kind, PS_RUN_SPAN);
        for (size_t granule = 0; granule < owned->run.granules; granule++) {
            char *address =
                owned->run.base + granule * PS_GRANULE_BYTES + unit_random() % PS_GRANULE_BYTES;
            const struct ps_slot *slot = ps_page_map_slot(address);
            CHECK_EQ(slot->run.kind, granule == 0 ? PS_RUN_SPAN : PS_RUN_INSIDE);
            CHECK_EQ(slot->run.back, granule);
        }
        struct ps_run *run = &owned->run;
        size_t granules = run->granules;
        char *base = run->base;
        ps_span_destroy(owned);
        for (size_t granule = 0; granule < granules;
             granule++) { /* without an owner, whatever page_cache made */
            const struct ps_span *span = ps_span_at(base + granule * PS_GRANULE_BYTES);
            CHECK_EQ(span->x_owner, PS_KEY_NONE);
            CHECK(span->run.kind != PS_RUN_SPAN && span->run.kind != PS_RUN_INSIDE);
        }
    }
}

FRESH_TEST(a_reset_makes_every_block_virgin_without_touching_one) {
    owner_start();
    owner_create(64);
    while (owner_take(100)) {
    }
    for (size_t i = owned->first; i < owned->limit; i++) {
        memset(ps_span_block(owned, i), 0x5a, 64);
        owner_note_in(i);
    }
    ps_span_reset(owned);
    CHECK_EQ(owned->used, 0);
    CHECK_EQ(owned->carved, owned->first);
    CHECK(!owned->is_zero);
    ps_span_check(owned);
    for (size_t i = owned->first; i < owned->limit; i++) {
        CHECK_EQ(*ps_span_block(owned, i), 0x5a);
    }
    while (owner_take(100)) {
    }
    CHECK_EQ(out_count, ps_span_capacity(owned));
}

FRESH_TEST(only_unused_memory_is_known_to_be_zero) {
    owner_start();
    owner_create(1024);
    CHECK(owned->is_zero);
    const char *base = owned->run.base;
    ps_span_destroy(owned);
    owner_create(1024);
    CHECK_PTR_EQ(owned->run.base, base);
    CHECK(!owned->is_zero);
}

FRESH_TEST(an_event_is_due_when_the_span_may_be_drained) {
    owner_start();
    owner_create(4096);
    while (owner_take(1)) {
    }
    GIVEN("a span whose blocks are all allocated, no longer current");
    owned->place = PS_PLACE_FULL;
    ps_span_settle(owned);
    size_t frees_since_event = 0;
    bool is_event = false;
    while (out_count > 0) {
        size_t index = owner_random_out();
        owner_note_in(index);
        is_event = ps_heap_push(owned, ps_span_block(owned, index));
        frees_since_event++;
        if (is_event) {
            ps_span_settle(owned);
            CHECK_CMP(frees_since_event, <=, owned->probe_interval);
            frees_since_event = 0;
        }
    }
    THEN("the last free is an event");
    CHECK(is_event);
    CHECK_EQ(owned->used, 0);
}

FRESH_TEST(a_streak_may_be_of_blocks_popped_since_the_last_settling) {
    owner_start();
    GIVEN("a span whose blocks are all free, on its list");
    struct ps_span *span = ps_span_create(ps_size_class_of(160), PS_KEY_AT_ONCE);
    REQUIRE(span != NULL);
    span->carved = (uint16_t)(span->first + 20);
    span->used = 20;
    for (size_t i = 0; i < 20; i++) {
        void *block = ps_span_block(span, span->first + i);
        ps_span_give_list(span, block, block, 1);
    }
    CHECK_EQ(span->used, 0);
    WHEN("they are popped, and return as a run before the pops are booked");
    for (size_t i = 0; i < 20; i++) {
        (void)ps_heap_pop(span);
    }
    CHECK_ABORTS(ps_span_return_blocks(span, ps_span_block(span, span->first), 21), "double free");
    ps_span_return_blocks(span, ps_span_block(span, span->first), 20);
    THEN("the account is right");
    CHECK_EQ(span->used, 0);
    CHECK_EQ(span->free_count, 20);
    CHECK_EQ(span->gap_blocks, 0);
}

FRESH_TEST(without_memory_there_is_no_span) {
    owner_start();
    fake_os_refuse(FAKE_OS_ALL);
    CHECK_PTR_EQ(ps_span_create(3, OWNER_KEY), NULL);
    fake_os_refuse(0);
    owner_create(48);
    CHECK(owner_take(10));
    owner_check();
}

FRESH_TEST(checked_builds_abort_when_a_span_in_use_is_destroyed) {
    owner_start();
    owner_create(48);
    owner_take(1);
    if (PS_CHECKED) {
        CHECK_ABORTS(ps_span_destroy(owned), "poolshim: check failed: span->used == 0");
    }
}

UNIT_MAIN
