/* SPDX-License-Identifier: MIT */
/*
 * See thread_number.h. A bit per number, 1: in use. In the child of a fork the calling thread's is
 * the only one in use: other threads do not exist there.
 */
#include "pools/common/thread_number.h"

#include "pools/engine/base/atomic.h"

#include <pthread.h>

enum { WORDS = PS_THREAD_NUMBER_MAX / 64 };

enum { SERIALS = 0x7fffffff }; /* 1 and up; used again after as many threads */

__thread uint64_t ps_thread_self __attribute__((tls_model("initial-exec")));

static uint64_t x_in_use[WORDS];                 /* bit n % 64 of word n / 64: number n + 1 */
static uint32_t x_holders[PS_THREAD_NUMBER_MAX]; /* serial by number - 1; 0: no thread */
static uint32_t x_serials;                       /* given so far */

/* From the constructor on; without a key, threads have no numbers. */
static pthread_key_t exit_key;
static bool has_key;

/* Destructors of other keys may request a number again: it is returned in the next round. */
static void thread_ends(void *number) {
    uint32_t own = (uint32_t)(uintptr_t)number;
    ps_thread_self = 0;
    /* release: pairs with ps_thread_number_holder; the thread does nothing more under its number.
     */
    ps_store_release(&x_holders[own - 1], 0u);
    ps_thread_number_release(own);
}

static void fork_child(void) {
    uint32_t own_number = ps_thread_number();
    for (uint32_t word = 0; word < WORDS; word++) {
        uint32_t index = own_number - 1;
        uint64_t own = own_number != 0 && index / 64 == word ? (uint64_t)1 << index % 64 : 0;
        ps_store_relaxed(&x_in_use[word], own); /* relaxed, all: there is one thread */
    }
    for (uint32_t number = 1; number <= PS_THREAD_NUMBER_MAX; number++) {
        if (number != own_number) {
            ps_store_relaxed(&x_holders[number - 1], 0u);
        }
    }
}

__attribute__((constructor(102))) static void library_loaded(void) {
    (void)pthread_atfork(NULL, NULL, fork_child);
    has_key = pthread_key_create(&exit_key, thread_ends) == 0;
}

bool ps_thread_number_claim(uint32_t number) {
    uint64_t *word = &x_in_use[(number - 1) / 64];
    uint64_t bit = (uint64_t)1 << (number - 1) % 64;
    uint64_t seen = ps_load_relaxed(word); /* relaxed: the swap decides */
    while ((seen & bit) == 0) {            /* ends: others claim theirs */
        /* acq_rel: pairs with the release of the last holder; makes its entries visible. The others
         * in the word are handed on as they came. */
        if (ps_cas_weak_acq_rel(word, &seen, seen | bit)) {
            return true;
        }
    }
    return false;
}

void ps_thread_number_release(uint32_t number) {
    uint64_t *word = &x_in_use[(number - 1) / 64];
    uint64_t bit = (uint64_t)1 << (number - 1) % 64;
    uint64_t seen = ps_load_relaxed(word); /* relaxed: the swap decides */
    /* release: pairs with the claim of the next holder. acquire: as there. */
    while (!ps_cas_weak_acq_rel(word, &seen, seen & ~bit)) { /* ends: as above */
    }
}

uint32_t ps_thread_number_holder(uint32_t number) {
    return ps_load_acquire(&x_holders[number - 1]); /* acquire: pairs with thread_ends */
}

uint32_t ps_thread_number_ask(void) {
    if (ps_thread_number() != 0 || !has_key) {
        return ps_thread_number();
    }
    for (uint32_t word = 0; word < WORDS; word++) {
        uint64_t seen = ps_load_relaxed(&x_in_use[word]); /* relaxed: the claim decides */
        for (; seen != UINT64_MAX; seen = ps_load_relaxed(&x_in_use[word])) { /* ends: as above */
            uint32_t number = word * 64 + (uint32_t)__builtin_ctzll(~seen) + 1;
            if (!ps_thread_number_claim(number)) {
                continue;
            }
            if (pthread_setspecific(exit_key, (void *)(uintptr_t)number) != 0) {
                ps_thread_number_release(number);
                return 0;
            }
            uint32_t serial = ps_add_relaxed(&x_serials, 1u) % SERIALS + 1; /* relaxed: a number */
            ps_thread_self = (uint64_t)serial << 32 | number;
            /* release: pairs with ps_thread_number_holder, of what the last holder did. */
            ps_store_release(&x_holders[number - 1], serial);
            return number;
        }
    }
    return 0;
}
