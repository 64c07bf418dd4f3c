/* SPDX-License-Identifier: MIT */
/*
 * libc's heap with one planted bug, named by BROKEN_HEAP, that acts once in 20,000 calls: the
 * proof that the stress checker finds such bugs. Preloaded by tests/stress/test_stress.py only.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define STRIKE_EVERY 5000
#define RACY_BYTES 48

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void __libc_free(void *block);

enum bug { NONE, OVERLAP, MISALIGNED, DIRTY, LYING, DAMAGE, LOST, NO_MEMORY, ERRNO, CHILD, RACE };

static const char *const bug_names[] = {"none",  "overlap", "misaligned", "dirty",
                                        "lying", "damage",  "lost",       "no-memory",
                                        "errno", "child",   "race"};

static enum bug bug;
static unsigned calls;
static size_t (*libc_usable_size)(void *block);
static __thread void *handed_out_last;
static __thread size_t handed_out_last_bytes;
static void *volatile racy_block;

static void break_in_child(void) {
    if (bug == CHILD) {
        abort();
    }
}

__attribute__((constructor)) static void choose_bug(void) {
    libc_usable_size = (size_t(*)(void *))dlsym(RTLD_NEXT, "malloc_usable_size");
    const char *name = getenv("BROKEN_HEAP");
    for (unsigned i = 0; name != NULL && i < sizeof bug_names / sizeof bug_names[0]; i++) {
        if (strcmp(name, bug_names[i]) == 0) {
            bug = (enum bug)i;
        }
    }
    pthread_atfork(NULL, NULL, break_in_child);
}

static int strikes(enum bug wanted) {
    return bug == wanted && __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) % STRIKE_EVERY == 0;
}

/* Caches one block for the next caller, without the atomic exchange that this would need. */
static void *take_racy_block(void) {
    void *block = racy_block;
    if (block != NULL) {
        sched_yield();
        racy_block = NULL;
    }
    return block;
}

static int is_racy(void *block) {
    return bug == RACE && block != NULL && libc_usable_size(block) == RACY_BYTES + 8;
}

void *malloc(size_t size) {
    if (strikes(NO_MEMORY)) {
        errno = ENOMEM;
        return NULL;
    }
    if (strikes(MISALIGNED) && size >= 16) {
        return (char *)__libc_malloc(size + 16) + 8;
    }
    if (strikes(OVERLAP) && size >= 16 && size <= handed_out_last_bytes) {
        return handed_out_last;
    }
    if (strikes(DAMAGE) && handed_out_last_bytes >= 16) {
        ((char *)handed_out_last)[9] ^= 1;
    }
    if (bug == RACE && size == RACY_BYTES) {
        void *block = take_racy_block();
        if (block != NULL) {
            return block;
        }
    }
    handed_out_last = __libc_malloc(size);
    handed_out_last_bytes = size;
    return handed_out_last;
}

void *calloc(size_t count, size_t size) {
    char *block = __libc_calloc(count, size);
    if (block != NULL && count * size > 0 && strikes(DIRTY)) {
        block[count * size - 1] = 1;
    }
    return block;
}

void *realloc(void *block, size_t size) {
    if (is_racy(block)) {
        void *copy = malloc(size);
        if (copy != NULL) {
            memcpy(copy, block, size < RACY_BYTES + 8 ? size : RACY_BYTES + 8);
            free(block);
        }
        return copy;
    }
    char *fresh = __libc_realloc(block, size);
    if (block != NULL && fresh != NULL && size >= 8 && strikes(LOST)) {
        fresh[0] ^= 1;
    }
    return fresh;
}

size_t malloc_usable_size(void *block) {
    if (((uintptr_t)block & 8) != 0) {
        return libc_usable_size((char *)block - 8) - 8;
    }
    return strikes(LYING) ? 0 : libc_usable_size(block);
}

void free(void *block) {
    if (((uintptr_t)block & 8) != 0) {
        block = (char *)block - 8;
    }
    if (strikes(ERRNO)) {
        errno = EINVAL;
    }
    if (is_racy(block)) {
        if (racy_block == NULL) {
            racy_block = block;
        }
        return; /* leaked otherwise: libc must not notice before the checker does */
    }
    __libc_free(block);
}
