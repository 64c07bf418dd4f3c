/* SPDX-License-Identifier: MIT */
/*
 * Words of x86-64, and the instructions that copy and fill many.
 */

#define PS_BYTES_AT_ANY_ADDRESS true
#define PS_BYTES_INSTRUCTION true

/* The lengths are in words: processors without fast copies of bytes have fast ones of words. */
static inline void ps_bytes_move_words(char *to, const char *from, size_t words) {
    __asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(words) : : "memory");
}

static inline void ps_bytes_fill_words(char *to, uint64_t word, size_t words) {
    __asm__ volatile("rep stosq" : "+D"(to), "+c"(words) : "a"(word) : "memory");
}
