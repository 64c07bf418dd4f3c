/* SPDX-License-Identifier: MIT */
/*
 * The depot of slices: full lists that any thread may take, and the runs that slices are cut from.
 * Called by cache.c and slice.c. Four locks, each for every fourth class; the last ones in the
 * order of locks: nothing is taken, and the page cache is not called, under them.
 *
 * A run is 64 KiB at a multiple of that, so the address of a slice leads to its run. used + free +
 * virgin == its slices, where used are those that a cache or the program or a full list of the
 * depot has. A run with free or virgin slices is on the list of its class, others on none; one with
 * used == 0 goes back to the page cache.
 */
#include "pools/common/chunk.h"
#include "pools/common/debug.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/os/os.h"
#include "pools/slice/slice.h"

#include <assert.h>
#include <poolshim/pages.h>

enum { SHARD_COUNT = 4 };
enum { SETTLE_GIVES = 64, SETTLE_MS = 1000, SETTLE_MAX = 16 };

struct run {
    struct run *next; /* of the class's list */
    struct run *previous;
    struct ps_slice_link *free;
    char *virgin;
    char *end;
    uint32_t used;
    uint32_t class_index;
};

static_assert(sizeof(struct run) <= PS_CACHE_LINE, "slices start at the second line");

/* A full list, in its first slice. */
struct magazine {
    struct ps_slice_link link;
    struct magazine *next;
};

struct depot {
    struct magazine *magazines;
    size_t count; /* of them */
    size_t least; /* fewest since settled_ms */
    uint64_t settled_ms;
    struct run *runs; /* with free or virgin slices */
    uint32_t gives;   /* for the next reading of the clock */
    uint32_t color;   /* of the next run's first slice, in cache lines */
};

struct shard {
    struct ps_lock lock;
    size_t run_count; /* of all classes of the shard */
} PS_ALIGNED(PS_CACHE_LINE);

static struct depot depots[PS_SLICE_BIN_COUNT];

/* Most words noted between two commits, for the child of a fork: a full list is given and a surplus
 * taken, or a slice returns to a run that leaves its list. */
enum { UNDO_WORDS = 16 };
PS_UNDO_LOG(undo_0, UNDO_WORDS);
PS_UNDO_LOG(undo_1, UNDO_WORDS);
PS_UNDO_LOG(undo_2, UNDO_WORDS);
PS_UNDO_LOG(undo_3, UNDO_WORDS);

static struct shard shards[SHARD_COUNT] = {
    {PS_LOCK_INIT_UNDO(PS_RANK_SLICE_DEPOT, &undo_0), 0},
    {PS_LOCK_INIT_UNDO(PS_RANK_SLICE_DEPOT + 1, &undo_1), 0},
    {PS_LOCK_INIT_UNDO(PS_RANK_SLICE_DEPOT + 2, &undo_2), 0},
    {PS_LOCK_INIT_UNDO(PS_RANK_SLICE_DEPOT + 3, &undo_3), 0},
};

/* The log of the lock that protects a class. */
static struct ps_undo *undo_of(size_t class_index) {
    return shards[class_index % SHARD_COUNT].lock.undo;
}

#define NOTE(class_index, lvalue) PS_UNDO_NOTE(undo_of(class_index), lvalue)

/* Before the full lists of a class change. */
static void note_lists(size_t class_index) {
    const struct depot *depot = &depots[class_index];
    NOTE(class_index, depot->magazines);
    NOTE(class_index, depot->count);
    NOTE(class_index, depot->least);
}

static struct shard *lock_class(size_t class_index) {
    struct shard *shard = &shards[class_index % SHARD_COUNT];
    ps_lock_acquire(&shard->lock);
    return shard;
}

static struct run *run_of(const void *slice) {
    return (struct run *)ps_round_down((uintptr_t)slice, SLICE_RUN_BYTES);
}

static void link_run(struct depot *depot, struct run *run) {
    NOTE(run->class_index, run->previous);
    NOTE(run->class_index, run->next);
    NOTE(run->class_index, depot->runs);
    run->previous = NULL;
    run->next = depot->runs;
    if (depot->runs != NULL) {
        NOTE(run->class_index, depot->runs->previous);
        depot->runs->previous = run;
    }
    depot->runs = run;
}

static void unlink_run(struct depot *depot, struct run *run) {
    struct run **link = run->previous != NULL ? &run->previous->next : &depot->runs;
    NOTE(run->class_index, *link);
    *link = run->next;
    if (run->next != NULL) {
        NOTE(run->class_index, run->next->previous);
        run->next->previous = run->previous;
    }
}

static bool has_slices(const struct run *run) {
    return run->free != NULL || run->virgin != run->end;
}

/* Takes from the first run of the list: at most `least` free slices, or all virgin ones. */
static struct slice_batch take_from_run(struct depot *depot, size_t least) {
    struct run *run = depot->runs;
    struct slice_batch batch = {NULL, 0, NULL, NULL};
    NOTE(run->class_index, run->free);
    NOTE(run->class_index, run->virgin);
    NOTE(run->class_index, run->used);
    if (run->free != NULL) {
        struct ps_slice_link *last = NULL;
        batch.first = run->free;
        for (; run->free != NULL && batch.count < least; batch.count++) {
            last = run->free;
            run->free = last->next;
        }
        NOTE(run->class_index, last->next);
        last->next = NULL;
        run->used += (uint32_t)batch.count;
    } else {
        batch.virgin = run->virgin;
        batch.end = run->end;
        run->used +=
            (uint32_t)((size_t)(run->end - run->virgin) / slice_class_bytes(run->class_index));
        run->virgin = run->end;
    }
    if (!has_slices(run)) {
        unlink_run(depot, run);
    }
    return batch;
}

/* A new run, all of it a window. Runs of a class start at different cache lines of their page, as
 * far as the remainder allows, so that slices at one place in their runs do not evict each other.
 */
static struct slice_batch take_new_run(size_t class_index) {
    struct slice_batch batch = {NULL, 0, NULL, NULL};
    struct run *run = ps_chunk_pages(SLICE_FAMILY, NULL, SLICE_RUN_BYTES, SLICE_RUN_BYTES);
    if (run == NULL) {
        return batch;
    }
    size_t bytes = slice_class_bytes(class_index);
    size_t room = SLICE_RUN_BYTES - PS_CACHE_LINE;
    size_t count = room / bytes;
    struct shard *shard = lock_class(class_index);
    NOTE(class_index, shard->run_count);
    shard->run_count++;
    uint32_t color = depots[class_index].color++;
    ps_lock_release(&shard->lock);
    size_t offset = color % ((room - count * bytes) / PS_CACHE_LINE + 1) * PS_CACHE_LINE;
    batch.virgin = (char *)run + PS_CACHE_LINE + offset;
    batch.end = batch.virgin + count * bytes;
    *run = (struct run){
        .virgin = batch.end,
        .end = batch.end,
        .used = (uint32_t)count,
        .class_index = (uint32_t)class_index,
    };
    return batch;
}

struct slice_batch ps_slice_depot_take(size_t class_index, size_t least) {
    struct depot *depot = &depots[class_index];
    struct slice_batch batch = {NULL, 0, NULL, NULL};
    struct shard *shard = lock_class(class_index);
    struct magazine *magazine = depot->magazines;
    bool is_empty = false;
    if (magazine != NULL && least > 1) {
        note_lists(class_index);
        depot->magazines = magazine->next;
        depot->count--;
        depot->least = ps_min(depot->least, depot->count);
        batch.first = &magazine->link;
        batch.count = least;
    } else if (depot->runs != NULL) {
        batch = take_from_run(depot, least);
    } else {
        is_empty = true;
    }
    ps_lock_release(&shard->lock);
    return is_empty ? take_new_run(class_index) : batch;
}

/* A slice back to its run. Returns the run when that is free as a whole, else NULL. */
static struct run *put(struct depot *depot, struct ps_slice_link *slice) {
    struct run *run = run_of(slice);
    if (!has_slices(run)) {
        link_run(depot, run);
    }
    NOTE(run->class_index, run->free);
    NOTE(run->class_index, run->used);
    slice->next = run->free;
    run->free = slice;
    if (--run->used > 0) {
        return NULL;
    }
    unlink_run(depot, run);
    return run;
}

/* To be called without the lock. Returns the number of runs. */
static size_t free_runs(struct run *empty) {
    size_t count = 0;
    for (; empty != NULL; count++) {
        struct run *next = empty->next;
        ps_pages_free(empty, SLICE_RUN_BYTES);
        empty = next;
    }
    return count;
}

/* Returns the number of runs that went back to the page cache. */
static size_t put_list(size_t class_index, struct ps_slice_link *first) {
    struct depot *depot = &depots[class_index];
    struct run *empty = NULL;
    struct shard *shard = lock_class(class_index);
    while (first != NULL) {
        struct ps_slice_link *next = first->next;
        struct run *run = put(depot, first);
        if (run != NULL) {
            NOTE(class_index, run->next);
            NOTE(class_index, shard->run_count);
            run->next = empty;
            empty = run;
            shard->run_count--;
        }
        ps_lock_commit(&shard->lock);
        first = next;
    }
    ps_lock_release(&shard->lock);
    return free_runs(empty);
}

void ps_slice_depot_put_list(size_t class_index, struct ps_slice_link *first) {
    (void)put_list(class_index, first);
}

void ps_slice_depot_put_window(size_t class_index, char *virgin, const char *end) {
    if (virgin == end) {
        return;
    }
    struct run *run = run_of(virgin);
    struct depot *depot = &depots[class_index];
    struct shard *shard = lock_class(class_index);
    if (!has_slices(run)) {
        link_run(depot, run);
    }
    NOTE(class_index, run->virgin);
    NOTE(class_index, run->used);
    NOTE(class_index, shard->run_count);
    run->virgin = virgin;
    run->used -= (uint32_t)((size_t)(end - virgin) / slice_class_bytes(class_index));
    bool is_empty = run->used == 0;
    if (is_empty) {
        unlink_run(depot, run);
        NOTE(class_index, run->next);
        run->next = NULL;
        shard->run_count--;
    }
    ps_lock_release(&shard->lock);
    (void)free_runs(is_empty ? run : NULL);
}

/* How many full lists were not needed for a second. Asked under the lock. */
static size_t surplus_of(struct depot *depot) {
    if (++depot->gives % SETTLE_GIVES != 0) {
        return 0;
    }
    uint64_t now_ms = ps_os_now_ms();
    if (now_ms - depot->settled_ms < SETTLE_MS) {
        return 0;
    }
    size_t surplus = ps_min(depot->least, SETTLE_MAX);
    if (surplus < SETTLE_MAX) { /* else there is more, for the next reading of the clock */
        depot->settled_ms = now_ms;
    }
    depot->least = depot->count - surplus;
    return surplus;
}

/* Takes the newest `count` full lists off, as one chain of magazines. */
static struct magazine *detach(struct depot *depot, size_t class_index, size_t count) {
    if (count == 0) {
        return NULL;
    }
    struct magazine *first = depot->magazines;
    struct magazine *last = first;
    for (size_t i = 1; i < count; i++) {
        last = last->next;
    }
    NOTE(class_index, last->next);
    depot->magazines = last->next;
    last->next = NULL;
    depot->count -= count;
    return first;
}

/* Returns the number of runs that went back to the page cache. */
static size_t take_apart(size_t class_index, struct magazine *magazine) {
    size_t run_count = 0;
    while (magazine != NULL) {
        struct magazine *next = magazine->next;
        run_count += put_list(class_index, &magazine->link);
        magazine = next;
    }
    return run_count;
}

void ps_slice_depot_give(size_t class_index, struct ps_slice_link *full) {
    struct depot *depot = &depots[class_index];
    struct magazine *magazine = (struct magazine *)full;
    struct shard *shard = lock_class(class_index);
    note_lists(class_index);
    magazine->next = depot->magazines;
    depot->magazines = magazine;
    depot->count++;
    struct magazine *surplus = detach(depot, class_index, surplus_of(depot));
    ps_lock_release(&shard->lock);
    (void)take_apart(class_index, surplus);
}

/* Bytes of the slices of a run. */
static size_t run_slice_bytes(size_t slice_bytes) {
    return (SLICE_RUN_BYTES - PS_CACHE_LINE) / slice_bytes * slice_bytes;
}

/* The newest full list, off the depot; NULL: there is none. */
static struct magazine *take_newest(size_t class_index) {
    struct depot *depot = &depots[class_index];
    struct shard *shard = lock_class(class_index);
    note_lists(class_index);
    struct magazine *newest = detach(depot, class_index, depot->count != 0 ? 1 : 0);
    depot->least = ps_min(depot->least, depot->count);
    ps_lock_release(&shard->lock);
    return newest;
}

size_t ps_slice_depot_trim(size_t class_index, size_t excess_bytes) {
    struct depot *depot = &depots[class_index];
    size_t run_bytes = run_slice_bytes(slice_class_bytes(class_index));
    struct shard *shard = lock_class(class_index);
    size_t list_count = depot->count; /* a bound, while other threads give more */
    ps_lock_release(&shard->lock);
    size_t given_bytes = 0;
    for (; list_count > 0 && given_bytes < excess_bytes; list_count--) {
        struct magazine *newest = take_newest(class_index);
        if (newest == NULL) {
            break;
        }
        given_bytes += take_apart(class_index, newest) * run_bytes;
    }
    return given_bytes;
}

/* Free bytes in the runs of a class. */
static size_t free_bytes(const struct depot *depot, size_t slice_bytes) {
    size_t bytes = 0;
    for (const struct run *run = depot->runs; run != NULL; run = run->next) {
        bytes += run_slice_bytes(slice_bytes) - run->used * slice_bytes;
    }
    return bytes;
}

void ps_slice_depot_stats(struct ps_slice_stats *stats) {
    for (size_t class_index = 0; class_index < PS_SLICE_BIN_COUNT; class_index++) {
        size_t bytes = slice_class_bytes(class_index);
        const struct depot *depot = &depots[class_index];
        struct shard *shard = lock_class(class_index);
        stats->depot_bytes += depot->count * slice_class_limit(class_index) * bytes;
        stats->depot_bytes += free_bytes(depot, bytes);
        if (class_index < SHARD_COUNT) {
            stats->run_bytes += shard->run_count * SLICE_RUN_BYTES;
        }
        ps_lock_release(&shard->lock);
    }
}

void ps_slice_depot_fork_child(void) {
    for (size_t i = 0; i < SHARD_COUNT; i++) {
        ps_lock_fork_child(&shards[i].lock);
    }
}
