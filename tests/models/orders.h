/* SPDX-License-Identifier: MIT */
/*
 * Memory orders, as the compiler passes them. Included by memory.c.
 */
#ifndef ORDERS_H
#define ORDERS_H

#include <stdbool.h>

static inline bool order_is_acquire(int order) {
    return order == __ATOMIC_ACQUIRE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;
}

static inline bool order_is_release(int order) {
    return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;
}

static inline const char *order_name(int order) {
    static const char *const names[] = {"relaxed", "consume", "acquire",
                                        "release", "acq_rel", "seq_cst"};
    return names[order];
}

#endif
