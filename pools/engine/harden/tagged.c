/* SPDX-License-Identifier: MIT */
/*
 * See tagged.h.
 */
#include "pools/engine/harden/tagged.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/front/store.h"
#include "pools/engine/harden/hard_large.h"
#include "pools/engine/harden/promise.h"
#include "pools/engine/harden/stray.h"
#include "pools/engine/heap/front_path.h"
#include "pools/engine/heap/large.h"
#include "pools/engine/heap/large_path.h"
#include "pools/engine/heap/partition_path.h"
#include "pools/engine/heap/single_path.h"
#include "pools/engine/os/bytes.h"
#include "pools/engine/os/fatal.h"
#include "pools/engine/os/mte.h"

#define EVEN_TAGS 7 /* 2, 4, ... 14 */
#define ODD_TAGS 8

/* By class: ps_size_class_scaled of what follows the last block; 0 where slabs have several
 * granules.
 */
static uint32_t scaled_end[PS_CLASS_LIMIT];

/* ---- tags ---- */

/* A bit for each tag that is not drawn for the next life of a block, by its present tag. */
static uint16_t not_next[PS_MTE_TAGS];

/* The same for a block that has none, by the parity of its index. */
static const uint16_t not_first[] = {0xaaab, 0x5555};

/* The tag `steps` after one in the order of tags of its parity. */
static unsigned tag_after(unsigned tag, unsigned steps) {
    bool is_odd = tag % 2 != 0;
    unsigned first = is_odd ? 1 : 2;
    unsigned index = (tag - first) / 2 + steps;
    return first + index % (is_odd ? ODD_TAGS : EVEN_TAGS) * 2;
}

bool ps_tagged_start(const struct ps_config *config) {
    if (!ps_mte_start()) {
        return false;
    }
    for (unsigned tag = 1; tag < PS_MTE_TAGS; tag++) {
        not_next[tag] = (uint16_t) ~(1u << tag_after(tag, 1) | 1u << tag_after(tag, 2));
    }
    for (uint32_t i = 0; i < ps_size_class_all_count; i++) {
        const struct ps_size_class *class = &ps_size_classes[i];
        scaled_end[i] = class->factor != 0 ? (uint32_t) class->limit << PS_SCALED_SHIFT : 0;
    }
    ps_stray_start(config);
    ps_hard_large_start(PS_HARD_LARGE_WHOLE);
    ps_block_has_promises = true;
    return true;
}

/* Tags blocks of a class that leave the store. They keep the tag of their last life's end; one that
 * was never used, or whose first page was purged, gets a random one. All of it is stored again,
 * since other pages may have been purged. */
static void prepare(void **blocks, size_t count) {
    const struct ps_slab *slab = ps_slab_of(blocks[0]);
    size_t block_bytes = ps_slab_class(slab)->block_bytes;
    for (size_t i = 0; i < count; i++) {
        char *tagged = ps_mte_load(blocks[i]);
        if (tagged == blocks[i]) {
            slab = ps_slab_of(blocks[i]);
            tagged = ps_mte_draw(blocks[i], not_first[ps_slab_index(slab, blocks[i]) % 2]);
        }
        ps_mte_fill(tagged, block_bytes);
    }
}

/* ---- alloc ---- */

static PS_NOINLINE void *refill(uint32_t class_index, size_t bytes, size_t aligned_bytes) {
    void *block = ps_single_refill(&class_index, bytes, aligned_bytes, prepare);
    return PS_LIKELY(block != NULL) ? ps_mte_load(block) : NULL;
}

/* Without sequences. */
static PS_NOINLINE void *alloc_locked(uint32_t class_index, size_t bytes, size_t aligned_bytes) {
    const void *block = ps_front_pop_locked(class_index);
    return block != NULL ? ps_mte_load(block) : refill(class_index, bytes, aligned_bytes);
}

PS_INLINE void *alloc_class(uint32_t class_index, size_t bytes, size_t aligned_bytes) {
    const struct ps_front_table *table = ps_front_table_base();
    struct ps_front *own = ps_front_thread.own;
    const void *block;
    if (PS_LIKELY(own != NULL)) {
        block = ps_front_pop_own(own, table, class_index);
    } else if (PS_HAS_RSEQ && PS_LIKELY(table->has_sequences)) {
        block = ps_front_pop_here(table, class_index);
    } else {
        return alloc_locked(class_index, bytes, aligned_bytes);
    }
    return PS_LIKELY(block != NULL) ? ps_mte_load(block)
                                    : refill(class_index, bytes, aligned_bytes);
}

/* The thread's countdown of bytes is over: periodic work. */
static PS_NOINLINE void *alloc_event(uint32_t class_index, size_t bytes, size_t aligned_bytes) {
    (void)ps_front_count_event();
    return alloc_class(class_index, bytes, aligned_bytes);
}

PS_INLINE void *alloc_counted(uint32_t class_index, size_t bytes, size_t aligned_bytes) {
    ps_front_thread.left_bytes -= (int64_t)bytes;
    return PS_LIKELY(ps_front_thread.left_bytes >= 0)
               ? alloc_class(class_index, bytes, aligned_bytes)
               : alloc_event(class_index, bytes, aligned_bytes);
}

static PS_NOINLINE void *alloc_unclassed(size_t bytes) {
    return bytes == 0 ? ps_zero_alloc()
                      : ps_front_count_large(ps_large_alloc(bytes, 1, NULL), bytes);
}

/* Calls of other functions are tail calls, here and in ps_tagged_free. */
void *ps_tagged_alloc(size_t bytes) {
    if (PS_UNLIKELY(bytes - 1 >= ps_size_class_max_bytes)) {
        return alloc_unclassed(bytes); /* 0 too */
    }
    return alloc_counted(ps_size_class_by_8[(bytes + 7) >> 3], bytes, bytes);
}

void *ps_tagged_zalloc(size_t bytes) {
    if (bytes > ps_size_class_max_bytes) {
        return ps_front_count_large(ps_large_zalloc(bytes), bytes);
    }
    /* Not by libc, which may use the instruction that zeroes a line: qemu-user 7.2 refuses it at an
     * address with a tag. */
    void *block = ps_tagged_alloc(bytes);
    return block != NULL && bytes != 0 ? ps_bytes_fill(block, 0, bytes) : block;
}

void *ps_tagged_alloc_aligned(size_t bytes, size_t align) {
    if (PS_UNLIKELY(bytes == 0 && align <= PS_ZERO_ALIGN)) {
        return ps_zero_alloc();
    }
    uint32_t class_index = ps_size_class_of_aligned(ps_max(bytes, 1), align);
    if (class_index == PS_CLASS_NONE) {
        return ps_front_count_large(ps_large_alloc(bytes, align, NULL), bytes);
    }
    return alloc_counted(class_index, bytes, ps_size_classes[class_index].block_bytes);
}

/* A free block of a partition, whose memory has the tag of its next life. */
static void *take_apart(struct ps_partition *partition, uint32_t class_index) {
    void *blocks[PS_STORE_BATCH];
    bool has_fronts = partition->fronts != NULL;
    void *block = has_fronts ? ps_partition_pop(partition, class_index) : NULL;
    if (block != NULL) {
        return block;
    }
    size_t count = has_fronts ? ps_partition_refill(partition, class_index, blocks)
                              : ps_partition_take_some(partition, class_index, blocks, 1);
    if (count == 0) {
        return NULL;
    }
    prepare(blocks, count);
    for (; count > 1; count--) {
        ps_partition_put(partition, class_index, blocks[count - 1]);
    }
    return blocks[0];
}

void *ps_tagged_alloc_in(struct ps_partition *partition,
                         const struct ps_partition_request *request) {
    uint32_t class_index = ps_size_class_of_apart(ps_max(request->bytes, 1), request->align);
    if (class_index == PS_CLASS_NONE) {
        return ps_partition_alloc_large(partition, request);
    }
    void *block = take_apart(partition, class_index);
    if (block == NULL) {
        return NULL;
    }
    block = ps_mte_load(block);
    return request->is_zeroed ? ps_bytes_fill(block, 0, request->bytes) : block;
}

/* ---- free ---- */

/* True if the pointer's tag is that of the block which starts at its address, and not 0. */
PS_INLINE bool has_tag_of(const void *pointer, const char *block) {
    return pointer != block && ps_mte_load(block) == pointer;
}

/* Gives the memory of a block another tag. */
PS_INLINE void end_life(char *pointer, size_t block_bytes) {
    ps_mte_fill(ps_mte_draw(pointer, not_next[ps_mte_tag(pointer) % PS_MTE_TAGS]), block_bytes);
}

/* The slab of a live block; NULL: the address lies in none. Reports a pointer to no live block. */
static struct ps_slab *slab_of_live(const void *pointer, enum ps_misuse_call call) {
    char *block = ps_mte_strip(pointer);
    struct ps_slab *slab = ps_slab_holding(ps_page_map_slot(block), block);
    if (PS_UNLIKELY(slab == NULL && pointer != block)) { /* the slab has ended */
        ps_fatal_address(ps_misuse_words(call, PS_MISUSE_OF_FREE), pointer);
    }
    if (slab != NULL &&
        PS_UNLIKELY(!ps_slab_has_block(slab, block) || !has_tag_of(pointer, block))) {
        ps_slab_misuse(slab, block, call);
    }
    return slab;
}

/* Without a mark: the block's memory has a tag, by which a double free is found. */
static void free_apart(struct ps_slab *slab, void *block) {
    struct ps_partition *partition = ps_partition_of_slab(slab);
    if (partition->fronts != NULL) {
        ps_partition_put(partition, slab->class_index, block);
    } else {
        ps_partition_free_small(slab, block);
    }
}

/* Any pointer but NULL. */
static PS_NOINLINE void free_slow(void *pointer) {
    struct ps_slab *slab = slab_of_live(pointer, PS_MISUSE_FREE);
    if (slab == NULL) {
        ps_free_large(ps_page_map_slot(pointer), pointer);
        return;
    }
    end_life(pointer, ps_slab_class(slab)->block_bytes);
    if (slab->extent != NULL) {
        free_apart(slab, ps_mte_strip(pointer));
    } else {
        ps_front_put(&ps_front_table, slab->class_index, ps_mte_strip(pointer));
    }
}

void ps_tagged_free(void *pointer) {
    char *block = ps_mte_strip(pointer);
    const struct ps_slab *slab = (const struct ps_slab *)ps_page_map_slot(block);
    if (PS_UNLIKELY(ps_load_relaxed(&slab->run.kind) != PS_RUN_SLAB)) { /* relaxed: set before */
        free_slow(pointer);
        return;
    }
    uint32_t class_index = slab->class_index;
    const struct ps_size_class *class = &ps_size_classes[class_index];
    bool is_start = ps_size_class_scaled(class, block) < scaled_end[class_index];
    if (PS_UNLIKELY(!is_start || slab->extent != NULL) ||
        PS_UNLIKELY(!has_tag_of(pointer, block))) {
        free_slow(pointer);
        return;
    }
    end_life(pointer, class->block_bytes);
    ps_front_put(ps_front_table_base(), class_index, block);
}

/* ---- realloc ---- */

/* A block that remains preserves its class, by which a claimed size is checked. */
void *ps_tagged_resize(void *pointer, size_t bytes) {
    const struct ps_slab *slab = slab_of_live(pointer, PS_MISUSE_REALLOC);
    if (PS_UNLIKELY(slab == NULL)) {
        return ps_resize_large(ps_page_map_slot(pointer), pointer, bytes);
    }
    size_t room = ps_slab_class(slab)->block_bytes;
    bool stays = ps_resize_stays(room, bytes) &&
                 ps_size_classes[ps_size_class_of(bytes)].block_bytes == room;
    return stays ? pointer : ps_resize_by_copy(pointer, room, bytes);
}

size_t ps_tagged_usable(const void *pointer) {
    const struct ps_slab *slab = slab_of_live(pointer, PS_MISUSE_SIZE);
    return PS_LIKELY(slab != NULL) ? ps_slab_class(slab)->block_bytes
                                   : ps_usable_large(ps_page_map_slot(pointer), pointer);
}
