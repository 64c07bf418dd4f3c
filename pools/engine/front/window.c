/* SPDX-License-Identifier: MIT */
/*
 * See window.h. Lock: list_lock, for the list of free records.
 */
#include "pools/engine/front/window.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/page/metadata.h"

#include <string.h>

static struct ps_lock list_lock = PS_LOCK_INIT(PS_RANK_WINDOWS);
static struct ps_windows *first_free;
struct ps_windows *ps_windows_x_made;
struct ps_ended_bytes ps_windows_x_ended;

/* relaxed, both: read in the child of a fork, and from outside the process. */
static void own(struct ps_windows *windows) {
    ps_store_relaxed(&windows->x_thread, ps_thread_pointer());
    ps_store_relaxed(&windows->x_owner, ps_lock_self());
}

static struct ps_windows *take_free(void) {
    ps_lock_acquire(&list_lock);
    struct ps_windows *found = list_lock.depth == 0 ? first_free : NULL;
    if (found != NULL) {
        own(found);
        first_free = found->next_free;
    }
    ps_lock_release(&list_lock);
    return found;
}

static struct ps_windows *make(void) {
    struct ps_windows *made = ps_metadata_take(sizeof *made);
    if (made != NULL) {
        own(made);
        made->next_made = ps_load_relaxed(&ps_windows_x_made); /* relaxed: exchanged below */
        /* release: a reader of the list finds a record that is zero. */
        while (!ps_cas_weak_release(&ps_windows_x_made, &made->next_made, made)) {
        }
    }
    return made;
}

struct ps_windows *ps_windows_acquire(void) {
    struct ps_windows *found = take_free();
    return found != NULL ? found : make();
}

size_t ps_windows_next_blocks(const struct ps_windows *windows, size_t class_index) {
    size_t bytes = PS_WINDOW_BYTES_FIRST << windows->doublings[class_index];
    return ps_max(bytes / ps_size_classes[class_index].block_bytes, 1);
}

void ps_windows_empty(struct ps_windows *windows) {
    for (uint32_t i = 0; i < ps_size_class_count; i++) {
        ps_range range = windows->x_ranges[i];
        if (ps_range_count(range) != 0) {
            ps_store_relaxed(&windows->x_ranges[i], (ps_range)0); /* relaxed: one writer */
            ps_store_give_range(i, ps_range_lowest(range), ps_range_count(range));
            /* They were counted as taken. relaxed: a count. */
            ps_add_relaxed(&ps_store_x_counts[i].x_singles, -(uint64_t)ps_range_count(range));
        }
    }
}

static void end_bytes(struct ps_windows *windows) {
    /* relaxed, both: counts. */
    ps_add_relaxed(&ps_windows_x_ended.x_allocated, windows->bytes.x_allocated);
    ps_add_relaxed(&ps_windows_x_ended.x_freed, windows->bytes.x_freed);
    memset(&windows->bytes, 0, sizeof windows->bytes);
}

void ps_windows_release(struct ps_windows *windows) {
    ps_windows_empty(windows);
    memset(windows->doublings, 0, sizeof windows->doublings);
    end_bytes(windows);
    ps_lock_acquire(&list_lock);
    if (list_lock.depth == 0) {
        windows->next_free = first_free;
        first_free = windows;
    }
    ps_store_relaxed(&windows->x_owner, 0u); /* relaxed: as above */
    ps_lock_release(&list_lock);
}

size_t ps_windows_blocks(uint32_t class_index) {
    size_t blocks = 0;
    /* acquire: pairs with make. */
    for (const struct ps_windows *one = ps_load_acquire(&ps_windows_x_made); one != NULL;
         one = one->next_made) {
        blocks += ps_range_count(ps_load_relaxed(&one->x_ranges[class_index])); /* a snapshot */
    }
    return blocks;
}

static void add_blocks(const struct ps_windows *windows) {
    for (uint32_t i = 0; i < ps_size_class_count; i++) {
        ps_range range = windows->x_ranges[i];
        for (size_t k = 0; k < ps_range_count(range); k++) {
            ps_store_fork_add(i, ps_range_lowest(range) + k * ps_size_classes[i].block_bytes);
        }
        ps_add_relaxed(&ps_store_x_counts[i].x_singles, -(uint64_t)ps_range_count(range));
    }
}

void ps_windows_fork_child(void) {
    if (!ps_lock_fork_child(&list_lock)) {
        return; /* this thread is changing the list */
    }
    first_free = NULL;
    for (struct ps_windows *one = ps_windows_x_made; one != NULL; one = one->next_made) {
        if (one->x_owner == ps_lock_self()) {
            continue;
        }
        if (one->x_owner != 0) {
            add_blocks(one);
            memset(one->x_ranges, 0, sizeof one->x_ranges);
            memset(one->doublings, 0, sizeof one->doublings);
            end_bytes(one);
            one->x_owner = 0;
        }
        one->next_free = first_free;
        first_free = one;
    }
}
