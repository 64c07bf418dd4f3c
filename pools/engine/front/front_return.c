/* SPDX-License-Identifier: MIT */
/*
 * Return of unused blocks from fronts to the store: see front.h.
 *
 * A class has as many unused blocks as its number at the last return exceeds the number of blocks
 * that were taken since: the oldest entries, which no pop has reached.
 *
 * A front of another thread that uses sequences:
 *
 *   1. HELD is set in the state of the class, by a locked exchange. No sequence that begins
 *      afterwards pushes or pops there. One that had begun stores its state over HELD, as a rule
 *      within nanoseconds.
 *   2. After PS_FRONT_ANSWER_US, where HELD is still set, the oldest entries are reserved: their
 *      highest bit is set. A pop takes them for NULL. The newest entry stays.
 *   3. After PS_FRONT_ANSWER_US again NULL is stored in the reserved entries, and HELD is cleared.
 *      The number of entries stays, too. Their blocks are returned.
 *
 * A virtual processor may stand still within a sequence, for any time, and store its state at any
 * moment of this. The sequence pops the newest entry, or pushes one above it: the entries below are
 * not its own. The threads of its id continue there. If they find reserved entries, or NULL, it is
 * as in an empty class. Before these are visible to them they may pop the entries themselves: the
 * number of blocks that were taken says how many they have reached, and these are given up.
 *
 * The second delay is needed for that: a processor loads its own last state before others see it,
 * so that it could pop several entries while HELD is set for all others. When the delay is over,
 * both see what the other has stored in step 2 or before. It lasts as long as a processor takes to
 * store. The first one only makes it rare that blocks are given up. (A barrier by membarrier(2)
 * would serve, too, but a program's filter of system calls may kill the process for it.)
 *
 * The thread that next finds such an entry on top sets the number of entries to 0
 * (ps_front_reset_here), which no count tells. So step 2 reserves what was there before HELD was
 * seen again, and step 3 takes only that: not what was pushed after a reset over HELD.
 *
 * Without sequences HELD alone excludes others. If the calling thread is the only one of the
 * process, no thread is in a sequence, and all entries return.
 *
 * The child of a fork empties all fronts (store.h says why), and clears HELD. The class whose
 * entries were being moved loses its blocks.
 */
#include "pools/engine/base/bits.h"
#include "pools/engine/front/front.h"
#include "pools/engine/front/number.h"
#include "pools/engine/front/partition.h"
#include "pools/engine/front/store.h"
#include "pools/engine/os/os.h"
#include "pools/engine/os/turn.h"

static uint32_t x_holder; /* lock id of the thread that returns blocks; 0: none */

static bool is_any(const struct ps_front_set *classes) {
    uint64_t all = 0;
    for (size_t w = 0; w < sizeof classes->words / sizeof classes->words[0]; w++) {
        all |= classes->words[w];
    }
    return all != 0;
}

static bool has(const struct ps_front_set *classes, uint32_t class_index) {
    return (classes->words[class_index / 64] >> class_index % 64 & 1) != 0;
}

static void set(struct ps_front_set *classes, uint32_t class_index, bool is_in) {
    uint64_t bit = (uint64_t)1 << class_index % 64;
    uint64_t *word = &classes->words[class_index / 64];
    *word = is_in ? *word | bit : *word & ~bit;
}

/* relaxed, all loads of states and seen ones: hints, or exchanged afterwards. */

static uint64_t takes_of(uint64_t state) { return state >> PS_FRONT_TAKES_SHIFT; }

static size_t unused_blocks(const struct ps_front *front, uint32_t class_index, uint64_t state) {
    uint64_t seen = ps_load_relaxed(&front->x_seen[class_index]);
    uint64_t takes = takes_of(state) - takes_of(seen);
    uint64_t before = seen & PS_FRONT_COUNT;
    uint64_t count = state & PS_FRONT_COUNT;
    uint64_t limit = ps_load_relaxed(&front->x_limit[class_index]);
    uint64_t above = count - ps_min(count, limit);
    uint64_t unused = takes < before ? ps_min(before - takes, count) : 0;
    return ps_max(unused, above);
}

/* The front may have twice as many blocks of a class as were taken since the last return, and those
 * that stay. Beyond the budget of all fronts it may have the same share of its limit. */
static void lower_limit(struct ps_front *front, uint32_t class_index, uint64_t state) {
    const struct ps_front_limits *all = &ps_front_limits[ps_front_is_length(class_index)];
    uint64_t bytes = ps_load_relaxed(&all->x_bytes);
    uint64_t most_bytes = ps_load_relaxed(&all->x_most);
    uint64_t limit = ps_load_relaxed(&front->x_limit[class_index]);
    uint64_t takes = takes_of(state) - takes_of(ps_load_relaxed(&front->x_seen[class_index]));
    uint64_t stay = (state & PS_FRONT_COUNT) - unused_blocks(front, class_index, state);
    uint64_t most = ps_max(takes * 2, stay);
    most = bytes > most_bytes ? ps_min(most, limit * most_bytes / bytes) : most;
    if (most < limit) {
        ps_store_relaxed(&front->x_limit[class_index], (uint16_t)most); /* relaxed: a bound */
    }
}

static void sum_limits(struct ps_front *front) {
    size_t bytes[2] = {0, 0};
    for (PS_FRONT_EACH_CLASS(i)) {
        size_t limit = ps_load_relaxed(&front->x_limit[i]);
        bytes[ps_front_is_length(i)] += limit * ps_front_block_bytes(i);
    }
    for (size_t i = 0; i < 2; i++) { /* relaxed, both: bounds */
        uint64_t before = ps_exchange_relaxed(&front->x_limit_bytes[i], (uint32_t)bytes[i]);
        ps_add_relaxed(&ps_front_limits[i].x_bytes, bytes[i] - before);
    }
}

static void **entries_of(struct ps_front *front, uint32_t class_index) {
    return &front->x_entries[ps_front_table.places[class_index].first];
}

static void count_returned(const struct ps_front *front, uint32_t class_index, size_t blocks) {
    if (PS_UNLIKELY(front->table != 0)) {
        struct ps_partition *partition = ps_front_table_at(front->table)->partition;
        ps_partition_count(partition, class_index, -(uint64_t)blocks);
    }
}

static void give(const struct ps_front *front, uint32_t class_index, void *const *entries,
                 size_t count) {
    void *blocks[PS_FRONT_BLOCKS];
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        if (entries[i] != NULL) {
            blocks[found++] = entries[i];
        }
    }
    if (ps_front_is_length(class_index)) {
        ps_medium_give_waiting(blocks, found, class_index - PS_FRONT_LENGTHS);
    } else if (found != 0) {
        ps_store_give(class_index, blocks, found);
        count_returned(front, class_index, found);
    }
}

/* ---- a class that no other thread uses, or that is held without sequences ---- */

static void remove_oldest(struct ps_front *front, uint32_t class_index, uint64_t state,
                          size_t count) {
    void *taken[PS_FRONT_BLOCKS];
    void **entries = entries_of(front, class_index);
    size_t rest = (size_t)(state & PS_FRONT_COUNT) - count;
    front->moving = class_index + 1;
    ps_fence_stores();                          /* for the child of a fork, each */
    for (size_t i = 0; i < count + rest; i++) { /* relaxed, all: a census reads them */
        void *block = ps_load_relaxed(&entries[i]);
        if (i < count) {
            taken[i] = block;
        } else {
            ps_store_relaxed(&entries[i - count], block);
        }
    }
    uint64_t left = (state & ~PS_FRONT_HELD) - count;
    ps_store_relaxed(&front->x_seen[class_index], left);
    ps_store_release(&front->x_state[class_index], left); /* release: the entries */
    ps_fence_stores();
    front->moving = 0;
    give(front, class_index, taken, count);
}

static void return_directly(struct ps_front *front, bool is_all) {
    for (PS_FRONT_EACH_CLASS(i)) {
        uint64_t state = ps_load_relaxed(&front->x_state[i]);
        lower_limit(front, i, state);
        size_t count = is_all ? state & PS_FRONT_COUNT : unused_blocks(front, i, state);
        ps_store_relaxed(&front->x_seen[i], state);
        if (count != 0) {
            remove_oldest(front, i, state, count);
        }
    }
    sum_limits(front);
}

void ps_front_return_one(struct ps_front *own, bool is_all) { return_directly(own, is_all); }

void ps_front_return_own(struct ps_front *own, bool is_all) {
    const struct ps_front_table *table;
    return_directly(own, is_all);
    for (size_t i = 1; (table = ps_front_table_at(i)) != NULL; i++) {
        struct ps_front *front = ps_load_relaxed(&table->x_own); /* relaxed: the thread's */
        if (front != NULL) {
            return_directly(front, is_all);
        }
    }
}

/* ---- a front of others ---- */

/* True if an earlier return has taken all below the newest entry; relaxed: a hint. */
static bool is_emptied(struct ps_front *front, uint32_t class_index, uint64_t state) {
    void **entries = &front->x_entries[ps_front_table.places[class_index].first];
    for (size_t i = state & PS_FRONT_COUNT; i-- > 1;) {
        if (ps_load_relaxed(&entries[i - 1]) != NULL) {
            return false;
        }
    }
    return true;
}

/* Sets HELD in the classes that have unused blocks. Returns these. */
static struct ps_front_set hold_unused(struct ps_front *front, bool is_all) {
    struct ps_front_set classes = {{0}};
    for (PS_FRONT_EACH_CLASS(i)) {
        uint64_t state = ps_load_relaxed(&front->x_state[i]);
        lower_limit(front, i, state);
        size_t count = is_all ? state & PS_FRONT_COUNT : unused_blocks(front, i, state);
        if (count == 0 || (state & PS_FRONT_HELD) != 0 ||
            (ps_front_uses_sequences() && is_emptied(front, i, state))) {
            ps_store_relaxed(&front->x_seen[i], state);
        } else if (ps_cas_strong_acquire(&front->x_state[i], &state, state | PS_FRONT_HELD)) {
            set(&classes, i, true); /* acquire: the entries */
        }
    }
    sum_limits(front);
    return classes;
}

static bool is_reserved(const void *entry) { return ((uintptr_t)entry & PS_FRONT_RESERVED) != 0; }

static void *with_reserved(const void *entry, uintptr_t reserved) {
    return (void *)(((uintptr_t)entry & ~PS_FRONT_RESERVED) | reserved);
}

/* Step 2. False: a sequence was faster. */
static bool reserve_entries(struct ps_front *front, uint32_t class_index, bool is_all) {
    void *found[PS_FRONT_BLOCKS];
    void **entries = entries_of(front, class_index);
    uint64_t state = ps_load_relaxed(&front->x_state[class_index]); /* relaxed: acquired by HELD */
    if ((state & PS_FRONT_HELD) == 0) {
        return false;
    }
    uint64_t without = state & ~PS_FRONT_HELD;
    size_t all = without & PS_FRONT_COUNT;
    size_t count = is_all ? all : unused_blocks(front, class_index, without);
    count = ps_min(count, all - 1);
    for (size_t i = 0; i < count; i++) {
        found[i] = ps_load_acquire(&entries[i]); /* acquire: new entries come with their state */
    }
    if (ps_load_relaxed(&front->x_state[class_index]) != state) { /* relaxed: ordered by these */
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (found[i] != NULL) { /* relaxed: visible after the delay */
            ps_store_relaxed(&entries[i], with_reserved(found[i], PS_FRONT_RESERVED));
        }
    }
    ps_store_relaxed(&front->x_seen[class_index], without);
    return true;
}

/* Step 3. */
static void take_reserved(struct ps_front *front, uint32_t class_index) {
    void *taken[PS_FRONT_BLOCKS];
    void **entries = entries_of(front, class_index);
    uint64_t without = ps_load_relaxed(&front->x_seen[class_index]);
    size_t count = (without & PS_FRONT_COUNT) - 1;
    front->moving = class_index + 1;
    ps_fence_stores(); /* for the child of a fork, each */
    for (size_t i = 0; i < count; i++) {
        taken[i] = NULL;
        void *entry = ps_load_relaxed(&entries[i]); /* relaxed: of this thread, or not taken */
        if (is_reserved(entry)) {
            taken[i] = with_reserved(entry, 0);
            ps_store_relaxed(&entries[i], NULL); /* relaxed: ordered by the next */
        }
    }
    uint64_t now = without | PS_FRONT_HELD;
    /* release: the stores above come before those of a push that follows. */
    if (!ps_cas_strong_acq_rel(&front->x_state[class_index], &now, without)) {
        size_t reached = (size_t)(takes_of(now) - takes_of(without)); /* and perhaps one more */
        count -= ps_min(reached, count);
    }
    ps_fence_stores();
    front->moving = 0;
    give(front, class_index, taken, count);
}

static void reserve_held(struct ps_front *front, struct ps_front_set *classes, bool is_all) {
    for (PS_FRONT_EACH_CLASS(i)) {
        if (has(classes, i) && !reserve_entries(front, i, is_all)) {
            set(classes, i, false);
        }
    }
}

static void return_held(struct ps_front *front, const struct ps_front_set *classes, bool is_all) {
    for (PS_FRONT_EACH_CLASS(i)) {
        if (!has(classes, i)) {
            continue;
        }
        if (ps_front_uses_sequences()) {
            take_reserved(front, i);
        } else {
            uint64_t state = ps_load_relaxed(&front->x_state[i]); /* relaxed: the thread's own */
            uint64_t without = state & ~PS_FRONT_HELD;
            size_t count = is_all ? without & PS_FRONT_COUNT : unused_blocks(front, i, without);
            remove_oldest(front, i, state, count);
        }
    }
}

static void wait_for_answers(void) {
    uint64_t since_us = ps_os_now_us();
    while (ps_os_now_us() - since_us < PS_FRONT_ANSWER_US) { /* ends: time */
        uint32_t never = 0;
        ps_os_wait_ms(&never, 0, 1);
    }
}

/* Takes a step of a return in all fronts of ids. True if any of them says so. */
static bool take_step(bool (*take)(struct ps_front *front, bool is_all), bool is_all) {
    const struct ps_front_table *table;
    bool is_any_so = false;
    for (size_t i = 0; (table = ps_front_table_at(i)) != NULL; i++) {
        size_t end = ps_load_acquire(&table->x_end); /* acquire: as in ps_front_end */
        for (size_t id = 0; id < end; id++) {
            /* acquire: pairs with publish of front.c. */
            struct ps_front *front = ps_load_acquire(&table->x_fronts[id]);
            is_any_so |= front != NULL && take(front, is_all);
        }
    }
    return is_any_so;
}

static bool take_directly(struct ps_front *front, bool is_all) {
    return_directly(front, is_all);
    return false;
}

static bool take_hold(struct ps_front *front, bool is_all) {
    front->held = hold_unused(front, is_all);
    return is_any(&front->held);
}

static bool take_reservation(struct ps_front *front, bool is_all) {
    if (is_any(&front->held)) {
        reserve_held(front, &front->held, is_all);
    }
    return false;
}

static bool take_return(struct ps_front *front, bool is_all) {
    if (is_any(&front->held)) {
        return_held(front, &front->held, is_all);
    }
    return false;
}

/* Each step is taken in all tables before the next, so that there are two delays, not two for each
 * table. */
static void return_idle(bool is_all) {
    if (!take_step(take_hold, is_all)) {
        return;
    }
    if (ps_front_uses_sequences()) {
        wait_for_answers();
        (void)take_step(take_reservation, is_all);
        wait_for_answers();
    }
    (void)take_step(take_return, is_all);
}

void ps_front_return_idle(bool is_all, bool is_alone) {
    if (!ps_turn_begin(&x_holder)) {
        return;
    }
    if (is_alone) {
        (void)take_step(take_directly, is_all);
    } else {
        return_idle(is_all);
    }
    ps_turn_end(&x_holder);
}

/* A sequence that has stored its state over HELD may have popped what is reserved. */
static void cancel_reserved(struct ps_front *front, uint32_t class_index) {
    void **entries = entries_of(front, class_index);
    uint64_t state = front->x_state[class_index];
    for (size_t i = 0; i < (state & PS_FRONT_COUNT); i++) {
        if (is_reserved(entries[i])) {
            entries[i] = (state & PS_FRONT_HELD) != 0 ? with_reserved(entries[i], 0) : NULL;
        }
    }
}

/* Returns the blocks of a front that no other thread here uses. */
static void empty(struct ps_front *front) {
    for (PS_FRONT_EACH_CLASS(i)) {
        if (&front->x_state[i] == ps_front_held) {
            continue;
        }
        if (ps_load_relaxed(&x_holder) != 0) { /* relaxed: one thread */
            cancel_reserved(front, i);
        }
        uint64_t state = front->x_state[i];
        size_t most = front->moving == i + 1 ? 0 : ps_front_table.places[i].most;
        size_t count = ps_min(state & PS_FRONT_COUNT, most);
        void **entries = entries_of(front, i);
        for (size_t k = 0; k < count; k++) {
            if (entries[k] != NULL && ps_front_is_length(i)) {
                ps_medium_fork_add(entries[k], i - PS_FRONT_LENGTHS);
            } else if (entries[k] != NULL) {
                ps_store_fork_add(i, entries[k]);
                count_returned(front, i, 1);
            }
        }
        front->x_state[i] = state & ~(PS_FRONT_HELD | PS_FRONT_COUNT);
        front->x_seen[i] = front->x_state[i];
    }
    front->moving = 0;
}

void ps_front_fork_child(const struct ps_front *own) {
    ps_front_number_fork_child();
    /* The classes that an interrupted return of this thread has remain HELD. */
    if (ps_turn_is_own(&x_holder)) {
        return;
    }
    struct ps_front_table *table;
    bool is_first = own != NULL && own == ps_front_table.x_own; /* this thread is the first one */
    for (size_t i = 0; (table = ps_front_table_at(i)) != NULL; i++) {
        for (size_t id = 0; id < table->x_end; id++) {
            if (table->x_fronts[id] != NULL) {
                empty(table->x_fronts[id]);
            }
        }
        if (table->x_own != NULL && !is_first) {
            empty(table->x_own);
        }
        if (i != 0 && table->x_own != NULL && !is_first) {
            ps_front_drop(table->x_own);
            table->x_own = NULL;
        }
    }
    ps_turn_end(&x_holder);
}
