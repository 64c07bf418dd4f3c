/* SPDX-License-Identifier: MIT */
/*
 * Retired objects: domains, the slow half of enter, retire and blocking. See poolshim/retire.h and
 * retire.h. No locks; only ps_retire_wait, and ps_retire with is_waiting, block.
 */
#include "pools/retire/retire.h"

#include "pools/common/barrier.h"
#include "pools/common/thread_number.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

enum { LIMIT_ITEMS = 512, THREADS = 64, BATCH_PART = 4 };
#define LIMIT_MAX ((size_t)1 << 24)
#define NO_THREAD (PS_RETIRE_SLOW | PS_RETIRE_SLOW >> 1) /* ps_thread_self of none */
#define FIRST_EPOCH (RETIRE_INSIDE + 2)                  /* e + 2 of no record is below it */

/* ---- domains ---- */

struct ps_retire *ps_retire_create(const struct ps_retire_options *options) {
    static const struct ps_retire_options none;
    options = options != NULL ? options : &none;
    size_t limit = options->limit_items != 0 ? options->limit_items : LIMIT_ITEMS;
    size_t threads = options->threads != 0 ? options->threads : THREADS;
    if (!ps_is_power_of_two(limit) || limit > LIMIT_MAX || threads > PS_THREAD_NUMBER_MAX) {
        errno = EINVAL;
        return NULL;
    }
    struct ps_chunk_options chunks = options->chunks;
    struct retire_domain model = {
        .limit = (uint32_t)limit,
        .batch = (uint32_t)ps_max(limit / BATCH_PART, 1),
        .is_waiting = options->is_waiting,
        .is_fenced = options->is_fenced || ps_debug_is_check() || !ps_barrier_is_available(),
    };
    if (ps_debug_is_malloc()) {
        chunks.source = ps_source_malloc();
    }
    chunks.oom = NULL;
    ps_chunks_init(&model.chunks, &chunks, "retire domain", PS_CACHE_LINE, PS_CACHE_LINE);
    size_t entries = ps_round_up(sizeof model, PS_CACHE_LINE);
    /* Checks read the entry of any thread, which may have none. */
    size_t places = (ps_debug_is_check() ? PS_THREAD_NUMBER_MAX : threads) + 1;
    size_t records = entries + places * sizeof(struct ps_retire_entry);
    model.chunk_bytes = records + threads * limit * sizeof(struct retire_record);
    char *chunk = (char *)ps_chunk_take_exact(&model.chunks, model.chunk_bytes, PS_CACHE_LINE);
    if (chunk == NULL) {
        return NULL;
    }
    model.face.entries = (struct ps_retire_entry *)(void *)(chunk + entries);
    model.face.number_max = (uint32_t)threads;
    model.face.is_checked = ps_debug_is_check();
    model.face.x_epoch = FIRST_EPOCH;
    model.records = (struct retire_record *)(void *)(chunk + records);
    for (size_t number = 0; number < places; number++) {
        model.face.entries[number] = (struct ps_retire_entry){
            .x_state = NO_THREAD, .x_outside = NO_THREAD, .depth = model.face.is_checked};
    }
    struct retire_domain *domain = (struct retire_domain *)(void *)chunk;
    *domain = model;
    return &domain->face;
}

/* Runs the free functions of all records, whatever their epoch; they may retire more. */
static void free_all(struct retire_domain *domain) {
    bool is_any = true;
    while (is_any) { /* ends with the objects that free functions retire */
        is_any = false;
        for (uint32_t number = 1; number <= domain->x_used_count; number++) {
            struct ps_retire_entry *entry = &domain->face.entries[number];
            while (entry->first != entry->next) {
                struct retire_record record = *retire_record_at(domain, entry, entry->first);
                entry->first++;
                entry->tagged = entry->tagged < entry->first ? entry->first : entry->tagged;
                record.release(record.object, record.context);
                is_any = true;
            }
        }
    }
}

void ps_retire_destroy(struct ps_retire *face) {
    if (face == NULL) {
        return;
    }
    int saved_errno = errno;
    struct retire_domain *domain = retire_domain_of(face);
    for (uint32_t number = 1; face->is_checked && number <= domain->x_used_count; number++) {
        /* acquire: a thread that has just left has left. */
        const struct ps_retire_entry *entry = &face->entries[number];
        if (retire_is_inside_state(ps_load_acquire(&entry->x_state)) &&
            ps_thread_number_holder(number) == ps_thread_serial_of(entry->x_outside)) {
            ps_debug_misuse("a thread is inside of a domain that is destroyed,", face,
                            domain->chunks.name);
        }
    }
    free_all(domain);
    struct ps_chunks chunks = domain->chunks;
    ps_chunk_give(&chunks, domain, domain->chunk_bytes);
    errno = saved_errno;
}

/* ---- enter, leave ---- */

/* For a thread that uses the domain for the first time. The entry of an ended one with its number,
 * and all that it has retired, is its own then. */
static PS_COLD struct ps_retire_entry *adopt_entry(struct retire_domain *domain) {
    uint32_t number = ps_thread_number_ask();
    if (number - 1 >= domain->face.number_max) {
        return NULL;
    }
    struct ps_retire_entry *entry = &domain->face.entries[number];
    uint64_t outside = ps_thread_self | (domain->is_fenced ? PS_RETIRE_SLOW : 0);
    entry->depth = domain->face.is_checked;
    entry->is_freeing = 0;
    /* seq_cst, both: the count is raised before the thread announces itself. */
    ps_store_seq_cst(&entry->x_state, outside);
    uint32_t used = ps_load_seq_cst(&domain->x_used_count);
    while (used < number && /* ends: others raise it */
           !ps_cas_weak_seq_cst(&domain->x_used_count, &used, number)) {
    }
    ps_store_relaxed(&entry->x_outside, outside); /* relaxed: see has_followed */
    return entry;
}

static bool is_own(const struct ps_retire_entry *entry) {
    return (entry->x_outside & ~PS_RETIRE_SLOW) == ps_thread_self;
}

/* The calling thread's entry. NULL: the domain has none for it. */
static struct ps_retire_entry *own_entry(struct retire_domain *domain) {
    uint32_t number = ps_thread_number();
    struct ps_retire_entry *entry = &domain->face.entries[number];
    return PS_LIKELY(number <= domain->face.number_max && is_own(entry)) ? entry
                                                                         : adopt_entry(domain);
}

/* The calling thread's entry says so. relaxed: no other thread writes it. */
static bool is_inside(const struct ps_retire_entry *entry) {
    return retire_is_inside_state(ps_load_relaxed(&entry->x_state));
}

/* As ps_retire_announce, where a step makes no barrier. The store and the second load are
 * sequentially consistent, as are the scan of the states and the step of the epoch: either a scan
 * sees the state, or the load sees the step after it, and with it all unlinks before. */
static void announce_fenced(struct ps_retire *face, struct ps_retire_entry *entry) {
    uint64_t epoch = ps_load_relaxed(&face->x_epoch); /* relaxed: any will do */
    ps_store_seq_cst(&entry->x_state, epoch);
    (void)ps_load_seq_cst(&face->x_epoch);
}

bool ps_retire_enter_slow(struct ps_retire *face) {
    struct retire_domain *domain = retire_domain_of(face);
    struct ps_retire_entry *entry = own_entry(domain);
    if (entry == NULL) {
        errno = EAGAIN;
        return false;
    }
    if (is_inside(entry)) {
        entry->depth++;
    } else if (domain->is_fenced) {
        announce_fenced(face, entry);
    } else {
        ps_retire_announce(face, entry);
    }
    return true;
}

void ps_retire_leave_slow(struct ps_retire *face) {
    struct ps_retire_entry *entry = &face->entries[ps_thread_number()];
    if (face->is_checked && !(is_own(entry) && is_inside(entry))) {
        ps_debug_misuse("leave without enter of", face, retire_domain_of(face)->chunks.name);
    }
    if (entry->depth > face->is_checked) {
        entry->depth--;
    } else {
        ps_store_release(&entry->x_state, entry->x_outside); /* release: as in ps_retire_leave */
    }
}

/* ---- retire ---- */

/* A step, or two, and what can be freed then. */
static size_t advance(struct retire_domain *domain, struct ps_retire_entry *entry, size_t most) {
    ps_retire_tag(domain, entry);
    (void)ps_retire_step(domain);
    return ps_retire_free_ready(domain, entry, most);
}

/* Room for a record. False: there is none, and the thread may not block for it. */
static bool make_room(struct retire_domain *domain, struct ps_retire_entry *entry) {
    for (unsigned tries = 0; retire_length(entry) == domain->limit; tries++) {
        size_t freed = advance(domain, entry, domain->batch);
        if (freed != 0 || tries < 3) { /* an object of this epoch needs two steps */
            continue;
        }
        if (!domain->is_waiting || is_inside(entry) || entry->is_freeing != 0) {
            errno = EAGAIN;
            return false;
        }
        (void)sched_yield(); /* ends: when the readers leave */
    }
    return true;
}

bool ps_retire(struct ps_retire *face, void *object, ps_retire_free *release, void *context) {
    struct retire_domain *domain = retire_domain_of(face);
    struct ps_retire_entry *entry = own_entry(domain);
    if (entry == NULL || release == NULL) {
        errno = release == NULL ? EINVAL : EAGAIN;
        return false;
    }
    if (PS_UNLIKELY(retire_length(entry) == domain->limit) && !make_room(domain, entry)) {
        return false;
    }
    struct retire_record *record = retire_record_at(domain, entry, entry->next);
    *record = (struct retire_record){object, release, context, 0};
    /* release: in this order for the child of a fork, in which another thread frees the record. */
    ps_store_release(&entry->next, entry->next + 1);
    if (entry->next - entry->tagged >= domain->batch) {
        int saved_errno = errno;
        (void)advance(domain, entry, (size_t)domain->batch * 2);
        if (entry->next % domain->limit == 0) {
            (void)ps_retire_free_ended(domain);
        }
        errno = saved_errno;
    }
    return true;
}

static void free_malloc(void *block, void *context) {
    (void)context;
    free(block);
}

bool ps_retire_malloc(struct ps_retire *domain, void *block) {
    return ps_retire(domain, block, free_malloc, NULL);
}

size_t ps_retire_collect(struct ps_retire *face) {
    struct retire_domain *domain = retire_domain_of(face);
    struct ps_retire_entry *entry = own_entry(domain);
    size_t freed = entry != NULL ? advance(domain, entry, SIZE_MAX) : 0;
    if (entry != NULL) {
        freed += advance(domain, entry, SIZE_MAX);
    }
    return freed + ps_retire_free_ended(domain);
}

bool ps_retire_wait(struct ps_retire *face) {
    struct retire_domain *domain = retire_domain_of(face);
    struct ps_retire_entry *entry = own_entry(domain);
    if (entry == NULL) {
        return true; /* it has retired nothing */
    }
    if (is_inside(entry) || entry->is_freeing != 0) {
        errno = EDEADLK;
        return false;
    }
    uint64_t last = entry->next;
    while ((int64_t)(last - entry->first) > 0) { /* ends: when the readers leave */
        if (advance(domain, entry, SIZE_MAX) == 0 && !ps_retire_step(domain)) {
            (void)sched_yield();
        }
    }
    return true;
}

void ps_retire_stats(struct ps_retire *face, struct ps_retire_stats *stats) {
    struct retire_domain *domain = retire_domain_of(face);
    const struct ps_retire_entry *entry = own_entry(domain);
    size_t inside = 0;
    for (uint32_t number = 1; number <= face->number_max; number++) { /* relaxed: a count */
        inside += retire_is_inside_state(ps_load_relaxed(&face->entries[number].x_state));
    }
    *stats = (struct ps_retire_stats){
        .name = domain->chunks.name,
        .epoch = ps_load_relaxed(&face->x_epoch) - FIRST_EPOCH, /* relaxed: as above */
        .inside_count = inside,
        .waiting_count = entry != NULL ? retire_length(entry) : 0,
        .limit_items = domain->limit,
        .thread_count = face->number_max,
        .total_bytes = domain->chunks.total_bytes,
    };
}
