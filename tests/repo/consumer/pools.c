/* SPDX-License-Identifier: MIT */
/*
 * Uses the pools library, and says where its pages come from: the library that ps_pages_alloc is
 * bound to, whether the pools library itself is bound to the same, and whether malloc is given
 * memory that was pages before ("shared") or not ("own").
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poolshim/pages.h>
#include <poolshim/source.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)
#define BYTES (24 * MIB)
#define BLOCKS 8

static const char *library_of(uintptr_t address) {
    Dl_info info;
    return dladdr((void *)address, &info) != 0 ? info.dli_fname : "nothing";
}

static size_t used_bytes(void) {
    struct ps_pages_stats stats;
    ps_pages_stats(&stats);
    return stats.used_bytes;
}

/* A source of the library takes its chunks by the library's own call of ps_pages_alloc. */
static const char *library_inside(void) {
    struct ps_source_account account;
    ps_source_account_init(&account, NULL, 0);
    size_t before = used_bytes();
    void *chunk = account.source.alloc(&account.source, MIB, 16);
    size_t after = used_bytes();
    account.source.free(&account.source, chunk, MIB);
    return after == before + MIB && used_bytes() == before ? "same" : "another";
}

static const char *cache_of_malloc(void) {
    char *pages = ps_pages_zalloc(BYTES, 16);
    char *blocks[BLOCKS];
    size_t inside = 0;
    if (pages == NULL) {
        return "nothing";
    }
    memset(pages, 1, BYTES);
    ps_pages_free(pages, BYTES);
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(MIB);
        inside += blocks[i] >= pages && blocks[i] < pages + BYTES;
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
    return inside == BLOCKS ? "shared" : inside == 0 ? "own" : "mixed";
}

int main(void) {
    puts(library_of((uintptr_t)ps_pages_alloc));
    puts(library_inside());
    puts(cache_of_malloc());
    ps_pages_trim_to(0);
    return used_bytes() == 0 ? 0 : 1;
}
