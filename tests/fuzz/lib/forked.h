/* SPDX-License-Identifier: MIT */
/*
 * A run in a child of its own, for targets whose state is one per process and never starts over:
 * every input meets a fresh engine, so a finding can be repeated from its input alone. What the
 * child covered is carried back to libFuzzer in the parent. One thread.
 */
#ifndef PS_FUZZ_FORKED_H
#define PS_FUZZ_FORKED_H

#include <stddef.h>
#include <stdint.h>

#define FORKED_SECONDS_MAX 300 /* by the clock: a machine with other work may starve a child */

/* Runs it in a child, which is to return; aborts when it does not, or hangs. */
void forked_run(void (*run)(const uint8_t *bytes, size_t count), const uint8_t *bytes,
                size_t count);

/* In a process that a child has forked in turn: what it covered counts too. */
void forked_keep_coverage(void);

#endif
