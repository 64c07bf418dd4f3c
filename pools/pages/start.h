/* SPDX-License-Identifier: MIT */
/*
 * How the pages start, which differs by library: alone (alone.c) the page layer and the fork
 * handlers are started here; in libpoolshim.so (shim/pages.c) the engine's own start has done or
 * does that, once.
 */
#ifndef PS_PAGES_START_H
#define PS_PAGES_START_H

/* Makes sure that the page layer has started and that forks are cared for. Any thread, no lock
 * held; cheap when it has. */
void ps_pages_start(void);

/* In the child of a fork, by its only thread, after the page cache's part: repairs the locks; then,
 * all locks free, takes in what other threads had. */
void ps_pages_fork_child(void);
void ps_pages_fork_salvage(void);

#endif
