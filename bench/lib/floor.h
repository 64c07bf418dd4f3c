/* SPDX-License-Identifier: MIT */
/*
 * The one symbol that the floor adds to libc's malloc names. Benchmarks look it up with dlsym and
 * do without where it is missing, that is, under every real allocator.
 */
#ifndef PS_BENCH_LIB_FLOOR_H
#define PS_BENCH_LIB_FLOOR_H

/*
 * Every block in [first, end) is dead, all of them are of one size class and lie side by side: the
 * calling thread's next blocks of that class come from there. Without it each round would take
 * fresh pages and the floor would measure the kernel's page faults. The caller vouches for "dead";
 * the rest of the thread's window is dropped. Any thread may call it; O(1).
 */
void floor_reuse(void *first, void *end);

#endif
