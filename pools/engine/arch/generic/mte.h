/* SPDX-License-Identifier: MIT */
/*
 * No tags of memory.
 */

#define PS_MTE_HAS_INSTRUCTIONS false

static inline char *ps_mte_draw(char *pointer, uint64_t excluded) {
    (void)excluded;
    return pointer;
}

static inline char *ps_mte_load(const char *address) { return (char *)address; }

static inline void ps_mte_store_16(char *pointer) { (void)pointer; }

#define ps_mte_store_32(pointer, pairs) ((void)(pointer))
