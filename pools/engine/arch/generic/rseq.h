/* SPDX-License-Identifier: MIT */
/*
 * No restartable sequences.
 */

#define PS_HAS_RSEQ 0

static inline uint32_t ps_rseq_cpu(ptrdiff_t offset) { return (uint32_t)offset; }

static inline bool ps_rseq_push(ptrdiff_t offset, uint32_t cpu, uint64_t *state, void **entries,
                                uint32_t mask, uint32_t limit, void *entry) {
    (void)offset, (void)cpu, (void)state, (void)entries, (void)mask, (void)limit, (void)entry;
    return false;
}

static inline void *ps_rseq_pop(ptrdiff_t offset, uint32_t cpu, uint64_t *state, void **entries,
                                uint32_t mask, uint32_t most, int32_t step, uint32_t *left) {
    (void)offset, (void)cpu, (void)state, (void)entries, (void)mask, (void)most, (void)step;
    *left = 0;
    return NULL;
}
