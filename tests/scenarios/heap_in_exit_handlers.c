// expect: exit 0
// libc: glibc
/* SPDX-License-Identifier: MIT */
/* atexit and on_exit handlers use the heap and free blocks of main; the exit status is right. */
#include "claim.h"
#include "heap_use.h"

static void *blocks[500];
static int handlers_run;

static void free_half(void) {
    CLAIM(heap_use());
    for (int i = 0; i < 500; i += 2) {
        CLAIM(((unsigned char *)blocks[i])[i] == 5);
        free(blocks[i]);
    }
    CLAIM(++handlers_run == 2);
}

static void free_other_half(int status, void *argument) {
    CLAIM(status == 0 && argument == blocks);
    CLAIM(heap_use());
    for (int i = 1; i < 500; i += 2) {
        blocks[i] = realloc(blocks[i], 9000);
        CLAIM(((unsigned char *)blocks[i])[i] == 5);
        free(blocks[i]);
    }
    CLAIM(++handlers_run == 1);
}

int main(void) {
    CLAIM(atexit(free_half) == 0);
    CLAIM(on_exit(free_other_half, blocks) == 0);
    for (int i = 0; i < 500; i++) {
        blocks[i] = malloc(600);
        CLAIM(blocks[i] != NULL);
        memset(blocks[i], 5, 600);
    }
    exit(0);
}
