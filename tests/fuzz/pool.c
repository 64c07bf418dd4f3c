// links: pools
// sources: tests/fuzz/lib/mode.c
/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target: a pool of objects of one size as a sequence of operations: single objects, arrays
 * and batches, ordered or not, with a limit or none. Every byte of every object is patterned; the
 * pool counts and visits exactly the live objects.
 */
#include "tests/fuzz/lib/account.h"
#include "tests/fuzz/lib/mode.h"
#include "tests/fuzz/lib/model.h"

#include <poolshim/pool.h>

enum { SLOTS = 160, BATCH = 24 };

static struct model_block blocks[SLOTS]; /* bytes: of the whole array */
static size_t array_counts[SLOTS];       /* 0: a single object */
static struct account account;
static struct ps_pool pool;
static struct ps_pool_options options;
static size_t size_bytes;
static size_t align_bytes;
static struct fuzz_input input;

static size_t live_objects(void) {
    size_t live = 0;
    for (size_t i = 0; i < SLOTS; i++) {
        live += blocks[i].address == NULL ? 0 : array_counts[i] == 0 ? 1 : array_counts[i];
    }
    return live;
}

static void start_block(size_t slot, void *address, size_t array_count) {
    size_t count = array_count == 0 ? 1 : array_count;
    array_counts[slot] = array_count;
    model_start(blocks, SLOTS, &blocks[slot], address, (count - 1) * pool.stride + size_bytes,
                align_bytes);
    FUZZ_CHECK(address == NULL || ps_pool_owns(&pool, address));
    FUZZ_CHECK(options.max_items == 0 || live_objects() <= options.max_items);
}

static void free_slot(size_t slot) {
    struct model_block *block = &blocks[slot];
    if (block->address != NULL) {
        model_check(block, block->bytes);
    }
    if (array_counts[slot] == 0) {
        ps_pool_free(&pool, block->address);
    } else {
        ps_pool_free_n(&pool, block->address, array_counts[slot]);
    }
    block->address = NULL;
    array_counts[slot] = 0;
}

static void make(void) {
    size_t slot = fuzz_below(&input, SLOTS);
    free_slot(slot);
    errno = 0;
    void *object = fuzz_byte(&input) % 8 == 0 ? ps_pool_try_alloc(&pool) : ps_pool_alloc(&pool);
    FUZZ_CHECK(object != NULL || errno == ENOMEM);
    start_block(slot, object, 0);
}

static void make_array(void) {
    size_t slot = fuzz_below(&input, SLOTS);
    size_t count = fuzz_byte(&input);
    free_slot(slot);
    errno = 0;
    void *array = ps_pool_alloc_n(&pool, count);
    FUZZ_CHECK(array != NULL || errno == ENOMEM || errno == EINVAL);
    start_block(slot, array, array == NULL ? 0 : count == 0 ? 1 : count);
}

/* Singles of adjacent slots, from a slot on. */
static void make_batch(void) {
    size_t slot = fuzz_below(&input, SLOTS - BATCH);
    size_t count = fuzz_below(&input, BATCH);
    void *objects[BATCH];
    for (size_t i = 0; i < count; i++) {
        free_slot(slot + i);
    }
    size_t got = ps_pool_alloc_batch(&pool, objects, count);
    FUZZ_CHECK(got <= count);
    for (size_t i = 0; i < got; i++) {
        start_block(slot + i, objects[i], 0);
    }
}

static void free_batch(void) {
    size_t slot = fuzz_below(&input, SLOTS - BATCH);
    void *objects[BATCH];
    size_t count = 0;
    for (size_t i = slot; i < slot + BATCH; i++) {
        if (blocks[i].address != NULL && array_counts[i] == 0) {
            model_check(&blocks[i], blocks[i].bytes);
            objects[count++] = blocks[i].address;
            blocks[i].address = NULL;
        }
    }
    ps_pool_free_batch(&pool, objects, count);
}

static void visit(void *object, void *context) {
    FUZZ_CHECK(ps_pool_owns(&pool, object));
    (*(size_t *)context)++;
}

static void check_all(void) {
    model_check_all(blocks, SLOTS);
    struct ps_pool_stats stats;
    ps_pool_stats(&pool, &stats);
    FUZZ_CHECK(stats.used_count == live_objects());
    size_t visited = 0;
    bool is_visited = ps_pool_each(&pool, visit, &visited);
    FUZZ_CHECK(is_visited == pool.is_ordered && visited == (is_visited ? live_objects() : 0));
}

static void reset(void) {
    model_check_all(blocks, SLOTS);
    ps_pool_reset(&pool);
    memset(blocks, 0, sizeof blocks);
    memset(array_counts, 0, sizeof array_counts);
}

static void step(void) {
    switch (fuzz_below(&input, 20)) {
    case 0 ... 4:
        make();
        break;
    case 5 ... 9:
        free_slot(fuzz_below(&input, SLOTS));
        break;
    case 10 ... 11:
        make_array();
        break;
    case 12 ... 13:
        make_batch();
        break;
    case 14 ... 15:
        free_batch();
        break;
    case 16:
        account.refuse_after = fuzz_below(&input, 4);
        break;
    case 17:
        ps_pool_reserve(&pool, fuzz_byte(&input));
        break;
    case 18:
        ps_pool_trim_to(&pool, 0);
        check_all();
        break;
    default:
        if (fuzz_byte(&input) == 0) {
            reset();
        }
        break;
    }
}

/* Arguments that cannot be are refused with EINVAL. */
static bool start(void) {
    uint8_t kind = fuzz_byte(&input);
    size_bytes = fuzz_size(&input, 4);
    align_bytes = (kind & 1) != 0 ? fuzz_byte(&input) : 0;
    options = (struct ps_pool_options){
        .chunks = {.source = &account.source,
                   .first_bytes = (kind & 2) != 0 ? 1024 : 0,
                   .max_bytes = (kind & 4) != 0 ? 4096 : 65536},
        .max_items = (kind & 8) != 0 ? 1 + (kind >> 4) * 5 : 0,
        .is_ordered = (kind & 16) != 0,
    };
    errno = 0;
    bool is_made = ps_pool_init(&pool, size_bytes, align_bytes, &options);
    FUZZ_CHECK(is_made || errno == EINVAL);
    FUZZ_CHECK(is_made == ((align_bytes & (align_bytes - 1)) == 0));
    size_bytes += size_bytes == 0;
    if (align_bytes == 0) {
        align_bytes = size_bytes & -size_bytes;
        align_bytes = align_bytes > 16 ? 16 : align_bytes;
    }
    return is_made;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    input = (struct fuzz_input){bytes, count};
    mode_choose(&input);
    account_start(&account);
    memset(blocks, 0, sizeof blocks);
    memset(array_counts, 0, sizeof array_counts);
    if (!start()) {
        return 0;
    }
    while (!fuzz_is_over(&input)) {
        step();
    }
    check_all();
    for (size_t i = 0; i < SLOTS; i += 2) {
        free_slot(i);
    }
    check_all();
    ps_pool_destroy(&pool);
    account_check_empty(&account);
    return 0;
}
