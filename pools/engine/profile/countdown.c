/* SPDX-License-Identifier: MIT */
/*
 * See countdown.h.
 */
#include "pools/engine/profile/countdown.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/heap/bin_return.h"
#include "pools/engine/heap/refill.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/metadata.h"
#include "pools/engine/profile/demand.h"
#include "pools/engine/profile/profile.h"

#include <string.h>

#define DRAWN_LIMIT ((double)((int64_t)1 << 60))

#define LN_2 0.69314718055994530942
#define SQRT_2 1.41421356237309504880
#define MANTISSA_BITS 52
#define EXPONENT_BIAS 1023
#define CERTAIN 40.0 /* beyond this a block is sampled with probability 1 - 4e-18 */

static uint32_t x_made; /* countdowns created so far: with a seed, the number of the generator */

/* ---- random draws: logarithm and exponential without the mathematical library, which the engine
 * does not link; accurate to 1e-11 ---- */

uint64_t ps_draw_bits(uint64_t *state) { return ps_mix_64(*state += PS_GOLDEN_64); }

/* x: normal and positive. */
static double logarithm(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> MANTISSA_BITS) - EXPONENT_BIAS;
    bits = (bits & (((uint64_t)1 << MANTISSA_BITS) - 1)) | (uint64_t)EXPONENT_BIAS << MANTISSA_BITS;
    double mantissa;
    memcpy(&mantissa, &bits, sizeof mantissa);
    if (mantissa > SQRT_2) {
        mantissa /= 2;
        exponent++;
    }
    /* ln m = 2 artanh((m - 1) / (m + 1)), of at most 0.172. */
    double ratio = (mantissa - 1) / (mantissa + 1);
    double square = ratio * ratio;
    double sum = 0;
    for (int odd = 13; odd >= 1; odd -= 2) {
        sum = sum * square + 1.0 / odd;
    }
    return 2 * ratio * sum + exponent * LN_2;
}

double ps_draw_exponential(uint64_t bits) {
    const double unit = 1.0 / ((uint64_t)1 << 52);
    return -logarithm(((double)(bits >> 12) + 0.5) * unit);
}

/* 1 - exp(-x), for x from 0 to CERTAIN. */
static double probability(double x) {
    int halvings = 0;
    for (; x > 0.125; x /= 2) {
        halvings++;
    }
    double sum = 0;
    for (int n = 8; n >= 1; n--) { /* x - x^2/2 + x^3/6 - ... */
        sum = x / n * (1 - sum);
    }
    for (; halvings > 0; halvings--) { /* 1 - (1 - p)^2 */
        sum = sum * (2 - sum);
    }
    return sum;
}

uint64_t ps_draw_weight(size_t bytes, size_t interval_bytes) {
    double ratio = (double)bytes / (double)interval_bytes;
    double hit = ratio < CERTAIN ? probability(ratio) : 1;
    return (uint64_t)(PS_DRAW_WEIGHT_ONE / hit + 0.5);
}

uint64_t ps_draw_weighted(uint64_t weight, size_t bytes) {
    uint64_t units = PS_DRAW_WEIGHT_ONE;
    return weight / units * bytes + (weight % units * bytes + units / 2) / units;
}

/* ---- countdowns ---- */

static PS_COLD struct ps_countdowns *make(struct ps_heap *heap) {
    struct ps_countdowns *all = ps_metadata_take(sizeof *all);
    if (all == NULL) {
        return NULL;
    }
    uint64_t number = ps_add_relaxed(&x_made, 1u); /* relaxed: a number that no other heap has */
    uint32_t seed = ps_profile_settings.seed;
    all->random = seed != 0 ? (uint64_t)seed << 32 ^ number : ps_os_random();
    /* The heap of calls after thread exit is locked, and the unwinder may call. relaxed: constant
     * while it is shared. */
    all->is_inside = ps_load_relaxed(&heap->x_state) == PS_HEAP_SHARED;
    heap->countdowns = all;
    return all;
}

/* Bytes to the next point of the process. */
static double draw(struct ps_countdowns *all) {
    return ps_draw_exponential(ps_draw_bits(&all->random)) * (double)all->interval_bytes;
}

/* The block in which the point lies: one more than the blocks in front of it. */
void ps_countdown_draw(struct ps_countdowns *all, uint32_t class_index) {
    double blocks = draw(all) / ps_size_classes[class_index].block_bytes;
    all->classes[class_index].left = 1 + (int64_t)(blocks < DRAWN_LIMIT ? blocks : DRAWN_LIMIT);
}

void ps_countdown_draw_bytes(struct ps_countdowns *all) {
    double bytes = draw(all);
    all->left_bytes = 1 + (int64_t)(bytes < DRAWN_LIMIT ? bytes : DRAWN_LIMIT);
}

/* Counts of an earlier epoch say nothing: calls since then were not counted. */
static PS_COLD void begin_epoch(struct ps_countdowns *all, uint32_t epoch) {
    all->epoch = epoch;
    all->interval_bytes = ps_load_relaxed(&ps_demand_x_interval_bytes); /* relaxed: as of epoch */
    memset(all->classes, 0, sizeof all->classes);
    ps_countdown_draw_bytes(all);
}

PS_AT_START struct ps_countdowns *ps_countdowns_of(struct ps_heap *heap) {
    if (PS_LIKELY(ps_demand_now() == 0)) {
        return NULL;
    }
    struct ps_countdowns *all = heap->countdowns != NULL ? heap->countdowns : make(heap);
    uint32_t epoch = ps_load_acquire(&ps_demand_x_epoch); /* acquire: pairs with begin_epoch */
    if (all != NULL && PS_UNLIKELY(all->epoch != epoch)) {
        begin_epoch(all, epoch);
    }
    return all;
}

PS_AT_START struct ps_countdowns *ps_countdowns_begun(const struct ps_heap *heap) {
    struct ps_countdowns *all = ps_demand_now() != 0 ? heap->countdowns : NULL;
    /* relaxed: see ps_demand_now. */
    return all != NULL && all->epoch == ps_load_relaxed(&ps_demand_x_epoch) ? all : NULL;
}

void ps_countdown_pops(struct ps_countdowns *all, uint32_t class_index, int64_t popped) {
    struct ps_countdown *countdown = &all->classes[class_index];
    if (countdown->left != 0) {
        countdown->left -= popped;
        PS_CHECK(countdown->left > 0);
        countdown->left = countdown->left > 0 ? countdown->left : 1;
    } else {
        ps_countdown_draw(all, class_index); /* blocks taken before the first draw do not count */
    }
}

/* Blocks that have left the window since the last call. */
static int64_t count_window(struct ps_heap *heap, struct ps_countdown *countdown,
                            uint32_t class_index) {
    const struct ps_bin *bin = &heap->bins[class_index];
    int64_t taken =
        countdown->cursor != NULL ? (bin->cur - countdown->cursor) / bin->block_bytes : 0;
    countdown->cursor = bin->cur;
    return taken;
}

void ps_countdown_settle(struct ps_heap *heap, struct ps_countdowns *all, uint32_t class_index) {
    struct ps_span *source = heap->current[class_index];
    int64_t taken = count_window(heap, &all->classes[class_index], class_index);
    if (source != &ps_span_none) {
        taken += source->popped;
        ps_bin_settle(&heap->bins[class_index], source);
    }
    ps_countdown_pops(all, class_index, taken);
}

void ps_countdown_set_window(struct ps_countdowns *all, uint32_t class_index, char *cursor) {
    all->classes[class_index].cursor = cursor;
}

/* Makes the next event of a settled source happen after so many frees. */
static void expect(struct ps_span *source, size_t frees) {
    /* relaxed, both: as in ps_span_settle. */
    ps_store_relaxed(&source->countdown_start, (uint16_t)frees);
    ps_store_relaxed(&source->free_countdown, (uint16_t)frees);
}

void ps_countdown_bound(struct ps_heap *heap, struct ps_countdowns *all, uint32_t class_index) {
    struct ps_span *source = heap->current[class_index];
    size_t left = (size_t)all->classes[class_index].left;
    if (source == &ps_span_none || PS_UNLIKELY(left == 0)) {
        return; /* 0: a stack was being taken when an epoch began, and the unwinder allocated */
    }
    size_t blocks = ps_bin_blocks(heap, class_index);
    if (PS_LIKELY(blocks + source->free_countdown <= left)) {
        return;
    }
    if (blocks > left / 2) {
        ps_bin_shorten(heap, class_index, left / 2);
        blocks = ps_bin_blocks(heap, class_index);
    }
    PS_CHECK(blocks < left);
    if (source->free_countdown > left - blocks) {
        expect(source, left - blocks);
    }
}
