/* SPDX-License-Identifier: MIT */
/*
 * See profile.h: the entry points and hooks of the mode. No locks of its own.
 */
#include "pools/engine/profile/profile.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/harden/guard.h"
#include "pools/engine/harden/stray.h"
#include "pools/engine/heap/counting.h"
#include "pools/engine/heap/draw.h"
#include "pools/engine/heap/front_path.h"
#include "pools/engine/heap/large.h"
#include "pools/engine/heap/large_path.h"
#include "pools/engine/heap/medium_path.h"
#include "pools/engine/heap/partition_path.h"
#include "pools/engine/os/os.h"
#include "pools/engine/os/probe.h"
#include "pools/engine/profile/demand.h"
#include "pools/engine/profile/table.h"

struct ps_profile_settings ps_profile_settings;

PS_AT_START bool ps_profile_start(const struct ps_config *config) {
    ps_stray_start(config);
    ps_profile_settings.seed = config->profile_seed;
    ps_profile_settings.x_interval_bytes = config->profile_interval_bytes;
    ps_demand_start(config);
    return true;
}

/* ---- samples ---- */

/* False when the stack must not be taken, because a stack is being taken. */
static bool take_stack(bool *is_inside, struct ps_sites *sites, uintptr_t pool) {
    if (*is_inside) {
        return false;
    }
    sites->count = 0;
    if ((ps_demand_now() & PS_DEMAND_STACKS) != 0) {
        sites->sites[0] = pool;
        sites->count = pool != 0;
        *is_inside = true;
        sites->count +=
            ps_profile_trace(sites->sites + sites->count, PS_PROFILE_FRAMES - sites->count);
        *is_inside = false;
    }
    return true;
}

__attribute__((weak)) size_t ps_profile_trace(uintptr_t *sites, size_t limit) {
    return ps_guard_trace(sites, limit, 0);
}

__attribute__((weak)) void ps_profile_sampled(uint64_t live_bytes) { (void)live_bytes; }

/* Tells of a new sample, which may write the profile. */
static void tell(bool *is_inside) {
    if ((ps_demand_now() & PS_DEMAND_LASTING) == 0) {
        return;
    }
    *is_inside = true;
    ps_profile_sampled(ps_table_live_bytes());
    *is_inside = false;
}

/* Enters a sample, and tells tracers. False when there was no room. */
static bool enter(const struct ps_sample *sample, const struct ps_sites *sites) {
    if (!ps_table_add(sample, sites)) {
        return false;
    }
    if (ps_probe_is_attached()) {
        ps_probe_alloc((const void *)sample->block, sample->bytes,
                       ps_draw_weighted(sample->weight, sample->bytes));
    }
    return true;
}

/* Before the address may be another block's. */
static void tell_free(const void *block) {
    if (ps_probe_is_attached()) {
        ps_probe_free(block);
    }
}

static size_t remove_sample(const void *block) {
    size_t bytes = ps_table_remove(block);
    if (bytes != 0) {
        tell_free(block);
    }
    return bytes;
}

static uint32_t x_made; /* generators begun so far: with a seed, the number of one */

/* The state of a generator that begins. */
static uint64_t first_state(void) {
    uint64_t number = ps_add_relaxed(&x_made, 1u); /* relaxed: one that no other generator has */
    uint32_t given = ps_profile_settings.seed;
    uint64_t seed = given != 0 ? (uint64_t)given << 32 ^ number : ps_os_random();
    return seed << 1 | 1; /* not 0 */
}

static int64_t draw(struct ps_sampler *sampler) {
    if (sampler->random == 0) {
        sampler->random = first_state();
    }
    return ps_draw_bytes(&sampler->random, sampler->interval_bytes);
}

static __thread bool is_inside __attribute__((tls_model("initial-exec")));

int64_t ps_profile_count_bytes(struct ps_sampler *sampler, int64_t bytes, bool *is_due) {
    if (PS_LIKELY(ps_demand_now() == 0)) {
        return INT64_MAX;
    }
    uint32_t epoch = ps_load_acquire(&ps_demand_x_epoch); /* acquire: pairs with begin_epoch */
    bool has_begun = sampler->epoch == epoch;
    if (!has_begun) { /* earlier requests were not counted */
        sampler->epoch = epoch;
        sampler->interval_bytes = ps_load_relaxed(&ps_demand_x_interval_bytes); /* as of epoch */
    }
    sampler->left_bytes -= bytes;
    *is_due = has_begun && sampler->left_bytes <= 0;
    if (!has_begun || *is_due) {
        sampler->left_bytes = draw(sampler);
    }
    return sampler->left_bytes;
}

PS_COLD void *ps_profile_sample_class(struct ps_sampler *sampler, uint32_t class_index,
                                      size_t requested, const struct ps_slab *slab) {
    struct ps_sites sites;
    size_t bytes = ps_size_classes[class_index].block_bytes;
    size_t align = bytes & (~bytes + 1); /* blocks of a class are aligned to it */
    if (!take_stack(&is_inside, &sites, ps_profile_pool_site())) {
        return NULL;
    }
    void *block = ps_medium_alloc_sampled(bytes, align);
    const struct ps_sample sample = {
        .block = (uintptr_t)block,
        .bytes = bytes,
        .requested_bytes = requested,
        .weight = ps_draw_weight(ps_max(requested, 1), sampler->interval_bytes),
        .slab = slab,
        .is_medium = true};
    bool is_entered = block != NULL && enter(&sample, &sites);
    if (block != NULL && !is_entered) {
        ps_medium_free_sampled(block, bytes);
    }
    if (is_entered) {
        tell(&is_inside);
    }
    return is_entered ? block : NULL;
}

/* The pool or the heap that a block is of; 0: none. */
static uintptr_t site_of_large(const struct ps_slot *slot) {
    uintptr_t pool = ps_profile_pool_site();
    if (pool != 0 || ps_block_is_medium(slot)) {
        return pool;
    }
    const struct ps_partition *partition = ps_large_partition(slot);
    return partition != NULL ? ps_profile_heap_site(partition->name) : 0;
}

PS_COLD void ps_profile_sample_large(const struct ps_sampler *sampler, void *block,
                                     size_t requested) {
    struct ps_slot *slot = ps_page_map_slot(block);
    struct ps_sites sites;
    size_t bytes = ps_large_usable(slot, block);
    const struct ps_sample sample = {
        .block = (uintptr_t)block,
        .bytes = bytes,
        .requested_bytes = requested,
        .weight = ps_draw_weight(ps_max(requested, 1), sampler->interval_bytes),
        .is_medium = ps_block_is_medium(slot)};
    if (!take_stack(&is_inside, &sites, site_of_large(slot)) || !enter(&sample, &sites)) {
        return;
    }
    if (sample.is_medium) {
        ps_medium_set_sampled(block);
    }
    tell(&is_inside);
}

/* ---- free and realloc ---- */

void ps_profile_end_sample(const void *block) {
    if (PS_UNLIKELY(ps_demand_has_begun())) {
        (void)remove_sample(block);
    }
}

static bool is_run(const struct ps_slot *slot, const void *block) {
    uint8_t kind = ps_load_relaxed(&slot->run.kind); /* relaxed: set before the block existed */
    return (kind == PS_RUN_BLOCK || kind == PS_RUN_MAPPING) && slot->run.base == block;
}

static bool is_sampled(const struct ps_slot *slot, const void *block) {
    return ps_block_is_medium(slot) && ps_medium_is_sampled(slot, block);
}

void ps_profile_stray_free(struct ps_slot *slot, void *block) {
    size_t bytes = is_sampled(slot, block) ? remove_sample(block) : 0;
    if (PS_LIKELY(bytes != 0)) {
        ps_medium_free_sampled(block, bytes);
    } else {
        ps_stray_free(slot, block);
    }
}

size_t ps_profile_stray_usable(const struct ps_slot *slot, const void *block,
                               enum ps_misuse_call call) {
    size_t bytes = is_sampled(slot, block) ? ps_table_find(block) : 0;
    return PS_LIKELY(bytes != 0) ? bytes : ps_stray_usable(slot, block, call);
}

/* Puts back the sample of a block above the classes that was not resized. */
static void put_back(struct ps_sample *sample, void *block) {
    if (sample == NULL) {
        return;
    }
    if (sample->is_medium) {
        ps_medium_set_sampled(block);
    }
    ps_table_put(sample, block);
}

/* Resizes a block above the classes. Its sample leaves the table before the address may become
 * another block's; meanwhile a medium block has an ordinary mark. */
static void *resize_large(struct ps_slot *slot, void *block, size_t bytes, bool is_marked) {
    struct ps_sample *sample = is_marked || is_run(slot, block) ? ps_table_take(block) : NULL;
    if (is_marked && sample != NULL) {
        ps_medium_set_live(block, sample->bytes);
    }
    size_t usable = ps_large_usable(slot, block);
    void *resized = ps_resize_in_place(slot, block, bytes);
    bool is_counted = resized == NULL; /* a copy is, by itself */
    if (resized == NULL) {
        if (sample != NULL) {
            tell_free(block); /* untrue if memory is exhausted */
        }
        resized = ps_resize_by_move(slot, block, bytes);
    }
    bool is_same = resized == block && ps_large_usable(slot, block) == usable;
    if (is_same && sample != NULL) {
        sample->requested_bytes = bytes;
    }
    if (resized == NULL || is_same) {
        put_back(sample, block);
        return resized;
    }
    if (sample != NULL) {
        if (!is_counted) {
            tell_free(block);
        }
        ps_table_drop(sample);
    }
    if (is_counted) {
        return resized;
    }
    ps_counting_note_free(usable);
    return ps_front_count_large(resized, bytes);
}

/* Resizes a sampled block of a class. */
static void *resize_small(void *block, size_t room, size_t bytes) {
    if (!ps_resize_stays(room, bytes)) {
        return ps_resize_by_copy(block, room, bytes);
    }
    ps_table_set_requested(block, bytes);
    return block;
}

static PS_NOINLINE void *resize(void *block, size_t bytes) {
    struct ps_slot *slot = ps_page_map_slot(block);
    if (is_sampled(slot, block)) {
        size_t room = ps_profile_stray_usable(slot, block, PS_MISUSE_REALLOC);
        return room <= ps_size_class_max_bytes ? resize_small(block, room, bytes)
                                               : resize_large(slot, block, bytes, true);
    }
    if (!ps_block_is_large(slot, block)) {
        return ps_front_resize_plain(block, bytes);
    }
    bool is_short = is_run(slot, block) && ps_large_usable(slot, block) <= PS_CLASS_BYTES_LIMIT;
    return is_short ? resize_small(block, ps_large_usable(slot, block), bytes) /* of a partition */
                    : resize_large(slot, block, bytes, false);
}

PS_AT_START void *ps_profile_resize(void *block, size_t bytes) {
    return PS_LIKELY(!ps_demand_has_begun()) ? ps_front_resize_plain(block, bytes)
                                             : resize(block, bytes);
}

/* A block has the length that it was given if there may be samples, whose lengths are noted. */
size_t ps_profile_resize_in_place(void *block, size_t bytes) {
    return ps_demand_has_begun() ? ps_front_usable_plain(block)
                                 : ps_front_resize_in_place(block, bytes);
}

/* ---- pages ---- */

#define POOL_PAGE_BYTES 4096 /* to which the taken bytes are rounded up */

static int64_t x_pages_left; /* bytes until the next sample; 0: not drawn yet */
static uint64_t x_pages_random;

bool ps_profile_pages_may_be_due(size_t bytes) {
    /* relaxed: a guess, which another thread's pages may turn wrong; the count is taken later. */
    int64_t left = ps_load_relaxed(&x_pages_left);
    return left <= POOL_PAGE_BYTES || (uint64_t)left - POOL_PAGE_BYTES < bytes;
}

/* True for the run with the next sample. Threads that draw at once may skip one. */
static bool is_pages_due(size_t bytes, size_t interval_bytes) {
    uint64_t random = ps_load_relaxed(&x_pages_random); /* relaxed: any bits will do */
    /* relaxed: a count. */
    int64_t left = ps_add_relaxed(&x_pages_left, -(int64_t)bytes) - (int64_t)bytes;
    bool has_begun = random != 0;
    if (left > 0 || (has_begun && left <= -(int64_t)bytes)) { /* the latter: another draws */
        return false;
    }
    random = has_begun ? random : first_state();
    /* relaxed, both: as above. */
    ps_store_relaxed(&x_pages_left, ps_draw_bytes(&random, interval_bytes));
    ps_store_relaxed(&x_pages_random, random);
    return has_begun;
}

void ps_profile_pages_taken(void *pages, size_t bytes) {
    struct ps_sites sites;
    /* relaxed: an interval of another epoch changes one weight. */
    size_t interval_bytes = ps_load_relaxed(&ps_demand_x_interval_bytes);
    if (ps_demand_now() == 0 || !is_pages_due(bytes, interval_bytes) ||
        !take_stack(&is_inside, &sites, ps_profile_pool_site())) {
        return;
    }
    const struct ps_sample sample = {.block = (uintptr_t)pages,
                                     .bytes = bytes,
                                     .requested_bytes = bytes,
                                     .weight = ps_draw_weight(bytes, interval_bytes)};
    if (enter(&sample, &sites)) {
        tell(&is_inside);
    }
}

void ps_profile_fork_child(void) {
    ps_table_fork_child();
    ps_demand_fork_child();
}
