/* SPDX-License-Identifier: MIT */
/*
 * Slow paths of the magazines: creation, refill, flush, the end of the thread, and the clock. See
 * magazine.h. Lock: list_lock.
 */
#include "pools/pages/magazine.h"

#include "pools/common/poison.h"
#include "pools/engine/base/compiler.h"
#include "pools/engine/os/fatal.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/metadata.h"
#include "pools/engine/page/purge.h"
#include "pools/pages/pages.h"

#include <errno.h>
#include <pthread.h>

#define ALIGN_LIMIT ((size_t)2 << 20)
#define REFILL_RUNS 8   /* short runs taken from the depot at once */
#define REFILL_PAGES 16 /* bound on their pages */
#define TICK_CALLS 8    /* slow calls per reading of the clock */

/* Runs longer than a quarter of the limit displace no others. */
#define PUSH_OUT_SHIFT 2

#define ONE(pages, shift) [pages] = {(pages)-1, (shift)}
#define SHARED(stack, first, last) [first... last] = {(stack), 16}

const struct ps_magazine_length ps_magazine_lengths[PS_MAGAZINE_PAGES_MAX + 1] = {
    ONE(1, 12),           ONE(2, 13),           ONE(3, 14),           ONE(4, 14),
    ONE(5, 15),           ONE(6, 15),           ONE(7, 15),           ONE(8, 15),
    ONE(9, 16),           ONE(10, 16),          ONE(11, 16),          ONE(12, 16),
    ONE(13, 16),          ONE(14, 16),          ONE(15, 16),          ONE(16, 16),
    SHARED(16, 17, 20),   SHARED(17, 21, 24),   SHARED(18, 25, 28),   SHARED(19, 29, 32),
    SHARED(20, 33, 40),   SHARED(21, 41, 48),   SHARED(22, 49, 56),   SHARED(23, 57, 64),
    SHARED(24, 65, 80),   SHARED(25, 81, 96),   SHARED(26, 97, 112),  SHARED(27, 113, 128),
    SHARED(28, 129, 160), SHARED(29, 161, 192), SHARED(30, 193, 224), SHARED(31, 225, 256),
};

static struct ps_magazine none = {.x_bytes = PTRDIFF_MAX}; /* of new threads */
static struct ps_magazine ended = {.x_bytes =
                                       PTRDIFF_MAX}; /* of threads that end, or cannot have one */

__thread PS_HIDDEN struct ps_magazine *ps_magazine __attribute__((tls_model("initial-exec"))) =
    &none;

size_t ps_x_magazine_limit = (size_t)1 << 20;

PS_UNDO_LOG(list_undo, 3);
static struct ps_lock list_lock = PS_LOCK_INIT_UNDO(PS_RANK_MAGAZINE, &list_undo);
static struct ps_magazine *all;
static struct ps_magazine *spare;
static pthread_key_t exit_key;
static uint32_t x_key_state;

enum key_state { KEY_UNTRIED = 0, KEY_READY, KEY_REFUSED /* all are taken */, KEY_BUSY };

/* ---- emptying ---- */

/* Returns the oldest runs of a length to the depot. They leave the magazine first, so that the
 * child of a fork in between finds none of them twice. */
static void drop_oldest(struct ps_magazine *magazine, size_t index, uint32_t dropped) {
    uintptr_t places[PS_MAGAZINE_ROOM];
    size_t pages = magazine->x_pages[index];
    uint32_t count = magazine->x_counts[index];
    uintptr_t *entries = magazine->entries[index];
    for (uint32_t i = 0; i < dropped; i++) {
        places[i] = entries[i];
    }
    /* release, relaxed: as in ps_magazine_push. */
    ps_store_release(&magazine->x_counts[index], 0u);
    for (uint32_t i = dropped; i < count; i++) {
        entries[i - dropped] = entries[i];
    }
    ps_store_release(&magazine->x_counts[index], count - dropped);
    ps_store_relaxed(&magazine->x_bytes, magazine->x_bytes - dropped * pages * PS_PAGE_BYTES);
    if (pages < PS_GRANULE_PAGES) {
        ps_depot_give(places, dropped, pages);
        return;
    }
    for (uint32_t i = 0; i < dropped; i++) {
        ps_depot_give_one(places[i], pages);
    }
}

static void drop_all(struct ps_magazine *magazine) {
    for (size_t index = 0; index < PS_MAGAZINE_STACKS; index++) {
        if (magazine->x_counts[index] != 0) {
            drop_oldest(magazine, index, magazine->x_counts[index]);
        }
    }
}

/* Changes the length of the runs in a stack. */
static void set_length(struct ps_magazine *magazine, size_t index, size_t pages) {
    if (magazine->x_counts[index] != 0) {
        drop_oldest(magazine, index, magazine->x_counts[index]);
    }
    /* relaxed: a fork's child reads it when the count covers an entry, see ps_magazine_push. */
    ps_store_relaxed(&magazine->x_pages[index], (uint16_t)pages);
}

static bool is_real(const struct ps_magazine *magazine) {
    return magazine != &none && magazine != &ended;
}

void ps_magazine_flush(void) {
    if (is_real(ps_magazine)) {
        drop_all(ps_magazine);
    }
}

/* Empties a stack, unless there is room for `bytes`. */
static void drop_half(struct ps_magazine *magazine, size_t index, size_t bytes, size_t limit) {
    uint32_t count = magazine->x_counts[index];
    if (count != 0 && magazine->x_bytes + bytes > limit) {
        drop_oldest(magazine, index, (count + 1) / 2);
    }
}

/* Makes room for a run: empties stacks with the longest runs first, and its own last, whose runs
 * are most likely to be reused. Returns false when the run may not be cached. */
static bool make_room(struct ps_magazine *magazine, size_t bytes) {
    size_t limit = ps_load_relaxed(&ps_x_magazine_limit); /* relaxed: a delay is harmless */
    size_t own = ps_magazine_stack(bytes);
    if (magazine->x_pages[own] != bytes / PS_PAGE_BYTES) {
        set_length(magazine, own, bytes / PS_PAGE_BYTES);
    }
    if (magazine->x_counts[own] == PS_MAGAZINE_ROOM) {
        drop_oldest(magazine, own, PS_MAGAZINE_ROOM / 2);
    }
    if (magazine->x_bytes > limit) {
        drop_all(magazine); /* the limit has changed */
    }
    if (magazine->x_bytes + bytes > limit && bytes <= limit >> PUSH_OUT_SHIFT) {
        for (size_t index = PS_MAGAZINE_STACKS; index-- > 0;) {
            if (index != own) {
                drop_half(magazine, index, bytes, limit);
            }
        }
        drop_half(magazine, own, bytes, limit);
    }
    return magazine->x_bytes + bytes <= limit;
}

/* ---- a thread's magazine ---- */

static void note_spare(const struct ps_magazine *magazine) {
    PS_UNDO_NOTE(&list_undo, spare);
    PS_UNDO_NOTE(&list_undo, magazine->is_spare);
    PS_UNDO_NOTE(&list_undo, magazine->next_spare);
}

/* With the lock. */
static void put_spare(struct ps_magazine *magazine) {
    note_spare(magazine);
    magazine->is_spare = true;
    magazine->next_spare = spare;
    spare = magazine;
}

static void give_up(void *magazine) {
    ps_magazine = &ended;
    drop_all(magazine);
    ps_lock_acquire(&list_lock);
    put_spare(magazine);
    ps_lock_release(&list_lock);
}

/* Without a key the magazines of ended threads would not be emptied. libc creates it outside of
 * locks: an interposed function may allocate. */
static uint32_t make_key(void) {
    uint32_t state = KEY_UNTRIED;
    /* acquire: pairs with the release below. */
    if (ps_cas_strong_acq_rel(&x_key_state, &state, (uint32_t)KEY_BUSY)) {
        state = pthread_key_create(&exit_key, give_up) == 0 ? KEY_READY : KEY_REFUSED;
        ps_store_release(&x_key_state, state); /* release: makes the key visible */
    }
    return state;
}

static struct ps_magazine *make(void) {
    size_t bytes =
        sizeof(struct ps_magazine) + sizeof(uintptr_t[PS_MAGAZINE_STACKS][PS_MAGAZINE_ROOM]);
    ps_lock_acquire(&list_lock);
    struct ps_magazine *magazine = spare;
    if (magazine != NULL) {
        note_spare(magazine);
        spare = magazine->next_spare;
        magazine->is_spare = false;
    } else if (all != NULL) {
        ps_lock_watch_forks(); /* a fork may end this thread */
    }
    ps_lock_release(&list_lock);
    if (magazine != NULL) {
        return magazine;
    }
    magazine = ps_metadata_take(bytes);
    if (magazine != NULL) {
        ps_lock_acquire(&list_lock);
        magazine->next = all;
        ps_fence_program_order(); /* for the child of a fork: the list is complete */
        all = magazine;
        ps_lock_release(&list_lock);
    }
    return magazine;
}

/* Creates the magazine at the thread's first call; leaves it without one when memory is exhausted,
 * or the key is being created. */
static PS_COLD void acquire(void) {
    ps_pages_start();
    uint32_t key_state = ps_poison_is_on ? KEY_REFUSED : make_key();
    if (key_state == KEY_REFUSED) {
        ps_magazine = &ended;
        return;
    }
    struct ps_magazine *magazine = key_state == KEY_READY ? make() : NULL;
    if (magazine == NULL) {
        return;
    }
    ps_magazine = magazine;
    if (pthread_setspecific(exit_key, magazine) != 0) {
        give_up(magazine);
    }
}

/* ---- allocation and return ---- */

static void tick(struct ps_magazine *magazine) {
    if (magazine->tick_countdown-- != 0 && is_real(magazine)) {
        return;
    }
    if (is_real(magazine)) {
        magazine->tick_countdown = TICK_CALLS;
    }
    uint64_t now_ms = ps_os_now_ms();
    ps_purge_tick(now_ms);
    (void)ps_depot_decay(now_ms, false);
}

/* Takes several short runs at once: returns the first, and caches the others in the magazine. */
static uintptr_t refill(struct ps_magazine *magazine, size_t bytes) {
    uintptr_t places[REFILL_RUNS];
    size_t pages = bytes / PS_PAGE_BYTES;
    size_t limit = ps_load_relaxed(&ps_x_magazine_limit); /* relaxed: a delay is harmless */
    size_t room = limit > magazine->x_bytes ? (limit - magazine->x_bytes) / bytes : 0;
    size_t wanted = ps_min(ps_min(REFILL_RUNS, REFILL_PAGES / pages), room + 1);
    size_t got = ps_depot_take(pages, wanted, places);
    set_length(magazine, ps_magazine_stack(bytes), pages);
    while (got > 1) {
        got--;
        if (!ps_magazine_push(magazine, places[got], bytes)) { /* refused: a duplicate */
            ps_depot_give(&places[got], 1, pages);
        }
    }
    return got != 0 ? places[0] : 0;
}

static bool is_bad_align(size_t align) { return (align & (align - 1)) != 0 || align > ALIGN_LIMIT; }

uintptr_t ps_magazine_take_slow(size_t bytes, size_t align) {
    if (is_bad_align(align)) {
        errno = EINVAL;
        return 0;
    }
    if (bytes > (size_t)PTRDIFF_MAX - ALIGN_LIMIT) {
        errno = ENOMEM;
        return 0;
    }
    if (ps_magazine == &none) {
        acquire();
    }
    struct ps_magazine *magazine = ps_magazine;
    bytes = ps_round_up(ps_max(bytes, 1), PS_PAGE_BYTES);
    uintptr_t place = 0;
    bool is_common = ps_magazine_has_length(bytes) && align <= ps_magazine_align(bytes);
    if (is_common) {
        if (ps_magazine_pop(magazine, bytes, &place)) {
            return place;
        }
        align = ps_magazine_align(bytes);
    }
    tick(magazine);
    if (is_common && bytes < PS_GRANULE_BYTES && is_real(magazine)) {
        place = refill(magazine, bytes);
    } else {
        place = ps_depot_take_one(bytes / PS_PAGE_BYTES, align);
    }
    if (place == 0) {
        errno = ENOMEM;
    } else {
        ps_unpoison(ps_place_pages(place), bytes);
    }
    return place;
}

void ps_magazine_give_slow(char *pages, size_t bytes) {
    if (pages == NULL) {
        return;
    }
    if (((uintptr_t)pages & (PS_PAGE_BYTES - 1)) != 0 || bytes > PTRDIFF_MAX) {
        ps_fatal_address("free of pages that are not allocated", pages);
    }
    if (ps_magazine == &none) {
        acquire();
    }
    int saved_errno = errno;
    struct ps_magazine *magazine = ps_magazine;
    bytes = ps_round_up(ps_max(bytes, 1), PS_PAGE_BYTES);
    bool is_common =
        ps_magazine_has_length(bytes) && ((uintptr_t)pages & (ps_magazine_align(bytes) - 1)) == 0;
    if (is_common && is_real(magazine)) {
        size_t index = ps_magazine_stack(bytes);
        uint32_t count = magazine->x_counts[index];
        if (count != 0 && ps_place_pages(magazine->entries[index][count - 1]) == pages) {
            ps_fatal_address("double free of pages", pages);
        }
        tick(magazine);
        if (make_room(magazine, bytes) && ps_magazine_push(magazine, (uintptr_t)pages, bytes)) {
            errno = saved_errno;
            return;
        }
    } else {
        tick(magazine);
    }
    ps_poison(pages, bytes);
    ps_depot_give_one((uintptr_t)pages, bytes / PS_PAGE_BYTES);
    errno = saved_errno;
}

/* ---- statistics and fork ---- */

size_t ps_magazine_all_bytes(void) {
    size_t bytes = 0;
    ps_lock_acquire(&list_lock);
    for (const struct ps_magazine *magazine = all; magazine != NULL; magazine = magazine->next) {
        bytes += ps_load_relaxed(&magazine->x_bytes); /* relaxed: a count */
    }
    ps_lock_release(&list_lock);
    return bytes;
}

void ps_magazine_fork_child(void) {
    ps_lock_fork_child(&list_lock);
    if (ps_load_relaxed(&x_key_state) ==
        KEY_BUSY) { /* relaxed: one thread; the parent is about it */
        ps_store_relaxed(&x_key_state, (uint32_t)KEY_UNTRIED);
    }
}

void ps_magazine_fork_salvage(void) {
    for (struct ps_magazine *magazine = all; magazine != NULL; magazine = magazine->next) {
        if (magazine != ps_magazine && !magazine->is_spare) {
            drop_all(magazine);
            magazine->x_bytes = 0; /* may have been changing */
            ps_lock_acquire(&list_lock);
            put_spare(magazine);
            ps_lock_release(&list_lock);
        }
    }
}
