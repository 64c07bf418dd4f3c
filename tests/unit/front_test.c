// flags: -O2
/* SPDX-License-Identifier: MIT */
/*
 * Fronts: what enters and leaves, in each of the three ways, the bounds, and the return of what is
 * not used.
 */
#include "tests/unit/front_blocks.h"

/* In each way, in an engine of its own. */
#define EACH_WAY(claim)                                                                            \
    static void claim##_in(enum way way);                                                          \
    static void claim##_own(void) { claim##_in(WAY_OWN); }                                         \
    static void claim##_locked(void) { claim##_in(WAY_LOCKED); }                                   \
    static void claim##_sequences(void) { claim##_in(WAY_SEQUENCES); }                             \
    TEST(claim) {                                                                                  \
        fresh_run(claim##_own);                                                                    \
        fresh_run(claim##_locked);                                                                 \
        fresh_run(claim##_sequences);                                                              \
    }                                                                                              \
    static void claim##_in(enum way way)

EACH_WAY(what_was_pushed_last_is_popped_first) {
    if (!begin(way, BYTES)) {
        return;
    }
    uint64_t takes = ps_front_takes(class_index);
    raise_to(64);
    for (size_t i = 0; i < 50; i++) {
        CHECK(push(blocks[i]));
        CHECK_EQ(count(), i + 1);
    }
    for (size_t i = 50; i-- > 0;) {
        CHECK_PTR_EQ(pop(), blocks[i]);
        CHECK_EQ(count(), i);
    }
    CHECK(pop() == NULL);
    CHECK_EQ(ps_front_takes(class_index) - takes, 50);
}

EACH_WAY(a_front_has_as_many_blocks_as_its_limit) {
    static const size_t sizes[] = {8, BYTES, 1024, 3000, 8192};
    if (!begin(way, BYTES)) {
        return;
    }
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        choose_class(sizes[s]);
        size_t most = ps_front_table.places[class_index].most;
        CHECK_CMP(most, <=, PS_FRONT_BLOCKS);
        CHECK_CMP(most * sizes[s], <=, PS_FRONT_CLASS_BYTES);
        size_t pushed = 0;
        size_t last = 0;
        do { /* ends: at the most */
            while (pushed < BLOCKS && push(blocks[pushed])) {
                pushed++;
            }
            CHECK_CMP(pushed, <=, 2 * last + 8);
            CHECK_EQ(count(), pushed);
            last = pushed;
        } while (ps_front_raise(own(), class_index));
        CHECK_EQ(pushed, most);
        CHECK_CMP(ps_front_batch(class_index), <=, (most + 1) / 2);
        while (pop() != NULL) {
            pushed--;
        }
        CHECK_EQ(pushed, 0);
    }
}

EACH_WAY(the_limits_of_all_classes_are_bounded) {
    if (!begin(way, BYTES)) {
        return;
    }
    for (class_index = 0; class_index < ps_size_class_count; class_index++) {
        raise_to(PS_FRONT_BLOCKS);
    }
    const struct ps_front *front = own();
    for (size_t id = 0; front == NULL && id < PS_FRONTS; id++) {
        front = ps_front_table.x_fronts[id];
    }
    size_t bytes = 0;
    for (uint32_t i = 0; i < ps_size_class_count; i++) {
        bytes += (size_t)front->x_limit[i] * ps_size_classes[i].block_bytes;
    }
    CHECK_CMP(bytes, <=, PS_FRONT_BYTES);
    CHECK_EQ(bytes, front->x_limit_bytes[0]);
    CHECK_EQ(bytes, ps_front_limits[0].x_bytes);
}

/* ---- return ---- */

static void return_idle(bool is_all) {
    if (own() != NULL) {
        ps_front_return_own(own(), is_all);
    } else {
        ps_front_return_shared(is_all, true);
    }
}

EACH_WAY(what_no_request_took_since_the_last_round_returns) {
    if (!begin(way, BYTES)) {
        return;
    }
    raise_to(64);
    for (size_t i = 0; i < 40; i++) {
        CHECK(push(blocks[i]));
    }
    return_idle(false);
    CHECK_EQ(count(), 40); /* they are new */
    for (size_t i = 0; i < 10; i++) {
        CHECK_PTR_EQ(pop(), blocks[39 - i]);
    }
    return_idle(false);
    CHECK_EQ(count(), 0); /* of 40 blocks 30 were not used: those that are left */
    for (size_t i = 0; i < 40; i++) {
        CHECK_EQ(is_in_store(blocks[i]), i < 30);
    }
}

EACH_WAY(the_oldest_return_and_the_newest_stay) {
    if (!begin(way, BYTES)) {
        return;
    }
    raise_to(64);
    for (size_t i = 0; i < 40; i++) {
        CHECK(push(blocks[i]));
    }
    for (size_t i = 0; i < 100; i++) { /* so many are taken that the limit stays */
        CHECK(push(pop()));
    }
    return_idle(false);
    for (int round = 0; round < 3; round++) { /* the newest ten are used */
        for (size_t i = 0; i < 10; i++) {
            CHECK_PTR_EQ(pop(), blocks[39 - i]);
        }
        raise_to(64);
        for (size_t i = 10; i-- > 0;) {
            CHECK(push(blocks[39 - i]));
        }
        return_idle(false);
        CHECK_EQ(count(), 10);
    }
    for (size_t i = 0; i < 40; i++) {
        CHECK_EQ(is_in_store(blocks[i]), i < 30);
    }
    return_idle(false);
    CHECK_EQ(count(), 0);
}

EACH_WAY(blocks_beyond_the_budget_of_all_fronts_return) {
    if (!begin(way, BYTES)) {
        return;
    }
    raise_to(64);
    for (size_t i = 0; i < 40; i++) {
        CHECK(push(blocks[i]));
    }
    for (size_t i = 0; i < 100; i++) { /* all are in use */
        CHECK(push(pop()));
    }
    return_idle(false);
    CHECK_EQ(count(), 40);
    WHEN("the budget falls");
    ps_front_limits[0].x_most = 16 * ps_front_block_bytes(class_index);
    CHECK(!ps_front_raise(own(), class_index));
    for (size_t i = 0; i < 100; i++) {
        CHECK(push(pop()));
    }
    return_idle(false);
    CHECK_CMP(count(), <=, 16);
    CHECK_CMP(count(), >=, 15);
    CHECK_CMP(ps_front_limits[0].x_bytes, <=, ps_front_limits[0].x_most);
    THEN("the limits sum up again when it rises");
    ps_front_set_budget(0);
    CHECK_EQ(ps_front_limits[0].x_most, PS_FRONT_BUDGET_BYTES);
    CHECK(ps_front_raise(own(), class_index));
    return_idle(true);
    CHECK_EQ(count(), 0);
}

EACH_WAY(on_demand_all_return) {
    if (!begin(way, BYTES)) {
        return;
    }
    raise_to(64);
    for (size_t i = 0; i < 40; i++) {
        CHECK(push(blocks[i]));
    }
    return_idle(true);
    CHECK_EQ(count(), 0);
    for (size_t i = 0; i < 40; i++) {
        CHECK(is_in_store(blocks[i]));
    }
    CHECK(pop() == NULL);
    raise_to(8);
    CHECK(push(blocks[40]));
    CHECK_PTR_EQ(pop(), blocks[40]);
}

FRESH_TEST(a_class_that_another_thread_holds_is_left_alone) {
    if (!begin(WAY_LOCKED, BYTES)) {
        return;
    }
    raise_to(8);
    CHECK(push(blocks[0]));
    uint64_t *state = NULL;
    for (size_t id = 0; state == NULL; id++) {
        struct ps_front *front = ps_front_table.x_fronts[id];
        state =
            front != NULL && front->x_state[class_index] != 0 ? &front->x_state[class_index] : NULL;
    }
    *state |= PS_FRONT_HELD;
    for (int i = 0; i < 2; i++) { /* also with sequences, if there are any */
        CHECK(!push(blocks[1]));
        CHECK(pop() == NULL);
        ps_front_return_idle(true, false);
        CHECK_EQ(count(), 1);
        ps_front_table.has_sequences = PS_HAS_RSEQ && ps_rseq_is_on();
    }
    *state &= ~PS_FRONT_HELD;
    ps_front_table.has_sequences = false;
    ps_front_return_idle(true, false);
    CHECK_EQ(count(), 0);
    CHECK(is_in_store(blocks[0]));
}

/* As the background thread returns them: the newest may just be popped. */
EACH_WAY(of_the_blocks_of_other_threads_all_but_the_newest_return) {
    if (way == WAY_OWN || !begin(way, BYTES)) {
        return;
    }
    size_t kept = way == WAY_SEQUENCES ? 1 : 0;
    raise_to(64);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < 40; i++) {
            CHECK(push(blocks[i]));
        }
        ps_front_return_idle(true, false);
        CHECK_EQ(count(), kept);
        for (size_t i = 0; i < 40; i++) {
            CHECK_EQ(is_in_store(blocks[i]), i < 40 - kept);
        }
        CHECK_PTR_EQ(pop(), kept != 0 ? blocks[39] : NULL);
        CHECK(pop() == NULL);
        ps_front_reset(own(), class_index);
        raise_to(64);
        for (size_t i = 0; i < 40 - kept; i++) { /* out of the store again */
            void *block;
            CHECK_EQ(ps_store_take(class_index, &block, 1, NULL, false), 1);
            CHECK_PTR_EQ(block, blocks[i]);
        }
    }
}

FRESH_TEST(the_first_thread_shares_its_front_with_its_blocks) {
    if (!begin(WAY_OWN, BYTES)) {
        return;
    }
    raise_to(8);
    CHECK(push(blocks[0]));
    ps_front_share_own();
    CHECK(own() == NULL);
    CHECK_EQ(count(), 1);
    CHECK_PTR_EQ(pop(), blocks[0]);
}

UNIT_MAIN
