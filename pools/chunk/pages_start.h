/* SPDX-License-Identifier: MIT */
/*
 * How the pages start, which differs by library: alone (pages_alone.c) the page layer and the fork
 * handlers are started here; in libpoolshim.so (shim/pages.c) the engine's own start has done or
 * does that, once.
 */
#ifndef PS_CHUNK_PAGES_START_H
#define PS_CHUNK_PAGES_START_H

/* Makes sure that the page layer has started and that forks are cared for. Any thread, no lock
 * held; cheap when it has. */
void ps_pages_start(void);

/* The pages' part of the fork handlers; the page cache's part comes first in the child. */
void ps_pages_fork_prepare(void);
void ps_pages_fork_parent(void);
void ps_pages_fork_child(void);

#endif
