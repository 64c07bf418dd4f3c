/* SPDX-License-Identifier: MIT */
/*
 * A program whose names are those of functions and variables inside of the library: it has its own.
 * Prints their sum.
 */
#include <stdio.h>
#include <stdlib.h>

int ps_heap_alloc(int number);
int ps_os_release(void);
int ps_page_cache_start(void);
int ps_loader_next(void);

int ps_front_table[4] = {1, 2, 3, 4};
int ps_front_thread = 10;
int ps_hard_level = 100;

int ps_heap_alloc(int number) { return number; }
int ps_os_release(void) { return 10000; }
int ps_page_cache_start(void) { return 100000; }
int ps_loader_next(void) { return 1000000; }

int main(void) {
    for (int i = 0; i < 1000; i++) {
        free(malloc((size_t)i));
    }
    printf("%d\n", ps_front_table[3] + ps_front_thread + ps_hard_level + ps_heap_alloc(1000) +
                       ps_os_release() + ps_page_cache_start() + ps_loader_next());
}
