/* SPDX-License-Identifier: MIT */
/*
 * See arena.h. The system calls are made under the page lock, because two threads that both find
 * the cache empty must not grow it twice: an mmap about ten times in the life of a process, and an
 * mprotect per step, about a hundred for the first GiB.
 */
#include "pools/engine/page/arena.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/huge.h"
#include "pools/engine/page/hugetlb.h"

#define FIRST_ARENA_BYTES ((size_t)2 << 20) /* all that a small program reserves */
#define NEXT_ARENA_BYTES ((size_t)32 << 20) /* room for a large block to grow in place */
#define LAST_ARENA_BYTES ((size_t)1 << 30)
#define LEAST_STEP_BYTES ((size_t)1 << 20)
#define LAST_STEP_BYTES ((size_t)16 << 20) /* if locked, a step becomes resident at once */
#define STEP_FRACTION 8                    /* of the accessible bytes */

PS_SPARSE struct ps_page_arena ps_page_arenas[PS_PAGE_ARENA_LIMIT];
size_t ps_page_arena_x_count;
static size_t usual_count; /* arenas of at least the usual size, which doubles with them */
static size_t open_bytes;  /* accessible, in all arenas */

/* First size to try after a refusal: see step_down. */
static size_t reserve_bytes = SIZE_MAX;
static size_t step_bytes = SIZE_MAX;

static bool has_hugetlb(enum ps_page_arena_kind kind) {
    return ps_hugetlb_page_bytes != 0 && kind == PS_PAGE_ARENA_HUGE;
}

/* Size of the huge pages that an arena of a kind consists of; 0: it does not. */
static size_t huge_bytes(enum ps_page_arena_kind kind) {
    size_t wanted = ps_huge_is_wanted(kind == PS_PAGE_ARENA_HUGE) ? PS_HUGE_PAGE_BYTES : 0;
    return has_hugetlb(kind) ? ps_hugetlb_page_bytes : wanted;
}

/* Unit of an arena's lengths and of its base. */
static size_t granule_of(const struct ps_page_arena *arena) {
    uintptr_t begin = (uintptr_t)arena->base + (arena->granules << PS_GRANULE_SHIFT);
    size_t huge = huge_bytes(arena->kind);
    bool has_whole = ((begin | arena->rest_granules << PS_GRANULE_SHIFT) & (huge - 1)) == 0;
    return huge != 0 && has_whole ? huge : PS_GRANULE_BYTES;
}

/*
 * The next size to try after a refusal. A refused size is not retried at once: the next growth
 * begins at twice the last granted size, so that a limit costs an occasional refusal instead of one
 * per size each time, and the usual sizes return when memory does.
 */
static size_t step_down(size_t bytes, size_t needed, size_t granule) {
    return ps_max(ps_round_up(bytes / 2, granule), needed);
}

static size_t after_success(size_t bytes, size_t usual) {
    return bytes < usual ? 2 * bytes : SIZE_MAX;
}

/* Reserves addresses of exactly this length and enters them in the page map, or returns NULL. */
static char *reserve(size_t bytes, size_t align) {
    char *base = ps_os_reserve_closed(bytes, align);
    if (base != NULL && !ps_page_map_cover(base, bytes)) {
        ps_os_release(base, bytes);
        return NULL;
    }
    return base;
}

static size_t usual_arena_bytes(void) {
    return ps_page_arena_x_count == 0
               ? FIRST_ARENA_BYTES
               : ps_min(NEXT_ARENA_BYTES << ps_min(usual_count, 5), LAST_ARENA_BYTES);
}

/* Reserves at least `granules`, in multiples of `granule`; stores the length in bytes. */
static char *reserve_any(size_t granules, size_t granule, size_t *length) {
    size_t needed = ps_round_up(granules << PS_GRANULE_SHIFT, granule);
    size_t usual = ps_max(usual_arena_bytes(), needed);
    size_t bytes = ps_max(ps_round_up(ps_min(usual, reserve_bytes), granule), needed);
    char *base = reserve(bytes, granule);
    while (base == NULL && bytes > needed) { /* ends: halves at most 14 times */
        bytes = step_down(bytes, needed, granule);
        base = reserve(bytes, granule);
    }
    reserve_bytes = base == NULL ? needed : after_success(bytes, usual);
    *length = bytes;
    return base;
}

/* The next arena is complete. */
static void count_arena(void) {
    /* release: pairs with ps_page_arena_count, for callers without the lock. */
    ps_store_release(&ps_page_arena_x_count, ps_page_arena_x_count + 1);
}

struct ps_page_arena *ps_page_arena_reserve(size_t granules, enum ps_page_arena_kind kind,
                                            uint32_t node, struct ps_undo *undo) {
    if (ps_page_arena_x_count == PS_PAGE_ARENA_LIMIT) {
        return NULL;
    }
    size_t bytes = 0;
    size_t huge = huge_bytes(kind);
    char *base = huge != 0 ? reserve_any(granules, huge, &bytes) : NULL;
    if (base == NULL && (huge == 0 || kind == PS_PAGE_ARENA_PLAIN)) {
        base = reserve_any(granules, PS_GRANULE_BYTES, &bytes);
    }
    if (base == NULL) {
        return NULL;
    }
    usual_count += bytes >= NEXT_ARENA_BYTES;
    PS_UNDO_NOTE(undo, ps_page_arena_x_count);
    struct ps_page_arena *arena = &ps_page_arenas[ps_page_arena_x_count];
    *arena = (struct ps_page_arena){
        .base = base, .rest_granules = bytes >> PS_GRANULE_SHIFT, .kind = kind, .node = node};
    count_arena();
    ps_huge_advise(base, bytes, kind == PS_PAGE_ARENA_HUGE);
    return arena;
}

bool ps_page_arena_adopt(char *base, size_t granules, struct ps_undo *undo) {
    if (ps_page_arena_x_count == PS_PAGE_ARENA_LIMIT) {
        return false;
    }
    PS_UNDO_NOTE(undo, ps_page_arena_x_count);
    ps_page_arenas[ps_page_arena_x_count] =
        (struct ps_page_arena){.base = base, .granules = granules, .kind = PS_PAGE_ARENA_PLAIN};
    count_arena();
    return true;
}

/* Addresses to open, from `end` on: in bytes, multiples of the granule. */
struct step {
    char *end;
    size_t needed;
    size_t usual;
    size_t granule;
};

/* Opens a step; returns its length, or 0. last: to be tried if all else is refused; 0: nothing. */
static size_t open_plain(const struct step *step, size_t last) {
    size_t bytes =
        ps_max(ps_round_up(ps_min(step->usual, step_bytes), step->granule), step->needed);
    bool is_open = ps_os_protect(step->end, bytes, true);
    while (!is_open && bytes > step->needed) { /* ends: as above */
        bytes = step_down(bytes, step->needed, step->granule);
        is_open = ps_os_protect(step->end, bytes, true);
    }
    step_bytes = is_open ? after_success(bytes, step->usual) : step->needed;
    if (!is_open && last != 0) {
        bytes =
            last; /* a shorter part would add a mapping, and the process may be at their limit */
        is_open = ps_os_protect(step->end, bytes, true);
    }
    return is_open ? bytes : 0;
}

static size_t open_hugetlb(struct ps_page_arena *arena, const struct step *step,
                           struct ps_undo *undo) {
    bool is_lost;
    size_t bytes = ps_hugetlb_open_locked(step->end, step->usual, step->needed, &is_lost);
    if (is_lost) {
        PS_UNDO_NOTE(undo, arena->rest_granules);
        arena->rest_granules = 0;
    }
    return bytes;
}

size_t ps_page_arena_open(struct ps_page_arena *arena, size_t granules, struct ps_undo *undo) {
    char *end = arena->base + (arena->granules << PS_GRANULE_SHIFT);
    size_t rest = arena->rest_granules << PS_GRANULE_SHIFT;
    size_t granule = granule_of(arena);
    size_t needed = ps_round_up(granules << PS_GRANULE_SHIFT, granule);
    size_t usual = ps_max(ps_min(open_bytes / STEP_FRACTION, LAST_STEP_BYTES), LEAST_STEP_BYTES);
    usual = ps_min(ps_max(ps_round_up(usual, granule), needed), rest);
    struct step step = {end, needed, usual, granule};
    size_t bytes = has_hugetlb(arena->kind) ? open_hugetlb(arena, &step, undo)
                                            : open_plain(&step, arena->granules == 0 ? rest : 0);
    if (bytes == 0) {
        return 0;
    }
    PS_UNDO_NOTE(undo, open_bytes);
    PS_UNDO_NOTE(undo, arena->granules);
    PS_UNDO_NOTE(undo, arena->rest_granules);
    open_bytes += bytes;
    ps_owner_add(&arena->granules, bytes >> PS_GRANULE_SHIFT); /* others read a snapshot */
    arena->rest_granules -= bytes >> PS_GRANULE_SHIFT;
    return bytes >> PS_GRANULE_SHIFT;
}

size_t ps_page_arena_count(void) {
    return ps_load_acquire(&ps_page_arena_x_count); /* acquire: pairs with count_arena */
}

struct ps_page_arena *ps_page_arena_at(size_t index) { return &ps_page_arenas[index]; }
