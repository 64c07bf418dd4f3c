/* SPDX-License-Identifier: MIT */
/*
 * See arena.h. The reservation happens under the page lock: it is one mmap, about ten times in the
 * life of a process, and two threads that both find the cache empty must not reserve twice.
 */
#include "pools/page/arena.h"

#include "pools/base/bits.h"
#include "pools/os/os.h"

#define FIRST_ARENA_BYTES ((size_t)32 << 20)
#define LAST_ARENA_BYTES ((size_t)1 << 30)
#define LIMITED_ARENA_BYTES                                                                        \
    ((size_t)4 << 20)     /* leaves room for what else a small limit must hold */
#define LIMITED_ARENAS 16 /* then the refusal may be over */
#define HUGE_PAGE_BYTES ((size_t)2 << 20)
#define ARENA_ALIGN HUGE_PAGE_BYTES
#define ARENA_LIMIT 4096 /* with 1 GiB each: 4 TiB; more only when tiny ones are had */

static struct ps_page_arena arenas[ARENA_LIMIT];
static size_t arena_count;
static enum ps_thp thp_policy;
static size_t usual_count;  /* arenas that were not made small; they double */
static size_t limited_left; /* small arenas to come before the usual size is tried again */

void ps_page_arena_start(enum ps_thp thp) { thp_policy = thp; }

static void advise(const struct ps_page_arena *arena, enum ps_page_arena_kind kind) {
    bool is_huge =
        thp_policy == PS_THP_ALWAYS || (thp_policy == PS_THP_AUTO && kind == PS_PAGE_ARENA_HUGE);
    ps_os_advise_huge(arena->base, arena->slices << PS_SLICE_SHIFT, is_huge);
}

/* Reserves and enters one arena of exactly this size, or nothing. */
static char *reserve(size_t bytes) {
    char *base = ps_os_reserve(bytes, ARENA_ALIGN);
    if (base != NULL && !ps_page_map_cover(base, bytes)) {
        ps_os_release(base, bytes);
        return NULL;
    }
    return base;
}

const struct ps_page_arena *ps_page_arena_grow(size_t slices, enum ps_page_arena_kind kind) {
    if (arena_count == ARENA_LIMIT) {
        return NULL;
    }
    size_t needed = ps_round_up(slices << PS_SLICE_SHIFT, ARENA_ALIGN);
    size_t doublings = ps_min(usual_count, 5);
    size_t usual = ps_min(FIRST_ARENA_BYTES << doublings, LAST_ARENA_BYTES);
    size_t bytes = ps_max(limited_left != 0 ? LIMITED_ARENA_BYTES : usual, needed);
    char *base = reserve(bytes);
    if (limited_left != 0) {
        limited_left--;
    } else if (base == NULL) {
        limited_left = LIMITED_ARENAS;
        bytes = ps_max(LIMITED_ARENA_BYTES, needed);
        base = reserve(bytes);
    }
    if (base == NULL && bytes > needed) {
        bytes = needed;
        base = reserve(bytes);
    }
    if (base == NULL) {
        return NULL;
    }
    usual_count += bytes >= usual;
    struct ps_page_arena *arena = &arenas[arena_count++];
    *arena = (struct ps_page_arena){.base = base, .slices = bytes >> PS_SLICE_SHIFT};
    advise(arena, kind);
    return arena;
}

size_t ps_page_arena_count(void) { return arena_count; }

const struct ps_page_arena *ps_page_arena_at(size_t index) { return &arenas[index]; }

/*
 * The kernel makes a huge page of what has one page in memory, as its khugepaged comes by: memory
 * for every hole in it that was purged. An hour of redis gained 12 MiB of 130 that way.
 */
void ps_page_arena_keep_holes(char *base, size_t slices) {
    if (thp_policy == PS_THP_NEVER) {
        return;
    }
    uintptr_t begin = (uintptr_t)base;
    uintptr_t end = begin + (slices << PS_SLICE_SHIFT);
    uintptr_t first = ps_round_down(begin, HUGE_PAGE_BYTES);
    uintptr_t last = ps_round_down(end, HUGE_PAGE_BYTES);
    if (first != begin) {
        ps_os_advise_huge((char *)first, HUGE_PAGE_BYTES, false);
        first += HUGE_PAGE_BYTES;
    }
    if (first < last) {
        ps_os_advise_huge((char *)first, last - first,
                          true); /* empty: the next touch may take it */
    }
    if (last != end && last >= first) {
        ps_os_advise_huge((char *)last, HUGE_PAGE_BYTES, false);
    }
}
