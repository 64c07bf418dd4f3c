/* SPDX-License-Identifier: MIT */
/*
 * Checks of a caller's claims about a block that it frees: its size, its alignment, the family of
 * functions that made it. See promise.h. The reference is the requested size from level 2 on, the
 * size class at level 1 and of tagged blocks, and the pages of large blocks; any longer block once
 * memory has been exhausted (heap/exhausted.h). Addresses that are not live blocks are not reported
 * here, but by the free that follows. Any thread that owns the block. No locks.
 */
#include "pools/engine/harden/promise.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/front/shadow.h"
#include "pools/engine/front/slab.h"
#include "pools/engine/harden/guard.h"
#include "pools/engine/harden/hard.h"
#include "pools/engine/harden/stray.h"
#include "pools/engine/heap/exhausted.h"
#include "pools/engine/heap/large.h"
#include "pools/engine/os/fatal.h"
#include "pools/engine/os/mte.h"
#include "pools/engine/os/os.h"

bool ps_block_has_promises;

static bool is_large(const struct ps_slot *slot, const void *block) {
    uint8_t kind = ps_load_relaxed(&slot->run.kind); /* relaxed: set before the block existed */
    return (kind == PS_RUN_BLOCK || kind == PS_RUN_MAPPING) && slot->run.base == block;
}

/* True if a block may be live. At level 1 its mark and the bitmap tell. pointer: to the block, with
 * its tag if it has one, here and below. */
static bool is_live(const struct ps_slab *slab, const void *block, const void *pointer) {
    if (ps_mte_is_on()) {
        return ps_mte_load(block) == pointer;
    }
    return ps_hard_is_on() ? ps_shadow_of_live(block) != NULL
                           : !ps_mark_is_set(block) && !ps_slab_is_free(slab, block);
}

/* The class of a small block that may be live; PS_CLASS_NONE: there is none. */
static uint32_t class_at(struct ps_slot *slot, const void *block, const void *pointer) {
    const struct ps_slab *slab = ps_slab_holding(slot, block);
    bool is_one = slab != NULL && ps_slab_has_block(slab, block) && is_live(slab, block, pointer);
    return is_one ? slab->class_index : PS_CLASS_NONE;
}

/* True for requests that malloc serves too; others are rounded up to the size of their class. */
static bool is_usual(size_t bytes, size_t align) {
    return align <= 16 && (bytes > 8 || align <= 8);
}

static uint32_t class_of(size_t bytes, size_t align) {
    return is_usual(bytes, align) ? ps_size_class_of(bytes)
                                  : ps_size_class_of_aligned(bytes, align);
}

static bool is_size(uint32_t class_index, const void *block, size_t bytes, size_t align) {
    if (ps_hard_is_on()) {
        return ps_hard_usable(ps_slab_of(block), block, PS_MISUSE_FREE) == bytes;
    }
    uint32_t wanted =
        bytes <= PS_CLASS_BYTES_LIMIT ? class_of(ps_max(bytes, 1), align) : PS_CLASS_NONE;
    return wanted == class_index ||
           (bytes <= ps_size_classes[class_index].block_bytes && ps_exhausted_has_lengthened());
}

/* usable: of a block that is no small one; wanted: for its claimed size. */
static bool is_usable(size_t usable, size_t wanted) {
    return usable == wanted || (usable > wanted && ps_exhausted_has_lengthened());
}

void ps_block_check_size(const void *pointer, size_t bytes, size_t align) {
    const char *block = ps_mte_strip(pointer);
    struct ps_slot *slot = ps_page_map_slot(block);
    uint32_t class_index = class_at(slot, block, pointer);
    bool is_as_said = ((uintptr_t)block & (align - 1)) == 0;
    if (class_index != PS_CLASS_NONE) {
        is_as_said = is_as_said && is_size(class_index, block, bytes, align);
    } else if (is_large(slot, block)) {
        size_t pages = ps_round_up(ps_max(bytes, 1), ps_os_page_bytes());
        is_as_said = is_as_said && is_usable(ps_large_usable(slot, block), pages) && pages >= bytes;
    } else if (ps_zero_is_live(block)) {
        is_as_said = is_as_said && bytes == 0;
    } else if (ps_load_relaxed(&slot->run.kind) == PS_RUN_GUARD && /* relaxed: as in class_at */
               is_usual(bytes, align)) {
        is_as_said = is_as_said && is_usable(ps_guard_usable(block, "free"), bytes);
    } else {
        return;
    }
    if (PS_UNLIKELY(!is_as_said)) {
        ps_fatal_block("free with a wrong size or alignment of", block,
                       class_index != PS_CLASS_NONE ? ps_size_classes[class_index].block_bytes
                                                    : bytes);
    }
}

void ps_block_set_family(void *block, enum ps_family family) {
    struct ps_slot *slot = ps_page_map_slot(block);
    if (is_large(slot, block)) {
        ps_large_set_family(slot, family);
        return;
    }
    uint8_t *mark = ps_shadow_of_live(block);
    if (PS_LIKELY(mark != NULL)) {
        /* relaxed, both: no other thread has the block. */
        uint8_t rest = (uint8_t)(ps_load_relaxed(mark) & ~PS_SHADOW_FAMILY);
        ps_store_relaxed(mark, (uint8_t)(rest | family << PS_SHADOW_FAMILY_SHIFT));
    }
}

void ps_block_check_family(void *block, enum ps_family family) {
    struct ps_slot *slot = ps_page_map_slot(block);
    enum ps_family made_by = family;
    size_t block_bytes = 0;
    if (is_large(slot, block)) {
        made_by = ps_large_family(slot);
        block_bytes = ps_large_usable(slot, block);
    } else {
        const uint8_t *mark = ps_shadow_of_live(block);
        uint32_t class_index = class_at(slot, block, block);
        if (mark == NULL) {
            return;
        }
        made_by = (enum ps_family)ps_shadow_family(mark);
        block_bytes = class_index != PS_CLASS_NONE ? ps_size_classes[class_index].block_bytes : 0;
    }
    if (PS_UNLIKELY(made_by != family)) {
        ps_fatal_block(PS_MISUSE_FAMILY, block, block_bytes);
    }
    ps_block_set_family(block, PS_FAMILY_MALLOC); /* for the free that follows */
}
