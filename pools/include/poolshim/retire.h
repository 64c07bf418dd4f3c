/* SPDX-License-Identifier: MIT */
/*
 * retire.h - frees objects that other threads may still read once none can read them.
 *
 * For structures that threads read without a lock: lists, maps, a configuration that is replaced.
 * Readers enclose each use in enter and leave. A writer unlinks an object and retires it; its
 * memory is freed after all that were inside at that time have left. The program's free function
 * returns it to malloc, or to any pool that the freeing thread may call.
 *
 *     struct ps_retire *domain = ps_retire_create(NULL);
 *
 *     ps_retire_enter(domain);                                       // a reader
 *     struct config *config = __atomic_load_n(&current, __ATOMIC_ACQUIRE);
 *     ...
 *     ps_retire_leave(domain);
 *
 *     old = __atomic_exchange_n(&current, fresh, __ATOMIC_ACQ_REL);  // a writer
 *     ps_retire(domain, old, free_config, NULL);
 *
 * An object is retired once, by one thread, after no new reader can reach it. The unlinking must be
 * an atomic store or exchange with release, readers load with acquire.
 *
 * The garbage is bounded. Each thread has room for limit_items retired objects, taken when the
 * domain is made. So retire never allocates, and at most limit_items * threads objects are pending.
 * They are freed in batches as readers leave. A reader that does not leave stops that, for all
 * threads of the domain. Threads that retire then fill their room, and ps_retire returns false or,
 * with is_waiting, blocks until the reader leaves. A thread that is inside itself gets false, as it
 * would block itself. After false the caller still owns the object, and retires it later or frees
 * it after ps_retire_wait.
 *
 * Threads: all calls but create and destroy by any thread, not in signal handlers; up to
 * options.threads at a time. The objects that an ended thread has retired are freed by others. The
 * child of a fork ignores readers that do not exist there.
 *
 * Cost: enter and leave are ten inlined instructions each, without a barrier; inside of another
 * enter, a counter. Retire is a few stores; each limit_items / 4 calls one of them reads the state
 * of all threads and frees as many objects. Before that it has the kernel make a barrier in every
 * thread of the process that runs (membarrier, registered when the first domain is made): some
 * microseconds, and an interrupt for those threads. If the kernel has no such call (before Linux
 * 4.14), or refuses it, and with is_fenced, enter is a call and makes the barrier itself (an
 * exchange on x86-64). Set is_fenced where readers must not be interrupted, and where a filter of
 * system calls that forbids membarrier is installed later: nothing is freed any more then.
 *
 * PS_DEBUG=check: a leave without enter, and the end of a domain in which a thread is inside, abort
 * with a message. The contents of a freed object depend on its pool.
 *
 * After K. Fraser, "Practical lock-freedom" (2004): three epochs. A retire orders itself among
 * epochs by a read-modify-write instead of a fence, which the model can check.
 */
#ifndef POOLSHIM_RETIRE_H
#define POOLSHIM_RETIRE_H

#include <poolshim/source.h>
#include <poolshim/thread_number.h>

PS_BEGIN_DECLS

/* Frees an object: may use the domain, but not block on it. Runs in the thread that retired the
 * object, or in another one when that has ended. */
typedef void ps_retire_free(void *object, void *context);

struct ps_retire_options {
    struct ps_chunk_options chunks; /* one chunk for everything; lengths and oom are not used */
    size_t limit_items; /* pending retired objects of a thread at most, a power of two up to 2^24;
                           0: 512 */
    size_t threads;     /* at a time, at most PS_THREAD_NUMBER_MAX; 0: 64 */
    bool is_waiting;    /* when a thread's room is full, retire blocks until readers leave */
    bool is_fenced;     /* enter makes a barrier, retire no system call: see above */
};

/* The library's own: a thread in a domain. */
struct ps_retire_entry {
    uint64_t x_state;    /* x_outside; or the epoch, with its highest bit. Read by all */
    uint64_t x_outside;  /* ps_thread_self of the thread, in a domain whose enters are slow with
                            PS_RETIRE_SLOW. That of another one has ended. Read by all */
    uint64_t depth;      /* enters inside of another one; checks add 1. Leave is slow while it is
                            not 0. The thread's own from here on */
    uint64_t first;      /* oldest record, counted from the beginning of time */
    uint64_t tagged;     /* records before it have an epoch */
    uint64_t next;       /* the next record */
    uint64_t is_freeing; /* records are being freed: a free function runs */
    uint64_t unused;
};

/* The library's own: a bit that no ps_thread_self has, since numbers are below it. */
#define PS_RETIRE_SLOW (PS_CAST(uint64_t, 1) << 31)

/* The fields are the library's own. */
struct ps_retire {
    struct ps_retire_entry *entries; /* of thread number 0, 1, ...; 0: threads that have none */
    uint32_t number_max;
    uint32_t is_checked;
    uint64_t unused[6];
    uint64_t x_epoch; /* on a line of its own. The highest bit is set */
};

/* Makes a domain. options: NULL for the defaults; not retained. NULL: EINVAL for options out of
 * range, ENOMEM when the source refuses. O(threads). */
PS_API struct ps_retire *ps_retire_create(const struct ps_retire_options *options);

/* Frees all retired objects, then the domain. No thread is inside or uses it. NULL does nothing.
 * Preserves errno. O(retired objects). */
PS_API void ps_retire_destroy(struct ps_retire *domain) PS_NOEXCEPT;

/* The slow halves of enter and leave. */
PS_API bool ps_retire_enter_slow(struct ps_retire *domain) PS_NOEXCEPT;
PS_API void ps_retire_leave_slow(struct ps_retire *domain) PS_NOEXCEPT;

/* The library's own: from here on the thread's loads see nothing that is freed before it leaves.
 *
 * No barrier: the step of the epoch has the kernel make one in this thread before it scans the
 * states. If that comes after the store, the scan sees the state. If it comes before, the loads
 * that follow see every unlink up to then. So the compiler must not move them before the store. A
 * stale epoch only delays the next step. */
static inline void ps_retire_announce(struct ps_retire *domain, struct ps_retire_entry *entry) {
    /* acquire: pairs with the step; an object unlinked before an epoch ended is not seen in the
     * next one, so the scan lets threads of that pass. */
    uint64_t epoch = __atomic_load_n(&domain->x_epoch, __ATOMIC_ACQUIRE);
    /* release: pairs with the scan, which replaces the previous state by this one; all reads under
     * the previous state come before. */
    __atomic_store_n(&entry->x_state, epoch, __ATOMIC_RELEASE);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/*
 * From now on, objects that the calling thread reaches by pointers of the structure are not freed,
 * until it leaves. May be nested. False and EAGAIN: the domain's maximum number of threads uses it
 * already; the thread is not inside. O(1).
 */
static inline bool ps_retire_enter(struct ps_retire *domain) PS_NOEXCEPT {
    uint64_t self = ps_thread_self;
    uint32_t number = (uint32_t)self;
    if (__builtin_expect(number <= domain->number_max, 1)) {
        struct ps_retire_entry *entry = &domain->entries[number];
        /* relaxed: the thread's own, or no state of this thread. */
        if (__builtin_expect(__atomic_load_n(&entry->x_state, __ATOMIC_RELAXED) == self, 1)) {
            ps_retire_announce(domain, entry);
            return true;
        }
    }
    return ps_retire_enter_slow(domain);
}

/* Ends the newest enter of the calling thread. O(1). */
static inline void ps_retire_leave(struct ps_retire *domain) PS_NOEXCEPT {
    struct ps_retire_entry *entry = &domain->entries[(uint32_t)ps_thread_self];
    if (__builtin_expect(entry->depth != 0, 0)) {
        ps_retire_leave_slow(domain);
        return;
    }
    /* release: pairs with the scan of the states; all reads come before. */
    __atomic_store_n(&entry->x_state, entry->x_outside, __ATOMIC_RELEASE);
}

/*
 * Calls release(object, context) when no thread can read the object any more. False and EAGAIN: the
 * thread's room is full, and it may not block or is inside; or it has no place in the domain. The
 * caller then still owns the object. O(limit_items / 4) free calls and O(threads); see above for
 * is_waiting.
 */
PS_API bool ps_retire(struct ps_retire *domain, void *object, ps_retire_free *release,
                      void *context);

/* The same for malloc's blocks. */
PS_API bool ps_retire_malloc(struct ps_retire *domain, void *block);

/* Blocks until all objects that the calling thread has retired so far are freed. False and EDEADLK:
 * the thread is inside. A reader that does not leave blocks it. */
PS_API bool ps_retire_wait(struct ps_retire *domain);

/* Frees the retired objects, of the calling thread and of ended threads, that no reader can reach.
 * Returns their number. O(retired objects + threads). */
PS_API size_t ps_retire_collect(struct ps_retire *domain);

struct ps_retire_stats {
    const char *name;
    uint64_t epoch;       /* steps so far */
    size_t inside_count;  /* threads that are inside */
    size_t waiting_count; /* retired objects of the calling thread that are not freed */
    size_t limit_items;   /* of a thread */
    size_t thread_count;  /* that the domain was made for */
    size_t total_bytes;   /* taken from the source */
};
/* The figures are of a moment. O(threads). */
PS_API void ps_retire_stats(struct ps_retire *domain, struct ps_retire_stats *stats) PS_NOEXCEPT;

PS_END_DECLS

#endif
