// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* Purge within a span: every page without a live block goes, as far as gaps can name its blocks,
 * and no block is lost or granted twice. */
#include "pools/engine/small/span_purge.h"

#include "tests/unit/fake_os.h"
#include "tests/unit/span_owner.h"

#define PAGE ((size_t)4096)
#define PAGES (PS_GRANULE_BYTES / PAGE)

static unsigned char mark_of(size_t index) { return (unsigned char)(index * 7 + 1); }

static void write_live(void) {
    for (size_t i = owned->first; i < owned->limit; i++) {
        if (is_out[i]) {
            memset(ps_span_block(owned, i), mark_of(i), owned->block_bytes);
        }
    }
}

static void check_live(void) {
    for (size_t i = owned->first; i < owned->limit; i++) {
        const unsigned char *block = (unsigned char *)ps_span_block(owned, i);
        for (size_t at = 0; is_out[i] && at < owned->block_bytes; at++) {
            if (block[at] != mark_of(i)) {
                CHECK_EQ(block[at], mark_of(i));
                return;
            }
        }
    }
}

static bool is_page_unused(size_t page) {
    size_t first = page * PAGE / owned->block_bytes;
    size_t last = ((page + 1) * PAGE - 1) / owned->block_bytes;
    bool is_unused = first >= owned->first && last < owned->limit;
    for (size_t i = first; is_unused && i <= last; i++) {
        is_unused = !is_out[i];
    }
    return is_unused;
}

/* Unused pages, and the number of sequences of them. */
static size_t count_unused(size_t *holes) {
    size_t pages = 0;
    *holes = 0;
    for (size_t page = 0; page < PAGES; page++) {
        bool is_unused = is_page_unused(page);
        pages += is_unused;
        *holes += is_unused && (page == 0 || !is_page_unused(page - 1));
    }
    return pages;
}

static void hand(size_t blocks) {
    for (size_t i = 0; i < blocks && out_count > 0; i++) {
        void *head;
        void *tail;
        (void)owner_link_random(1, &head, &tail);
        (void)ps_span_hand_list(owned, head, head, 1);
    }
}

static void give_gap(void) {
    char *lowest;
    size_t blocks = owner_cut_gap(2000, &lowest);
    ps_span_return_blocks(owned, lowest, blocks);
}

static void take_all(void) {
    while (owner_take(1000)) {
    }
    (void)ps_span_collect(owned);
    while (owner_take(1000)) {
    }
    CHECK_EQ(out_count, ps_span_capacity(owned));
    owner_check();
}

/* Purges, compares what went with what could go, and takes all blocks again. */
static void purge_and_take_all(void) {
    ps_span_settle(owned);
    uint64_t before = fake_os_purged_bytes();
    size_t holes;
    size_t unused = count_unused(&holes);
    write_live();
    size_t bytes = ps_span_purge(owned);
    CHECK_EQ(fake_os_purged_bytes() - before, bytes);
    CHECK_CMP(bytes, <=, unused * PAGE);
    if (unused >= holes + 2) {
        CHECK_CMP(bytes, >=, (unused - holes) * PAGE);
    }
    owner_check();
    check_live();
    take_all();
    write_live();
    check_live();
}

static void create(size_t block_bytes) {
    owner_create(block_bytes);
    owned->place = PS_PLACE_AVAILABLE;
}

FRESH_TEST(pages_without_live_blocks_are_purged_in_every_class) {
    owner_start();
    for (uint32_t class_index = 0; class_index < ps_size_class_count; class_index++) {
        if (!ps_span_may_purge(class_index)) {
            continue;
        }
        for (size_t left = 0; left < 40; left += 3) {
            create(ps_size_classes[class_index].block_bytes);
            take_all();
            size_t live = ps_min(left + 1, out_count);
            owner_give_random((out_count - live) / 2);
            (void)ps_span_collect(owned);
            hand((out_count - live) / 2);
            (void)ps_span_collect(owned); /* a stash, a list, and later returns */
            hand(out_count - live);
            purge_and_take_all();
        }
    }
}

FRESH_TEST(gaps_and_blocks_that_were_never_granted_are_purged_too) {
    owner_start();
    for (int round = 0; round < 60; round++) {
        create(round % 3 == 0 ? 16 : round % 3 == 1 ? 32 : 48);
        owned->is_zero = round % 2;
        while (owned->carved - owned->first < 900 && owner_take(300)) {
        }
        give_gap();
        if (out_count > 0) {
            owner_give_random(out_count - 1);
        } else {
            (void)owner_take(1);
        }
        ps_span_settle(owned);
        write_live();
        (void)ps_span_purge(owned);
        owner_check();
        check_live();
        take_all();
    }
}

FRESH_TEST(a_span_that_is_purged_again_and_again_keeps_its_account) {
    owner_start();
    create(80);
    take_all();
    for (int round = 0; round < 200; round++) {
        size_t live = 1 + unit_random() % 20;
        owner_give_random(out_count - ps_min(live, out_count));
        ps_span_settle(owned);
        write_live();
        (void)ps_span_purge(owned);
        owner_check();
        check_live();
        for (int i = 0; i < 1 + round % 5; i++) {
            (void)owner_take(100);
        }
    }
    take_all();
}

FRESH_TEST(pages_that_the_system_keeps_stay_in_the_list) {
    owner_start();
    create(64);
    take_all();
    owner_give_random(out_count - 4);
    ps_span_settle(owned);
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_PURGE));
    write_live();
    CHECK_EQ(ps_span_purge(owned), 0);
    CHECK_EQ(owned->gap_blocks, 0);
    owner_check();
    check_live();
    take_all();
}

FRESH_TEST(a_full_span_stays_as_it_is) {
    owner_start();
    create(64);
    take_all();
    owner_give_random(PAGE / 64);
    ps_span_settle(owned);
    uint64_t calls = fake_os_calls(FAKE_OS_PURGE);
    CHECK_EQ(ps_span_purge(owned), 0);
    CHECK_EQ(fake_os_calls(FAKE_OS_PURGE), calls);
    owner_check();
}

FRESH_TEST(a_block_that_is_on_its_list_twice_is_noticed) {
    owner_start();
    create(64);
    take_all();
    owner_give_random(out_count - 4);
    ps_span_settle(owned);
    ps_link_write(owned->free, owned->free, owned->salt);
    CHECK_ABORTS((void)ps_span_purge(owned), "double free");
}

UNIT_MAIN
