// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * The peak of a period, in all and of each call site, compared with a model of random calls. The
 * trace hook names the site that the test has set.
 */
#include "pools/engine/harden/guard.h"
#include "pools/engine/profile/profile.h"
#include "tests/unit/engine.h"

#include <string.h>

#define SITES 8

static uintptr_t site;

size_t ps_guard_trace(uintptr_t *sites, size_t limit, uintptr_t instruction) {
    (void)limit;
    (void)instruction;
    sites[0] = site;
    return 1;
}

#define LIVE_MOST 200

/* Every block is sampled, and counts as one: so the sums are exact. */
static struct period {
    uint64_t live[SITES];
    uint64_t peak[SITES];
    uint64_t total;
    uint64_t most;
} model;

static struct held {
    void *block;
    size_t bytes;
    uintptr_t at;
    bool is_of_period;
} held[LIVE_MOST];

/* As scripts/poolshim_cli/live/samples.py reads it. */
static uint64_t peak_of(uintptr_t at) {
    struct ps_profile_counts counts;
    ps_profile_count(&counts);
    const struct ps_profile_stack *stack = ps_profile_next(NULL);
    while (stack != NULL && (stack->count != 1 || stack->sites[0] != at)) {
        stack = ps_profile_next(stack);
    }
    if (stack == NULL || stack->x_period.number != counts.period_number) {
        return 0;
    }
    return stack->x_peak.number == counts.peak_number ? stack->x_peak.live_bytes
                                                      : stack->x_period.live_bytes;
}

static void hold(struct held *one, uint64_t *random) {
    one->at = engine_random(random) % SITES;
    site = one->at;
    one->block = ps_heap_alloc(1000 + engine_random(random) % 20000);
    REQUIRE(one->block != NULL);
    one->bytes = ps_block_usable(one->block);
    one->is_of_period = true;
    model.live[one->at] += one->bytes;
    model.total += one->bytes;
    if (model.total > model.most) {
        model.most = model.total;
        memcpy(model.peak, model.live, sizeof model.peak);
    }
}

static void let_go(struct held *one) {
    if (one->is_of_period) {
        model.live[one->at] -= one->bytes;
        model.total -= one->bytes;
    }
    ps_heap_free(one->block);
    one->block = NULL;
}

static void begin_period(void) {
    ps_profile_begin_period();
    model = (struct period){.most = 0};
    for (size_t i = 0; i < LIVE_MOST; i++) {
        held[i].is_of_period = false;
    }
}

static void check_period(void) {
    struct ps_profile_counts counts;
    ps_profile_count(&counts);
    CHECK_EQ(counts.peak_bytes, model.most);
    for (uintptr_t at = 0; at < SITES; at++) {
        CHECK_EQ(peak_of(at), model.peak[at]);
    }
}

FRESH_TEST(peaks_of_periods_are_those_of_a_model) {
    uint64_t random = 7;
    engine_config.profile = true;
    engine_config.profile_interval_bytes = 1;
    engine_config.profile_seed = 1;
    ps_engine_start();
    for (int i = 0; i < 20000; i++) {
        struct held *one = &held[engine_random(&random) % LIVE_MOST];
        if (one->block != NULL) {
            let_go(one);
        } else if (engine_random(&random) % 4 != 0) {
            hold(one, &random);
        }
        if (engine_random(&random) % 50 == 0) {
            check_period();
        }
        if (engine_random(&random) % 500 == 0) {
            begin_period();
        }
    }
    check_period();
}

UNIT_MAIN
