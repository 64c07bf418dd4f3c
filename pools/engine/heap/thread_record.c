/* SPDX-License-Identifier: MIT */
/*
 * See thread_record.h. Lock: the registry's, all functions.
 *
 * No undo log: each change of a list is one store. In the child of a fork the lists are made anew;
 * a record that another thread was handling remains in use.
 */
#include "pools/engine/heap/thread_record.h"

#include "pools/engine/heap/registry.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/page/metadata.h"

#define BUCKETS 256
#define WORDS_SHIFT 12 /* words of two threads are a page or more apart */

static PS_SPARSE struct ps_thread_record *buckets[BUCKETS];
static struct ps_thread_record *free_records;

static struct ps_thread_record **bucket_of(const struct ps_thread_words *words) {
    uint64_t hash = ((uintptr_t)words >> WORDS_SHIFT) * UINT64_C(0x9e3779b97f4a7c15);
    return &buckets[hash >> 56];
}

/* From a thread's descriptor to its words: the same for all threads, since the loader gives them
 * the same layout. 0: there is no record. */
static uintptr_t x_distance;

static struct ps_thread_words *words_of(pthread_t thread) {
    /* relaxed: each thread finds the same. */
    return (struct ps_thread_words *)((uintptr_t)thread + ps_load_relaxed(&x_distance));
}

/* ---- under the registry lock ---- */

/* The newest record of these words other than `but`. */
static struct ps_thread_record *find(const struct ps_thread_words *words,
                                     const struct ps_thread_record *but) {
    struct ps_thread_record *record = *bucket_of(words);
    while (record != NULL && (record->words != words || record == but)) {
        record = record->next;
    }
    return record;
}

static void list(struct ps_thread_record *record, struct ps_thread_words *words) {
    struct ps_thread_record **bucket = bucket_of(words);
    record->words = words;
    record->next = *bucket;
    record->is_listed = true;
    ps_fence_program_order(); /* for the child of a fork: the list is complete */
    *bucket = record;
}

static void unlist(struct ps_thread_record *record) {
    if (record->is_listed) {
        struct ps_thread_record **at = bucket_of(record->words);
        while (*at != record) {
            at = &(*at)->next;
        }
        *at = record->next;
        record->is_listed = false;
    }
    record->has_ended = true;
}

static void release(struct ps_thread_record *record) {
    if (--record->references == 0) {
        record->next = free_records;
        ps_fence_program_order(); /* as above */
        free_records = record;
    }
}

/* True if the words may be released without a join. */
static bool is_unsafe(const struct ps_thread_record *record) {
    return record->is_on_own_stack && record->is_detached;
}

void ps_thread_record_attach(struct ps_heap *heap) {
    struct ps_thread_record *record = ps_thread.record;
    heap->record = record;
    if (record != NULL) {
        record->heap = heap;
    }
    if (record == NULL || !is_unsafe(record)) {
        ps_store_relaxed(&heap->x_thread, &ps_thread); /* relaxed: under the lock */
    }
}

void ps_thread_record_forget_heap(struct ps_heap *heap) {
    if (heap->record != NULL) {
        heap->record->heap = NULL;
        heap->record = NULL;
    }
    ps_store_relaxed(&heap->x_thread, (struct ps_thread_words *)NULL); /* relaxed: as above */
}

/* The thread has ended without its destructors. Its words may be used by another, or unmapped. */
static struct ps_heap *lose(struct ps_thread_record *record) {
    struct ps_heap *heap = record->heap;
    unlist(record);
    if (heap != NULL) {
        ps_registry_hold(heap);
        heap->streak_span = NULL; /* its blocks that were freed by an open streak remain in use */
        heap->is_asked = false;
        ps_thread_record_forget_heap(heap);
    }
    release(record);
    return heap;
}

/* ---- the interface ---- */

struct ps_thread_record *ps_thread_record_make(bool is_on_own_stack, bool is_detached) {
    /* relaxed: as in words_of. */
    ps_store_relaxed(&x_distance, (uintptr_t)&ps_thread - (uintptr_t)pthread_self());
    ps_registry_acquire();
    struct ps_thread_record *record = free_records;
    if (record != NULL) {
        free_records = record->next;
    }
    ps_registry_release();
    if (record == NULL) {
        record = ps_metadata_take(sizeof *record);
    }
    if (record != NULL) {
        *record = (struct ps_thread_record){
            .references = 2, .is_on_own_stack = is_on_own_stack, .is_detached = is_detached};
    }
    return record;
}

void ps_thread_record_created(struct ps_thread_record *record, const pthread_t *thread) {
    ps_registry_acquire();
    if (!record->is_listed && !record->has_ended) {
        list(record, words_of(*thread)); /* it takes the lock before the program's routine */
    }
    release(record);
    ps_registry_release();
}

void ps_thread_record_dropped(struct ps_thread_record *record) {
    ps_registry_acquire();
    release(record);
    release(record);
    ps_registry_release();
}

struct ps_heap *ps_thread_record_begin(struct ps_thread_record *record, bool *is_lost) {
    struct ps_heap *heap = NULL;
    ps_registry_acquire();
    struct ps_thread_record *earlier = find(&ps_thread, record);
    *is_lost = earlier != NULL;
    if (*is_lost) {
        heap = lose(earlier);
    }
    if (!record->is_listed) {
        list(record, &ps_thread);
    }
    record->has_ended = false; /* in the child of a fork by a signal handler before this */
    ps_thread.record = record;
    ps_registry_release();
    return heap;
}

void ps_thread_record_end(struct ps_thread_record *record) {
    ps_registry_acquire();
    ps_thread.record = NULL;
    unlist(record);
    release(record);
    ps_registry_release();
}

struct ps_thread_record *ps_thread_record_join(pthread_t thread) {
    ps_registry_acquire();
    struct ps_thread_record *record = find(words_of(thread), NULL);
    if (record != NULL) {
        record->joins++;
        record->references++;
    }
    ps_registry_release();
    return record;
}

struct ps_heap *ps_thread_record_joined(struct ps_thread_record *record, bool has_ended,
                                        bool *is_lost) {
    struct ps_heap *heap = NULL;
    ps_registry_acquire();
    record->joins--;
    *is_lost = has_ended && !record->has_ended;
    if (*is_lost) {
        heap = lose(record);
    }
    release(record);
    ps_registry_release();
    return heap;
}

void ps_thread_record_detach(pthread_t thread) {
    ps_registry_acquire();
    struct ps_thread_record *record = find(words_of(thread), NULL);
    if (record != NULL) {
        record->is_detached = true;
        struct ps_heap *heap = record->heap;
        if (is_unsafe(record) && heap != NULL) {
            if (heap->is_asked) { /* the words are the thread's until it is detached */
                ps_registry_restore(record->words, heap);
            }
            ps_store_relaxed(&heap->x_thread,
                             (struct ps_thread_words *)NULL); /* relaxed: as above */
        }
    }
    ps_registry_release();
}

void ps_thread_record_fork_child(void) {
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct ps_thread_record *record = buckets[i]; record != NULL; record = record->next) {
            record->is_listed = false;
            record->has_ended = record != ps_thread.record;
        }
        buckets[i] = NULL;
    }
    if (ps_thread.record != NULL) {
        ps_thread.record->joins = 0;
        ps_thread.record->has_ended = false;
        list(ps_thread.record, &ps_thread);
    }
}
