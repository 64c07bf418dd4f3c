// links: pools
// sources: tests/fuzz/lib/mode.c
/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target: a TLSF pool as a sequence of operations, in a buffer and over ranges and chunks that
 * come and go. Every byte of every block is patterned, and the pool's own check must find nothing.
 */
#include "tests/fuzz/lib/account.h"
#include "tests/fuzz/lib/mode.h"
#include "tests/fuzz/lib/model.h"

#include <poolshim/tlsf.h>

enum { SLOTS = 96, RANGES = 6, RANGE_BYTES = 16384, BUFFER_BYTES = 1 << 17, POWERS = 9 };

static struct model_block blocks[SLOTS];
static unsigned char buffer[BUFFER_BYTES] __attribute__((aligned(4096)));
static unsigned char ranges[RANGES][RANGE_BYTES] __attribute__((aligned(64)));
static bool is_added[RANGES];
static size_t range_shift[RANGES];
static struct account account;
static struct ps_tlsf *tlsf;
static struct fuzz_input input;
static enum mode mode;

static struct model_block *next_slot(void) { return &blocks[fuzz_below(&input, SLOTS)]; }

static void free_slot(struct model_block *slot) {
    if (slot->address != NULL) {
        model_check(slot, slot->bytes);
    }
    ps_tlsf_free(tlsf, slot->address);
    slot->address = NULL;
}

static void make(size_t align) {
    struct model_block *slot = next_slot();
    size_t bytes = fuzz_size(&input, POWERS);
    free_slot(slot);
    errno = 0;
    void *address =
        align == 0 ? ps_tlsf_alloc(tlsf, bytes) : ps_tlsf_alloc_aligned(tlsf, bytes, align);
    FUZZ_CHECK(address != NULL || errno == ENOMEM);
    model_start(blocks, SLOTS, slot, address, bytes, align < 16 ? 16 : align);
    FUZZ_CHECK(address == NULL || ps_tlsf_usable_size(tlsf, address) >= bytes);
    FUZZ_CHECK(address == NULL || ps_tlsf_owns(tlsf, address));
}

static void resize(void) {
    struct model_block *slot = next_slot();
    size_t bytes = fuzz_size(&input, POWERS);
    void *address = ps_tlsf_realloc(tlsf, slot->address, bytes);
    if (address == NULL) {
        if (slot->address != NULL) {
            model_check(slot, slot->bytes);
        }
        return;
    }
    if (slot->address != NULL) {
        slot->address = address;
        model_check(slot, bytes);
    }
    model_start(blocks, SLOTS, slot, address, bytes, 16);
}

static bool is_in_use(unsigned range) {
    for (size_t i = 0; i < SLOTS; i++) {
        const unsigned char *address = blocks[i].address;
        if (address != NULL && address >= ranges[range] && address < ranges[range] + RANGE_BYTES) {
            return true;
        }
    }
    return false;
}

/* A range of any alignment and length; too short a one is refused. */
static void add_or_remove(void) {
    unsigned range = fuzz_below(&input, RANGES);
    if (is_added[range]) {
        bool is_removed = ps_tlsf_remove(tlsf, ranges[range] + range_shift[range]);
        FUZZ_CHECK(is_removed == !is_in_use(range));
        is_added[range] = !is_removed;
        return;
    }
    range_shift[range] = fuzz_below(&input, 32);
    size_t bytes = fuzz_number(&input, 2) % (RANGE_BYTES - 32);
    is_added[range] = ps_tlsf_add(tlsf, ranges[range] + range_shift[range], bytes);
    FUZZ_CHECK(is_added[range] || errno == EINVAL || errno == ENOMEM);
    FUZZ_CHECK(!is_added[range] || bytes >= 128);
}

struct tally {
    size_t used;
    size_t free;
};

static void count_block(void *context, void *payload, size_t bytes, bool is_used) {
    struct tally *tally = context;
    FUZZ_CHECK((uintptr_t)payload % 16 == 0 && (bytes > 0 || mode == MODE_MALLOC));
    tally->used += is_used;
    tally->free += !is_used;
}

static void check_all(void) {
    const char *fault = ps_tlsf_check(tlsf);
    if (fault != NULL) {
        fprintf(stderr, "ps_tlsf_check: %s\n", fault);
        abort();
    }
    struct tally tally = {0, 0};
    ps_tlsf_walk(tlsf, count_block, &tally);
    struct ps_tlsf_stats stats;
    ps_tlsf_stats(tlsf, &stats);
    size_t live = 0;
    for (size_t i = 0; i < SLOTS; i++) {
        live += blocks[i].address != NULL;
    }
    FUZZ_CHECK(tally.used == live && stats.used_count == live && stats.free_count == tally.free);
    model_check_all(blocks, SLOTS);
}

static void reset(void) {
    model_check_all(blocks, SLOTS);
    ps_tlsf_reset(tlsf);
    memset(blocks, 0, sizeof blocks);
}

static void step(void) {
    switch (fuzz_below(&input, 16)) {
    case 0 ... 4:
        make(0);
        break;
    case 5 ... 6:
        make((size_t)1 << fuzz_below(&input, 14));
        break;
    case 7 ... 10:
        free_slot(next_slot());
        break;
    case 11 ... 12:
        resize();
        break;
    case 13:
        add_or_remove();
        break;
    case 14:
        ps_tlsf_trim_to(tlsf, 0);
        check_all();
        break;
    default:
        account.refuse_after = fuzz_below(&input, 4);
        if (fuzz_byte(&input) == 0) {
            reset();
        }
        break;
    }
}

static struct ps_tlsf *start(void) {
    uint8_t kind = fuzz_byte(&input);
    struct ps_tlsf_options options = {
        .chunks = {.source = &account.source,
                   .first_bytes = (kind & 4) != 0 ? 8192 : 0,
                   .max_bytes = 65536},
        .largest_bytes = (kind & 8) != 0 ? (size_t)1 << (9 + (kind >> 4)) : 0,
        .can_grow = (kind & 2) != 0,
    };
    if ((kind & 1) != 0) {
        return ps_tlsf_create(&options);
    }
    size_t shift = fuzz_below(&input, 64);
    size_t bytes = fuzz_number(&input, 3) % (BUFFER_BYTES - 64);
    return ps_tlsf_init(buffer + shift, bytes, &options);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    input = (struct fuzz_input){bytes, count};
    mode = mode_choose(&input);
    account_start(&account);
    memset(blocks, 0, sizeof blocks);
    memset(is_added, 0, sizeof is_added);
    tlsf = start();
    for (unsigned steps = 0; tlsf != NULL && !fuzz_is_over(&input); steps++) {
        step();
        if (steps % 64 == 63) {
            check_all();
        }
    }
    if (tlsf != NULL) {
        check_all();
        for (size_t i = 0; i < SLOTS; i += 2) {
            free_slot(&blocks[i]);
        }
        check_all();
    }
    ps_tlsf_destroy(tlsf);
    account_check_empty(&account);
    return 0;
}
