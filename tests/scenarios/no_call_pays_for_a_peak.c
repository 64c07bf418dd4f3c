// expect: exit 0
// marks: slow
// timeout: 240
/* SPDX-License-Identifier: MIT */
/*
 * All of a peak is freed, of medium blocks and then of small ones, and small work goes on: no call
 * takes time that grows with the peak, neither the frees nor those after them, whose part it is to
 * give the memory back.
 *
 *     no_call_pays_for_a_peak [MiB]
 */
#include "goes_back.h"
#include "own_time.h"

#define WORK_MS 3000

static void rise_and_drop(size_t bytes, size_t block_bytes) {
    size_t count = bytes / block_bytes;
    void **blocks = goes_back_table(count);
    for (size_t i = 0; i < count; i++) {
        blocks[i] = malloc(block_bytes);
        CLAIM(blocks[i] != NULL);
        memset(blocks[i], 1, block_bytes);
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t before_us = own_time_us(CLOCK_THREAD_CPUTIME_ID);
        free(blocks[i]);
        own_time_note(before_us);
    }
    CLAIM(munmap((void *)blocks, count * sizeof(void *)) == 0);
    own_time_work(WORK_MS);
}

static size_t peak_bytes;

static void attempt(void) {
    rise_and_drop(peak_bytes, 100000);
    CLAIM(claim_rss_bytes() < peak_bytes / 8);
    rise_and_drop(peak_bytes, 1000);
    CLAIM(claim_rss_bytes() < peak_bytes / 8);
}

int main(int argc, char **argv) {
    peak_bytes = (argc > 1 ? (size_t)atoi(argv[1]) : 1024) << 20;
    return own_time_attempts(attempt);
}
