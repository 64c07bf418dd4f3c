// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* Free runs by length, against a plain array of runs that are in or out. */
#include "pools/engine/page/run_bins.h"

#include "pools/engine/base/compiler.h"
#include "pools/engine/page/page_cache.h"

#include "tests/unit/fake_os.h"
#include "tests/unit/fresh.h"

#define RUN_COUNT 300
#define ROUNDS 20000
#define BASE ((uintptr_t)0x100 << 30) /* no memory lies there; bins touch slots only */

struct model_run {
    struct ps_run *run;
    bool is_in;
};

static struct ps_run_bins bins;
PS_UNDO_LOG(undo, PS_RUN_BINS_UNDO_WORDS);
static struct model_run runs[RUN_COUNT];

static void insert(struct ps_run *run) {
    ps_run_bins_insert(&bins, run, &undo);
    ps_undo_commit(&undo, undo.first);
}

static void take_out(struct ps_run *run) {
    ps_run_bins_remove(&bins, run, &undo);
    ps_undo_commit(&undo, undo.first);
}

static size_t random_length(void) {
    switch (unit_random() % 4) {
    case 0:
        return 1 + unit_random() % 4;
    case 1:
        return 1 + unit_random() % 40;
    case 2:
        return 1 + unit_random() % 600;
    default:
        return 1 + unit_random() % 4000;
    }
}

/* Lays out adjacent runs, so that a misplaced or stale mark falls on a neighbour. The longest
 * possible run is the last one. */
static void lay_out(void) {
    uintptr_t base = BASE;
    for (size_t i = 0; i < RUN_COUNT; i++) {
        size_t granules = i + 1 == RUN_COUNT ? 65535 : random_length();
        REQUIRE(ps_page_map_cover((void *)base, granules * PS_GRANULE_BYTES));
        runs[i].run = &ps_page_map_slot((void *)base)->run;
        runs[i].run->base = (char *)base;
        runs[i].run->granules = (uint32_t)granules;
        base += granules * PS_GRANULE_BYTES;
    }
}

static struct ps_run *last_of(const struct ps_run *run) {
    return &ps_page_map_slot(run->base + (run->granules - 1) * PS_GRANULE_BYTES)->run;
}

/* Shortest length of the bin after the one of `granules`: runs of at least that length must be
 * found, shorter ones may be overlooked. */
static size_t next_bin_length(size_t granules) {
    if (granules <= PS_EXACT_BINS) {
        return granules;
    }
    size_t width = 4;
    while (width * 16 <= granules) {
        width *= 2;
    }
    return (granules / width + 1) * width;
}

static void check_find(size_t granules) {
    size_t shortest_sure = SIZE_MAX; /* that find must not overlook */
    for (size_t i = 0; i < RUN_COUNT; i++) {
        size_t length = runs[i].run->granules;
        if (runs[i].is_in && length >= next_bin_length(granules) && length < shortest_sure) {
            shortest_sure = length;
        }
    }
    const struct ps_run *found = ps_run_bins_find(&bins, granules);
    if (found == NULL) {
        CHECK(shortest_sure == SIZE_MAX);
        return;
    }
    CHECK_EQ(found->kind, PS_RUN_FREE);
    CHECK_CMP(found->granules, >=, granules);
    if (shortest_sure <= PS_EXACT_BINS) {
        CHECK_EQ(found->granules, shortest_sure);
    } else if (shortest_sure != SIZE_MAX) { /* in its bin, or a smaller one */
        CHECK_CMP(found->granules, <, next_bin_length(shortest_sure));
    }
}

static void check_longest(void) {
    size_t longest = 0;
    for (size_t i = 0; i < RUN_COUNT; i++) {
        if (runs[i].is_in && runs[i].run->granules > longest) {
            longest = runs[i].run->granules;
        }
    }
    const struct ps_run *found = ps_run_bins_longest(&bins);
    CHECK_EQ(found == NULL, longest == 0);
    if (found != NULL && longest <= PS_EXACT_BINS) {
        CHECK_EQ(found->granules, longest);
    } else if (found != NULL) {
        CHECK_CMP(next_bin_length(found->granules), >, longest);
    }
}

static void check_all(void) {
    uint64_t granules = 0;
    for (size_t i = 0; i < RUN_COUNT; i++) {
        const struct ps_run *run = runs[i].run;
        uint8_t kind = runs[i].is_in ? PS_RUN_FREE : PS_RUN_NONE;
        CHECK_EQ(run->kind, kind);
        CHECK_EQ(last_of(run)->kind, kind);
        CHECK(!runs[i].is_in || last_of(run)->back == run->granules - 1);
        granules += runs[i].is_in ? run->granules : 0;
    }
    CHECK_EQ(bins.granules, granules);
    for (size_t bin = 0; bin < PS_BIN_COUNT; bin++) {
        CHECK_EQ(bins.filled[bin / 64] >> (bin % 64) & 1, bins.heads[bin] != NULL);
    }
}

FRESH_TEST(bins_match_a_plain_array) {
    lay_out();
    for (int round = 0; round < ROUNDS; round++) {
        struct model_run *chosen = &runs[unit_random() % RUN_COUNT];
        if (chosen->is_in) {
            take_out(chosen->run);
        } else {
            insert(chosen->run);
        }
        chosen->is_in = !chosen->is_in;
        check_find(random_length());
        if (round % 100 == 0) {
            check_longest();
            check_all();
        }
    }
}

FRESH_TEST(bins_that_were_emptied_are_as_new) {
    lay_out();
    for (size_t i = 0; i < RUN_COUNT; i++) {
        insert(runs[i].run);
        runs[i].is_in = true;
    }
    check_all();
    for (size_t i = 0; i < RUN_COUNT; i++) {
        struct ps_run *run = ps_run_bins_find(&bins, 1);
        REQUIRE(run != NULL);
        take_out(run);
    }
    static const struct ps_run_bins empty;
    CHECK(memcmp(&bins, &empty, sizeof bins) == 0);
    CHECK_PTR_EQ(ps_run_bins_find(&bins, 1), NULL);
    CHECK_PTR_EQ(ps_run_bins_longest(&bins), NULL);
}

FRESH_TEST(every_length_finds_a_run_of_just_that_length) {
    lay_out();
    struct ps_run *run = runs[RUN_COUNT - 1].run;
    for (uint32_t granules = 1; granules <= 65535; granules += granules < 3000 ? 1 : 61) {
        run->granules = granules;
        insert(run);
        CHECK_PTR_EQ(ps_run_bins_find(&bins, granules), run);
        CHECK_PTR_EQ(ps_run_bins_find(&bins, granules + 1), NULL);
        CHECK_PTR_EQ(ps_run_bins_longest(&bins), run);
        take_out(run);
    }
}

/* All that the bins and the slots of the runs say. */
struct picture {
    struct ps_run_bins bins;
    struct ps_run heads[RUN_COUNT];
    struct ps_run tails[RUN_COUNT];
};

static void take_picture(struct picture *picture) {
    picture->bins = bins;
    for (size_t i = 0; i < RUN_COUNT; i++) {
        picture->heads[i] = *runs[i].run;
        picture->tails[i] = *last_of(runs[i].run);
    }
}

FRESH_TEST(changes_can_be_rolled_back) {
    static struct picture before;
    static struct picture after;
    lay_out();
    for (int round = 0; round < ROUNDS / 4; round++) {
        struct model_run *chosen = &runs[unit_random() % RUN_COUNT];
        take_picture(&before);
        if (chosen->is_in) {
            ps_run_bins_remove(&bins, chosen->run, &undo);
        } else {
            ps_run_bins_insert(&bins, chosen->run, &undo);
        }
        if (unit_random() % 2 == 0) {
            ps_undo_roll_back(&undo);
            take_picture(&after);
            CHECK(memcmp(&before, &after, sizeof before) == 0);
        } else {
            ps_undo_commit(&undo, undo.first);
            chosen->is_in = !chosen->is_in;
        }
    }
    check_all();
}

FRESH_TEST(free_runs_grow_together_as_far_as_their_last_slot_can_say) {
    struct ps_run *given[3];
    for (size_t i = 0; i < 3; i++) {
        char *base = (char *)BASE + i * PS_RUN_GRANULES_LIMIT * PS_GRANULE_BYTES;
        given[i] = ps_page_cache_adopt(base, PS_RUN_GRANULES_LIMIT);
        REQUIRE(given[i] != NULL);
    }
    for (size_t i = 0; i < 3; i++) {
        ps_page_cache_give(given[i]);
    }
    for (size_t granules = 0; granules < 3 * PS_RUN_GRANULES_LIMIT;) {
        char *base = (char *)BASE + granules * PS_GRANULE_BYTES;
        const struct ps_run *run = &ps_page_map_slot(base)->run;
        REQUIRE(run->kind == PS_RUN_FREE && run->granules != 0);
        char *last = base + ((size_t)run->granules - 1) * PS_GRANULE_BYTES;
        CHECK_EQ(ps_page_map_slot(last)->run.back, run->granules - 1);
        granules += run->granules;
    }
}

TEST(checked_builds_abort_when_a_run_is_taken_out_twice) {
    if (PS_CHECKED) {
        CHECK_ABORTS((lay_out(), take_out(runs[0].run)), "check failed: ");
    }
}

UNIT_MAIN
