/* SPDX-License-Identifier: MIT */
/*
 * See medium_path.h.
 */
#include "pools/engine/heap/medium_path.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/front/store.h"
#include "pools/engine/heap/counting.h"
#include "pools/engine/heap/limit.h"
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/os/os.h"

size_t ps_medium_limit_bytes;
size_t ps_medium_more_pages;

void ps_medium_start(const struct ps_config *config) {
    size_t os_pages = ps_max(ps_os_page_bytes() >> PS_MEDIUM_PAGE_SHIFT, 1);
    bool is_on = config->harden == 0 && os_pages <= PS_MEDIUM_ALIGN_LIMIT;
    size_t limit = ps_round_down(PS_MEDIUM_PAGES_LIMIT, os_pages) << PS_MEDIUM_PAGE_SHIFT;
    ps_medium_more_pages = os_pages - 1;
    ps_medium_limit_bytes = is_on ? ps_min(limit + 1, config->mmap_min_bytes) : 0;
}

/* Most pages of a block that serves a request of so many. */
static size_t most_pages_for(size_t pages) { return pages + pages / 8; }

static uint8_t *mark_of(const void *block) {
    return ps_medium_mark(ps_page_map_slot(block), block);
}

/* relaxed: other threads read the mark if they own the block, for a census, or by misuse. */
static void set_mark(uint8_t *mark, size_t value) { ps_store_relaxed(mark, (uint8_t)value); }

/* relaxed: a count. */
static void count_singles(uint64_t blocks) { ps_add_relaxed(&ps_front_x_medium_singles, blocks); }

uint64_t ps_medium_requests(void) {
    uint64_t requests = ps_load_relaxed(&ps_front_x_medium_singles); /* relaxed: a count */
    for (uint32_t pages = 1; pages <= PS_MEDIUM_PAGES_LIMIT; pages++) {
        requests += ps_front_takes(PS_FRONT_LENGTHS + pages);
    }
    return requests;
}

/* ---- allocation ---- */

static char *take_shared(size_t pages, size_t align_pages, size_t mark, bool *is_zero) {
    bool is_clean;
    char *block = ps_medium_take(pages, align_pages, &is_clean);
    if (block == NULL) {
        return NULL;
    }
    if (ps_limit_is_on() && is_clean && !ps_limit_make_room(pages << PS_MEDIUM_PAGE_SHIFT)) {
        ps_medium_block refused = ps_medium_block_of(block, pages);
        ps_medium_give(&refused, 1);
        return NULL;
    }
    set_mark(mark_of(block), mark);
    count_singles(1);
    if (is_zero != NULL) {
        *is_zero = is_clean;
    }
    return block;
}

static size_t align_pages(size_t align) {
    return align <= PS_MEDIUM_PAGE_BYTES ? 1 : ps_medium_pages_for(align);
}

/* The shortest block of a front that serves a request, except for those of as many pages; NULL:
 * there is none. */
static void *pop_longer(size_t pages) {
    size_t last = ps_min(most_pages_for(pages), PS_MEDIUM_PAGES_LIMIT);
    const struct ps_front *front = ps_front_here(ps_front_thread.own);
    void *block = NULL;
    for (size_t i = pages + 1; front != NULL && i <= last && block == NULL; i++) {
        /* relaxed: a hint. */
        bool is_any =
            (ps_load_relaxed(&front->x_state[PS_FRONT_LENGTHS + i]) & PS_FRONT_COUNT) != 0;
        block = is_any ? ps_medium_pop(i) : NULL;
    }
    return block;
}

static PS_COLD void *refill_counted(size_t pages, bool *is_zero) {
    void *block = ps_medium_pop(pages);
    block = block != NULL ? block : ps_medium_refill(pages, is_zero);
    ps_counting_leave();
    return block;
}

PS_NOINLINE void *ps_medium_refill(size_t pages, bool *is_zero) {
    if (PS_UNLIKELY(ps_counting_enter())) {
        return refill_counted(pages, is_zero);
    }
    struct ps_front *own = ps_front_thread.own;
    if (own != &ps_front_none) {
        ps_maintenance_tick();
    }
    void *block = pop_longer(pages);
    if (block != NULL) {
        return block;
    }
    ps_front_reset(own, PS_FRONT_LENGTHS + pages);
    (void)ps_front_raise(own, PS_FRONT_LENGTHS + pages);
    return take_shared(pages, 1, pages, is_zero);
}

void *ps_medium_alloc(size_t bytes, size_t align, bool *is_zero) {
    size_t pages = ps_medium_pages_for(bytes);
    if (PS_UNLIKELY(align > PS_MEDIUM_PAGE_BYTES)) {
        return take_shared(pages, align_pages(align), pages, is_zero);
    }
    if (is_zero != NULL) {
        *is_zero = false;
    }
    void *block = ps_medium_pop(pages);
    return PS_LIKELY(block != NULL) ? block : ps_medium_refill(pages, is_zero);
}

void *ps_medium_alloc_sampled(size_t bytes, size_t align) {
    return take_shared(ps_medium_pages_for(bytes), align_pages(align), PS_MEDIUM_SAMPLED, NULL);
}

void ps_medium_set_sampled(void *block) { set_mark(mark_of(block), PS_MEDIUM_SAMPLED); }

void ps_medium_set_live(void *block, size_t bytes) {
    set_mark(mark_of(block), ps_medium_pages_for(bytes));
}

/* ---- free ---- */

void ps_medium_free_sampled(void *block, size_t bytes) {
    ps_counting_note_free(bytes);
    set_mark(mark_of(block), 0);
    ps_medium_block freed = ps_medium_block_of(block, ps_medium_pages_for(bytes));
    ps_medium_give(&freed, 1);
}

static PS_COLD void free_counted(void *block, size_t pages);

static PS_NOINLINE void free_full(void *block, size_t pages) {
    ps_counting_follow();
    if (PS_UNLIKELY(ps_counting_enter())) {
        free_counted(block, pages);
        return;
    }
    struct ps_front *own = ps_front_thread.own;
    size_t class_index = PS_FRONT_LENGTHS + pages;
    void *leaving[PS_FRONT_LENGTH_BLOCKS];
    size_t count = 0;
    if (own != &ps_front_none || ps_front_begin_to_free()) {
        own = ps_front_thread.own;
        if (ps_front_raise(own, class_index) && ps_front_push(own, class_index, block)) {
            return;
        }
        for (size_t most = ps_front_batch(class_index); count < most; count++) {
            leaving[count] = ps_front_pop(own, class_index);
            if (leaving[count] == NULL) {
                break;
            }
        }
        count_singles(-(uint64_t)count);
    }
    if (count == 0 || !ps_front_push(own, class_index, block)) {
        leaving[count++] = block;
    }
    ps_medium_give_waiting(leaving, count, pages);
    if (own != &ps_front_none) {
        ps_maintenance_tick();
    }
}

static PS_COLD void free_counted(void *block, size_t pages) {
    ps_counting_add_freed(pages << PS_MEDIUM_PAGE_SHIFT);
    if (!ps_front_push(NULL, PS_FRONT_LENGTHS + pages, block)) {
        free_full(block, pages);
    }
    ps_counting_leave();
}

void ps_medium_free(struct ps_slot *slot, void *address) {
    uint8_t *mark = ps_medium_mark(slot, address);
    size_t pages = ps_load_relaxed(mark); /* relaxed: the caller's block */
    if (PS_UNLIKELY(pages - 1 >= PS_MEDIUM_PAGES_LIMIT ||
                    (uintptr_t)address % PS_MEDIUM_PAGE_BYTES != 0)) {
        ps_mode.hook.stray_free(slot, address);
        return;
    }
    set_mark(mark, pages | PS_MEDIUM_WAITS); /* first: another thread may take it at once */
    if (PS_UNLIKELY(!ps_front_push(ps_front_thread.own, PS_FRONT_LENGTHS + pages, address))) {
        free_full(address, pages);
    }
}

/* ---- lengths ---- */

bool ps_medium_serves(size_t block_bytes, size_t bytes) {
    size_t pages = block_bytes >> PS_MEDIUM_PAGE_SHIFT;
    size_t wanted = ps_medium_pages_for(bytes);
    return wanted <= pages && pages <= most_pages_for(wanted);
}

bool ps_medium_set_length(struct ps_slot *slot, void *block, size_t bytes) {
    uint8_t *mark = ps_medium_mark(slot, block);
    size_t pages = ps_load_relaxed(mark); /* relaxed: the caller's block */
    size_t wanted = ps_medium_pages_for(bytes);
    if (wanted > pages && !ps_medium_extend(ps_medium_block_of(block, pages), wanted - pages)) {
        return false;
    }
    set_mark(mark, wanted);
    if (wanted < pages) {
        char *rest = (char *)block + (wanted << PS_MEDIUM_PAGE_SHIFT);
        ps_medium_block tail = ps_medium_block_of(rest, pages - wanted);
        ps_medium_give(&tail, 1);
    }
    return true;
}

void ps_medium_add_use(struct ps_slot *head, struct ps_medium_use *use) {
    for (size_t i = 0; i < PS_PAGE_BITS; i++) {
        char *page = head->run.base + (i << PS_MEDIUM_PAGE_SHIFT);
        const struct ps_slot *slot = ps_page_map_slot(page);
        if (!ps_medium_has_marks(slot)) {
            continue;
        }
        uint8_t mark = ps_load_relaxed(ps_medium_mark(slot, page)); /* relaxed: a snapshot */
        size_t pages = mark & (PS_MEDIUM_WAITS - 1u);
        bool is_live = mark == pages && pages != 0;
        use->live_count += is_live;
        use->live_pages += is_live ? pages : 0;
        use->waiting_pages += is_live ? 0 : pages;
    }
}
