// links: pools
// sources: tests/fuzz/lib/mode.c
/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target: a tree of regions as a sequence of operations: blocks of every alignment and length,
 * resized and freed in and out of order, texts, cleanups, children, resets. Every byte of every
 * block is patterned; each cleanup runs once; at the end the source has everything back.
 */
#include "tests/fuzz/lib/account.h"
#include "tests/fuzz/lib/mode.h"
#include "tests/fuzz/lib/model.h"

#include <poolshim/region.h>

enum { REGIONS = 4, SLOTS = 48, CLEANUPS = 16, POWERS = 10 };

struct owner {
    struct ps_region *region;
    int parent; /* -1: none */
    struct model_block blocks[SLOTS];
};

static struct owner owners[REGIONS];
static struct account account;
static struct fuzz_input input;
static unsigned char room[2048];
static unsigned cleanups_due;
static unsigned cleanups_run;

static void run_cleanup(void *argument) {
    FUZZ_CHECK(argument == &cleanups_run);
    cleanups_run++;
}

/* A region has ended or begun anew, and its descendants have ended with it. */
static void forget(int index, bool is_reset) {
    for (int i = 0; i < REGIONS; i++) {
        if (owners[i].region != NULL && owners[i].parent == index) {
            owners[i].parent = -1;
            forget(i, false);
        }
    }
    memset(owners[index].blocks, 0, sizeof owners[index].blocks);
    if (!is_reset) {
        owners[index].region = NULL;
    }
}

static void check_everything(void) {
    for (int i = 0; i < REGIONS; i++) {
        if (owners[i].region != NULL) {
            model_check_all(owners[i].blocks, SLOTS);
        }
    }
}

static void create(int index) {
    uint8_t kind = fuzz_byte(&input);
    struct ps_region_options options = {
        .chunks = {.source = &account.source,
                   .first_bytes = (kind & 1) != 0 ? 512 : 0,
                   .max_bytes = (kind & 2) != 0 ? 4096 : 0},
        .retain_bytes = (kind & 4) != 0   ? 1
                        : (kind & 8) != 0 ? SIZE_MAX
                                          : 0,
    };
    int parent = (kind >> 4) % (REGIONS + 1) - 1;
    parent = parent >= 0 && owners[parent].region != NULL ? parent : -1;
    owners[index].parent = parent;
    if (parent >= 0) {
        owners[index].region = ps_region_create_child(owners[parent].region, &options);
    } else if (index == 0 && (kind & 2) != 0) {
        owners[index].region = ps_region_init(room, fuzz_number(&input, 2) % sizeof room, &options);
    } else {
        owners[index].region = ps_region_create(&options);
    }
}

static void make(struct owner *owner, size_t align) {
    struct model_block *slot = &owner->blocks[fuzz_below(&input, SLOTS)];
    size_t bytes = fuzz_size(&input, POWERS);
    if (slot->address != NULL) {
        model_check(slot, slot->bytes);
    }
    errno = 0;
    void *address = ps_region_alloc_aligned(owner->region, bytes, align);
    FUZZ_CHECK(address != NULL || errno == ENOMEM);
    model_start(owner->blocks, SLOTS, slot, address, bytes, align);
    FUZZ_CHECK(address == NULL || bytes == 0 || ps_region_owns(owner->region, address));
}

static void resize(struct owner *owner) {
    struct model_block *slot = &owner->blocks[fuzz_below(&input, SLOTS)];
    size_t bytes = fuzz_size(&input, POWERS);
    if (slot->address == NULL) {
        return;
    }
    unsigned char *address =
        ps_region_realloc_aligned(owner->region, slot->address, slot->bytes, bytes, slot->align);
    if (address == NULL) {
        model_check(slot, slot->bytes);
        return;
    }
    slot->address = address;
    model_check(slot, bytes);
    model_start(owner->blocks, SLOTS, slot, address, bytes, slot->align);
}

static void free_one(struct owner *owner) {
    struct model_block *slot = &owner->blocks[fuzz_below(&input, SLOTS)];
    if (slot->address != NULL) {
        model_check(slot, slot->bytes);
        ps_region_free(owner->region, slot->address, slot->bytes, slot->align);
        slot->address = NULL;
    }
}

static void add_text(struct owner *owner) {
    struct model_block *slot = &owner->blocks[fuzz_below(&input, SLOTS)];
    int width = (int)fuzz_size(&input, 5);
    char *text = ps_region_printf(owner->region, "%*d|", width, 7);
    if (text == NULL) {
        return;
    }
    size_t bytes = strlen(text) + 1;
    FUZZ_CHECK(bytes == (size_t)(width < 1 ? 1 : width) + 2 && text[bytes - 2] == '|');
    model_start(owner->blocks, SLOTS, slot, text, bytes, 1);
}

static void clean_up(struct owner *owner) {
    uint8_t kind = fuzz_byte(&input) % 4;
    struct ps_region_cleanup *cleanup =
        (kind & 1) != 0 ? ps_region_on_destroy(owner->region, run_cleanup, &cleanups_run)
                        : ps_region_on_destroy_early(owner->region, run_cleanup, &cleanups_run);
    cleanups_due += cleanup != NULL;
    if (cleanup != NULL && kind == 2) {
        ps_region_cancel(owner->region, cleanup);
        cleanups_due--;
    } else if (cleanup != NULL && kind == 3) {
        ps_region_run_now(owner->region, cleanup);
    }
}

static bool is_below(int index, int ancestor) {
    for (; index >= 0; index = owners[index].parent) {
        if (index == ancestor) {
            return true;
        }
    }
    return false;
}

static void move(int index) {
    int parent = (int)fuzz_below(&input, REGIONS + 1) - 1;
    struct ps_region *above = parent < 0 ? NULL : owners[parent].region;
    bool is_moved = ps_region_set_parent(owners[index].region, above);
    parent = above == NULL ? -1 : parent;
    FUZZ_CHECK(is_moved == (parent < 0 || !is_below(parent, index)));
    owners[index].parent = is_moved ? parent : owners[index].parent;
    FUZZ_CHECK(!is_moved || ps_region_parent(owners[index].region) == above);
}

static void end(int index) {
    check_everything();
    ps_region_destroy(owners[index].region);
    forget(index, false);
}

static void reset(int index) {
    check_everything();
    ps_region_reset(owners[index].region);
    forget(index, true);
}

static void step(void) {
    int index = (int)fuzz_below(&input, REGIONS);
    struct owner *owner = &owners[index];
    if (owner->region == NULL) {
        create(index);
        return;
    }
    switch (fuzz_below(&input, 20)) {
    case 0 ... 4:
        make(owner, 16);
        break;
    case 5 ... 7:
        make(owner, (size_t)1 << fuzz_below(&input, 13));
        break;
    case 8 ... 10:
        resize(owner);
        break;
    case 11 ... 13:
        free_one(owner);
        break;
    case 14:
        add_text(owner);
        break;
    case 15:
        clean_up(owner);
        break;
    case 16:
        move(index);
        break;
    case 17:
        account.refuse_after = fuzz_below(&input, 4);
        break;
    case 18:
        ps_region_trim_to(owner->region, (size_t)fuzz_byte(&input) << 8);
        break;
    default:
        if (fuzz_byte(&input) % 2 == 0) {
            reset(index);
        } else {
            end(index);
        }
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    input = (struct fuzz_input){bytes, count};
    mode_choose(&input);
    account_start(&account);
    memset(owners, 0, sizeof owners);
    cleanups_due = 0;
    cleanups_run = 0;
    while (!fuzz_is_over(&input)) {
        step();
    }
    for (int i = 0; i < REGIONS; i++) {
        if (owners[i].region != NULL && owners[i].parent < 0) {
            end(i);
        }
    }
    FUZZ_CHECK(cleanups_run == cleanups_due);
    account_check_empty(&account);
    return 0;
}
