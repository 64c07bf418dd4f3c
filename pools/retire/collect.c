/* SPDX-License-Identifier: MIT */
/*
 * Epochs, and the frees when they have passed. See retire.h; the orders are checked by
 * models/retire.c. Called by retire.c. No locks.
 */
#include "pools/common/barrier.h"
#include "pools/common/thread_number.h"
#include "pools/retire/retire.h"

void ps_retire_tag(struct retire_domain *domain, struct ps_retire_entry *entry) {
    if (entry->tagged == entry->next) {
        return;
    }
    /* seq_cst, a read-modify-write: the step that ends this epoch reads it, so that a reader that
     * has seen the step has seen all unlinks before this. */
    uint64_t epoch = ps_add_seq_cst(&domain->face.x_epoch, (uint64_t)0);
    for (uint64_t number = entry->tagged; number != entry->next; number++) {
        retire_record_at(domain, entry, number)->epoch = epoch;
    }
    ps_store_release(&entry->tagged, entry->next); /* release: as that of `next` in retire.c */
}

/* True when the thread of an entry is outside, or has followed the epoch, or has ended. */
static bool has_followed(struct ps_retire_entry *entry, uint32_t number, uint64_t epoch) {
    /* seq_cst: pairs with the announcement; acquires what a thread that left has read. */
    uint64_t state = ps_load_seq_cst(&entry->x_state);
    /* relaxed: where it is that of the thread before, this was its state, and it has ended; where
     * it is too new, the state is taken for the new thread's, which delays a step. */
    return !retire_is_inside_state(state) || state == epoch ||
           ps_thread_serial_of(ps_load_relaxed(&entry->x_outside)) !=
               ps_thread_number_holder(number);
}

static bool have_all_followed(struct retire_domain *domain, uint64_t epoch) {
    /* seq_cst: an entry is counted before its thread announces itself. */
    uint32_t count = ps_load_seq_cst(&domain->x_used_count);
    for (uint32_t number = 1; number <= count; number++) {
        if (!has_followed(&domain->face.entries[number], number, epoch)) {
            return false;
        }
    }
    return true;
}

bool ps_retire_step(struct retire_domain *domain) {
    uint64_t epoch = ps_load_seq_cst(&domain->face.x_epoch); /* seq_cst: before the scan */
    if (!have_all_followed(domain, epoch)) {
        return false; /* without a barrier: no more threads have followed than it would say */
    }
    if (!domain->is_fenced && (!ps_barrier_everywhere() || !have_all_followed(domain, epoch))) {
        return false;
    }
    /* seq_cst: see announce_fenced and ps_retire_tag. If it fails another thread's has
     * succeeded. */
    (void)ps_cas_strong_seq_cst(&domain->face.x_epoch, &epoch, epoch + 1);
    return true;
}

size_t ps_retire_free_ready(struct retire_domain *domain, struct ps_retire_entry *entry,
                            size_t most) {
    if (entry->is_freeing != 0) { /* below a free function that retires */
        return 0;
    }
    entry->is_freeing = 1;
    /* acquire: pairs with the steps; what readers did before they left has happened. */
    uint64_t epoch = ps_load_acquire(&domain->face.x_epoch);
    size_t count = 0;
    while (count < most && entry->first != entry->tagged) {
        struct retire_record record = *retire_record_at(domain, entry, entry->first);
        if (record.epoch + 2 > epoch) {
            break;
        }
        /* Before the call, which may retire and use the place. release: as above; an object that is
         * being freed may be lost in the child. */
        ps_store_release(&entry->first, entry->first + 1);
        record.release(record.object, record.context);
        count++;
    }
    entry->is_freeing = 0;
    return count;
}

size_t ps_retire_free_ended(struct retire_domain *domain) {
    size_t freed = 0;
    uint32_t count = ps_load_seq_cst(&domain->x_used_count); /* seq_cst: as in ps_retire_step */
    for (uint32_t number = 1; number <= count; number++) {
        struct ps_retire_entry *entry = &domain->face.entries[number];
        if (ps_thread_number_claim(number)) {
            entry->is_freeing = 0; /* the thread does not exist after a fork */
            ps_retire_tag(domain, entry);
            freed += ps_retire_free_ready(domain, entry, SIZE_MAX);
            ps_thread_number_release(number);
        }
    }
    return freed;
}
