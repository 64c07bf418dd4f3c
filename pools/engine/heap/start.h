/* SPDX-License-Identifier: MIT */
/*
 * Start of the engine, before its first allocation, and its repair in the child of a fork.
 *
 * No lock is taken for a fork (os/lock.h gives the reason); the child repairs its copy in this
 * order. Locks that other threads held are rolled back and released. The blocks in fronts and
 * windows of other threads return to their slabs (front/store.h). Operations that other threads had
 * begun between two locked sections are completed where their state is known. Other memory is lost
 * in the child: a run for each thread that was inside of the engine.
 */
#ifndef PS_HEAP_START_H
#define PS_HEAP_START_H

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/compiler.h"
#include "pools/engine/base/config.h"

#include <stdbool.h>

/*
 * Fills in the configuration; *config has the defaults. Called once, under the initialisation lock,
 * before the first thread begins. The engine has a weak definition that changes nothing; a program
 * that links the engine may define its own, which must not allocate.
 */
PS_HOOK void ps_configure(struct ps_config *config);

/* Starts the engine unless it has started. Any thread, any time after relocation. */
void ps_engine_start(void);

/* Starts the engine and the calling thread, as far as they have not. False: before relocation. */
bool ps_engine_may_serve(void);

extern PS_HIDDEN uint32_t ps_engine_x_has_started;

/* True when the engine has started; makes the tables, the settings and the mode visible. Any
 * thread. */
static inline bool ps_engine_has_started(void) {
    return ps_load_acquire(&ps_engine_x_has_started) != 0; /* acquire: pairs with ps_engine_start */
}

#endif
