/* SPDX-License-Identifier: MIT */
/*
 * How much of the passing time purging may take: the steps of one purger together take an eighth
 * of it; from 256 MiB on that are due a quarter, from 512 MiB on a half. Unused credit is kept
 * for a while, since a thread that is lightly active makes all its calls in a short time. The
 * purger's lock protects it.
 */
#ifndef PS_PAGE_PURGE_CREDIT_H
#define PS_PAGE_PURGE_CREDIT_H

#include "pools/engine/page/retention.h"

#include <stdint.h>

/*
 * Credit of one step, by its cost: a system that drops 15 MiB of ordinary pages in a
 * millisecond takes 4 us for a granule, and less where the pages are huge, if they are; but to
 * break a huge page takes 40 to 100 us. No clock is read, since one that runs on while the thread
 * does not would end most steps early on a busy machine, and the thread's own costs a system call.
 */
#define PS_PURGE_STEP_US 250
#define PS_PURGE_STEP_US_BEHIND 350 /* if much is due */
#define PS_PURGE_BEHIND_BYTES ((uint64_t)64 << 20)
#define PS_PURGE_GRANULE_US 4 /* of ordinary pages */
#define PS_PURGE_BREAK_US 100
#define PS_PURGE_CALL_US 1

struct ps_purge_credit {
    int64_t us; /* a step begins while it is positive, and subtracts its cost */
    uint64_t since_ms;
};

/* Adds credit for the time since the last call. */
void ps_purge_credit_add(struct ps_purge_credit *credit, uint64_t now_ms, uint64_t due_bytes);

/* Credit of the next step. */
static inline int64_t ps_purge_step_us(uint64_t due_bytes) {
    bool is_behind = due_bytes >= PS_PURGE_BEHIND_BYTES;
    return (int64_t)ps_retention_step(is_behind ? PS_PURGE_STEP_US_BEHIND : PS_PURGE_STEP_US);
}

#endif
