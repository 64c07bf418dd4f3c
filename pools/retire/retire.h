/* SPDX-License-Identifier: MIT */
/*
 * Retired objects, within. Included by pools/retire/: retire.c calls collect.c. No locks.
 *
 * Each thread has records in a ring of limit_items, which it alone writes:
 *
 *   first <= tagged <= next <= first + limit
 *
 * Records from `first` on are pending with an epoch, records from `tagged` on without. Epochs are
 * given to a batch of records together, by a read-modify-write of the epoch: the step that ends the
 * epoch then follows it, and a reader that has seen that step has seen the unlinking. An object
 * with epoch e is freed at e + 2: no reader that was inside at e, or entered before it saw e + 1,
 * is inside any more.
 */
#ifndef PS_RETIRE_RETIRE_H
#define PS_RETIRE_RETIRE_H

#include "pools/common/chunk.h"
#include "pools/common/debug.h"
#include "pools/engine/base/atomic.h"
#include "pools/engine/base/bits.h"

#include <poolshim/retire.h>

struct retire_record {
    void *object;
    ps_retire_free *release;
    void *context;
    uint64_t epoch;
};

struct retire_domain {
    struct ps_retire face; /* first member */
    uint32_t x_used_count; /* threads with a number above it have never used the domain */
    uint32_t limit;        /* records of an entry, a power of two */
    uint32_t batch;        /* records that get an epoch together */
    bool is_waiting;
    bool is_fenced; /* enter makes a barrier, or else a step of the epoch one everywhere */
    struct retire_record *records; /* of all entries, one after the other */
    size_t chunk_bytes;
    struct ps_chunks chunks;
};

static inline struct retire_domain *retire_domain_of(struct ps_retire *domain) {
    return (struct retire_domain *)(void *)domain;
}

/* In an epoch, and so in the state of a thread that is inside. */
#define RETIRE_INSIDE ((uint64_t)1 << 63)

static inline bool retire_is_inside_state(uint64_t state) { return (state & RETIRE_INSIDE) != 0; }

static inline struct retire_record *retire_record_at(struct retire_domain *domain,
                                                     const struct ps_retire_entry *entry,
                                                     uint64_t number) {
    size_t index = (size_t)(entry - domain->face.entries) - 1;
    return &domain->records[index * domain->limit + (number & (domain->limit - 1))];
}

static inline size_t retire_length(const struct ps_retire_entry *entry) {
    return (size_t)(entry->next - entry->first);
}

/* collect.c: gives all records an epoch. */
void ps_retire_tag(struct retire_domain *domain, struct ps_retire_entry *entry);

/* collect.c: moves the epoch on, if every thread inside has followed it, and the system lets it
 * find out. */
bool ps_retire_step(struct retire_domain *domain);

/* collect.c: frees up to `most` records whose time has come; the entry is the caller's. Returns how
 * many. */
size_t ps_retire_free_ready(struct retire_domain *domain, struct ps_retire_entry *entry,
                            size_t most);

/* collect.c: the same for entries of ended threads, without a limit. */
size_t ps_retire_free_ended(struct retire_domain *domain);

#endif
