/* SPDX-License-Identifier: MIT */
/*
 * Undo logs: the words that a locked section has changed so far, so that the child of a fork can
 * roll back a section that was run by a thread which does not exist in the child.
 *
 * Every lock whose data consists of more than one word has a log (os/lock.h). A section notes the
 * value of a word before it changes the word; when it has ended, or has reached a consistent state
 * in between, the log is emptied (commit). In the child, the section of a lock that another thread
 * had taken is rolled back: the noted values are stored again, newest first. The data is then in
 * the state of the last commit.
 *
 * Program order is enough, and the fields are not atomic, because a fork copies memory consistently
 * with each thread's program order: a store that the child does not see was made after the page had
 * become read-only for its processor, and so were all later stores of that thread. The compiler
 * must preserve the order too, hence the fences.
 *
 * Note only data that is changed exclusively by holders of the lock. Words that other threads
 * change by atomic instructions must not be noted, because a roll-back would lose their changes.
 * (Undo logging after the recovery of databases: note first, then change; Gray and Reuter 1993.)
 *
 * Callers: every layer that has a lock. No locks of its own.
 */
#ifndef PS_BASE_UNDO_H
#define PS_BASE_UNDO_H

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/compiler.h"

#include <stddef.h>
#include <stdint.h>

typedef uint64_t __attribute__((may_alias)) ps_undo_word;

struct ps_undo_entry {
    ps_undo_word *at;
    uint64_t before;
};

/* Entries [first, next) are noted, in this order. Written by the holder of the lock. */
struct ps_undo {
    struct ps_undo_entry *next;
    struct ps_undo_entry *const first;
    struct ps_undo_entry *const end;
};

/* A log with room for `room` words per section. PS_SPARSE in front of it applies to the entries. */
#define PS_UNDO_LOG(name, room)                                                                    \
    static struct ps_undo_entry name##_entries[room];                                              \
    static struct ps_undo name = {name##_entries, name##_entries, name##_entries + (room)}

/* Adds an entry: a roll-back stores `before` at `at`. */
PS_INLINE void ps_undo_set(struct ps_undo *undo, void *at, uint64_t before) {
    struct ps_undo_entry *entry = undo->next;
    if (PS_UNLIKELY(entry == undo->end)) {
        ps_check_failed("poolshim: check failed: an undo log is full\n");
    }
    *entry = (struct ps_undo_entry){at, before};
    ps_fence_program_order(); /* the entry is written before `next` covers it */
    undo->next = entry + 1;
    ps_fence_program_order(); /* `next` is written before the caller's change */
}

/* Notes the 8-byte words that overlap [at, at + bytes), before they are changed. */
PS_INLINE void ps_undo_note(struct ps_undo *undo, const void *at, size_t bytes) {
    ps_undo_word *word = (ps_undo_word *)((uintptr_t)at & ~(uintptr_t)7);
    for (; (uintptr_t)word < (uintptr_t)at + bytes; word++) {
        ps_undo_set(undo, word, *word);
    }
}

/* Notes the word that contains a field or variable, which must not cross a word boundary. */
#define PS_UNDO_NOTE(undo, lvalue)                                                                 \
    do {                                                                                           \
        _Static_assert(sizeof(lvalue) <= 8, "one word");                                           \
        ps_undo_note_word((undo), (uintptr_t) & (lvalue));                                         \
    } while (0)

PS_INLINE void ps_undo_note_word(struct ps_undo *undo, uintptr_t at) {
    ps_undo_word *word = (ps_undo_word *)(at & ~(uintptr_t)7);
    ps_undo_set(undo, word, *word);
}

/* Marks the data as consistent: roll-backs stop here. kept: end of the entries that are not
 * dropped. */
PS_INLINE void ps_undo_commit(struct ps_undo *undo, struct ps_undo_entry *kept) {
    ps_fence_program_order(); /* all changes are written before the log is emptied */
    undo->next = kept;
    ps_fence_program_order(); /* and the log is emptied before the changes of the next section */
}

/* Rolls back. In the child of a fork, on its only thread. */
static inline void ps_undo_roll_back(struct ps_undo *undo) {
    while (undo->next != undo->first) {
        const struct ps_undo_entry *entry = undo->next - 1;
        *entry->at = entry->before;
        ps_fence_program_order(); /* a second fork at this point finds the remaining entries */
        undo->next--;
    }
}

#endif
