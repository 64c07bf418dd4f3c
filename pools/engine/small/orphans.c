/* SPDX-License-Identifier: MIT */
/*
 * See orphans.h. Locks: one per shard, protects the lists of its classes and line 0 of every span
 * on them. A thread takes at most one at a time.
 */
#include "pools/engine/small/orphans.h"

#include "pools/engine/os/lock.h"
#include "pools/engine/page/node.h"
#include "pools/engine/small/span.h"
#include "pools/engine/small/span_remote.h"

#define LINE_WORDS (PS_CACHE_LINE / 8)
#define LIST_WORDS 13 /* a head, a hand, a count, and the links of a span and its neighbours */
#define UNDO_WORDS (3 * LIST_WORDS + LINE_WORDS + 1) /* remove, add, remove; account */

#define EXAMINED_IDLE 16 /* orphans with room, per search for an idle one */

#define SHARDS 8 /* neighbouring classes, often used together, are in different shards */

struct orphans {
    struct ps_span *with_room;
    struct ps_span *without_room;
    struct ps_span *purged; /* with room, and searched for pages to purge; adopted last */
    struct ps_span *hand;   /* with room: examined next for being idle; NULL: the last */
    uint64_t x_count;       /* length of all lists; written under the lock */
};

static uint32_t x_epoch;

static PS_SPARSE struct ps_undo_entry undo_entries[SHARDS][UNDO_WORDS];

static struct shard {
    PS_ALIGNED(PS_CACHE_LINE) struct ps_lock lock;
    struct ps_undo undo;
} shards[SHARDS] = {
#define SHARD(i)                                                                                   \
    {                                                                                              \
        .lock = PS_LOCK_INIT_UNDO(PS_RANK_ORPHAN, &shards[i].undo), .undo = {                      \
            undo_entries[i],                                                                       \
            undo_entries[i],                                                                       \
            undo_entries[i] + UNDO_WORDS                                                           \
        }                                                                                          \
    }
    SHARD(0), SHARD(1), SHARD(2), SHARD(3), SHARD(4), SHARD(5), SHARD(6), SHARD(7),
};

static struct shard *shard_of(uint32_t class_index) { return &shards[class_index % SHARDS]; }

/* The lists of each shard, on separate cache lines; of one node, which few machines have more of,
 * and of the others. */
struct node_lists {
    struct {
        PS_ALIGNED(PS_CACHE_LINE) struct orphans classes[(PS_CLASS_LIMIT + SHARDS - 1) / SHARDS];
    } shards[SHARDS];
};

static struct node_lists first_lists;
static PS_SPARSE struct node_lists other_lists[PS_NODES - 1];

static struct orphans *orphans_of(uint32_t class_index, uint32_t node) {
    struct node_lists *lists = PS_LIKELY(node == 0) ? &first_lists : &other_lists[node - 1];
    return &lists->shards[class_index % SHARDS].classes[class_index / SHARDS];
}

/* The lists that a span belongs on. */
static struct orphans *lists_for(const struct ps_span *span) {
    return orphans_of(span->class_index, span->run.node);
}

static struct ps_span **list_of(const struct ps_span *span) {
    struct orphans *orphans = lists_for(span);
    return span->place == PS_PLACE_AVAILABLE ? &orphans->with_room
           : span->place == PS_PLACE_PURGED  ? &orphans->purged
                                             : &orphans->without_room;
}

/* ---- undo log ---- */

static void note_links(struct ps_undo *undo, const struct ps_run *run) {
    if (run != NULL) {
        PS_UNDO_NOTE(undo, run->next);
        PS_UNDO_NOTE(undo, run->prev);
    }
}

/* Notes the words that adding a span to a list, or removing it, will change. */
static void note_list(struct ps_span *const *list, const struct ps_span *span) {
    struct ps_undo *undo = &shard_of(span->class_index)->undo;
    PS_UNDO_NOTE(undo, *list);
    note_links(undo, &span->run);
    note_links(undo, span->run.next);
    note_links(undo, span->run.prev);
    if (*list != NULL) {
        note_links(undo, &(*list)->run);
        note_links(undo, (*list)->run.prev);
    }
    PS_UNDO_NOTE(undo, lists_for(span)->x_count);
    PS_UNDO_NOTE(undo, lists_for(span)->hand);
}

/*
 * Notes a span's account and owner, which are line 0, and its room. The owner in the inside slots
 * matters to that owner's thread only, which does not exist in the child of a fork. x_remote is not
 * noted, because other threads swap it: blocks that had been collected from it are lost when the
 * account is rolled back, which is a part of one span.
 */
static void note_account(const struct ps_span *span) {
    ps_undo_note(&shard_of(span->class_index)->undo, span, PS_CACHE_LINE);
    PS_UNDO_NOTE(&shard_of(span->class_index)->undo, span->room);
}

/* ---- the lists ---- */

/* Adds an orphan to the list that matches its present room, and requests a notice for when it has
 * more. place: of a span with room. is_next: before all others of that place. */
static void enter_locked(struct ps_span *span, bool is_next, enum ps_span_place place) {
    do { /* ends: each further round has collected blocks that were returned meanwhile */
        ps_span_collect(span);
        span->place = (uint8_t)(ps_span_has_room(span) ? place : PS_PLACE_FULL);
    } while (span->used != 0 && !ps_span_arm(span, ps_span_notice_blocks(span)));
    span->room = (uint8_t)ps_load_relaxed(&x_epoch); /* relaxed: a moment's difference is none */
    note_list(list_of(span), span);
    if (is_next && span->place != PS_PLACE_FULL) {
        ps_span_list_push_head(list_of(span), span);
    } else {
        ps_span_list_push_tail(list_of(span), span);
    }
    ps_owner_add(&lists_for(span)->x_count, 1);
}

/* The span in front of one with room. */
static struct ps_span *before_locked(const struct orphans *orphans, const struct ps_span *span) {
    return span != orphans->with_room ? ps_span_of_run(span->run.prev) : NULL;
}

static void leave_locked(struct ps_span *span) {
    PS_CHECK(*list_of(span) != NULL);
    note_list(list_of(span), span);
    if (lists_for(span)->hand == span) {
        lists_for(span)->hand = before_locked(lists_for(span), span);
    }
    ps_span_list_remove(list_of(span), span);
    ps_owner_add(&lists_for(span)->x_count, -1);
    span->room = 0;
}

/* Destroys an orphan that has drained. Called under the lock, releases it. */
static void finish_locked(struct ps_span *span) {
    bool is_drained = span->used == 0 && !ps_span_is_queued(span);
    if (is_drained) {
        leave_locked(span);
    }
    ps_lock_release(&shard_of(span->class_index)->lock);
    if (is_drained) {
        ps_span_destroy(span);
    }
}

void ps_orphans_add(struct ps_span *span, bool is_next) {
    ps_lock_acquire(&shard_of(span->class_index)->lock);
    note_account(span);
    ps_span_attach(span);
    ps_span_settle(span);
    ps_span_set_owner(span, PS_KEY_ORPHAN);
    enter_locked(span, is_next, PS_PLACE_AVAILABLE);
    finish_locked(span);
}

/* Moves the first orphans without room, up to `last`, to the end of the list, which then begins
 * with `next`: the next adoption examines the others first. */
static void rotate_locked(struct orphans *orphans, struct ps_undo *undo, struct ps_span *last,
                          struct ps_span *next) {
    struct ps_span *first = orphans->without_room;
    struct ps_span *tail = ps_span_list_tail(first);
    PS_UNDO_NOTE(undo, orphans->without_room);
    PS_UNDO_NOTE(undo, tail->run.next);
    PS_UNDO_NOTE(undo, last->run.next);
    PS_UNDO_NOTE(undo, next->run.prev);
    tail->run.next = &first->run;
    last->run.next = NULL;
    next->run.prev = &last->run;
    orphans->without_room = next;
}

/* Finds an orphan without room to which blocks have returned that it has not collected: fewer than
 * make a notice. NULL: not among the first few. */
static struct ps_span *find_returned_locked(struct orphans *orphans, struct ps_undo *undo) {
    struct ps_span *last = NULL;
    struct ps_span *span = orphans->without_room;
    for (int i = 0; i < PS_ORPHANS_EXAMINED && span != NULL; i++) {
        if (ps_span_remote_blocks(span) != 0) {
            return span;
        }
        last = span;
        span = ps_span_list_next(span);
    }
    if (span != NULL) {
        rotate_locked(orphans, undo, last, span);
    }
    return NULL;
}

static struct ps_span *adopt_on(uint32_t node, uint32_t class_index, uintptr_t owner_key) {
    struct orphans *orphans = orphans_of(class_index, node);
    struct ps_lock *lock = &shard_of(class_index)->lock;
    /* relaxed: an unlocked hint; an orphan missed here is found by the next refill. */
    if (ps_load_relaxed(&orphans->x_count) == 0) {
        return NULL;
    }
    ps_lock_acquire(lock);
    struct ps_span *span = orphans->with_room != NULL
                               ? orphans->with_room
                               : find_returned_locked(orphans, &shard_of(class_index)->undo);
    span = span != NULL ? span : orphans->purged;
    if (span != NULL) {
        note_account(span);
        leave_locked(span);
        ps_span_set_owner(span, owner_key);
    }
    ps_lock_release(lock);
    return span;
}

struct ps_span *ps_orphans_adopt(uint32_t class_index, uintptr_t owner_key, bool is_any_node) {
    uint32_t here = ps_node_here();
    struct ps_span *span = adopt_on(here, class_index, owner_key);
    for (uint32_t node = 0; is_any_node && span == NULL && node <= ps_node_last(); node++) {
        span = node != here ? adopt_on(node, class_index, owner_key) : NULL;
    }
    return span;
}

enum ps_orphan_notice ps_orphans_notice(struct ps_span *span, uintptr_t owner_key) {
    struct ps_lock *lock = &shard_of(span->class_index)->lock;
    ps_lock_acquire(lock);
    /* relaxed: changes only under the lock while it is ORPHAN. */
    if (ps_load_relaxed(&span->x_owner) != PS_KEY_ORPHAN) {
        ps_lock_release(lock);
        return PS_ORPHAN_OWNED;
    }
    if (span->place == PS_PLACE_PURGING) {
        ps_span_clear_queued(span); /* ps_orphans_return collects the blocks */
        ps_lock_release(lock);
        return PS_ORPHAN_KEPT;
    }
    note_account(span);
    leave_locked(span);
    ps_span_clear_queued(span);
    if (owner_key != PS_KEY_ORPHAN) {
        ps_span_set_owner(span, owner_key);
        ps_lock_release(lock);
        return PS_ORPHAN_ADOPTED;
    }
    enter_locked(span, false, PS_PLACE_AVAILABLE);
    finish_locked(span);
    return PS_ORPHAN_KEPT;
}

bool ps_orphans_salvage(struct ps_span *span, uintptr_t dead_key) {
    struct shard *shard = shard_of(span->class_index);
    ps_lock_acquire(&shard->lock);
    if (ps_load_relaxed(&span->x_owner) != dead_key) { /* relaxed: as in ps_orphans_notice */
        ps_lock_release(&shard->lock);
        return false;
    }
    note_account(span);
    note_links(&shard->undo, &span->run);
    span->run.next = NULL; /* a list of the missing owner, whose spans may have others now */
    span->run.prev = NULL;
    span->room = 0;
    ps_span_attach(span);
    ps_span_reset_used(span);
    ps_span_clear_queued(span);
    ps_span_set_owner(span, PS_KEY_ORPHAN);
    enter_locked(span, false, PS_PLACE_AVAILABLE);
    finish_locked(span);
    return true;
}

/* ---- idle orphans ---- */

void ps_orphans_age(void) { ps_owner_add(&x_epoch, 1); /* one thread calls it */ }

static bool is_idle(const struct ps_span *span, uint32_t epochs, uint32_t now) {
    return (uint8_t)(now - span->room) >= epochs && !ps_span_is_queued(span);
}

/* Moves the hand to the next idle orphan with room. NULL: none of the next few is; the hand is NULL
 * when all have been examined. */
static struct ps_span *find_idle_locked(struct orphans *orphans, struct ps_undo *undo,
                                        uint32_t epochs) {
    uint32_t now = ps_load_relaxed(&x_epoch); /* relaxed: one epoch more or less */
    if (orphans->with_room == NULL) {
        return NULL;
    }
    PS_UNDO_NOTE(undo, orphans->hand);
    if (orphans->hand == NULL) {
        orphans->hand = ps_span_list_tail(orphans->with_room);
    }
    for (int i = 0; i < EXAMINED_IDLE && orphans->hand != NULL; i++) {
        struct ps_span *span = orphans->hand;
        if (is_idle(span, epochs, now)) {
            return span;
        }
        orphans->hand = before_locked(orphans, span);
    }
    return NULL;
}

struct ps_span *ps_orphans_take_idle(uint32_t class_index, uint32_t node, uint32_t epochs,
                                     bool *is_last) {
    struct orphans *orphans = orphans_of(class_index, node);
    struct shard *shard = shard_of(class_index);
    *is_last = true;
    if (ps_load_relaxed(&orphans->x_count) == 0) { /* relaxed: an unlocked hint */
        return NULL;
    }
    ps_lock_acquire(&shard->lock);
    struct ps_span *span = find_idle_locked(orphans, &shard->undo, epochs);
    if (span != NULL) {
        note_account(span);
        leave_locked(span);
        span->place = PS_PLACE_PURGING;
    }
    *is_last = orphans->hand == NULL;
    ps_lock_release(&shard->lock);
    return span;
}

void ps_orphans_return(struct ps_span *span, bool is_purged) {
    ps_lock_acquire(&shard_of(span->class_index)->lock);
    note_account(span);
    enter_locked(span, !is_purged, PS_PLACE_PURGED);
    finish_locked(span);
}

uint64_t ps_orphans_of_class(uint32_t class_index) {
    uint64_t count = 0;
    for (uint32_t node = 0; node <= ps_node_last(); node++) {
        count += ps_load_relaxed(&orphans_of(class_index, node)->x_count); /* relaxed: a snapshot */
    }
    return count;
}

uint64_t ps_orphans_count(void) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < ps_size_class_count; i++) {
        count += ps_orphans_of_class(i);
    }
    return count;
}

void ps_orphans_fork_child(void) {
    for (size_t i = 0; i < SHARDS; i++) {
        ps_lock_fork_child(&shards[i].lock);
    }
}
