/* SPDX-License-Identifier: MIT */
/*
 * No restartable sequences.
 */

static inline bool ps_front_push_here(const struct ps_front_table *table, size_t class_index,
                                      void *block) {
    (void)table, (void)class_index, (void)block;
    return false;
}

static inline void ps_front_reset_here(const struct ps_front_table *table, size_t class_index) {
    (void)table, (void)class_index;
}

static inline void *ps_front_pop_here(const struct ps_front_table *table, size_t class_index) {
    (void)table, (void)class_index;
    return NULL;
}
