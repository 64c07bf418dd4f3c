// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* Orphans: spans without an owner are adopted, notified, drained and salvaged, never lost. */
#include "pools/engine/small/orphans.h"

#include "pools/engine/page/node.h"
#include "tests/unit/fake_os.h"
#include "tests/unit/span_owner.h"

#define ADOPTER_KEY ((uintptr_t)0x2001)
#define DEAD_KEY OWNER_KEY

static uint32_t class_of_owned(void) { return owned->class_index; }

static uint64_t granules_in_use(void) {
    struct ps_page_counts counts;
    ps_page_cache_count(&counts);
    return counts.arena_granules - counts.dirty_granules - counts.clean_granules;
}

/* A span with all of its blocks out. */
static void create_full(size_t block_bytes) {
    owner_create(block_bytes);
    while (owner_take(1000)) {
    }
}

/* Returns random blocks one by one until a reclaim notice is due; returns how many that took. */
static size_t transfer_until_notice(void) {
    size_t handed = 0;
    bool is_due = false;
    while (!is_due && out_count > 0) {
        size_t index = owner_random_out();
        char *block = ps_span_block(owned, index);
        owner_note_in(index);
        is_due = ps_span_hand_list(owned, block, block, 1);
        handed++;
    }
    CHECK(is_due);
    return handed;
}

/* Returns all blocks to an orphan and serves its notices. Each notice finds at least half of the
 * live blocks returned; the last one must release the span. */
static void hand_all_back(void) {
    size_t out_before = out_count;
    while (out_count > 0) {
        CHECK_CMP(transfer_until_notice(), >=, out_before / 2);
        CHECK(ps_orphans_notice(owned, PS_KEY_ORPHAN));
        out_before = out_count;
    }
    CHECK_EQ(ps_orphans_count(), 0);
    CHECK_EQ(granules_in_use(), 0);
}

FRESH_TEST(a_drained_span_goes_back_at_once) {
    owner_start();
    create_full(1024);
    owner_give_random(out_count);
    ps_orphans_add(owned, false);
    CHECK_EQ(ps_orphans_count(), 0);
    CHECK_EQ(granules_in_use(), 0);
}

FRESH_TEST(an_orphan_is_adopted_once_with_its_account) {
    owner_start();
    CHECK_PTR_EQ(ps_orphans_adopt(5, ADOPTER_KEY, true), NULL);
    create_full(48);
    owner_give_random(300);
    ps_orphans_add(owned, false);
    CHECK_EQ(ps_orphans_count(), 1);
    CHECK_EQ(owned->x_owner, PS_KEY_ORPHAN);
    CHECK_PTR_EQ(ps_orphans_adopt(class_of_owned() + 1, ADOPTER_KEY, true), NULL);
    CHECK_PTR_EQ(ps_orphans_adopt(class_of_owned(), ADOPTER_KEY, true), owned);
    CHECK_EQ(ps_orphans_count(), 0);
    CHECK_EQ(owned->x_owner, ADOPTER_KEY);
    CHECK_PTR_EQ(ps_orphans_adopt(class_of_owned(), ADOPTER_KEY, true), NULL);
    owner_check();
    CHECK_EQ(owned->free_count, 300);
}

/* Adds an orphan that has as many free blocks. */
static struct ps_span *add_orphan(size_t free_blocks) {
    create_full(48);
    owner_give_random(free_blocks);
    ps_orphans_add(owned, false);
    return owned;
}

static struct ps_span *adopt(void) { return ps_orphans_adopt(class_of_owned(), ADOPTER_KEY, true); }

static void return_one(struct ps_span *span) {
    char *block = ps_span_block(span, span->first);
    CHECK_EQ(ps_span_hand_list(span, block, block, 1), PS_HANDED_OVER);
}

FRESH_TEST(orphans_without_room_are_adopted_when_a_block_returns) {
    owner_start();
    struct ps_span *first = add_orphan(0);
    struct ps_span *second = add_orphan(0);
    struct ps_span *roomy = add_orphan(1);
    CHECK_EQ(ps_orphans_count(), 3);
    CHECK_EQ(ps_orphans_of_class(class_of_owned()), 3);
    CHECK_EQ(ps_orphans_of_class(class_of_owned() + 1), 0);
    return_one(second);
    CHECK_PTR_EQ(adopt(), roomy);
    CHECK_PTR_EQ(adopt(), second);
    CHECK_PTR_EQ(adopt(), NULL);
    return_one(first);
    CHECK_PTR_EQ(adopt(), first);
}

FRESH_TEST(an_adoption_examines_few_orphans_without_room) {
    owner_start();
    for (int i = 0; i < 100; i++) {
        (void)add_orphan(0);
    }
    struct ps_span *newest = owned;
    return_one(newest);
    CHECK_PTR_EQ(adopt(), NULL);
    THEN("the next ones examine the others");
    struct ps_span *found = NULL;
    for (int i = 0; i < 25 && found == NULL; i++) {
        found = adopt();
    }
    CHECK_PTR_EQ(found, newest);
    CHECK_EQ(ps_orphans_count(), 99);
}

FRESH_TEST(orphans_with_room_are_adopted_in_their_order) {
    owner_start();
    struct ps_span *second = add_orphan(100);
    struct ps_span *third = add_orphan(10);
    create_full(48);
    owner_give_random(1);
    struct ps_span *first = owned;
    ps_orphans_add(first, true);
    create_full(48);
    struct ps_span *full = owned;
    ps_orphans_add(full, true);
    CHECK_PTR_EQ(adopt(), first);
    CHECK_PTR_EQ(adopt(), second);
    CHECK_PTR_EQ(adopt(), third);
    CHECK_PTR_EQ(adopt(), NULL);
}

/* Adds an orphan with so many live blocks. */
static struct ps_span *add_sparse(size_t out) {
    create_full(48);
    owner_give_random(out_count - out);
    ps_orphans_add(owned, false);
    return owned;
}

static void let_age(uint32_t epochs) {
    for (uint32_t i = 0; i < epochs; i++) {
        ps_orphans_age();
    }
}

/* Takes an idle orphan of the first node and the class of the last span. */
static struct ps_span *take_idle(uint32_t epochs) {
    bool is_last = false;
    struct ps_span *span;
    do {
        span = ps_orphans_take_idle(class_of_owned(), 0, epochs, &is_last);
    } while (span == NULL && !is_last);
    return span;
}

FRESH_TEST(orphans_are_idle_when_no_refill_has_adopted_them_for_a_while) {
    owner_start();
    struct ps_span *old = add_sparse(10);
    let_age(3);
    struct ps_span *young = add_sparse(10);
    CHECK_PTR_EQ(take_idle(4), NULL);
    let_age(1);
    CHECK_PTR_EQ(take_idle(4), old);
    CHECK_EQ(old->place, PS_PLACE_PURGING);
    CHECK_PTR_EQ(take_idle(4), NULL);
    WHEN("it returns purged");
    ps_orphans_return(old, true);
    THEN("it is not idle again, and adopted last");
    let_age(4);
    CHECK_PTR_EQ(take_idle(4), young);
    WHEN("the other returns as it was");
    ps_orphans_return(young, false);
    let_age(40);
    CHECK_PTR_EQ(take_idle(4), NULL);
    CHECK_PTR_EQ(adopt(), young);
    CHECK_PTR_EQ(adopt(), old);
    CHECK_PTR_EQ(adopt(), NULL);
}

FRESH_TEST(a_long_list_of_young_orphans_hides_no_idle_one) {
    owner_start();
    struct ps_span *old = add_sparse(1);
    let_age(5);
    for (int i = 0; i < 100; i++) {
        (void)add_orphan(700);
    }
    CHECK_PTR_EQ(take_idle(5), old);
    ps_orphans_return(old, false);
    WHEN("the span that is examined next is adopted");
    for (int i = 0; i < 101; i++) {
        bool is_last;
        CHECK_PTR_EQ(ps_orphans_take_idle(class_of_owned(), 0, 200, &is_last), NULL);
        CHECK(adopt() != NULL);
    }
    THEN("the search goes on with those that are left");
    CHECK_PTR_EQ(take_idle(5), NULL);
    CHECK_PTR_EQ(adopt(), NULL);
    CHECK_EQ(ps_orphans_count(), 0);
}

/* Makes the last span an orphan with `out` blocks out, idle, and takes it. */
static struct ps_span *take_sparse(size_t out) {
    (void)add_sparse(out);
    let_age(5);
    struct ps_span *span = take_idle(5);
    CHECK_PTR_EQ(span, owned);
    return span;
}

FRESH_TEST(blocks_that_return_while_an_orphan_is_purged_are_collected) {
    owner_start();
    struct ps_span *span = take_sparse(20);
    CHECK_EQ(transfer_until_notice(), 1);
    WHEN("the notice arrives");
    CHECK_EQ(ps_orphans_notice(span, ADOPTER_KEY), PS_ORPHAN_KEPT);
    CHECK_EQ(span->x_owner, PS_KEY_ORPHAN);
    CHECK(ps_orphans_count() == 0 && !ps_span_is_queued(span));
    THEN("the state of the span is unchanged until it returns, with that block");
    ps_orphans_return(span, true);
    CHECK_EQ(ps_orphans_count(), 1);
    CHECK_EQ(span->used, 19);
    hand_all_back();
}

FRESH_TEST(an_orphan_that_drains_while_it_is_purged_goes) {
    owner_start();
    struct ps_span *span = take_sparse(3);
    while (out_count > 0) {
        size_t index = owner_random_out();
        owner_note_in(index);
        char *block = ps_span_block(span, index);
        if (ps_span_hand_list(span, block, block, 1) != PS_HANDED_OVER) {
            CHECK(ps_orphans_notice(span, PS_KEY_ORPHAN));
        }
    }
    CHECK_CMP(granules_in_use(), >, 0);
    ps_orphans_return(span, true);
    CHECK_EQ(ps_orphans_count(), 0);
    CHECK_EQ(granules_in_use(), 0);
}

FRESH_TEST(orphans_of_other_nodes_are_adopted_on_demand) {
    struct ps_span *of_node[3];
    owner_start();
    ps_node_x_last = 2;
    for (uint8_t node = 0; node < 3; node++) {
        ps_node_x_of_cpu[node] = node;
        fake_os_set_cpu(node);
        of_node[node] = add_orphan(1);
    }
    CHECK_EQ(ps_orphans_count(), 3);
    fake_os_set_cpu(1);
    CHECK_PTR_EQ(ps_orphans_adopt(class_of_owned(), ADOPTER_KEY, false), of_node[1]);
    CHECK_PTR_EQ(ps_orphans_adopt(class_of_owned(), ADOPTER_KEY, false), NULL);
    CHECK_PTR_EQ(ps_orphans_adopt(class_of_owned(), ADOPTER_KEY, true), of_node[0]);
    CHECK_PTR_EQ(ps_orphans_adopt(class_of_owned(), ADOPTER_KEY, true), of_node[2]);
    CHECK_PTR_EQ(ps_orphans_adopt(class_of_owned(), ADOPTER_KEY, true), NULL);
    CHECK_EQ(ps_orphans_count(), 0);
}

FRESH_TEST(a_full_orphan_sends_a_notice_when_it_has_room_and_again_when_it_is_drained) {
    owner_start();
    create_full(48);
    ps_orphans_add(owned, false);
    WHEN("blocks of it return");
    size_t notice_blocks = ps_size_classes[class_of_owned()].notice_blocks;
    CHECK_EQ(transfer_until_notice(), notice_blocks);
    CHECK(ps_orphans_notice(owned, PS_KEY_ORPHAN));
    THEN("it has room, and goes when the last one is back");
    CHECK_EQ(owned->place, PS_PLACE_AVAILABLE);
    CHECK_EQ(owned->stash_count, notice_blocks);
    hand_all_back();
}

FRESH_TEST(an_orphan_that_comes_with_a_stash_still_drains) {
    owner_start();
    create_full(48);
    GIVEN("a span that has collected blocks and not used them yet when its thread ends");
    (void)ps_span_arm(owned, 100);
    transfer_until_notice();
    ps_span_clear_queued(owned);
    CHECK_EQ(ps_span_collect(owned), 100);
    CHECK(!ps_link_is_end(owned->stash));
    ps_orphans_add(owned, false);
    WHEN("all other blocks return");
    hand_all_back();
}

FRESH_TEST(a_span_that_comes_queued_stays_until_its_notice) {
    owner_start();
    create_full(48);
    (void)ps_span_arm(owned, out_count);
    transfer_until_notice();
    GIVEN("a drained span whose notice to the last owner is not pushed yet");
    ps_orphans_add(owned, false);
    CHECK_EQ(ps_orphans_count(), 1);
    CHECK_CMP(granules_in_use(), >, 0);
    WHEN("it arrives");
    CHECK(ps_orphans_notice(owned, PS_KEY_ORPHAN));
    CHECK_EQ(ps_orphans_count(), 0);
    CHECK_EQ(granules_in_use(), 0);
}

FRESH_TEST(a_notice_for_an_adopted_span_is_refused) {
    owner_start();
    create_full(48);
    ps_orphans_add(owned, false);
    transfer_until_notice();
    struct ps_span *span = ps_orphans_adopt(class_of_owned(), ADOPTER_KEY, true);
    CHECK_PTR_EQ(span, owned);
    CHECK(!ps_orphans_notice(span, PS_KEY_ORPHAN));
    CHECK(ps_span_is_queued(span)); /* of the notifying thread, which reads the new owner now */
}

FRESH_TEST(salvage_keeps_returned_blocks_only) {
    owner_start();
    create_full(48);
    owner_give_random(200);
    GIVEN("a span whose owner died with its account half-written");
    owned->free = (void *)(uintptr_t)0x10;
    owned->free_count = 7;
    owned->free_countdown = 3;
    owned->countdown_start = 9;
    owned->gap_head = 77;
    (void)ps_span_arm(owned, 50);
    transfer_until_notice();
    CHECK(!ps_orphans_salvage(owned, ADOPTER_KEY));
    CHECK_EQ(owned->x_owner, OWNER_KEY);
    WHEN("it is salvaged");
    CHECK(ps_orphans_salvage(owned, DEAD_KEY));
    THEN("the blocks on the word are there to be adopted, all others count as used");
    CHECK(!ps_span_is_queued(owned));
    CHECK_EQ(ps_orphans_count(), 1);
    CHECK_PTR_EQ(ps_orphans_adopt(class_of_owned(), ADOPTER_KEY, true), owned);
    ps_span_check(owned);
    CHECK_EQ(owned->stash_count, 50);
    CHECK_EQ(owned->used, ps_span_capacity(owned) - 50);
    CHECK_EQ(owned->free_count + owned->gap_blocks, 0);
    CHECK(!ps_orphans_salvage(owned, DEAD_KEY));
}

FRESH_TEST(a_salvaged_span_without_free_blocks_drains_in_the_end) {
    owner_start();
    create_full(1024);
    (void)ps_span_arm(owned, 10);
    transfer_until_notice();
    CHECK(ps_orphans_salvage(owned, DEAD_KEY));
    WHEN("the rest returns");
    hand_all_back();
}

FRESH_TEST(any_order_of_giving_handing_and_adopting_ends_with_nothing_left) {
    owner_start();
    for (int round = 0; round < 300; round++) {
        create_full(ps_size_classes[unit_random() % ps_size_class_count].block_bytes);
        if (unit_random() % 2 == 0) {
            owner_give_random(unit_random() % (out_count + 1));
        }
        if (out_count == 0) {
            ps_orphans_add(owned, false);
            continue;
        }
        (void)ps_span_arm(owned, PS_NOTICE_NEVER);
        for (size_t handed = unit_random() % out_count; handed > 0; handed--) {
            char *lowest;
            size_t blocks = owner_cut_gap(1, &lowest);
            (void)ps_span_transfer_blocks(owned, lowest, blocks);
        }
        if (unit_random() % 2 == 0) {
            ps_span_settle(owned);
            ps_span_collect(owned);
        }
        ps_orphans_add(owned, false);
        while (out_count > 0) {
            transfer_until_notice();
            CHECK(ps_orphans_notice(owned, PS_KEY_ORPHAN));
        }
        CHECK_EQ(ps_orphans_count(), 0);
    }
    CHECK_EQ(granules_in_use(), 0);
}

UNIT_MAIN
