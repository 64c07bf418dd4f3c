/* SPDX-License-Identifier: MIT */
/*
 * The first call of the process, and the end of a thread.
 */
#ifndef PS_HEAP_START_H
#define PS_HEAP_START_H

#include "pools/engine/base/config.h"

#include <stdbool.h>

/*
 * Fills in the configuration; *config holds the defaults. Called once, under the initialisation
 * lock, before the first heap exists. The engine has a weak one that keeps the defaults; whoever
 * links the engine may provide his own. It must not allocate.
 */
void ps_configure(struct ps_config *config);

/* Makes sure that the engine has started. Any thread, any time after relocation. */
void ps_engine_start(void);

/* Any thread; makes the tables and settings visible when true. */
bool ps_engine_has_started(void);

/* Gives the calling thread's heap up, as at its end. For tests; threads do it by themselves. */
void ps_heap_give_up(void);

#endif
