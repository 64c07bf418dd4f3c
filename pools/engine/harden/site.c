/* SPDX-License-Identifier: MIT */
/*
 * See site.h.
 */
#include "pools/engine/harden/site.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/metadata.h"

_Static_assert(PS_PARTITION_PARTS <= PS_SITE_NOTED_NONE - 1, "a note has a byte");
_Static_assert((PS_PARTITION_PARTS & (PS_PARTITION_PARTS - 1)) == 0, "an odd step reaches each");

struct ps_site_table *ps_site_table;
struct ps_site_counts ps_site_counts;

static uint32_t x_drawn;                     /* parts so far */
static uint32_t x_sites[PS_PARTITION_PARTS]; /* known ones of each part */

void ps_site_start(void) {
    struct ps_site_table *table = ps_metadata_map(ps_round_up(sizeof *table, PS_GRANULE_BYTES));
    if (table == NULL || !ps_partition_map_parts()) {
        return;
    }
    table->order = ps_os_random();
    table->factor = ps_os_random() | 1;
    ps_site_table = table;
    ps_site_counts.x_parts = PS_PARTITION_PARTS;
}

/* The part of the n-th site: each round of all parts begins at another one, and has another step.
 */
static size_t nth_part(uint32_t n) {
    uint32_t round = n / PS_PARTITION_PARTS;
    uint64_t drawn = (ps_site_table->order + round) * ps_site_table->factor;
    size_t first = (size_t)(drawn >> 32);
    size_t step = (size_t)(drawn >> 48) | 1;
    return (first + n % PS_PARTITION_PARTS * step) % PS_PARTITION_PARTS;
}

static struct ps_partition *begin_part(size_t index) {
    return PS_LIKELY(ps_partition_begin_part(index)) ? &ps_partition_parts[index] : NULL;
}

static void count_site(size_t part) {
    /* relaxed, all: counts. */
    uint32_t before = ps_add_relaxed(&x_sites[part], 1u);
    ps_add_relaxed(&ps_site_counts.x_known, (uint64_t)1);
    if (before != 0) {
        ps_add_relaxed(&ps_site_counts.x_shared, (uint64_t)(before == 1 ? 2 : 1));
    }
}

/* Enters a new site at a free place. False: another thread has entered one, *entry. */
static PS_COLD bool enter(uintptr_t site, size_t part, uint64_t *place, uint64_t *entry) {
    uint64_t made = (uint64_t)site << PS_SITE_PART_BITS | part;
    /* acq_rel: pairs with ps_site_known, and with itself; makes the part visible. */
    if (!ps_cas_strong_acq_rel(place, entry, made)) {
        return false;
    }
    *entry = made;
    count_site(part);
    return true;
}

PS_NOINLINE struct ps_partition *ps_site_find(uintptr_t site) {
    size_t hash = ps_site_hash(site);
    size_t drawn = PS_PARTITION_PARTS; /* none yet */
    for (size_t i = 0; i < PS_SITE_TRIES; i++) {
        uint64_t *place = &ps_site_table->x_entries[(hash + i) % PS_SITE_PLACES];
        uint64_t entry = ps_load_acquire(place); /* acquire: as in ps_site_known */
        if (entry == 0) {
            /* relaxed: a number. */
            drawn = drawn != PS_PARTITION_PARTS ? drawn : nth_part(ps_add_relaxed(&x_drawn, 1u));
            if (begin_part(drawn) == NULL) {
                return NULL;
            }
            (void)enter(site, drawn, place, &entry);
        }
        if (entry >> PS_SITE_PART_BITS == site) {
            return &ps_partition_parts[entry % PS_PARTITION_PARTS];
        }
    }
    return begin_part((size_t)((site * ps_site_table->factor) >> 32) % PS_PARTITION_PARTS);
}

void ps_site_note(uintptr_t site) {
    struct ps_partition *part = ps_site_known(site);
    ps_site_note_part(PS_LIKELY(part != NULL) ? part : ps_site_find(site));
}

struct ps_partition *ps_site_take(uintptr_t site) {
    uint8_t noted = ps_front_thread.noted_part;
    ps_front_thread.noted_part = 0;
    if (PS_UNLIKELY(!ps_site_is_on())) {
        return NULL;
    }
    return noted == 0                    ? ps_site_find(site)
           : noted != PS_SITE_NOTED_NONE ? &ps_partition_parts[noted - 1]
                                         : NULL;
}
