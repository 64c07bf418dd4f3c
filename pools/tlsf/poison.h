/* SPDX-License-Identifier: MIT */
/*
 * True when freed memory of TLSF pools is marked for the sanitizers: in builds with
 * AddressSanitizer alone, so that the bounded paths call nothing elsewhere. Caller: tlsf.h.
 */
#ifndef PS_TLSF_POISON_H
#define PS_TLSF_POISON_H

#include "pools/common/debug.h"

#if defined(__SANITIZE_ADDRESS__)
enum { TLSF_IS_POISONED = 1 };
#else
enum { TLSF_IS_POISONED = 0 };
#endif

static inline void tlsf_poison(const void *memory, size_t bytes) {
    if (TLSF_IS_POISONED) {
        ps_poison(memory, bytes);
    }
}

static inline void tlsf_unpoison(const void *memory, size_t bytes) {
    if (TLSF_IS_POISONED) {
        ps_unpoison(memory, bytes);
    }
}

#endif
