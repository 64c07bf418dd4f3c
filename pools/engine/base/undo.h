/* SPDX-License-Identifier: MIT */
/*
 * Undo logs: what a locked section has changed so far, so that the child of a fork can take the
 * changes of a section back that a thread which does not exist there was inside of.
 *
 * Every lock whose data consists of more than one word has a log (os/lock.h). Before a section
 * changes a word it notes the word's value; when the section has ended, or has reached a consistent
 * state in between, the log is emptied (commit). In the child, a lock held by another thread is
 * rolled back: the values noted are stored again, the newest first. The data is then as it was at
 * the last commit.
 *
 * Why program order is enough, and the fields are not atomic: a fork takes a copy of memory that
 * is consistent with each thread's program order, since a store that the child does not see was
 * made after the page had become read-only for its processor, and so were all later ones of that
 * thread. The compiler must keep the order, too: hence the fences.
 *
 * What must be noted is data that only holders of the lock change. A word that other threads change
 * by atomic instructions must not be: rolling back would lose their changes. (Undo logging after
 * the recovery of databases: note first, then change; Gray and Reuter 1993.)
 *
 * Callers: every layer that has a lock. No locks of its own.
 */
#ifndef PS_BASE_UNDO_H
#define PS_BASE_UNDO_H

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/check.h"

#include <stddef.h>
#include <stdint.h>

typedef uint64_t __attribute__((may_alias)) ps_undo_word;

struct ps_undo_entry {
    ps_undo_word *at;
    uint64_t before;
};

/* Entries [first, next) are noted, in this order. Written by the lock's holder. */
struct ps_undo {
    struct ps_undo_entry *next;
    struct ps_undo_entry *const first;
    struct ps_undo_entry *const end;
};

/* A log with room for `room` words per section. */
#define PS_UNDO_LOG(name, room)                                                                    \
    static struct ps_undo_entry name##_entries[room];                                              \
    static struct ps_undo name = {name##_entries, name##_entries, name##_entries + (room)}

/* Makes a roll-back store `before` at `at`. */
PS_INLINE void ps_undo_set(struct ps_undo *undo, void *at, uint64_t before) {
    struct ps_undo_entry *entry = undo->next;
    if (PS_UNLIKELY(entry == undo->end)) {
        ps_check_failed("poolshim: check failed: an undo log is full\n");
    }
    *entry = (struct ps_undo_entry){at, before};
    ps_fence_program_order(); /* the entry before `next` covers it */
    undo->next = entry + 1;
    ps_fence_program_order(); /* and that before the change to come */
}

/* Notes the 8-byte words that [at, at + bytes) touches, before they are changed. */
PS_INLINE void ps_undo_note(struct ps_undo *undo, const void *at, size_t bytes) {
    ps_undo_word *word = (ps_undo_word *)((uintptr_t)at & ~(uintptr_t)7);
    for (; (uintptr_t)word < (uintptr_t)at + bytes; word++) {
        ps_undo_set(undo, word, *word);
    }
}

/* Notes the word of a field, or of a variable, that does not cross one. */
#define PS_UNDO_NOTE(undo, lvalue)                                                                 \
    do {                                                                                           \
        _Static_assert(sizeof(lvalue) <= 8, "one word");                                           \
        ps_undo_note_word((undo), (uintptr_t) & (lvalue));                                         \
    } while (0)

PS_INLINE void ps_undo_note_word(struct ps_undo *undo, uintptr_t at) {
    ps_undo_word *word = (ps_undo_word *)(at & ~(uintptr_t)7);
    ps_undo_set(undo, word, *word);
}

/* The data is consistent: later changes are taken back to here. kept: the entries before it stay.
 */
PS_INLINE void ps_undo_commit(struct ps_undo *undo, struct ps_undo_entry *kept) {
    ps_fence_program_order(); /* all changes before the log forgets them */
    undo->next = kept;
    ps_fence_program_order(); /* and before those of the next section */
}

/* In the child of a fork, by its only thread. */
static inline void ps_undo_roll_back(struct ps_undo *undo) {
    while (undo->next != undo->first) {
        const struct ps_undo_entry *entry = undo->next - 1;
        *entry->at = entry->before;
        ps_fence_program_order(); /* a second fork here finds all that is left to do */
        undo->next--;
    }
}

#endif
