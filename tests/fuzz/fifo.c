// links: pools
// sources: tests/fuzz/lib/mode.c
/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target: a FIFO as a sequence of operations, freed in order and out of it, and after its end.
 * Every byte of every block is patterned; the source has everything back when the last block goes.
 */
#include "tests/fuzz/lib/account.h"
#include "tests/fuzz/lib/mode.h"
#include "tests/fuzz/lib/model.h"

#include <poolshim/fifo.h>

enum { SLOTS = 128, POWERS = 11 };

static struct model_block blocks[SLOTS]; /* a ring: the oldest at `oldest` */
static size_t oldest;
static size_t newest;
static struct account account;
static struct ps_fifo *fifo;
static struct fuzz_input input;
static enum mode mode;

static void free_slot(struct model_block *slot) {
    if (slot->address != NULL) {
        model_check(slot, slot->bytes);
    }
    ps_fifo_free(fifo, slot->address);
    slot->address = NULL;
}

static void make(size_t align) {
    struct model_block *slot = &blocks[newest++ % SLOTS];
    size_t bytes = fuzz_size(&input, POWERS);
    free_slot(slot);
    errno = 0;
    void *address = ps_fifo_alloc_aligned(fifo, bytes, align);
    FUZZ_CHECK(address != NULL || errno == ENOMEM || align > ps_fifo_align_max(fifo));
    model_start(blocks, SLOTS, slot, address, bytes, align);
    FUZZ_CHECK(address == NULL || ps_fifo_owns(fifo, address));
}

static void make_zeroed(void) {
    struct model_block *slot = &blocks[newest++ % SLOTS];
    size_t bytes = fuzz_size(&input, POWERS);
    free_slot(slot);
    unsigned char *address = ps_fifo_zalloc(fifo, bytes);
    if (address != NULL) {
        model_check_zero(address, bytes);
    }
    model_start(blocks, SLOTS, slot, address, bytes, 16);
}

static void resize(void) {
    struct model_block *slot = &blocks[fuzz_below(&input, SLOTS)];
    size_t bytes = fuzz_size(&input, POWERS);
    if (slot->address == NULL) {
        return;
    }
    unsigned char *address = ps_fifo_realloc_aligned(fifo, slot->address, slot->bytes, bytes, 8);
    if (address == NULL) {
        model_check(slot, slot->bytes);
        return;
    }
    slot->address = address;
    model_check(slot, bytes);
    model_start(blocks, SLOTS, slot, address, bytes, 8);
}

static void check_all(void) {
    model_check_all(blocks, SLOTS);
    size_t live = 0;
    for (size_t i = 0; i < SLOTS; i++) {
        live += blocks[i].address != NULL;
    }
    struct ps_fifo_stats stats;
    ps_fifo_stats(fifo, &stats);
    FUZZ_CHECK(stats.live_count == live);
    FUZZ_CHECK(mode == MODE_MALLOC || stats.chunk_bytes == account.held_bytes);
}

static void step(void) {
    switch (fuzz_below(&input, 20)) {
    case 0 ... 5:
        make(16);
        break;
    case 6 ... 7:
        make((size_t)1 << fuzz_below(&input, 17));
        break;
    case 8:
        make_zeroed();
        break;
    case 9 ... 13:
        free_slot(&blocks[oldest++ % SLOTS]);
        break;
    case 14 ... 15:
        free_slot(&blocks[fuzz_below(&input, SLOTS)]);
        break;
    case 16 ... 17:
        resize();
        break;
    case 18:
        account.refuse_after = fuzz_below(&input, 4);
        break;
    default:
        ps_fifo_trim_to(fifo, (size_t)fuzz_byte(&input) << 10);
        check_all();
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    input = (struct fuzz_input){bytes, count};
    mode = mode_choose(&input);
    account_start(&account);
    memset(blocks, 0, sizeof blocks);
    oldest = 0;
    newest = 0;
    uint8_t kind = fuzz_byte(&input);
    struct ps_fifo_options options = {
        .chunks = {.source = &account.source,
                   .first_bytes = (kind & 1) != 0 ? 512 : 0,
                   .max_bytes = (kind & 2) != 0 ? 4096 << (kind >> 6) : 0},
        .spare_bytes = (kind & 4) != 0 ? 1 : 0,
    };
    fifo = ps_fifo_create(&options);
    FUZZ_CHECK(fifo != NULL);
    while (!fuzz_is_over(&input)) {
        step();
    }
    check_all();
    if ((kind & 8) != 0) {
        ps_fifo_destroy(fifo);
        for (size_t i = 0; i < SLOTS; i++) {
            free_slot(&blocks[i * 5 % SLOTS]);
        }
    } else {
        ps_fifo_destroy_now(fifo);
    }
    account_check_empty(&account);
    return 0;
}
