/* SPDX-License-Identifier: MIT */
/*
 * The stacks, the lines and the live samples of the profile. Any thread; own lock
 * (PS_RANK_PROFILE). Callers: profile.c.
 *
 * Readers outside of the process (record/layout.h) take no lock: they read x_sequence, the table,
 * and x_sequence again, until both are one even number.
 */
#ifndef PS_PROFILE_TABLE_H
#define PS_PROFILE_TABLE_H

#include "pools/engine/profile/profile.h"

struct ps_slab;

/* A live sample. Constant while it is in the table, except what it was requested for. */
struct ps_sample {
    uintptr_t block;
    size_t bytes;
    size_t requested_bytes;
    uint64_t weight;            /* in units of 1/PS_DRAW_WEIGHT_ONE */
    const struct ps_slab *slab; /* that had the block otherwise, at that time; NULL: none */
    struct ps_profile_stack *stack;
    struct ps_sample *chain;
    uint32_t number; /* of the samples since the start, modulo 2^32 */
    bool is_medium;  /* lies in a medium region */
};

/* A line of profile.h. Constant; never removed. */
struct ps_line_record {
    struct ps_line_record *chain;
    uint32_t hash;
    uint32_t number;
    uint8_t file_bytes;
    uint8_t function_bytes;
    char text[]; /* of the file, then of the function */
};

/* The mapping: bucket_count pointers to stacks, as many to samples and to lines, then these. Lock;
 * read from outside the process, too: record/layout.h. */
struct ps_table_memory {
    char *base;          /* constant, as the next */
    size_t bucket_count; /* a power of two */
    char *x_used_end;
    uint64_t x_sequence; /* of changes; odd: one is under way */
};
extern PS_HIDDEN struct ps_table_memory ps_table_memory;

/* Has the sums of stacks that did not fit; in no bucket. */
extern PS_HIDDEN struct ps_profile_stack ps_table_x_lost;

/* Maps the table, once; the caller publishes it. False when memory is exhausted. */
bool ps_table_start(size_t max_bytes);

/* Sites of a stack, innermost first. */
struct ps_sites {
    size_t count;
    uintptr_t sites[PS_PROFILE_FRAMES];
};

/* ---- for period.c, too ---- */

/* Factors of a sample's part in the sums, which are modulo 2^64. */
#define PS_TABLE_ALLOCATED ((uint64_t)1)
#define PS_TABLE_FREED ((uint64_t)-1)

/* A section of changes: with the lock, undone as a whole in the child of a fork that interrupts it,
 * seen as a whole by readers outside of the process. */
void ps_table_begin_change(void);
void ps_table_end_change(void);

/* In a section: adds to a word of the table, or of its counts. */
void ps_table_add_to(uint64_t *word, uint64_t amount);

/* ---- samples ---- */

/* Counts a sample and enters it; stack, chain and number are set here. False when there was no
 * room: the sample was counted as allocated and freed. */
bool ps_table_add(const struct ps_sample *sample, const struct ps_sites *sites);

/* The sample at an address, if there is one, now serves a request for so much. */
void ps_table_set_requested(const void *block, size_t bytes);

/* Live bytes of all samples, each multiplied by its weight. */
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

/* Calls visit for each live sample, with the lock, which is released between the chains. visit
 * takes no lock and allocates nothing. */
void ps_table_walk(void (*visit)(const struct ps_sample *sample, void *context), void *context);

/* Bound on the number of live samples. */
size_t ps_table_sample_limit(void);
/* Repairs the lock in the child of a fork, on its only thread. */
void ps_table_fork_child(void);

#endif
