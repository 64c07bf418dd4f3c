/* SPDX-License-Identifier: MIT */
/*
 * See hugetlb.h. Closed pages have a bit each, by arena. Page lock: all variables but the counts.
 */
#include "pools/engine/page/hugetlb.h"

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/bits.h"
#include "pools/engine/page/arena.h"
#include "pools/engine/page/metadata.h"

#define WASTE_FRACTION 8 /* of a block, that may be unused behind it */
#define RETRY_MS 100

/* Each closed page may split a mapping in three, and a process may have 65,530. */
#define CLOSED_LIMIT 8192

#define CLOSED_WORDS 16 /* of pages: 2 GiB of 2 MiB, as the longest usual arena and run have */

size_t ps_hugetlb_page_bytes;
struct ps_hugetlb_counts ps_hugetlb_x_counts;

/* By arena. Mapped at the start, where pages are wanted: mlockall counts all that is mapped. NULL:
 * no page is closed. */
typedef uint64_t page_bits[CLOSED_WORDS];
static page_bits *closed;
static page_bits *lost; /* of the closed ones, for ever */
static uint64_t closed_count;
static uint64_t retry_ms; /* no page is asked for until then */

void ps_hugetlb_start(size_t page_bytes) {
    size_t bytes = PS_PAGE_ARENA_LIMIT * sizeof(page_bits);
    ps_hugetlb_page_bytes = page_bytes;
    closed = page_bytes != 0 ? ps_metadata_map(2 * bytes) : NULL;
    lost = closed != NULL ? closed + PS_PAGE_ARENA_LIMIT : NULL;
}

static void note_taken(size_t bytes) {
    ps_add_relaxed(&ps_hugetlb_x_counts.bytes, (uint64_t)bytes); /* relaxed: statistics */
}

static void note_refused(void) {
    ps_add_relaxed(&ps_hugetlb_x_counts.refused, (uint64_t)1); /* relaxed: statistics */
}

void ps_hugetlb_note_returned(size_t bytes) {
    ps_add_relaxed(&ps_hugetlb_x_counts.bytes, -(uint64_t)bytes); /* relaxed: statistics */
}

char *ps_hugetlb_map(size_t bytes, size_t *length) {
    size_t whole = ps_round_up(bytes, ps_hugetlb_page_bytes);
    if (whole < bytes || whole - bytes > bytes / WASTE_FRACTION) {
        return NULL;
    }
    char *base = ps_os_map_huge(whole, ps_hugetlb_page_bytes);
    if (base == NULL) {
        note_refused();
        return NULL;
    }
    note_taken(whole);
    *length = whole;
    return base;
}

/* ---- pages of arenas ---- */

/* After a refusal, which is counted once for all that it prevents. */
static bool is_worth_it(void) { return ps_os_now_ms() >= retry_ms; }

static void refuse(void) {
    retry_ms = ps_os_now_ms() + RETRY_MS;
    note_refused();
}

size_t ps_hugetlb_open_locked(char *base, size_t bytes, size_t needed, bool *is_lost) {
    *is_lost = false;
    if (!is_worth_it()) {
        return 0;
    }
    for (;;) { /* ends: halves at most 10 times */
        enum ps_os_placing placing = ps_os_place_huge(base, bytes, ps_hugetlb_page_bytes);
        if (placing == PS_OS_PLACED) {
            note_taken(bytes);
            return bytes;
        }
        *is_lost = placing == PS_OS_LOST;
        if (*is_lost || bytes == needed) {
            refuse();
            return 0;
        }
        bytes = ps_max(ps_round_up(bytes / 2, ps_hugetlb_page_bytes), needed);
    }
}

/* A page of an arena. */
struct page {
    size_t arena;
    size_t index; /* in the arena */
};

/* The arena that an address lies in; there is one. */
static struct page find_page(const char *address) {
    size_t last = ps_page_arena_count();
    while (last-- > 0) { /* ends: at the first one */
        const struct ps_page_arena *arena = ps_page_arena_at(last);
        uintptr_t distance = (uintptr_t)address - (uintptr_t)arena->base;
        if (distance < arena->granules << PS_GRANULE_SHIFT) {
            return (struct page){last, distance / ps_hugetlb_page_bytes};
        }
    }
    return (struct page){0, CLOSED_WORDS * 64};
}

/* The word of a table with the bit of a page; NULL: it is never closed. */
static uint64_t *word_of(page_bits *table, const char *address, uint64_t *bit) {
    struct page page = find_page(address);
    bool has_bit = table != NULL && page.index < CLOSED_WORDS * 64;
    *bit = (uint64_t)1 << page.index % 64;
    return has_bit ? &table[page.arena][page.index / 64] : NULL;
}

static bool is_closed(const char *address) {
    uint64_t bit;
    const uint64_t *word = word_of(closed, address, &bit);
    return word != NULL && (*word & bit) != 0;
}

bool ps_hugetlb_set_closed_locked(char *page, bool is_wanted, struct ps_undo *undo) {
    uint64_t bit;
    uint64_t *word = word_of(closed, page, &bit);
    if (word == NULL || (is_wanted && closed_count >= CLOSED_LIMIT)) {
        return false;
    }
    if (((*word & bit) != 0) != is_wanted) { /* otherwise a closed page of a dirty run: joined */
        PS_UNDO_NOTE(undo, *word);
        PS_UNDO_NOTE(undo, closed_count);
        *word ^= bit;
        closed_count += is_wanted ? 1 : (uint64_t)-1;
        ps_hugetlb_note_returned(is_wanted ? ps_hugetlb_page_bytes : -ps_hugetlb_page_bytes);
    }
    return true;
}

char *ps_hugetlb_closed_in_locked(char *base, size_t granules) {
    char *end = base + (granules << PS_GRANULE_SHIFT);
    char *page = (char *)ps_round_down((uintptr_t)base, ps_hugetlb_page_bytes);
    if (closed_count == 0) {
        return NULL;
    }
    while (page < end && !is_closed(page)) {
        page += ps_hugetlb_page_bytes;
    }
    return page < end ? page : NULL;
}

bool ps_hugetlb_reopen_locked(char *page, bool *is_lost, struct ps_undo *undo) {
    uint64_t bit;
    uint64_t *word = word_of(lost, page, &bit);
    *is_lost = (*word & bit) != 0;
    if (*is_lost || !is_worth_it()) {
        return false;
    }
    enum ps_os_placing placing =
        ps_os_place_huge(page, ps_hugetlb_page_bytes, ps_hugetlb_page_bytes);
    if (placing != PS_OS_PLACED) {
        *is_lost = placing == PS_OS_LOST;
        *word |= *is_lost ? bit : 0; /* not in the undo log: it is the system's doing */
        refuse();
        return false;
    }
    return ps_hugetlb_set_closed_locked(page, false, undo); /* the page is there: see the header */
}

size_t ps_hugetlb_piece(const char *base, size_t granules, bool *is_whole) {
    size_t page_granules = ps_hugetlb_granules();
    size_t before = ((uintptr_t)base & (ps_hugetlb_page_bytes - 1)) >> PS_GRANULE_SHIFT;
    *is_whole = before == 0 && granules >= page_granules;
    return ps_min(granules, page_granules - before);
}

bool ps_hugetlb_has_whole(const char *base, size_t granules) {
    uintptr_t end = (uintptr_t)base + (granules << PS_GRANULE_SHIFT);
    return ps_round_up((uintptr_t)base, ps_hugetlb_page_bytes) + ps_hugetlb_page_bytes <= end;
}
