/* SPDX-License-Identifier: MIT */
/*
 * mallctl's constants, settings and size classes, the purge delay, the background thread and
 * profiles: see mallctl.h.
 */
#include "shim/mallctl.h"

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/bits.h"
#include "pools/engine/heap/background.h"
#include "pools/engine/heap/block.h"
#include "pools/engine/heap/medium_path.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/page_map.h"
#include "pools/engine/page/retention.h"
#include "pools/engine/profile/demand.h"
#include "pools/engine/small/size_class.h"
#include "pools/include/poolshim/poolshim.h"
#include "shim/config.h"
#include "shim/profile.h"
#include "shim/threads.h"

#include <errno.h>

/* ---- constants ---- */

int ps_mallctl_read_constant(unsigned argument, const size_t *indexes, uint64_t *value) {
    (void)indexes;
    *value = argument;
    return 0;
}

int ps_mallctl_write_nothing(const size_t *indexes, uint64_t value) {
    (void)indexes;
    (void)value;
    return 0;
}

static const char *thp_words(void) {
    switch (ps_shim_settings()->engine.huge.policy) {
    case PS_HUGE_THP:
        return "always";
    case PS_HUGE_OFF:
        return "never";
    default:
        return "default";
    }
}

int ps_mallctl_read_words(unsigned argument, const size_t *indexes, uint64_t *value) {
    static const char *const words[] = {
        [PS_WORDS_VERSION] = ("poolshim " POOLSHIM_VERSION), /* one text */
        [PS_WORDS_EMPTY] = "",
        [PS_WORDS_DISABLED] = "disabled",
        [PS_WORDS_FALSE] = "false",
        [PS_WORDS_FREE] = "free",
        [PS_WORDS_DEFAULT] = "default",
    };
    (void)indexes;
    const char *text = argument == PS_WORDS_THP            ? thp_words()
                       : argument == PS_WORDS_PROFILE_PATH ? ps_shim_settings()->profile_path
                                                           : words[argument];
    *value = (uintptr_t)text;
    return 0;
}

/* ---- size classes ---- */

/* Lengths above the classes that have an index: (4 to 7) << n bytes. Their number is a rank. */
#define LARGE_STEPS 4

static size_t large_bytes(size_t rank) {
    return (LARGE_STEPS + rank % LARGE_STEPS) << rank / LARGE_STEPS;
}

#define LARGE_RANKS (61 * (size_t)LARGE_STEPS)

/* The length of an index; 0: there is none. *count: how many there are. */
static size_t large_at(size_t index, size_t *count) {
    size_t found = 0;
    size_t page_bytes = ps_os_page_bytes();
    *count = 0;
    for (size_t rank = 0; rank < LARGE_RANKS && large_bytes(rank) <= PS_BLOCK_BYTES_MOST; rank++) {
        size_t bytes = large_bytes(rank);
        if (bytes > ps_size_class_max_bytes && bytes % page_bytes == 0) {
            found = (*count)++ == index ? bytes : found;
        }
    }
    return found;
}

static size_t large_count(void) {
    size_t count;
    (void)large_at(0, &count);
    return count;
}

int ps_mallctl_read_large(unsigned argument, const size_t *indexes, uint64_t *value) {
    size_t count;
    (void)argument;
    *value = large_at(indexes[0], &count);
    return *value != 0 ? 0 : ENOENT;
}

int ps_mallctl_read_bin(unsigned argument, const size_t *indexes, uint64_t *value) {
    if (indexes[0] >= ps_size_class_count) {
        return ENOENT;
    }
    const struct ps_size_class *class = &ps_size_classes[indexes[0]];
    switch ((enum ps_mallctl_bin)argument) {
    case PS_BIN_BLOCK_BYTES:
        *value = class->block_bytes;
        break;
    case PS_BIN_SLAB_BLOCKS:
        *value = (uint64_t)(class->limit - class->first);
        break;
    case PS_BIN_SLAB_BYTES:
        *value = (uint64_t) class->granules << PS_GRANULE_SHIFT;
        break;
    case PS_BIN_SHARDS:
        *value = 1;
        break;
    }
    return 0;
}

/* ---- settings ---- */

bool ps_mallctl_has_profile(void) { return ps_demand_has_file(); }

static uint64_t lg_sample(void) {
    return ps_log2(ps_max(ps_shim_settings()->engine.profile_interval_bytes, 1));
}

static size_t cached_most_bytes(void) {
    return ps_max(ps_medium_limit_bytes, ps_size_class_max_bytes + 1) - 1;
}

int ps_mallctl_read_setting(unsigned argument, const size_t *indexes, uint64_t *value) {
    const struct ps_settings *settings = ps_shim_settings();
    (void)indexes;
    switch ((enum ps_mallctl_setting)argument) {
    case PS_SETTING_DEBUG:
        *value = PS_CHECKED;
        break;
    case PS_SETTING_STRICT:
        *value = settings->strict;
        break;
    case PS_SETTING_VERBOSE:
        *value = settings->verbose;
        break;
    case PS_SETTING_MAY_BACKGROUND:
        *value = settings->background != PS_BACKGROUND_NEVER;
        break;
    case PS_SETTING_SET_DELAY:
        *value = settings->engine.purge_delay_ms;
        break;
    case PS_SETTING_MMAP_MIN:
        *value = settings->engine.mmap_min_bytes;
        break;
    case PS_SETTING_CACHED_MOST:
        *value = cached_most_bytes();
        break;
    case PS_SETTING_STATS_PRINT:
        *value = settings->stats_target != PS_STATS_OFF;
        break;
    case PS_SETTING_PROFILE:
        *value = ps_mallctl_has_profile();
        break;
    case PS_SETTING_PROFILE_PEAK:
        *value = settings->profile_peak;
        break;
    case PS_SETTING_LG_SAMPLE:
        *value = lg_sample();
        break;
    case PS_SETTING_LG_SAMPLE_NOW:
        *value = ps_mallctl_has_profile() ? lg_sample() : 0;
        break;
    case PS_SETTING_MINUS_ONE:
        *value = UINT64_MAX;
        break;
    case PS_SETTING_PAGE:
        *value = ps_os_page_bytes();
        break;
    case PS_SETTING_BIN_COUNT:
        *value = ps_size_class_count;
        break;
    case PS_SETTING_LARGE_COUNT:
        *value = large_count();
        break;
    case PS_SETTING_LARGE_MOST:
        *value = PS_BLOCK_BYTES_MOST;
        break;
    }
    return 0;
}

/* ---- delays ---- */

static uint64_t x_muzzy_ms; /* as written last */

/* -1: memory is never released; here, after seven weeks. */
int ps_mallctl_read_delay_all(unsigned argument, const size_t *indexes, uint64_t *value) {
    (void)argument;
    (void)indexes;
    uint32_t delay_ms = ps_retention_usual_delay_ms();
    *value = delay_ms == UINT32_MAX ? UINT64_MAX : delay_ms;
    return 0;
}

static bool is_delay(uint64_t value) { return value <= UINT32_MAX || value == UINT64_MAX; }

int ps_mallctl_write_delay_all(const size_t *indexes, uint64_t value) {
    (void)indexes;
    if (!is_delay(value)) {
        return EFAULT;
    }
    ps_retention_set_delay(value <= UINT32_MAX ? (uint32_t)value : UINT32_MAX);
    return 0;
}

int ps_mallctl_read_delay(unsigned argument, const size_t *indexes, uint64_t *value) {
    (void)ps_mallctl_read_delay_all(argument, indexes, value);
    return ps_mallctl_is_arena(indexes[0]) ? 0 : ENOENT;
}

int ps_mallctl_write_delay(const size_t *indexes, uint64_t value) {
    return ps_mallctl_write_delay_all(indexes, value);
}

int ps_mallctl_read_muzzy_all(unsigned argument, const size_t *indexes, uint64_t *value) {
    (void)argument;
    (void)indexes;
    *value = ps_load_relaxed(&x_muzzy_ms); /* relaxed: a note */
    return 0;
}

int ps_mallctl_write_muzzy_all(const size_t *indexes, uint64_t value) {
    (void)indexes;
    if (!is_delay(value)) {
        return EFAULT;
    }
    ps_store_relaxed(&x_muzzy_ms, value); /* relaxed: as above */
    return 0;
}

int ps_mallctl_read_muzzy(unsigned argument, const size_t *indexes, uint64_t *value) {
    (void)ps_mallctl_read_muzzy_all(argument, indexes, value);
    return ps_mallctl_is_arena(indexes[0]) ? 0 : ENOENT;
}

int ps_mallctl_write_muzzy(const size_t *indexes, uint64_t value) {
    return ps_mallctl_write_muzzy_all(indexes, value);
}

/* ---- the background thread ---- */

int ps_mallctl_read_background(unsigned argument, const size_t *indexes, uint64_t *value) {
    (void)argument;
    (void)indexes;
    /* relaxed: a moment later it may be another. */
    *value = ps_load_relaxed(&ps_control_page.x_background) != PS_BACKGROUND_OFF;
    return 0;
}

int ps_mallctl_write_background(const size_t *indexes, uint64_t value) {
    uint64_t runs;
    if (value == 0) {
        ps_background_stop();
        return 0;
    }
    ps_threads_keep_background();
    (void)ps_mallctl_read_background(0, indexes, &runs);
    return runs != 0 ? 0 : EFAULT;
}

int ps_mallctl_read_background_most(unsigned argument, const size_t *indexes, uint64_t *value) {
    return ps_mallctl_read_constant(argument + 1, indexes, value);
}

int ps_mallctl_write_background_most(const size_t *indexes, uint64_t value) {
    (void)indexes;
    return value == 1 ? 0 : EINVAL;
}

/* ---- profiles ---- */

int ps_mallctl_read_sampling(unsigned argument, const size_t *indexes, uint64_t *value) {
    (void)argument;
    (void)indexes;
    uint32_t now = ps_demand_now();
    *value = (ps_mallctl_has_profile() ? now & PS_DEMAND_FILE : now) != 0;
    return 0;
}

/* All threads are sampled, or none is. */
int ps_mallctl_write_sampling(const size_t *indexes, uint64_t value) {
    uint64_t now;
    (void)ps_mallctl_read_sampling(0, indexes, &now);
    return (value != 0) == (now != 0) ? 0 : EFAULT;
}

int ps_mallctl_read_active(unsigned argument, const size_t *indexes, uint64_t *value) {
    return ps_mallctl_read_sampling(argument, indexes, value);
}

int ps_mallctl_write_active(const size_t *indexes, uint64_t value) {
    (void)indexes;
    return ps_demand_set_active(value != 0) || value == 0 ? 0 : ENOENT;
}

int ps_mallctl_read_gdump(unsigned argument, const size_t *indexes, uint64_t *value) {
    (void)argument;
    return ps_mallctl_read_setting(PS_SETTING_PROFILE_PEAK, indexes, value);
}

int ps_mallctl_write_gdump(const size_t *indexes, uint64_t value) {
    uint64_t now;
    (void)ps_mallctl_read_gdump(0, indexes, &now);
    return value == now ? 0 : EFAULT;
}

int ps_mallctl_write_dump(const size_t *indexes, uint64_t value) {
    (void)indexes;
    return ps_profile_write_file((const char *)(uintptr_t)value) == 0 ? 0 : EFAULT;
}
