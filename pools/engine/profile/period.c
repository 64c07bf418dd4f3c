/* SPDX-License-Identifier: MIT */
/*
 * See period.h. Lock: that of the table, by its sections.
 */
#include "pools/engine/profile/period.h"

#include "pools/engine/heap/draw.h"

static void set_to(uint64_t *word, uint64_t value) { ps_table_add_to(word, value - *word); }

static void set_mark(struct ps_profile_mark *mark, uint64_t weight, uint64_t bytes,
                     uint64_t number) {
    set_to(&mark->live_weight, weight);
    set_to(&mark->live_bytes, bytes);
    set_to(&mark->number, number);
}

/* Before a change: a stack notes its live memory for the last peak, once. */
static struct ps_profile_mark *marked_period(struct ps_profile_stack *stack) {
    struct ps_profile_mark *period = &stack->x_period;
    if (period->number != ps_profile_x_counts.period_number) {
        set_mark(period, 0, 0, ps_profile_x_counts.period_number);
    }
    if (stack->x_peak.number != ps_profile_x_counts.peak_number) {
        set_mark(&stack->x_peak, period->live_weight, period->live_bytes,
                 ps_profile_x_counts.peak_number);
    }
    return period;
}

static bool is_of_period(const struct ps_sample *sample) {
    return (int32_t)(sample->number - (uint32_t)ps_profile_x_counts.period_sample) > 0;
}

void ps_period_count(const struct ps_sample *sample, uint64_t sign) {
    struct ps_profile_counts *counts = &ps_profile_x_counts;
    if (!is_of_period(sample)) {
        return;
    }
    struct ps_profile_mark *period = marked_period(sample->stack);
    uint64_t bytes = ps_draw_weighted(sample->weight, sample->bytes);
    ps_table_add_to(&period->live_weight, sign * sample->weight);
    ps_table_add_to(&period->live_bytes, sign * bytes);
    ps_table_add_to(&counts->period_bytes, sign * bytes);
    if (sign == PS_TABLE_ALLOCATED && counts->period_bytes > counts->peak_bytes) {
        set_to(&counts->peak_bytes, counts->period_bytes);
        ps_table_add_to(&counts->peak_number, 1);
    }
}

void ps_profile_begin_period(void) {
    struct ps_profile_counts *counts = &ps_profile_x_counts;
    ps_table_begin_change();
    ps_table_add_to(&counts->period_number, 1);
    set_to(&counts->period_sample, counts->sample_count);
    set_to(&counts->period_bytes, 0);
    set_to(&counts->peak_bytes, 0);
    ps_table_add_to(&counts->peak_number, 1);
    ps_table_end_change();
}
