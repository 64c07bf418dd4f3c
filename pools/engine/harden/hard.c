/* SPDX-License-Identifier: MIT */
/*
 * See hard.h, from level 2 on. A block is zero from its free to its next owner, but for its first
 * word while that is a link.
 */
#include "pools/engine/harden/hard.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/harden/guard.h"
#include "pools/engine/harden/wipe.h"
#include "pools/engine/harden/zero.h"
#include "pools/engine/heap/blocks.h"
#include "pools/engine/heap/large.h"
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/heap/pop.h"
#include "pools/engine/heap/refill.h"
#include "pools/engine/heap/remote.h"
#include "pools/engine/heap/shadow.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/metadata.h"

#include <errno.h>
#include <string.h>

#define HELD_LIMIT 256 /* most blocks of a class that wait; at level 2 an eighth of that */
#define HELD_LEAST 4
#define SPARSE_SPANS 16                /* of a class in a heap, at level 2 a quarter of that */
#define HELD_BYTES ((size_t)512 << 10) /* and their bytes, likewise */
#define DRAWN_LIMIT 16
#define DRAWN_BYTES ((size_t)16 << 10)
#define LOOKED_AT_WHOLE ((size_t)1 << 10)
#define CANARY_BYTES sizeof(uint64_t)
#define GOLDEN 0x9e3779b97f4a7c15u

/* Of one class in one heap. held[0..held_count) wait, drawn[0..drawn_count) come next. */
struct hard_class {
    void *held[HELD_LIMIT];
    void *drawn[DRAWN_LIMIT];
    uint16_t held_count;
    uint16_t held_limit;
    uint8_t drawn_count;
    uint8_t drawn_limit;
};

struct ps_hard {
    uint64_t random; /* xorshift state, never 0 */
    struct hard_class classes[PS_CLASS_LIMIT];
};

uint32_t ps_hard_level;
size_t ps_hard_extra_bytes;
static uint64_t canary_secret;

void ps_hard_start(const struct ps_config *config) {
    ps_hard_level = config->harden;
    if (!ps_hard_is_on()) {
        return;
    }
    canary_secret = ps_os_random();
    ps_refill_sparse_spans =
        ps_hard_level >= PS_HARDEN_LONG_QUARANTINE ? SPARSE_SPANS : SPARSE_SPANS / 4;
    ps_hard_extra_bytes = CANARY_BYTES;
}

struct ps_hard *ps_hard_make(void) {
    struct ps_hard *hard = ps_metadata_map(ps_round_up(sizeof *hard, PS_SLICE_BYTES));
    if (hard == NULL) {
        return NULL;
    }
    hard->random = ps_os_random() | 1;
    size_t share = ps_hard_level >= PS_HARDEN_LONG_QUARANTINE ? 1 : 8;
    for (uint32_t i = 0; i < ps_size_class_count; i++) {
        struct hard_class *class = &hard->classes[i];
        size_t block_bytes = ps_size_classes[i].block_bytes;
        class->held_limit = (uint16_t)ps_min(ps_max(HELD_BYTES / share / block_bytes, HELD_LEAST),
                                             HELD_LIMIT / share);
        class->drawn_limit = (uint8_t)ps_min(ps_max(DRAWN_BYTES / block_bytes, 2), DRAWN_LIMIT);
    }
    return hard;
}

static size_t random_below(struct ps_hard *hard, size_t limit) {
    uint64_t x = hard->random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    hard->random = x;
    return (size_t)(((x >> 32) * limit) >> 32);
}

/* ---- canaries: a block's last word, and up to 64 bytes of slack before it ---- */

#define SLACK_LOOKED_AT                                                                            \
    64 /* behind the bytes asked for: who runs over the end comes through there */

static uint64_t canary_of(const void *block) { return ((uintptr_t)block ^ canary_secret) * GOLDEN; }

/* Not zero in any byte: what was wiped is not taken for it. */
static uint64_t slack_of(uint64_t canary) { return canary | 0x0101010101010101u; }

static void set_canary(void *block, size_t room, size_t bytes) {
    uint64_t canary = canary_of(block);
    uint64_t slack = slack_of(canary);
    char *end = (char *)block + room;
    char *at = (char *)block + bytes;
    /* The last may reach into the canary's place, which is written after it. */
    for (size_t left = ps_min(room - bytes, SLACK_LOOKED_AT); left != 0;
         left -= ps_min(left, sizeof slack)) {
        memcpy(at, &slack, sizeof slack);
        at += sizeof slack;
    }
    *(uint64_t *)end = canary ^ (room - bytes);
}

/* Whether the slack is as set_canary has left it. */
static bool is_slack_intact(const char *at, size_t bytes, uint64_t slack) {
    size_t left = ps_min(bytes, SLACK_LOOKED_AT);
    for (; left >= sizeof slack; left -= sizeof slack) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        if (word != slack) {
            return false;
        }
        at += sizeof word;
    }
    for (size_t i = 0; i < left; i++) {
        if (at[i] != ((const char *)&slack)[i]) {
            return false;
        }
    }
    return true;
}

static size_t room_of(const struct ps_span *span) { return span->block_bytes - CANARY_BYTES; }

/* Bytes between those that the block was asked for and its canary; more than its room when that was
 * written over. */
static uint64_t slack_bytes_of(const struct ps_span *span, const void *block) {
    return *(const uint64_t *)((const char *)block + room_of(span)) ^ canary_of(block);
}

bool ps_hard_is_intact(const struct ps_span *span, const void *block) {
    size_t room = room_of(span);
    uint64_t slack = slack_bytes_of(span, block);
    return slack <= room &&
           is_slack_intact((const char *)block + room - slack, slack, slack_of(canary_of(block)));
}

/* Bytes that the block was asked for; aborts when somebody wrote behind them. */
static size_t check_canary(const struct ps_span *span, const void *block) {
    if (PS_UNLIKELY(!ps_hard_is_intact(span, block))) {
        ps_misuse(PS_MISUSE_OVERRUN, span, block);
    }
    return room_of(span) - slack_bytes_of(span, block);
}

/* The canary of the block in front, which an overrun from there has come through, or one that began
 * in the block itself. Another thread may be using that block. */
static void check_neighbour(const struct ps_span *span, const char *block) {
    const char *neighbour = block - span->block_bytes;
    if (neighbour >= ps_span_block(span, span->first) && ps_shadow_of_live(neighbour) != NULL &&
        PS_UNLIKELY(slack_bytes_of(span, neighbour) > room_of(span))) {
        ps_hard_check_other(span, neighbour);
    }
}

/* ---- from a span to the program ---- */

static bool is_guarded(const void *block) {
    /* relaxed: nobody else has the block. */
    return ps_guard_period != 0 &&
           ps_load_relaxed(&ps_page_map_slot(block)->run.kind) == PS_RUN_GUARD;
}

/*
 * Whether a block is as ps_hard_pass has left it. At level 2 one word of each 64 bytes stands for
 * what lies behind the first KiB, a different one each time: an eighth of the loads.
 */
static bool is_untouched(struct ps_hard *hard, const void *block, size_t bytes) {
    if (bytes <= LOOKED_AT_WHOLE || ps_hard_level >= PS_HARDEN_LONG_QUARANTINE || hard == NULL) {
        return ps_is_wiped(block, bytes);
    }
    return ps_is_wiped(block, LOOKED_AT_WHOLE) &&
           ps_is_wiped_at((const char *)block + LOOKED_AT_WHOLE,
                          ps_round_down(bytes - LOOKED_AT_WHOLE, PS_WIPE_LINE_BYTES),
                          random_below(hard, PS_WIPE_LINE_WORDS));
}

/*
 * What was freed must still be zero. What comes from a window has not been through a free: it is
 * zero if nobody had it, and is not touched then, which saves a page fault for each fresh page.
 */
static void *checked(struct ps_hard *hard, const struct ps_bin *bin, void *block) {
    bool is_of_window = (char *)block + bin->block_bytes == bin->cur;
    if (is_of_window && !bin->is_zero) {
        memset(block, 0, bin->block_bytes);
    } else if (PS_UNLIKELY(!is_of_window && !is_untouched(hard, block, bin->block_bytes))) {
        ps_misuse(PS_MISUSE_LATE_WRITE, ps_span_of_inside(ps_page_map_slot(block), block), block);
    }
    return block;
}

/* One of those that come next, at random; more are taken from the bin first, if there are none. */
static void *draw(struct ps_heap *heap, struct ps_bin *bin, struct hard_class *class,
                  size_t bytes) {
    if (class->drawn_count == 0) {
        void *block = ps_heap_take(heap, bin, bytes);
        if (block == NULL || is_guarded(block)) {
            return block;
        }
        class->drawn[class->drawn_count++] = checked(heap->hard, bin, block);
        while (class->drawn_count < class->drawn_limit && (block = ps_bin_take(bin)) != NULL) {
            class->drawn[class->drawn_count++] = checked(heap->hard, bin, block);
        }
    }
    size_t index = random_below(heap->hard, class->drawn_count);
    void *block = class->drawn[index];
    class->drawn[index] = class->drawn[--class->drawn_count];
    return block;
}

static void *take_wiped(struct ps_heap *heap, uint32_t class_index, size_t bytes) {
    struct ps_bin *bin = &heap->bins[class_index];
    void *block;
    if (PS_UNLIKELY(heap->hard == NULL)) {
        block = ps_heap_take(heap, bin, bytes);
        return block == NULL || is_guarded(block) ? block : checked(heap->hard, bin, block);
    }
    return draw(heap, bin, &heap->hard->classes[class_index], bytes);
}

void *ps_hard_alloc(struct ps_heap *heap, uint32_t class_index, size_t bytes, size_t sample_bytes) {
    if (PS_UNLIKELY(bytes == 0 && sample_bytes == 0)) {
        return ps_zero_alloc();
    }
    if (PS_UNLIKELY(class_index == PS_CLASS_NONE)) {
        ps_heap_tick(heap);
        return ps_large_alloc(bytes, 1, NULL);
    }
    void *block = take_wiped(heap, class_index, sample_bytes);
    if (PS_UNLIKELY(block == NULL) || is_guarded(block)) {
        return block;
    }
    uint8_t *mark = ps_shadow_make_at(block);
    if (PS_UNLIKELY(mark == NULL)) {
        errno = ENOMEM; /* the block stays out: there is no memory to free it by */
        return NULL;
    }
    ps_shadow_set_busy(mark);
    set_canary(block, ps_size_classes[class_index].block_bytes - CANARY_BYTES, bytes);
    ps_shadow_set(mark, PS_SHADOW_LIVE);
    return block;
}

/* ---- from the program to a span ---- */

void *ps_hard_pass(struct ps_heap *heap, struct ps_span *span, void *block) {
    uint8_t *mark = ps_shadow_of_live(block);
    if (PS_UNLIKELY(mark == NULL)) {
        ps_misuse_free(span, block);
    }
    if (PS_UNLIKELY((*mark & PS_SHADOW_FAMILY) != 0)) {
        ps_misuse(PS_MISUSE_FAMILY, span, block);
    }
    ps_shadow_set_busy(mark);
    (void)check_canary(span, block);
    check_neighbour(span, block);
    ps_wipe(block, span->block_bytes);
    ps_shadow_set(mark, PS_SHADOW_FREED);
    if (PS_UNLIKELY(heap == NULL || heap->hard == NULL)) {
        return block;
    }
    struct hard_class *class = &heap->hard->classes[span->class_index];
    if (class->held_count < class->held_limit) {
        class->held[class->held_count++] = block;
        return NULL;
    }
    size_t index = random_below(heap->hard, class->held_count);
    void *other = class->held[index];
    class->held[index] = block;
    return other;
}

size_t ps_hard_usable(const struct ps_span *span, const void *block, enum ps_misuse_call call) {
    if (PS_UNLIKELY(!ps_span_has_block(span, block))) {
        ps_misuse_met(span, block, call);
    }
    const uint8_t *mark = ps_shadow_of_live(block);
    if (PS_UNLIKELY(mark == NULL)) {
        ps_misuse_met(span, block, call);
    }
    if (PS_UNLIKELY(call == PS_MISUSE_REALLOC && (*mark & PS_SHADOW_FAMILY) != 0)) {
        ps_misuse(PS_MISUSE_FAMILY, span, block);
    }
    return check_canary(span, block);
}

void ps_hard_resize(const struct ps_span *span, void *block, size_t bytes) {
    uint8_t *mark = ps_shadow_of_live(block);
    ps_shadow_set_busy(mark);
    set_canary(block, room_of(span), bytes);
    ps_shadow_set(mark, PS_SHADOW_LIVE);
}

static void send_home(struct ps_heap *heap, void *block) {
    struct ps_span *span = ps_span_of_inside(ps_page_map_slot(block), block);
    if (!ps_heap_owns(heap, span)) {
        ps_remote_free(heap, span, block);
        return;
    }
    ps_span_settle(span);
    ps_span_give_list(span, block, block, 1);
    ps_heap_span_gained(heap, span);
}

void ps_hard_flush(struct ps_heap *heap, uint32_t class_index) {
    if (heap->hard == NULL) {
        return;
    }
    struct hard_class *class = &heap->hard->classes[class_index];
    while (class->held_count != 0) {
        send_home(heap, class->held[--class->held_count]);
    }
    while (class->drawn_count != 0) {
        send_home(heap, class->drawn[--class->drawn_count]);
    }
}

void ps_hard_flush_all(struct ps_heap *heap) {
    for (uint32_t i = 0; i < ps_size_class_count; i++) {
        ps_hard_flush(heap, i);
    }
}

size_t ps_hard_count(const struct ps_heap *heap, uint32_t class_index) {
    if (heap->hard == NULL) {
        return 0;
    }
    const struct hard_class *class = &heap->hard->classes[class_index];
    return (size_t) class->held_count + class->drawn_count;
}
