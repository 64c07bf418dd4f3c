/* SPDX-License-Identifier: MIT */
/*
 * Windows: for each class a range of adjacent blocks, from which one thread allocates in order of
 * addresses when its front has none. Its blocks are marked (ps_mark_of), which touches them: a
 * free of one that was never allocated is found. So a window has a few pages at most, and the first
 * ones of a thread have few blocks.
 *
 * A thread has a record of windows from its first refill by a range until it ends. Records are
 * metadata: they are never unmapped, and any thread may read them. At its end the thread returns
 * the rest of each range to the store; so does the child of a fork for threads that do not exist
 * there.
 *
 * A window is one word, so that it is right at each instant: the address of the next block in the
 * upper 48 bits, and the number of blocks in the lower 16.
 */
#ifndef PS_FRONT_WINDOW_H
#define PS_FRONT_WINDOW_H

#include "pools/engine/front/store.h"

/* Counts of a thread, for heap/counting.h. */
struct ps_thread_bytes {
    uint64_t x_allocated;  /* up to the last event, or the last question */
    uint64_t x_freed;      /* since the first question about frees */
    uint64_t peak_base;    /* allocated less freed, at the start of the peak's period */
    int64_t peak;          /* most above it; the thread may have freed others' blocks */
    uint32_t exact_calls;  /* requests that are counted one by one, from now on */
    uint32_t early_bytes;  /* in x_allocated, and to be counted at the next event, too */
    uint32_t silent_bytes; /* of a counted thread since it read the clock */
    bool is_asked;         /* the thread has asked for its frees, which so are always counted */
    bool is_wanted;        /* they are counted while ps_counting_x_wanted says so */
};

struct ps_windows {
    struct ps_windows *next_made;          /* all records; constant */
    struct ps_windows *next_free;          /* of those without a thread */
    uint32_t x_owner;                      /* lock id of the thread that has it; 0: none */
    uintptr_t x_thread;                    /* its pointer: readers find its structure there */
    uint8_t doublings[PS_CLASS_LIMIT];     /* of the length of the next window */
    ps_range x_ranges[PS_CLASS_LIMIT + 1]; /* that of no class is always empty */
    struct ps_thread_bytes bytes;          /* 0 in the record of no thread */
};

/* The blocks of the next window of a class. After each window it is twice as long: the thread
 * allocates more than it frees. */
#define PS_WINDOW_BYTES_FIRST ((size_t)512)
#define PS_WINDOW_BYTES_MOST ((size_t)16 << 10)
size_t ps_windows_next_blocks(const struct ps_windows *windows, size_t class_index);
static inline void ps_windows_double(struct ps_windows *windows, size_t class_index) {
    if (PS_WINDOW_BYTES_FIRST << windows->doublings[class_index] < PS_WINDOW_BYTES_MOST) {
        windows->doublings[class_index]++;
    }
}

#define PS_RANGE_COUNT_BITS 16

static inline ps_range ps_range_of(const char *lowest, size_t count) {
    return (uint64_t)(uintptr_t)lowest << PS_RANGE_COUNT_BITS | count;
}
PS_INLINE char *ps_range_lowest(ps_range range) { return (char *)(range >> PS_RANGE_COUNT_BITS); }
PS_INLINE size_t ps_range_count(ps_range range) { return (uint16_t)range; }
PS_INLINE ps_range ps_range_without_lowest(ps_range range, size_t block_bytes) {
    return range + ((uint64_t)block_bytes << PS_RANGE_COUNT_BITS) - 1;
}

/* Bytes of the threads that have ended. Read from outside the process, too. */
struct ps_ended_bytes {
    uint64_t x_allocated;
    uint64_t x_freed;
};
extern PS_HIDDEN struct ps_ended_bytes ps_windows_x_ended;

/* All records that were made, newest first. Read from outside the process, too. */
extern PS_HIDDEN struct ps_windows *ps_windows_x_made;

/* A record for the calling thread, whose windows are empty; NULL when memory is exhausted. */
struct ps_windows *ps_windows_acquire(void);

/* Returns what is left in the windows. */
void ps_windows_empty(struct ps_windows *windows);

/* The same, and returns the record. */
void ps_windows_release(struct ps_windows *windows);

/* Blocks of a class in the windows of all threads: a snapshot. */
size_t ps_windows_blocks(uint32_t class_index);

/* In the child of a fork, on its only thread, before ps_store_fork_child: releases the records of
 * all others. */
void ps_windows_fork_child(void);

#endif
