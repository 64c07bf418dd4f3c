/* SPDX-License-Identifier: MIT */
/*
 * See page_cache.h; page_cache_purge.c has the part for purges. Lock: ps_page_cache_lock, protects
 * all bins, the arenas, the page map's root and the run half of every free slot. Its undo log notes
 * all of these except branches and leaves of the map, which are only added.
 */
#include "pools/engine/page/page_cache.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/base/compiler.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/page/arena.h"
#include "pools/engine/page/free_runs.h"
#include "pools/engine/page/huge.h"
#include "pools/engine/page/hugetlb.h"
#include "pools/engine/page/metadata.h"
#include "pools/engine/page/node.h"
#include "pools/engine/page/page_peek.h"
#include "pools/engine/page/purge.h"
#include "pools/engine/page/retention.h"
#include "pools/engine/page/run_bins.h"

#define DIRTY_GRANULES_MANY 32 /* 2 MiB: see find_clean_locked */
#define FIRST_GRANULES 32      /* of the first arena */

/* Most words that one section notes: opening parts of two arenas with neighbours on both sides,
 * then carving with a rest on both sides. */
#define UNDO_WORDS (9 * PS_RUN_BINS_UNDO_WORDS + 40)

PS_SPARSE PS_UNDO_LOG(page_undo, UNDO_WORDS);
struct ps_lock ps_page_cache_lock = PS_LOCK_INIT_UNDO(PS_RANK_PAGE, &page_undo);
static uint64_t arena_granules;
static uint64_t closed_granules; /* not accessible yet, included in arena_granules */

void ps_page_cache_start(const struct ps_config *config) {
    ps_page_map_start();
    ps_huge_start(config->huge.policy);
    ps_hugetlb_start(config->huge.policy == PS_HUGE_HUGETLB ? config->huge.page_bytes : 0);
    ps_page_cache_is_shut = config->harden >= 2;
}

static char *end_of_arena(const struct ps_page_arena *arena) {
    return arena->base + (arena->granules << PS_GRANULE_SHIFT);
}

/* Opens at least `granules` more of an arena; returns the clean run that contains them. */
static struct ps_run *open_locked(struct ps_page_arena *arena, size_t granules) {
    char *base = end_of_arena(arena);
    size_t opened = ps_page_arena_open(arena, granules, &page_undo);
    if (opened == 0) {
        return NULL;
    }
    ps_page_cache_shut(base, opened << PS_GRANULE_SHIFT);
    PS_UNDO_NOTE(&page_undo, closed_granules);
    closed_granules -= opened;
    struct ps_run *run = ps_free_runs_insert(
        ps_free_runs_describe(base, opened, arena->kind & 1, arena->node, &page_undo), &page_undo);
    ps_lock_commit(&ps_page_cache_lock);
    return run;
}

/* Granules of the clean free run that ends at the end of an arena's accessible part. */
static size_t clean_granules_before(const struct ps_page_arena *arena) {
    const struct ps_run *before = NULL;
    if (arena->granules != 0) {
        struct ps_run next = {.base = end_of_arena(arena)};
        before = ps_free_runs_before(&next);
    }
    bool is_clean = before != NULL && !before->is_dirty && before->is_huge == (arena->kind & 1);
    return is_clean ? before->granules : 0;
}

/* Granules that must be opened for a run of `granules`, beyond the clean run at the end of the
 * arena's accessible part; at least one. */
static size_t missing_in(const struct ps_page_arena *arena, size_t granules) {
    return granules - ps_min(clean_granules_before(arena), granules - 1);
}

/* A request for a run, of a thread on that node. */
struct request {
    size_t granules;
    enum ps_page_arena_kind kind;
    uint32_t node;
};

/* The last arena of the kind and the node with enough reserved granules. */
static struct ps_page_arena *find_arena(const struct request *request) {
    for (size_t index = ps_page_arena_count(); index-- > 0;) {
        struct ps_page_arena *arena = ps_page_arena_at(index);
        if (arena->kind == request->kind && arena->node == request->node &&
            missing_in(arena, request->granules) <= arena->rest_granules) {
            return arena;
        }
    }
    return NULL;
}

static struct ps_page_arena *reserve_locked(const struct request *request) {
    struct ps_page_arena *arena =
        ps_page_arena_reserve(request->granules, request->kind, request->node, &page_undo);
    if (arena != NULL) {
        PS_UNDO_NOTE(&page_undo, arena_granules);
        PS_UNDO_NOTE(&page_undo, closed_granules);
        arena_granules += arena->rest_granules;
        closed_granules += arena->rest_granules;
        ps_lock_commit(&ps_page_cache_lock);
    }
    return arena;
}

static struct ps_run *open_for_locked(struct ps_page_arena *arena, size_t granules) {
    struct ps_run *run = arena != NULL ? open_locked(arena, missing_in(arena, granules)) : NULL;
    return run != NULL && run->granules >= granules ? run : NULL; /* coalescing has a limit */
}

/* A clean run of at least `granules`, by opening more of an arena. */
static struct ps_run *open_rest_locked(const struct request *request) {
    return open_for_locked(find_arena(request), request->granules);
}

/* The same, or a part of a new arena. If opening is refused no new one is reserved, because each
 * such call would use up addresses. */
static struct ps_run *grow_locked(const struct request *request) {
    struct ps_page_arena *arena = find_arena(request);
    return open_for_locked(arena != NULL ? arena : reserve_locked(request), request->granules);
}

/* Dirty runs come first, of either kind, and before all others stuck runs, whose memory is resident
 * in any case; then dirty ones with clean neighbours, then clean runs (find_present_on_locked). */
static struct ps_run *find_dirty_on_locked(const struct request *request) {
    const struct ps_run_sorts *sorts = &ps_free_runs[request->node];
    struct ps_run *run = NULL;
    if (PS_UNLIKELY(ps_run_pair_granules(&sorts->stuck) != 0)) {
        run = ps_run_pair_find(&sorts->stuck, request->granules, request->kind);
    }
    run = run != NULL ? run : ps_run_pair_find(&sorts->dirty, request->granules, request->kind);
    if (run == NULL) {
        run = ps_free_runs_join(request->granules, request->kind, request->node, &page_undo);
        ps_lock_commit(&ps_page_cache_lock);
    }
    return run;
}

static struct ps_run *find_clean_on_locked(const struct request *request) {
    const struct ps_run_sorts *sorts = &ps_free_runs[request->node];
    return ps_run_bins_find(&sorts->clean.of[request->kind], request->granules);
}

static struct ps_run *find_present_on_locked(const struct request *request) {
    struct ps_run *run = find_dirty_on_locked(request);
    return run != NULL ? run : find_clean_on_locked(request);
}

typedef struct ps_run *find_function(const struct request *request);

/* The run that `find` returns for another node, or NULL. */
static struct ps_run *find_elsewhere_locked(find_function *find, const struct request *request) {
    struct request other = *request;
    struct ps_run *run = NULL;
    for (other.node = 0; run == NULL && other.node <= ps_node_last(); other.node++) {
        run = other.node != request->node ? find(&other) : NULL;
    }
    return run;
}

static struct ps_run *find_present_locked(const struct request *request) {
    struct ps_run *run = find_present_on_locked(request);
    return run != NULL ? run : find_elsewhere_locked(find_present_on_locked, request);
}

/* The other kind, and the other nodes, if the system gives no new arena of the own. */
static struct ps_run *find_last_resort_locked(const struct request *request) {
    struct request other = *request;
    other.kind = request->kind == PS_PAGE_ARENA_PLAIN ? PS_PAGE_ARENA_HUGE : PS_PAGE_ARENA_PLAIN;
    struct ps_run *run = find_elsewhere_locked(find_present_on_locked, request);
    if (run == NULL) {
        run = find_clean_on_locked(&other);
    }
    if (run == NULL) {
        /* A plain arena may be had where one of whole huge pages is refused. */
        run = other.kind == PS_PAGE_ARENA_PLAIN ? grow_locked(&other) : open_rest_locked(&other);
    }
    return run != NULL ? run : find_elsewhere_locked(open_rest_locked, request);
}

/* While memory is short, free runs of other nodes come before fresh memory. */
static struct ps_run *find_locked(const struct request *request) {
    struct ps_run *run = find_dirty_on_locked(request);
    if (run == NULL && !ps_retention_is_usual()) {
        run = find_elsewhere_locked(find_dirty_on_locked, request);
    }
    run = run != NULL ? run : find_clean_on_locked(request);
    run = run != NULL ? run : grow_locked(request);
    return run != NULL ? run : find_last_resort_locked(request);
}

/* Finds a clean run, by opening more of an arena before dirty ones are taken; unless the dirty ones
 * are many: threads that start and end faster than the purge would each add theirs (100 MiB more in
 * 360 threads of the scenario cancelled_threads). */
static struct ps_run *find_clean_locked(const struct request *request) {
    if (ps_run_pair_granules(&ps_free_runs[request->node].dirty) > DIRTY_GRANULES_MANY) {
        return find_locked(request);
    }
    struct ps_run *run = find_clean_on_locked(request);
    if (run == NULL) {
        run = grow_locked(request);
    }
    return run != NULL ? run : find_locked(request);
}

static void note_dirty_locked(void) { ps_purge_note_locked(ps_free_runs_granules().dirty); }

/* With hugetlb, all memory but the first arena's, which serves small processes, is of the huge kind
 * while the system has pages. */
static enum ps_page_arena_kind kind_for(const struct request *plain, enum ps_page_arena_kind kind) {
    if (PS_LIKELY(ps_hugetlb_page_bytes == 0) || plain->node == PS_NODE_APART) {
        return kind;
    }
    size_t count = ps_page_arena_count();
    bool is_small = count == 0 ? plain->granules <= FIRST_GRANULES
                               : count == 1 && (find_clean_on_locked(plain) != NULL ||
                                                find_arena(plain) != NULL);
    return is_small ? PS_PAGE_ARENA_PLAIN : PS_PAGE_ARENA_HUGE;
}

/* Opens the closed pages of a range of free memory. False, and *is_lost: as of
 * ps_hugetlb_reopen_locked. In the child of a fork, a run that was carved before is lost. */
static bool open_pages_locked(char *base, size_t granules, bool *is_lost) {
    char *page;
    *is_lost = false;
    while ((page = ps_hugetlb_closed_in_locked(base, granules)) != NULL) { /* ends: it is open */
        ps_lock_commit(&ps_page_cache_lock);
        if (!ps_hugetlb_reopen_locked(page, is_lost, &page_undo)) {
            return false;
        }
    }
    return true;
}

/* A run of a plain arena. */
static struct ps_run *find_plain_locked(const struct request *request) {
    struct request plain = *request;
    plain.kind = PS_PAGE_ARENA_PLAIN;
    struct ps_run *run = find_clean_on_locked(&plain);
    return run != NULL ? run : grow_locked(&plain);
}

/* The same as a carved run, in the place of one whose pages the system refuses; NULL where only
 * present runs may serve. */
static struct ps_run *carve_instead_locked(struct ps_run *run, bool is_lost, bool may_open,
                                           size_t align_granules, const struct request *request) {
    size_t granules = run->granules;
    if (!is_lost) {
        ps_free_runs_insert(run, &page_undo);
    }
    ps_lock_commit(&ps_page_cache_lock);
    run = may_open ? find_plain_locked(request) : NULL;
    return run != NULL ? ps_free_runs_carve(run, granules, align_granules, &page_undo) : NULL;
}

/* Takes the run that `find` returns, or NULL. */
static struct ps_run *take_on(uint32_t node, find_function *find, size_t granules,
                              size_t align_granules, enum ps_page_arena_kind kind) {
    size_t fit = granules + align_granules - 1;
    struct request request = {.granules = fit, .kind = PS_PAGE_ARENA_PLAIN, .node = node};
    PS_CHECK(granules > 0 && fit <= PS_RUN_GRANULES_LIMIT && ps_is_power_of_two(align_granules));
    ps_lock_acquire(&ps_page_cache_lock);
    request.kind = kind_for(&request, kind);
    struct ps_run *run = find(&request);
    if (run != NULL) {
        bool is_lost;
        run = ps_free_runs_carve(run, granules, align_granules, &page_undo);
        if (ps_hugetlb_has(run) && !open_pages_locked(run->base, granules, &is_lost)) {
            bool may_open = find == find_locked || find == find_clean_locked;
            run = carve_instead_locked(run, is_lost, may_open, align_granules, &request);
        }
        note_dirty_locked();
    }
    ps_lock_release(&ps_page_cache_lock);
    return run;
}

static struct ps_run *take(find_function *find, size_t granules, size_t align_granules,
                           enum ps_page_arena_kind kind) {
    return take_on(ps_node_here(), find, granules, align_granules, kind);
}

/* Without the last resort, which is other nodes. */
static struct ps_run *find_apart_locked(const struct request *request) {
    struct ps_run *run = find_present_on_locked(request);
    return run != NULL ? run : grow_locked(request);
}

struct ps_run *ps_page_cache_take_apart(size_t granules) {
    return take_on(PS_NODE_APART, find_apart_locked, granules, 1, PS_PAGE_ARENA_PLAIN);
}

struct ps_run *ps_page_cache_take_present(size_t granules, size_t align_granules) {
    return take(find_present_locked, granules, align_granules, PS_PAGE_ARENA_PLAIN);
}

struct ps_run *ps_page_cache_take_dirty(size_t granules) {
    if (granules > PS_RUN_GRANULES_LIMIT) {
        return NULL; /* a request that no run can serve; realloc makes them */
    }
    return take(find_dirty_on_locked, granules, 1, PS_PAGE_ARENA_PLAIN);
}

struct ps_run *ps_page_cache_take(size_t granules, size_t align_granules) {
    return take(find_locked, granules, align_granules, PS_PAGE_ARENA_PLAIN);
}

struct ps_run *ps_page_cache_take_dense(size_t granules) {
    return take(find_locked, granules, 1, PS_PAGE_ARENA_HUGE);
}

struct ps_run *ps_page_cache_take_clean(size_t granules) {
    return take(find_clean_locked, granules, 1, PS_PAGE_ARENA_PLAIN);
}

static void give(struct ps_run *run, bool is_dirty) {
    run->is_dirty = is_dirty;
    run->is_stuck = false;
    ps_lock_acquire(&ps_page_cache_lock);
    ps_free_runs_insert(run, &page_undo);
    ps_lock_release(&ps_page_cache_lock);
}

void ps_page_cache_give(struct ps_run *run) { give(run, true); }

void ps_page_cache_give_zero(struct ps_run *run) { give(run, false); }

/* The free run of the kind and node of `busy`, with at least `granules`, after that run, or NULL.
 * If the accessible part of an arena ends there, or after a shorter clean run, opens more of it.
 */
static struct ps_run *free_run_behind_locked(const struct ps_run *busy, size_t granules) {
    char *base = ps_free_runs_end_of(busy);
    struct ps_run *run = ps_free_runs_at(base);
    bool is_free = ps_free_runs_kind_of(run) == PS_RUN_FREE && run->base == base;
    bool is_like = run->is_huge == busy->is_huge && run->node == busy->node;
    if (is_free && (run->granules >= granules || !is_like)) {
        return is_like ? run : NULL;
    }
    /* The run is followed by another head, or by unopened addresses. */
    char *end = is_free ? ps_free_runs_end_of(run) : base;
    if (ps_free_runs_kind_of(ps_free_runs_at(end)) != PS_RUN_NONE || (is_free && run->is_dirty)) {
        return NULL;
    }
    size_t missing = granules - (is_free ? run->granules : 0);
    for (size_t index = 0; index < ps_page_arena_count(); index++) {
        struct ps_page_arena *arena = ps_page_arena_at(index);
        if (end_of_arena(arena) == end && arena->granules != 0 && missing <= arena->rest_granules &&
            (arena->kind == PS_PAGE_ARENA_HUGE) == busy->is_huge) {
            run = open_locked(arena, missing);
            return run != NULL && run->base == base && run->granules >= granules ? run : NULL;
        }
    }
    return NULL;
}

bool ps_page_cache_extend(struct ps_run *run, size_t granules, bool *is_clean) {
    size_t added = granules - run->granules;
    ps_lock_acquire(&ps_page_cache_lock);
    struct ps_run *after = free_run_behind_locked(run, added);
    bool is_lost;
    if (after != NULL && ps_hugetlb_has(after) &&
        !open_pages_locked(after->base, added, &is_lost)) {
        if (is_lost) {
            (void)ps_free_runs_carve(after, after->granules, 1, &page_undo);
        }
        after = NULL;
    }
    if (after != NULL) {
        *is_clean = !after->is_dirty;
        ps_free_runs_lengthen(run, after, added, &page_undo);
        note_dirty_locked();
    }
    ps_lock_release(&ps_page_cache_lock);
    return after != NULL;
}

void ps_page_cache_shrink(struct ps_run *run, size_t granules) {
    ps_lock_acquire(&ps_page_cache_lock);
    struct ps_run *tail =
        ps_free_runs_split(run, run->base + (granules << PS_GRANULE_SHIFT), &page_undo);
    tail->is_dirty = true;
    tail->is_stuck = false;
    ps_free_runs_insert(tail, &page_undo);
    ps_lock_release(&ps_page_cache_lock);
}

static struct ps_run *adopt(char *base, size_t granules, bool is_arena) {
    ps_lock_acquire(&ps_page_cache_lock);
    struct ps_run *run = NULL;
    if (ps_page_map_cover(base, granules << PS_GRANULE_SHIFT) &&
        (!is_arena || ps_page_arena_adopt(base, granules, &page_undo))) {
        PS_UNDO_NOTE(&page_undo, arena_granules);
        arena_granules += is_arena ? granules : 0;
        run = ps_free_runs_describe(base, granules, false, 0, &page_undo);
        ps_store_relaxed(&run->kind, (uint8_t)PS_RUN_BUSY); /* relaxed: free() only classifies */
    }
    ps_lock_release(&ps_page_cache_lock);
    return run;
}

struct ps_run *ps_page_cache_adopt(char *base, size_t granules) {
    return adopt(base, granules, false);
}

void ps_page_cache_keep(char *base, size_t granules) {
    while (granules > 0) {
        size_t part = ps_min(granules, PS_RUN_GRANULES_LIMIT);
        struct ps_run *run = adopt(base, part, true);
        if (run != NULL) {
            ps_page_cache_give(run);
        } else {
            (void)ps_os_purge(base, part << PS_GRANULE_SHIFT);
        }
        base += part << PS_GRANULE_SHIFT;
        granules -= part;
    }
}

void ps_page_cache_count(struct ps_page_counts *out) {
    ps_lock_acquire(&ps_page_cache_lock);
    struct ps_free_granules free = ps_free_runs_granules();
    *out = (struct ps_page_counts){.arena_count = ps_page_arena_count(),
                                   .arena_granules = arena_granules,
                                   .dirty_granules = free.dirty + free.stuck,
                                   .stuck_granules = free.stuck,
                                   .clean_granules = free.clean + closed_granules,
                                   .closed_granules = closed_granules};
    ps_lock_release(&ps_page_cache_lock);
}

void ps_page_cache_walk(void (*visit)(struct ps_slot *slot, void *context), void *context) {
    ps_lock_acquire(&ps_page_cache_lock);
    ps_page_peek(visit, context);
    ps_lock_release(&ps_page_cache_lock);
}

void ps_page_cache_fork_child(void) {
    ps_metadata_fork_child();
    ps_lock_fork_child(&ps_page_cache_lock);
    ps_purge_fork_child();
}
