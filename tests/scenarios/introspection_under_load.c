// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * mallinfo2, malloc_info and malloc_trim are called a few hundred times while threads allocate and
 * other threads start and end: plausible answers, no deadlock, no damage.
 */
#include "fork_load.h"
#include "heap_use.h"

#include <malloc.h>

static void *use_shortly(void *unused) {
    (void)unused;
    CLAIM(heap_use());
    return NULL;
}

int main(void) {
    FILE *nowhere = fopen("/dev/null", "w");
    CLAIM(nowhere != NULL);
    fork_load_start();
    for (int round = 0; round < 300; round++) {
        pthread_t thread;
        CLAIM(pthread_create(&thread, NULL, use_shortly, NULL) == 0);
        struct mallinfo2 info = mallinfo2();
        CLAIM(info.uordblks + info.hblkhd < (size_t)4 << 30);
        CLAIM(malloc_info(0, nowhere) == 0);
        if (round % 10 == 0) {
            malloc_trim(0);
        }
        CLAIM(pthread_join(thread, NULL) == 0);
    }
    fork_load_stop();
    fclose(nowhere);
    return 0;
}
