/* SPDX-License-Identifier: MIT */
/*
 * Heaps by call site: threads that meet a new site at the same moment agree on its part, sites of
 * one place are told apart, and a part is complete for each thread that gets it, made by one. This
 * file has substitutes for what a part consists of. Sources, bounds and planted faults: site.model.
 */
#include "pools/engine/harden/site.h"

#include "pools/engine/front/front.h"

#include <explore.h>

#define SITE 0x41
#define OTHER_SITE 0x42

PS_THREAD_LOCAL_LINE(struct ps_front_words, ps_front_thread);
struct ps_front_table *ps_front_parts;

static struct ps_partition parts[PS_PARTITION_PARTS];
static struct ps_site_table table;
static char fronts[PS_PARTITION_PARTS];
static struct ps_partition *found[EXPLORE_THREADS + 1];

/* ---- what a part consists of ---- */

void ps_extents_make(struct ps_extents *extents) { explore_use(extents, sizeof *extents); }

struct ps_front_table *ps_front_table_of_part(struct ps_partition *part, size_t index) {
    EXPLORE_ASSERT(part->fronts == NULL); /* once */
    return (struct ps_front_table *)&fronts[index];
}

/* ---- threads ---- */

/* With this factor each site has the first place. */
static void set_up(void) {
    table.factor = 1;
    ps_site_table = &table;
    ps_partition_parts = parts;
}

static void check_part(const struct ps_partition *part) {
    if (part != NULL) {
        EXPLORE_ASSERT(part->fronts == (struct ps_front_table *)&fronts[part - parts]);
    }
}

static void find(uintptr_t site) {
    struct ps_partition *part = ps_site_find(site);
    check_part(part);
    found[explore_thread()] = part;
}

static void find_site(void) { find(SITE); }

static void find_other_site(void) { find(OTHER_SITE); }

static void find_third_site(void) { find(OTHER_SITE + 1); }

static void look_up_site(void) { check_part(ps_site_known(SITE)); }

/* ---- checks ---- */

static void agreed(void) {
    struct ps_partition *part = ps_site_find(SITE);
    EXPLORE_ASSERT(part != NULL && ps_site_known(SITE) == part);
    EXPLORE_ASSERT(found[1] == NULL || found[1] == part);
    EXPLORE_ASSERT(found[2] == NULL || found[2] == part);
}

/* Of two sites, with a part for each. */
static void told_apart(void) {
    EXPLORE_ASSERT(found[1] != NULL && found[2] != NULL && found[1] != found[2]);
    EXPLORE_ASSERT(ps_site_find(SITE) == found[1]);
    EXPLORE_ASSERT(ps_site_find(OTHER_SITE) == found[2]);
}

static void complete(void) {
    for (size_t i = 0; i < PS_PARTITION_PARTS; i++) {
        EXPLORE_ASSERT((ps_partition_x_parts >> i & 1) == 0 || parts[i].fronts != NULL);
    }
}

const struct explore_scenario explore_scenarios[] = {
    {"known", set_up, {find_site, look_up_site}, complete, false},
    {"one_site", set_up, {find_site, find_site}, agreed, false},
    {"two_sites", set_up, {find_site, find_other_site}, told_apart, false},
    {"one_part", set_up, {find_site, find_other_site, find_third_site}, complete, false},
    {NULL, NULL, {NULL}, NULL, false},
};
