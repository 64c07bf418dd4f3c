/* SPDX-License-Identifier: MIT */
/*
 * bump.h - the library's own: how fifo.h and ring.h cut a block off the front of a chunk, inline.
 */
#ifndef POOLSHIM_BUMP_H
#define POOLSHIM_BUMP_H

#include <poolshim/common.h>

PS_BEGIN_DECLS

/*
 * Moves *top over a block of `bytes`, aligned to `align`, and returns its place. False, and nothing
 * has changed: it does not fit before `end`, or the alignment is no power of two up to
 * PS_ALIGN_DEFAULT. Size 0 takes a byte. `end` is aligned to PS_ALIGN_DEFAULT.
 */
__attribute__((always_inline)) static inline bool ps_bump(char **top, const char *end, size_t bytes,
                                                          size_t align, char **block) {
    if (align - 1 >= PS_ALIGN_DEFAULT || (align & (align - 1)) != 0) {
        return false;
    }
    size_t least = bytes + (bytes == 0);
    char *start = *top;
    /* A size that preserves the alignment is not rounded: then the next block does not depend on
     * this one's rounding, which doubles the speed of a loop. */
    bool is_rounded = __builtin_constant_p(bytes) && bytes % align == 0
                          ? PS_RARELY(((uintptr_t)start & (align - 1)) != 0)
                          : true;
    if (is_rounded) {
        start = (char *)(((uintptr_t)start + align - 1) & ~(uintptr_t)(align - 1));
    }
    /* The end is aligned, so the room cannot become negative. */
    if (__builtin_expect(least > (size_t)(end - start), 0)) {
        return false;
    }
    PS_KNOWN(start != NULL);
    *top = start + least;
    *block = start;
    return true;
}

PS_END_DECLS

#endif
