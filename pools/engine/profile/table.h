/* SPDX-License-Identifier: MIT */
/*
 * The stacks and the live samples of the profile. Any thread; own lock (PS_RANK_PROFILE). Callers:
 * profile.c.
 */
#ifndef PS_PROFILE_TABLE_H
#define PS_PROFILE_TABLE_H

#include "pools/engine/profile/profile.h"

/* A live sample. Constant while it is in the table. */
struct ps_sample {
    uintptr_t block;
    size_t bytes;
    uint64_t weight; /* in units of 1/PS_DRAW_WEIGHT_ONE */
    struct ps_profile_stack *stack;
    struct ps_sample *chain;
    bool is_medium; /* lies in a medium region */
};

/* Maps the table. Called once, at start. False when memory is exhausted. */
bool ps_table_start(size_t max_bytes);

/* Sites of a stack, innermost first. */
struct ps_sites {
    size_t count;
    uintptr_t sites[PS_PROFILE_FRAMES];
};

/* Counts a sample and enters it. is_medium: it lies in a medium region. False when there was no
 * room: the sample was counted as allocated and freed. */
bool ps_table_add(const void *block, size_t bytes, bool is_medium, const struct ps_sites *sites);

/* Live bytes of all samples, each multiplied by what it stands for. */
uint64_t ps_table_live_bytes(void);

/* Bytes of the live sample at an address; 0: there is none. */
size_t ps_table_find(const void *block);

/* Removes the sample at an address, and counts it as freed. Returns its bytes; 0: there is none. */
size_t ps_table_remove(const void *block);

/* Takes the sample at an address out of the table, without counting it as freed; NULL: there is
 * none. It must be put back, at the same address or another, or be dropped, which counts. */
struct ps_sample *ps_table_take(const void *block);
void ps_table_put(struct ps_sample *sample, const void *block);
void ps_table_drop(struct ps_sample *sample);

#endif
