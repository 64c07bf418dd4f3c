/* SPDX-License-Identifier: MIT */
/*
 * See purge_credit.h.
 */
#include "pools/engine/page/purge_credit.h"

#include "pools/engine/base/bits.h"

#define CREDIT_US_LIMIT 16000
#define SHIFT_MOST 3
#define SHIFT_LEAST 1
#define DOUBLES_AT_BYTES ((uint64_t)256 << 20)

void ps_purge_credit_add(struct ps_purge_credit *credit, uint64_t now_ms, uint64_t due_bytes) {
    uint64_t doubled = ps_min(due_bytes / DOUBLES_AT_BYTES, SHIFT_MOST - SHIFT_LEAST);
    uint64_t passed_ms = ps_min(now_ms - ps_min(credit->since_ms, now_ms), CREDIT_US_LIMIT);
    credit->us += (int64_t)(passed_ms * 1000 >> (SHIFT_MOST - doubled));
    credit->us = credit->us < CREDIT_US_LIMIT ? credit->us : CREDIT_US_LIMIT;
    credit->since_ms = now_ms;
}
