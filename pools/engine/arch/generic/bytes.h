/* SPDX-License-Identifier: MIT */
/*
 * No instruction copies or fills many words.
 */

#define PS_BYTES_INSTRUCTION false

static inline void ps_bytes_move_words(char *to, const char *from, size_t words) {
    (void)to, (void)from, (void)words;
}

static inline void ps_bytes_fill_words(char *to, uint64_t word, size_t words) {
    (void)to, (void)word, (void)words;
}
