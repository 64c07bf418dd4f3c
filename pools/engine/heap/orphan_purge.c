/* SPDX-License-Identifier: MIT */
/*
 * See orphan_purge.h. Four epochs are a purge delay; a span is idle after five, since the first and
 * the last may be parts. Each epoch begins a pass over the classes.
 */
#include "pools/engine/heap/orphan_purge.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/page/huge.h"
#include "pools/engine/page/node.h"
#include "pools/engine/page/page_cache.h"
#include "pools/engine/page/retention.h"
#include "pools/engine/small/orphans.h"
#include "pools/engine/small/span_purge.h"

#define EPOCHS_OF_DELAY 4
#define EPOCH_MS_LEAST 25
#define BLOCKS_PER_US 32 /* whose links are read and written */
#define KIB_PER_US 16

struct purge {
    bool is_apart;         /* purged huge pages remain split: huge.h */
    uintptr_t last_broken; /* number of the huge page that was split last */
    int64_t us;            /* cost so far */
};

/* State of the background thread. */
static uint64_t epoch_ends_ms;
static uint32_t next_list;  /* of a class and a node */
static uint32_t rest_lists; /* of this pass */
static bool was_asked;      /* this pass is for a trim */
static bool is_apart;

/* Not in hardened modes, which check the contents of free blocks. */
static bool is_possible(void) { return ps_mode.hook.has_fast_free; }

static bool is_apart_now(void) {
    struct ps_page_counts counts;
    ps_page_cache_count(&counts);
    return ps_huge_keeps_holes(counts.arena_granules);
}

/* Purges a span that is off its list, and returns it. */
static size_t purge_span(struct purge *purge, struct ps_span *span) {
    bool is_huge = ps_huge_is_wanted(span->run.is_huge);
    uintptr_t page = (uintptr_t)span->run.base / PS_HUGE_PAGE_BYTES;
    purge->us += (int64_t)(ps_span_capacity(span) / BLOCKS_PER_US);
    size_t bytes = !is_huge || purge->is_apart ? ps_span_purge(span) : 0;
    purge->us += (int64_t)(bytes / 1024 / KIB_PER_US);
    if (is_huge && bytes != 0 && page != purge->last_broken) {
        ps_huge_keep_holes(span->run.base, 1);
        purge->last_broken = page;
        purge->us += PS_PURGE_BREAK_US;
    }
    ps_orphans_return(span, bytes != 0);
    return bytes;
}

static uint32_t lists(void) { return ps_size_class_count * (ps_node_last() + 1); }

/* See ps_orphans_take_idle. */
static struct ps_span *take(uint32_t list, uint32_t epochs, bool *is_last) {
    uint32_t class_index = list % ps_size_class_count;
    *is_last = true;
    return ps_span_may_purge(class_index)
               ? ps_orphans_take_idle(class_index, list / ps_size_class_count, epochs, is_last)
               : NULL;
}

static void begin_pass(void) {
    rest_lists = lists();
    is_apart = is_apart_now();
}

static void begin_epoch(uint64_t now_ms) {
    uint64_t epoch_ms = ps_retention_delay_ms() / EPOCHS_OF_DELAY;
    epoch_ends_ms = now_ms + ps_max(epoch_ms, EPOCH_MS_LEAST);
    ps_orphans_age();
    begin_pass();
}

bool ps_orphan_purge_tick(uint64_t now_ms, bool is_asked, uint64_t *bytes) {
    if (!is_possible()) {
        return false;
    }
    if (now_ms >= epoch_ends_ms) {
        begin_epoch(now_ms);
    } else if (is_asked && !was_asked) {
        begin_pass();
    }
    bool has_delay = !is_asked && ps_retention_delay_ms() != 0;
    uint32_t epochs = has_delay ? EPOCHS_OF_DELAY + 1 : 0;
    struct purge purge = {.is_apart = is_apart};
    for (; rest_lists != 0 && purge.us < PS_PURGE_STEP_US; purge.us += PS_PURGE_CALL_US) {
        bool is_last;
        struct ps_span *span = take(next_list, epochs, &is_last);
        *bytes += span != NULL ? purge_span(&purge, span) : 0;
        if (is_last) {
            next_list = (next_list + 1) % lists();
            rest_lists--;
        }
    }
    was_asked = is_asked && rest_lists != 0;
    return rest_lists != 0;
}

size_t ps_orphan_purge_all(void) {
    if (!is_possible()) {
        return 0;
    }
    struct purge purge = {.is_apart = is_apart_now()};
    size_t bytes = 0;
    for (uint32_t list = 0; list < lists(); list++) {
        bool is_last;
        do { /* ends: each orphan is taken once, and those that are added are few */
            struct ps_span *span = take(list, 0, &is_last);
            bytes += span != NULL ? purge_span(&purge, span) : 0;
        } while (!is_last);
    }
    return bytes;
}
