// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * Blocks that return from other threads: nothing is lost or doubled, and exactly one of the
 * returning threads sends a notice that is due.
 */
#include "tests/unit/span_owner.h"

#include <pthread.h>
#include <sched.h>

#define ROUNDS 3000
#define THREADS 3
#define MAIL_LIMIT 64
#define THREAD_BLOCKS 60000 /* blocks that pass through the other threads */

/* Hands random blocks over; returns what the hand-over said. */
static unsigned hand_random_list(size_t wanted) {
    void *head;
    void *tail;
    size_t blocks = owner_link_random(wanted, &head, &tail);
    return ps_span_hand_list(owned, head, tail, blocks);
}

static unsigned hand_random_gap(size_t wanted) {
    char *lowest;
    size_t blocks = owner_cut_gap(wanted, &lowest);
    return ps_span_transfer_blocks(owned, lowest, blocks);
}

/* Blocks on the word count as out for the owner, so the record is compared when they are back. */
static void collect_and_check(void) {
    ps_span_settle(owned);
    size_t waiting = ps_span_remote_blocks(owned);
    bool is_blocked = !ps_link_is_end(owned->stash);
    size_t collected = ps_span_collect(owned);
    CHECK(collected == waiting || (is_blocked && collected == 0));
    if (ps_span_remote_blocks(owned) == 0) {
        owner_check();
    }
}

/* Only the last block notifies an owner that has armed no notice. */
static void check_handed(unsigned handed) {
    bool is_all = ps_span_remote_blocks(owned) == ps_span_capacity(owned);
    CHECK_EQ(handed, is_all ? PS_HANDED_NOTICE | PS_HANDED_ALL : PS_HANDED_OVER);
    if (is_all) {
        ps_span_clear_queued(owned);
    }
}

FRESH_TEST(transferred_blocks_are_collected_whole) {
    static const size_t sizes[] = {8, 48, 1024, 40960};
    owner_start();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        owner_create(sizes[i]);
        (void)ps_span_arm(owned, PS_NOTICE_NEVER);
        for (int round = 0; round < ROUNDS / (1 + 7 * (i == 0)); round++) {
            switch (out_count == 0 ? 0 : unit_random() % 5) {
            case 0:
                owner_take(1 + unit_random() % 100);
                break;
            case 1:
                check_handed(hand_random_gap(1 + unit_random() % 300));
                break;
            case 2:
                collect_and_check();
                break;
            default:
                check_handed(hand_random_list(1 + unit_random() % 64));
            }
        }
    }
}

FRESH_TEST(the_largest_indexes_and_counts_fit_the_word) {
    owner_start();
    owner_create(8); /* the most blocks a span can have */
    while (owner_take(5000)) {
    }
    size_t all = out_count;
    (void)ps_span_arm(owned, PS_NOTICE_NEVER);
    WHEN("half of them return as a list that begins with the last block, half as one run");
    size_t half = owned->limit / 2;
    for (size_t i = half; i < owned->limit; i++) {
        ps_link_write(ps_span_block(owned, i),
                      i == half ? ps_span_list_end(owned) : ps_span_block(owned, i - 1),
                      owned->salt);
        owner_note_in(i);
    }
    (void)ps_span_hand_list(owned, ps_span_block(owned, (size_t)owned->limit - 1),
                            ps_span_block(owned, half), (size_t)owned->limit - half);
    for (size_t i = owned->first; i < half; i++) {
        owner_note_in(i);
    }
    (void)ps_span_transfer_blocks(owned, ps_span_block(owned, owned->first), half - owned->first);
    THEN("all are collected");
    CHECK_EQ(ps_span_remote_blocks(owned), all);
    CHECK_EQ(ps_span_collect(owned), all);
    owner_check();
    CHECK_EQ(owned->used, 0);
}

FRESH_TEST(only_the_transfer_that_reaches_the_threshold_sends_a_notice) {
    owner_start();
    owner_create(48);
    while (owner_take(1000)) {
    }
    GIVEN("an owner that has armed a notice for 100 blocks");
    CHECK(ps_span_arm(owned, 100));
    CHECK(!hand_random_list(60));
    CHECK(!hand_random_list(39));
    CHECK(!ps_span_is_queued(owned));
    WHEN("the hundredth comes");
    CHECK(hand_random_list(1));
    THEN("that one must notify, and the next need not");
    CHECK(ps_span_is_queued(owned));
    CHECK(!hand_random_list(64));
    CHECK(!hand_random_gap(100));
    CHECK(ps_span_arm(owned, 1)); /* on its way anyway */
    ps_span_clear_queued(owned);
    CHECK(!ps_span_is_queued(owned));
    ps_span_settle(owned);
    CHECK_CMP(ps_span_collect(owned), >=, 164);
    owner_check();
}

FRESH_TEST(arming_fails_when_enough_is_back_already) {
    owner_start();
    owner_create(48);
    while (owner_take(1000)) {
    }
    (void)ps_span_arm(owned, PS_NOTICE_NEVER);
    CHECK(!hand_random_list(30));
    CHECK(!ps_span_arm(owned, 30));
    CHECK(ps_span_arm(owned, 31));
    CHECK(hand_random_list(1));
}

/* ---- three other threads ---- */

struct mailbox {
    pthread_mutex_t lock;
    void *blocks[MAIL_LIMIT];
    size_t count;
    bool is_closed;
};

static struct mailbox mailboxes[THREADS];
static uint32_t x_notices_told;    /* transfers that returned true */
static uint32_t x_notices_pending; /* sent and not yet taken by the owner: 0 or 1 */

/* All blocks in the box; 0 and *is_closed when no more will come. */
static size_t read_mail(struct mailbox *box, void **blocks, bool *is_closed) {
    pthread_mutex_lock(&box->lock);
    size_t count = box->count;
    memcpy(blocks, box->blocks, count * sizeof *blocks);
    box->count = 0;
    *is_closed = box->is_closed;
    pthread_mutex_unlock(&box->lock);
    return count;
}

static void hand_over(void **blocks, size_t count) {
    bool is_run = true;
    for (size_t i = 1; i < count; i++) {
        is_run = is_run && (char *)blocks[i] == (char *)blocks[i - 1] + owned->block_bytes;
        ps_link_write(blocks[i], blocks[i - 1], owned->salt);
    }
    bool must_notify = is_run ? ps_span_transfer_blocks(owned, blocks[0], count)
                              : ps_span_hand_list(owned, blocks[count - 1], blocks[0], count);
    if (must_notify) {
        ps_add_relaxed(&x_notices_told, 1u);
        CHECK_EQ(ps_add_relaxed(&x_notices_pending, 1u), 0);
    }
}

static void *hand_back_all(void *box) {
    void *blocks[MAIL_LIMIT];
    for (bool is_closed = false; !is_closed;) {
        size_t count = read_mail(box, blocks, &is_closed);
        if (count > 0) {
            hand_over(blocks, count);
        } else {
            sched_yield();
        }
    }
    return NULL;
}

/* Posts random blocks to a random thread, often neighbours. Returns how many. */
static size_t post_blocks(void) {
    struct mailbox *box = &mailboxes[unit_random() % THREADS];
    size_t posted = 0;
    pthread_mutex_lock(&box->lock);
    size_t index = owner_random_out();
    while (box->count < MAIL_LIMIT && out_count > 0 && posted < 20) {
        index = is_out[index] ? index : owner_random_out();
        box->blocks[box->count++] = ps_span_block(owned, index);
        owner_note_in(index);
        index = (index + 1) % owned->limit;
        posted++;
    }
    pthread_mutex_unlock(&box->lock);
    return posted;
}

/* The owner's side of a reclaim notice. */
static uint32_t take_notice(void) {
    if (!ps_span_is_queued(owned) || ps_load_relaxed(&x_notices_pending) == 0) {
        return 0;
    }
    ps_store_relaxed(&x_notices_pending, 0u);
    ps_span_clear_queued(owned);
    return 1;
}

static uint32_t run_owner(void) {
    uint32_t notices = 0;
    for (size_t passed = 0; passed < THREAD_BLOCKS;) {
        if (out_count > 0) {
            passed += post_blocks();
        }
        notices += take_notice();
        if (unit_random() % 4 == 0 || out_count == 0) {
            ps_span_settle(owned);
            ps_span_collect(owned);
            (void)ps_span_arm(owned, 1 + unit_random() % 200);
            owner_take(100);
        }
    }
    return notices;
}

FRESH_TEST(blocks_of_many_threads_all_come_back_and_each_notice_is_sent_once) {
    pthread_t threads[THREADS];
    owner_start();
    owner_create(32);
    for (size_t i = 0; i < THREADS; i++) {
        pthread_mutex_init(&mailboxes[i].lock, NULL);
        REQUIRE(pthread_create(&threads[i], NULL, hand_back_all, &mailboxes[i]) == 0);
    }
    uint32_t notices = run_owner();
    for (size_t i = 0; i < THREADS; i++) {
        pthread_mutex_lock(&mailboxes[i].lock);
        mailboxes[i].is_closed = true;
        pthread_mutex_unlock(&mailboxes[i].lock);
        pthread_join(threads[i], NULL);
    }
    notices += take_notice();
    CHECK_CMP(notices, >, 0);
    CHECK_EQ(notices, x_notices_told);
    while (ps_span_remote_blocks(owned) > 0) {
        ps_span_settle(owned);
        owner_take(1);
        ps_span_collect(owned);
    }
    owner_check();
}

UNIT_MAIN
