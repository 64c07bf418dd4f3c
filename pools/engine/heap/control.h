/* SPDX-License-Identifier: MIT */
/*
 * The page by which another process asks this one for something: the command `poolshim` finds it as
 * the symbol poolshim_control of the mapped library, and reads and writes it by process_vm_readv
 * and process_vm_writev, for which the kernel asks for the right to trace the process. No signal,
 * no file descriptor, no thread of its own.
 *
 * A request: the other process, which has seen x_request == x_done, stores the command, its
 * argument and 0 for both results; then, by a second call of the system, another number in
 * x_request. The next thread that reads the clock, the background thread if there is one, serves
 * it, a step each time, and stores that number in x_done. A request that is not wanted any longer
 * is withdrawn by storing the old number. Offsets are for good; what is added comes behind, and
 * counts in `bytes`. A change of anything here is another version. The other side:
 * scripts/poolshim_cli/control.py.
 *
 * No locks. Callers: maintenance.c, background.c.
 */
#ifndef PS_HEAP_CONTROL_H
#define PS_HEAP_CONTROL_H

#include "pools/engine/base/atomic.h"

#include <stdbool.h>
#include <stddef.h>

#define PS_CONTROL_MAGIC "poolshim control" /* without a terminator */
#define PS_CONTROL_VERSION 1
#define PS_CONTROL_PAGE_BYTES 4096

enum ps_control_command {
    PS_CONTROL_TRIM = 1, /* release all free memory; x_result_bytes: how much that was */
};

enum ps_control_result {
    PS_CONTROL_DONE = 0,
    PS_CONTROL_UNKNOWN, /* no such command */
};

struct ps_control {
    PS_ALIGNED(PS_CONTROL_PAGE_BYTES)
    char magic[16];          /*  0 */
    uint32_t version;        /* 16 */
    uint32_t bytes;          /* 20 of this struct */
    uint32_t x_request;      /* 24 the other process writes */
    uint32_t x_done;         /* 28 the last request that was served */
    uint32_t x_command;      /* 32 enum ps_control_command; the other process */
    uint32_t x_result;       /* 36 enum ps_control_result */
    uint64_t x_argument;     /* 40 the other process */
    uint64_t x_result_bytes; /* 48 */
    uint32_t x_background;   /* 56 enum ps_background_state: which thread answers */
};

_Static_assert(offsetof(struct ps_control, x_background) == 56, "the command reads it there");

/* Protected: exported, and no other library's. */
extern struct ps_control poolshim_control __attribute__((visibility("protected")));

/* The request that waits to be served; 0: none does. */
static inline uint32_t ps_control_request(void) {
    /* acquire: pairs with the system call of the other process; the command is visible. */
    uint32_t request = ps_load_acquire(&poolshim_control.x_request);
    /* relaxed: another thread may serve it, too. */
    return request != ps_load_relaxed(&poolshim_control.x_done) ? request : 0;
}

/* A step of a request released so much; and it is served. */
void ps_control_add(uint64_t bytes);
void ps_control_finish(uint32_t request, enum ps_control_result result);

#endif
