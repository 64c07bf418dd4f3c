/* SPDX-License-Identifier: MIT */
/*
 * See front.h. Fronts are metadata: they are never unmapped.
 */
#include "pools/engine/front/front.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/front/number.h"
#include "pools/engine/front/store.h"
#include "pools/engine/page/metadata.h"
#include "pools/engine/page/retention.h"

#include <string.h>

#define LIMIT_FIRST 8

struct ps_front_table ps_front_table;
PS_SPARSE struct ps_front_table ps_front_apart[PS_FRONT_APART];
struct ps_front_table *ps_front_parts;
uint32_t ps_front_x_apart_end;
struct ps_front ps_front_none; /* constant */
uint64_t ps_front_x_medium_singles;

struct ps_front_limits ps_front_limits[2] = {{.x_most = PS_FRONT_BUDGET_BYTES},
                                             {.x_most = PS_FRONT_MEDIUM_BUDGET_BYTES}};

static size_t front_bytes;                          /* of one, with its entries */
static size_t medium_bytes = PS_FRONT_MEDIUM_BYTES; /* constant after the start */

size_t ps_front_block_bytes(size_t class_index) {
    return ps_front_is_length(class_index)
               ? (class_index - PS_FRONT_LENGTHS) << PS_MEDIUM_PAGE_SHIFT
               : ps_size_classes[class_index].block_bytes;
}

/* The most entries of a class. */
static size_t most_of(uint32_t class_index) {
    bool is_length = ps_front_is_length(class_index);
    size_t bytes = is_length ? PS_FRONT_LENGTH_BYTES : PS_FRONT_CLASS_BYTES;
    size_t most = bytes / ps_front_block_bytes(class_index);
    most = ps_min(most, is_length ? PS_FRONT_LENGTH_BLOCKS : PS_FRONT_BLOCKS);
    return ps_max(most, 1);
}

void ps_front_bound_medium(size_t bytes) { medium_bytes = bytes; }

/* Half of the cap is for blocks of each kind. */
static uint64_t x_cap_bytes = UINT64_MAX;

static void set_most(struct ps_front_limits *limits, uint64_t bytes) {
    /* relaxed, both: bounds. */
    ps_store_relaxed(&limits->x_most, ps_min(bytes, ps_load_relaxed(&x_cap_bytes) / 2));
}

void ps_front_set_budget(uint64_t used_bytes) {
    uint64_t share = used_bytes / PS_FRONT_BUDGET_SHARE;
    set_most(&ps_front_limits[0], ps_max(share, PS_FRONT_BUDGET_BYTES));
    set_most(&ps_front_limits[1], ps_max(share, PS_FRONT_MEDIUM_BUDGET_BYTES));
}

void ps_front_cap_budget(uint64_t bytes) {
    ps_store_relaxed(&x_cap_bytes, bytes); /* relaxed: as above */
    set_most(&ps_front_limits[0], PS_FRONT_BUDGET_BYTES);
    set_most(&ps_front_limits[1], PS_FRONT_MEDIUM_BUDGET_BYTES);
}

void ps_front_start(void) {
    struct ps_front_table *table = &ps_front_table;
    size_t entries = 0;
    for (PS_FRONT_EACH_CLASS(i)) {
        size_t most = most_of(i);
        table->places[i] = (struct ps_front_place){(uint16_t)entries, (uint16_t)most};
        entries += most;
    }
    for (uint32_t i = 0; i < ps_size_class_count; i++) {
        table->factor[i] = ps_size_classes[i].factor;
        table->scaled_first[i] = ps_size_classes[i].scaled_first;
    }
    front_bytes = sizeof(struct ps_front) + entries * sizeof(void *);
    ps_store_start();
    table->area = ps_rseq_offset;
    table->id = ps_rseq_id_offset();
    table->has_sequences = table->id != 0;
}

static struct ps_front_table *table_apart(size_t index) {
    return index < PS_FRONT_APART ? &ps_front_apart[index]
                                  : &ps_front_parts[index - PS_FRONT_APART];
}

struct ps_front_table *ps_front_table_at(size_t index) {
    /* acquire: pairs with begin_table. */
    return index == 0                                        ? &ps_front_table
           : index <= ps_load_acquire(&ps_front_x_apart_end) ? table_apart(index - 1)
                                                             : NULL;
}

/* Describes a table of a partition, and lets walks over all tables find it. */
static struct ps_front_table *begin_table(struct ps_partition *partition, uint32_t index) {
    struct ps_front_table *table = table_apart(index);
    table->area = ps_front_table.area;
    table->id = ps_front_table.id;
    table->has_sequences = ps_front_table.has_sequences;
    table->partition = partition;
    table->index = index + 1;
    memcpy(table->places, ps_front_table.places, sizeof table->places);
    /* release: the table, for walks over all; those between are complete, or have no fronts. */
    uint32_t end = ps_load_relaxed(&ps_front_x_apart_end);
    while (end < index + 1 && !ps_cas_weak_release(&ps_front_x_apart_end, &end, index + 1)) {
    }
    return table;
}

struct ps_front_table *ps_front_table_take(struct ps_partition *partition) {
    static uint32_t x_taken;
    uint32_t index = ps_load_relaxed(&x_taken); /* relaxed: the swap compares it */
    do {
        if (index == PS_FRONT_APART) {
            return NULL;
        }
    } while (!ps_cas_weak_relaxed(&x_taken, &index, index + 1)); /* ends: it rises */
    return begin_table(partition, index);
}

struct ps_front_table *ps_front_table_of_part(struct ps_partition *part, size_t index) {
    return begin_table(part, PS_FRONT_APART + (uint32_t)index);
}

struct ps_front *ps_front_make(void) {
    size_t bytes = ps_round_up(front_bytes, PS_GRANULE_BYTES);
    return front_bytes <= PS_GRANULE_BYTES ? ps_metadata_take(front_bytes) : ps_metadata_map(bytes);
}

/* ---- the thread's front ---- */

/* The number by which the thread finds its front; PS_FRONTS or more: it has none. The thread may
 * have another one a moment later. */
static size_t own_id(void) {
    if (!ps_front_uses_sequences()) {
        return ps_front_number();
    }
    uintptr_t thread = ps_thread_pointer();
    /* relaxed, both: the kernel writes them, for this thread. */
    if ((int32_t)ps_rseq_cpu(ps_rseq_offset) < 0) {
        return PS_FRONTS;
    }
    return ps_load_relaxed((const uint32_t *)(thread + (uintptr_t)ps_front_table.id));
}

static struct ps_front *front_at(const struct ps_front_table *table, size_t id) {
    /* acquire: pairs with publish. */
    return id < PS_FRONTS ? ps_load_acquire(&table->x_fronts[id]) : NULL;
}

/* Makes it the front of an id. False: the id has one. The end comes first: a fork in between leaves
 * an id without a front, not a front beyond the end. */
static bool publish(struct ps_front_table *table, struct ps_front *front, size_t id) {
    struct ps_front *none = NULL;
    uint32_t end = ps_load_relaxed(&table->x_end); /* relaxed: the swap compares it */
    while (end <= id && id < PS_FRONTS &&          /* ends: the end rises */
           !ps_cas_strong_acq_rel(&table->x_end, &end, (uint32_t)id + 1)) {
    }
    return id < PS_FRONTS && ps_cas_strong_acq_rel(&table->x_fronts[id], &none, front);
}

static struct ps_front *here(struct ps_front_table *table) {
    size_t id = own_id();
    struct ps_front *front = front_at(table, id);
    if (PS_LIKELY(front != NULL) || id >= PS_FRONTS) {
        return front;
    }
    front = ps_front_make();
    if (front != NULL) {
        front->table = table->index;
        (void)publish(table, front, id); /* false: another thread was first; this one leaks */
    }
    return front_at(table, id);
}

const struct ps_front *ps_front_here(const struct ps_front *own) {
    return own != NULL ? own : front_at(&ps_front_table, own_id());
}

static bool raise(struct ps_front *front, size_t class_index) {
    if (front == NULL || front == &ps_front_none) {
        return false;
    }
    bool is_length = ps_front_is_length(class_index);
    size_t first = is_length ? 1 : LIMIT_FIRST;
    /* relaxed, all: either of two limits is one. */
    size_t limit = ps_load_relaxed(&front->x_limit[class_index]);
    size_t most = ps_min(ps_max(limit * 2, first), ps_front_table.places[class_index].most);
    most = ps_retention_is_usual() ? most : ps_min(most, first);
    size_t more_bytes = (most - ps_min(limit, most)) * ps_front_block_bytes(class_index);
    uint32_t *limit_bytes = &front->x_limit_bytes[is_length];
    size_t most_bytes = is_length ? medium_bytes : PS_FRONT_BYTES;
    struct ps_front_limits *all = &ps_front_limits[is_length];
    if (limit >= most || ps_load_relaxed(limit_bytes) + more_bytes > most_bytes ||
        ps_load_relaxed(&all->x_bytes) + more_bytes > ps_load_relaxed(&all->x_most)) {
        return false;
    }
    ps_add_relaxed(limit_bytes, (uint32_t)more_bytes);
    ps_add_relaxed(&all->x_bytes, (uint64_t)more_bytes);
    ps_store_relaxed(&front->x_limit[class_index], (uint16_t)most);
    return true;
}

bool ps_front_raise(struct ps_front *own, size_t class_index) {
    return raise(own != NULL ? own : here(&ps_front_table), class_index);
}

bool ps_front_raise_in(struct ps_front_table *table, struct ps_front *own, size_t class_index) {
    if (own == &ps_front_none && ps_load_relaxed(&table->x_own) == NULL) { /* the thread's */
        own = ps_front_make();
        if (own == NULL) {
            return false;
        }
        own->table = table->index;
        ps_store_release(&table->x_own, own); /* release: a reader of its counts */
    }
    return raise(own != NULL ? own : here(table), class_index);
}

size_t ps_front_batch(size_t class_index) {
    size_t half = ((size_t)ps_front_table.places[class_index].most + 1) / 2;
    return ps_min(half, PS_STORE_BATCH);
}

void ps_front_drop(struct ps_front *own) {
    ps_front_return_one(own, true);
    for (PS_FRONT_EACH_CLASS(i)) {
        /* relaxed, both: counts. */
        uint64_t takes = ps_load_relaxed(&own->x_state[i]) >> PS_FRONT_TAKES_SHIFT;
        ps_add_relaxed(ps_front_is_length(i) ? &ps_front_x_medium_singles
                                             : &ps_store_x_counts[i].x_singles,
                       takes);
    }
    for (size_t i = 0; i < 2; i++) { /* relaxed: bounds */
        ps_add_relaxed(&ps_front_limits[i].x_bytes, -(uint64_t)own->x_limit_bytes[i]);
    }
}

static void share(struct ps_front_table *table, struct ps_front *own) {
    if (!publish(table, own, own_id())) {
        ps_front_drop(own);
    }
}

void ps_front_share(struct ps_front *own) {
    struct ps_front_table *table;
    share(&ps_front_table, own);
    for (size_t i = 1; (table = ps_front_table_at(i)) != NULL; i++) {
        struct ps_front *front = ps_load_relaxed(&table->x_own); /* relaxed: the thread's */
        if (front != NULL) {
            share(table, front);
            ps_store_relaxed(&table->x_own, NULL); /* relaxed: a census may count it twice */
        }
    }
}

/* ---- without sequences ---- */

/* The state of a class that the caller holds now; HELD: it does not. */
__thread uint64_t *ps_front_held;

static uint64_t hold(struct ps_front *front, size_t class_index) {
    ps_front_held = &front->x_state[class_index];
    ps_fence_program_order(); /* for the child of a fork by a signal handler */
    uint64_t state = ps_load_relaxed(&front->x_state[class_index]); /* relaxed: exchanged below */
    /* acquire: pairs with the release below; makes the entries visible. */
    bool is_held =
        (state & PS_FRONT_HELD) == 0 &&
        ps_cas_strong_acquire(&front->x_state[class_index], &state, state | PS_FRONT_HELD);
    ps_front_held = is_held ? ps_front_held : NULL;
    return is_held ? state : PS_FRONT_HELD;
}

static void release(struct ps_front *front, size_t class_index, uint64_t state) {
    ps_store_release(&front->x_state[class_index], state); /* release: pairs with hold */
    ps_fence_program_order();
    ps_front_held = NULL;
}

bool ps_front_push_locked_in(struct ps_front_table *table, size_t class_index, void *block) {
    struct ps_front *front = front_at(table, own_id());
    uint64_t state = front != NULL ? hold(front, class_index) : PS_FRONT_HELD;
    if (state == PS_FRONT_HELD) {
        return false;
    }
    size_t count = state & PS_FRONT_COUNT;
    bool has_room = count < ps_load_relaxed(&front->x_limit[class_index]); /* relaxed: a bound */
    if (has_room) {
        /* relaxed, here and below: the holder alone uses it; a census reads. */
        ps_store_relaxed(&front->x_entries[ps_front_table.places[class_index].first + count],
                         block);
    }
    release(front, class_index, state + has_room);
    return has_room;
}

PS_NOINLINE bool ps_front_push_locked(size_t class_index, void *block) {
    return ps_front_push_locked_in(&ps_front_table, class_index, block);
}

void *ps_front_pop_locked_in(struct ps_front_table *table, size_t class_index) {
    struct ps_front *front = front_at(table, own_id());
    uint64_t state = front != NULL ? hold(front, class_index) : PS_FRONT_HELD;
    if (state == PS_FRONT_HELD) {
        return NULL;
    }
    size_t count = state & PS_FRONT_COUNT;
    void *block = NULL;
    if (count != 0) {
        block = ps_load_relaxed(
            &front->x_entries[ps_front_table.places[class_index].first + count - 1]);
        state += PS_FRONT_POPPED;
    }
    release(front, class_index, state);
    return block;
}

PS_NOINLINE void *ps_front_pop_locked(size_t class_index) {
    return ps_front_pop_locked_in(&ps_front_table, class_index);
}

/* ---- counts ---- */

/* relaxed: a snapshot. */
static uint64_t state_of(const struct ps_front *front, uint32_t class_index) {
    return front != NULL ? ps_load_relaxed(&front->x_state[class_index]) : 0;
}

/* The fronts of all tables, one after the other: first the own ones. NULL after the last, or for an
 * id without one. */
struct walk {
    const struct ps_front_table *table;
    size_t index; /* of the table */
    size_t id;    /* plus 1; 0: the own front is next */
};

static bool next_front(struct walk *walk, const struct ps_front **front) {
    if (walk->table != NULL &&
        walk->id > ps_load_acquire(&walk->table->x_end)) { /* as in publish */
        walk->index++;
        walk->id = 0;
    }
    walk->table = ps_front_table_at(walk->index);
    if (walk->table == NULL) {
        return false;
    }
    /* acquire, both: pair with their stores. */
    *front =
        walk->id == 0 ? ps_load_acquire(&walk->table->x_own) : front_at(walk->table, walk->id - 1);
    walk->id++;
    return true;
}

/* Entries that are not NULL: see front_return.c. */
static size_t blocks_of(const struct ps_front *front, uint32_t class_index) {
    size_t count = state_of(front, class_index) & PS_FRONT_COUNT;
    const struct ps_front_place *place = &ps_front_table.places[class_index];
    size_t blocks = 0;
    for (size_t i = 0; i < ps_min(count, place->most); i++) {
        blocks += ps_load_relaxed(&front->x_entries[place->first + i]) != NULL; /* as above */
    }
    return blocks;
}

size_t ps_front_blocks(uint32_t class_index) {
    size_t blocks = 0;
    const struct ps_front *front;
    for (struct walk walk = {0}; next_front(&walk, &front);) {
        blocks += blocks_of(front, class_index);
    }
    return blocks;
}

uint64_t ps_front_takes(uint32_t class_index) {
    uint64_t takes = 0;
    const struct ps_front *front;
    for (struct walk walk = {0}; next_front(&walk, &front);) {
        takes += state_of(front, class_index) >> PS_FRONT_TAKES_SHIFT;
    }
    return takes;
}

static void visit_front(const struct ps_front *front, uint32_t class_index,
                        void (*visit)(uint32_t class_index, const void *block)) {
    size_t count = state_of(front, class_index) & PS_FRONT_COUNT;
    for (size_t i = 0; i < count; i++) {
        /* relaxed: one thread. */
        const void *block =
            ps_load_relaxed(&front->x_entries[ps_front_table.places[class_index].first + i]);
        if (block != NULL) {
            visit(class_index, block);
        }
    }
}

void ps_front_visit(uint32_t class_index, void (*visit)(uint32_t class_index, const void *block)) {
    const struct ps_front *front;
    for (struct walk walk = {0}; next_front(&walk, &front);) {
        visit_front(front, class_index, visit);
    }
}
