/* SPDX-License-Identifier: MIT */
/*
 * See bytes.h. PS_OPAQUE prevents the compiler from turning a loop into a call of memcpy or memset,
 * which may be the function itself.
 */
#include "pools/engine/os/bytes.h"

#include <stdbool.h>

#include PS_ARCH_PART(bytes.h)

/* ---- words lie at any address ---- */

/* The pieces at both ends of a range overlap those in its middle, which saves a loop for the rest.
 */

#define STEP 64         /* bytes of a round */
#define MANY_BYTES 2048 /* from here on the processor's own instruction is faster */

/* Pieces at any address, which may be of any type. */
typedef uint64_t piece_16 __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint64_t piece_8 __attribute__((aligned(1), may_alias));
typedef uint32_t piece_4 __attribute__((aligned(1), may_alias));
typedef uint16_t piece_2 __attribute__((aligned(1), may_alias));

struct pieces {
    piece_16 at[STEP / sizeof(piece_16)];
};

PS_INLINE void load_pieces(struct pieces *out, const char *from) {
    for (size_t i = 0; i < STEP / sizeof(piece_16); i++) {
        out->at[i] = ((const piece_16 *)from)[i];
    }
}

PS_INLINE void store_pieces(char *to, const struct pieces *pieces) {
    for (size_t i = 0; i < STEP / sizeof(piece_16); i++) {
        ((piece_16 *)to)[i] = pieces->at[i];
    }
}

/* Two pieces that cover a range of one to two times their length; loaded before the first is
 * stored. */
#define MOVE_TWO(piece, to, from, bytes)                                                           \
    do {                                                                                           \
        piece first = *(const piece *)(from);                                                      \
        piece last = *(const piece *)((from) + (bytes) - sizeof(piece));                           \
        *(piece *)(to) = first;                                                                    \
        *(piece *)((to) + (bytes) - sizeof(piece)) = last;                                         \
    } while (0)

static void move_few(char *to, const char *from, size_t bytes) {
    if (bytes > 32) { /* to 64 */
        piece_16 second = ((const piece_16 *)from)[1];
        piece_16 third = *(const piece_16 *)(from + bytes - 32);
        MOVE_TWO(piece_16, to, from, bytes);
        ((piece_16 *)to)[1] = second;
        *(piece_16 *)(to + bytes - 32) = third;
    } else if (bytes >= 16) {
        MOVE_TWO(piece_16, to, from, bytes);
    } else if (bytes >= 8) {
        MOVE_TWO(piece_8, to, from, bytes);
    } else if (bytes >= 4) {
        MOVE_TWO(piece_4, to, from, bytes);
    } else if (bytes >= 2) {
        MOVE_TWO(piece_2, to, from, bytes);
    } else if (bytes == 1) {
        *to = *from;
    }
}

/* More than STEP bytes; `to` does not lie within what follows `from`. */
static void move_up(char *to, const char *from, size_t bytes) {
    char *end = to + bytes - STEP;
    struct pieces last;
    struct pieces pieces;
    load_pieces(&last, from + bytes - STEP);
    if (PS_BYTES_INSTRUCTION && bytes >= MANY_BYTES && (size_t)(from - to) >= bytes) {
        ps_bytes_move_words(to, from, bytes / sizeof(uint64_t));
    } else {
        for (; to < end; to += STEP, from += STEP) {
            PS_OPAQUE(to);
            load_pieces(&pieces, from);
            store_pieces(to, &pieces);
        }
    }
    store_pieces(end, &last);
}

/* The same from the end, where `to` lies after `from`. */
static void move_down(char *to, const char *from, size_t bytes) {
    struct pieces first;
    struct pieces pieces;
    load_pieces(&first, from);
    for (size_t left = bytes; left > STEP; left -= STEP) {
        PS_OPAQUE(left);
        load_pieces(&pieces, from + left - STEP);
        store_pieces(to + left - STEP, &pieces);
    }
    store_pieces(to, &first);
}

static void fill_few(char *to, uint64_t word, size_t bytes) {
    if (bytes >= 8) {
        for (size_t done = 0; done + 8 < bytes; done += 8) {
            PS_OPAQUE(done);
            *(piece_8 *)(to + done) = word;
        }
        *(piece_8 *)(to + bytes - 8) = word;
    } else if (bytes >= 4) {
        *(piece_4 *)to = (uint32_t)word;
        *(piece_4 *)(to + bytes - 4) = (uint32_t)word;
    } else if (bytes >= 2) {
        *(piece_2 *)to = (uint16_t)word;
        *(piece_2 *)(to + bytes - 2) = (uint16_t)word;
    } else if (bytes == 1) {
        *to = (char)word;
    }
}

static void fill(char *at, uint64_t word, size_t bytes) {
    const piece_16 piece = {word, word};
    const struct pieces pieces = {{piece, piece, piece, piece}};
    char *end = at + bytes - STEP;
    if (bytes <= STEP) {
        fill_few(at, word, bytes);
        return;
    }
    if (PS_BYTES_INSTRUCTION && bytes >= MANY_BYTES) {
        ps_bytes_fill_words(at, word, bytes / sizeof word);
    } else {
        for (; at < end; at += STEP) {
            PS_OPAQUE(at);
            store_pieces(at, &pieces);
        }
    }
    store_pieces(end, &pieces);
}

/* ---- words lie at multiples of their length: elsewhere, byte by byte ---- */

typedef uint64_t __attribute__((may_alias)) aligned_word;

static bool is_of_words(uintptr_t bits) { return bits % sizeof(uint64_t) == 0; }

static void move_up_aligned(char *to, const char *from, size_t bytes) {
    size_t done = 0;
    bool is_aligned = is_of_words((uintptr_t)to | (uintptr_t)from);
    for (; is_aligned && bytes - done >= sizeof(uint64_t); done += sizeof(uint64_t)) {
        PS_OPAQUE(done);
        *(aligned_word *)(to + done) = *(const aligned_word *)(from + done);
    }
    for (; done < bytes; done++) {
        PS_OPAQUE(done);
        to[done] = from[done];
    }
}

static void move_down_aligned(char *to, const char *from, size_t bytes) {
    bool is_aligned = is_of_words((uintptr_t)to | (uintptr_t)from | bytes);
    for (; is_aligned && bytes != 0; bytes -= sizeof(uint64_t)) {
        PS_OPAQUE(bytes);
        ((aligned_word *)(to + bytes))[-1] = ((const aligned_word *)(from + bytes))[-1];
    }
    for (; bytes != 0; bytes--) {
        PS_OPAQUE(bytes);
        to[bytes - 1] = from[bytes - 1];
    }
}

static void fill_aligned(char *at, uint64_t value, size_t bytes) {
    char *end = at + bytes;
    for (; at != end && !is_of_words((uintptr_t)at); at++) {
        PS_OPAQUE(at);
        *at = (char)value;
    }
    for (; (size_t)(end - at) >= sizeof value; at += sizeof value) {
        PS_OPAQUE(at);
        *(aligned_word *)at = value;
    }
    for (; at != end; at++) {
        PS_OPAQUE(at);
        *at = (char)value;
    }
}

/* ---- both ---- */

void *ps_bytes_move(void *to, const void *from, size_t bytes) {
    bool is_down = (uintptr_t)to - (uintptr_t)from < bytes;
    if (!PS_BYTES_AT_ANY_ADDRESS) {
        (is_down ? move_down_aligned : move_up_aligned)(to, from, bytes);
    } else if (bytes <= STEP) {
        move_few(to, from, bytes);
    } else if (is_down) {
        move_down(to, from, bytes);
    } else {
        move_up(to, from, bytes);
    }
    return to;
}

void *ps_bytes_fill(void *to, int byte, size_t bytes) {
    uint64_t word = (unsigned char)byte * UINT64_C(0x0101010101010101);
    (PS_BYTES_AT_ANY_ADDRESS ? fill : fill_aligned)(to, word, bytes);
    return to;
}
