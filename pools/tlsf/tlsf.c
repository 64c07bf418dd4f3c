/* SPDX-License-Identifier: MIT */
/*
 * The bounded paths of TLSF: find, split, merge. Every loop here has a constant bound. The source
 * and PS_DEBUG are used in slow.c only. See tlsf.h for the layout, poolshim/tlsf.h for the
 * contract.
 *
 * After: M. Masmano, I. Ripoll, A. Crespo, J. Real, "TLSF: a new dynamic memory allocator for
 * real-time systems", ECRTS 2004. Differences beside those of common/fit.h: a free block that is
 * cut or grows without a change of class is not moved on the list; a list's block stores the place
 * that points to it, so that leaving a list needs no size; the request's own class is searched
 * before the request fails.
 */
#include "pools/tlsf/tlsf.h"

#include "pools/engine/base/compiler.h"

#include <errno.h>
#include <string.h>

static const char overwritten[] = "overwritten free block";

/* True when the next block on the list of a free block links back to it. */
static inline bool is_next(const struct ps_tlsf *tlsf, struct block *block, struct block *next) {
    return next == NULL || (tlsf_has_links(tlsf, next) && next->slot == &block->next);
}

/* Both pointers of a free block lead to it. */
static inline void check_links(const struct ps_tlsf *tlsf, struct block *block) {
    struct block **slot = block->slot;
    if (PS_UNLIKELY(!tlsf_has_head(tlsf, slot) || *slot != block ||
                    !is_next(tlsf, block, block->next))) {
        ps_tlsf_damaged(tlsf, overwritten, block);
    }
}

/* Checks that a head may follow the end of a free block, so that its size can be used. */
static inline void check_size(const struct ps_tlsf *tlsf, struct block *block, size_t size) {
    if (PS_UNLIKELY(!tlsf_has_head(tlsf, block_at(block, size)))) {
        ps_tlsf_damaged(tlsf, overwritten, block);
    }
}

/* The head of a block that is free if nothing is overwritten. */
static inline bool is_free_head(const struct ps_tlsf *tlsf, size_t head) {
    return ((head ^ (tlsf->tag | PS_FIT_FREE)) & (PS_FIT_TAG_MASK | PS_FIT_FREE)) == 0;
}

/* The last of a list may be its first too: then its slot is among the heads. */
static inline void unlist(struct ps_tlsf *tlsf, struct block *block) {
    check_links(tlsf, block);
    struct block *next = block->next;
    struct block **slot = block->slot;
    *slot = next;
    if (next != NULL) {
        next->slot = slot;
        return;
    }
    size_t class = ((size_t)slot - (size_t)tlsf->heads) / sizeof *slot;
    if (class < tlsf->class_count) {
        ps_fit_clear(&tlsf->index, class);
    }
}

void ps_tlsf_unlist(struct ps_tlsf *tlsf, struct block *block) { unlist(tlsf, block); }

static inline void list_in(struct ps_tlsf *tlsf, struct block *block, size_t class) {
    struct block **slot = &tlsf->heads[class];
    struct block *next = *slot;
    block_link(block, next, slot);
    *slot = block;
    if (next != NULL) { /* then the bit is set */
        next->slot = &block->next;
    } else {
        ps_fit_set(&tlsf->index, class);
    }
}

/* Head and back pointer of a free block whose neighbours are used. */
static inline struct block *mark_free(const struct ps_tlsf *tlsf, struct block *block,
                                      size_t size) {
    struct block *behind = block_at(block, size);
    block->head = tlsf->tag | size | PS_FIT_FREE;
    *block_back(behind) = block;
    return behind;
}

void ps_tlsf_list(struct ps_tlsf *tlsf, struct block *block, size_t size) {
    mark_free(tlsf, block, size)->head |= PS_FIT_PREVIOUS_FREE;
    list_in(tlsf, block, ps_fit_class_of(size));
}

/* Puts `moved` in the place of `block` on its list. The links of `block` may lie where `moved`
 * begins: they are read before those are written. */
static inline void list_instead(struct ps_tlsf *tlsf, struct block *block, struct block *moved) {
    check_links(tlsf, block);
    struct block *next = block->next;
    struct block **slot = block->slot;
    block_link(moved, next, slot);
    *slot = moved;
    if (next != NULL) {
        next->slot = &moved->next;
    }
}

/* Takes the first block off the list of `class`. */
static inline void drop_first(struct ps_tlsf *tlsf, struct block **slot, struct block *next,
                              size_t class) {
    *slot = next;
    if (next != NULL) {
        next->slot = slot;
    } else {
        ps_fit_clear(&tlsf->index, class);
    }
}

/* Takes the first `size` bytes of the block that is first on the list of `class`; the rest remains
 * free. */
static PS_NOINLINE void *cut(struct ps_tlsf *tlsf, struct block *block, size_t class, size_t size) {
    struct block **slot = &tlsf->heads[class];
    struct block *next = block->next;
    size_t total = ps_fit_bytes(block->head);
    size_t left = total - size;
    if (PS_UNLIKELY(total < size || !tlsf_has_head(tlsf, block_at(block, total)))) {
        ps_tlsf_damaged(tlsf, overwritten, block);
    }
    struct block *rest = block_at(block, size);
    size_t rest_class = ps_fit_class_of(left);
    tlsf_unpoison(rest, sizeof *rest);
    block->head = tlsf->tag | size;
    mark_free(tlsf, rest, left);
    if (rest_class == class) {
        block_link(rest, next, slot);
        *slot = rest;
        if (next != NULL) {
            next->slot = &rest->next;
        }
    } else {
        drop_first(tlsf, slot, next, class);
        list_in(tlsf, rest, rest_class);
    }
    block_unpoison(block, size);
    return block_payload(block);
}

/* See ps_fit_gap. */
static inline size_t gap_before(struct block *block, size_t align) {
    return ps_fit_gap((uintptr_t)block_payload(block), align);
}

/* A block of `class` in which an aligned block of `size` fits. The lists are not sorted: a few are
 * tried. */
static PS_NOINLINE struct block *find_near(const struct ps_tlsf *tlsf, size_t class, size_t size,
                                           size_t align) {
    struct block *block = tlsf->heads[class];
    for (int tries = 0; block != NULL && tries < PS_FIT_NEAR_MAX; tries++) {
        if (ps_fit_bytes(block->head) >= size + gap_before(block, align)) {
            return block;
        }
        block = block->next;
    }
    return NULL;
}

/* Searches blocks that fit wherever they are, then those that happen to be aligned. */
static struct block *find_aligned(const struct ps_tlsf *tlsf, size_t size, size_t align) {
    size_t least = size + align + PS_FIT_UNIT;
    struct block *block = NULL;
    if (least <= tlsf->largest_bytes) {
        size_t class = ps_fit_find(&tlsf->index, ps_fit_class_from(least));
        if (class != PS_FIT_NONE) {
            return tlsf->heads[class];
        }
        block = find_near(tlsf, ps_fit_class_of(least), size, align);
    }
    return block != NULL ? block : find_near(tlsf, ps_fit_class_of(size), size, align);
}

/* Takes `size` bytes of a listed free block, aligned; the rest on both sides remains free. */
static void *take_inside(struct ps_tlsf *tlsf, struct block *before, size_t size, size_t align) {
    size_t total = ps_fit_bytes(before->head);
    size_t gap = gap_before(before, align);
    struct block *block = block_at(before, gap);
    size_t head = tlsf->tag;
    if (PS_UNLIKELY(total < gap + size)) {
        ps_tlsf_damaged(tlsf, overwritten, before);
    }
    check_size(tlsf, before, total);
    ps_tlsf_unlist(tlsf, before);
    if (gap != 0) {
        tlsf_unpoison((char *)block - PS_FIT_HEAD, sizeof *block + PS_FIT_HEAD);
        mark_free(tlsf, before, gap);
        list_in(tlsf, before, ps_fit_class_of(gap));
        head |= PS_FIT_PREVIOUS_FREE;
        total -= gap;
    }
    if (total - size >= PS_FIT_MIN) {
        struct block *rest = block_at(block, size);
        tlsf_unpoison(rest, sizeof *rest);
        mark_free(tlsf, rest, total - size);
        list_in(tlsf, rest, ps_fit_class_of(total - size));
        block->head = head | size;
    } else {
        block_at(block, total)->head &= ~(size_t)PS_FIT_PREVIOUS_FREE;
        block->head = head | total;
    }
    block_unpoison(block, ps_fit_bytes(block->head));
    return block_payload(block);
}

static void *take_near(struct ps_tlsf *tlsf, size_t size) {
    struct block *block = find_near(tlsf, ps_fit_class_of(size), size, PS_FIT_UNIT);
    return block != NULL ? take_inside(tlsf, block, size, PS_FIT_UNIT) : NULL;
}

static PS_NOINLINE void *alloc_near(struct ps_tlsf *tlsf, size_t bytes) {
    void *payload = take_near(tlsf, ps_fit_bytes_for(bytes));
    return PS_LIKELY(payload != NULL) ? payload : ps_tlsf_alloc_slow(tlsf, bytes, PS_FIT_UNIT);
}

/* Takes the first block of a class whose blocks are long enough, or a part of it. */
static inline void *take_first(struct ps_tlsf *tlsf, size_t class, size_t size) {
    struct block **slot = &tlsf->heads[class];
    struct block *block = *slot;
    struct block *next = block->next;
    size_t head = block->head;
    size_t total = ps_fit_bytes(head);
    if (PS_UNLIKELY(!is_free_head(tlsf, head) || !is_next(tlsf, block, next))) {
        ps_tlsf_damaged(tlsf, overwritten, block);
    }
    if (total - size >= PS_FIT_MIN) { /* if it is not too short, which is an error */
        return cut(tlsf, block, class, size);
    }
    drop_first(tlsf, slot, next, class);
    block->head = head - PS_FIT_FREE;
    block_at(block, total)->head &= ~(size_t)PS_FIT_PREVIOUS_FREE;
    block_unpoison(block, total);
    return block_payload(block);
}

void *ps_tlsf_take(struct ps_tlsf *tlsf, size_t size, size_t align) {
    if (align <= PS_FIT_UNIT) {
        size_t class = ps_fit_find(&tlsf->index, ps_fit_class_from(size));
        return class != PS_FIT_NONE ? take_first(tlsf, class, size) : take_near(tlsf, size);
    }
    struct block *block = find_aligned(tlsf, size, align);
    return block != NULL ? take_inside(tlsf, block, size, align) : NULL;
}

/* Merges a block with the free one after it alone. It is on its list before that one leaves its
 * own, by the last call: so neither needs a place on the stack. */
static PS_NOINLINE void merge_behind(struct ps_tlsf *tlsf, struct block *block, size_t size,
                                     size_t behind_size) {
    struct block *behind = block_at(block, size);
    check_size(tlsf, behind, behind_size);
    size_t class = ps_fit_class_of(behind_size);
    size_t new_class = ps_fit_class_of(size + behind_size);
    mark_free(tlsf, block, size + behind_size);
    if (new_class == class) {
        list_instead(tlsf, behind, block);
    } else {
        list_in(tlsf, block, new_class);
        unlist(tlsf, behind);
    }
}

/* Merges a block with the free one before it, and with the one after it if that is free. */
static PS_NOINLINE void merge_before(struct ps_tlsf *tlsf, struct block *block, size_t size,
                                     size_t behind_head) {
    struct block *behind = block_at(block, size);
    struct block *before = *block_back(block);
    size_t before_size = (size_t)((char *)block - (char *)before);
    if (PS_UNLIKELY(!tlsf_has_links(tlsf, before) ||
                    (before->head & ~(size_t)PS_FIT_PREVIOUS_FREE) !=
                        (tlsf->tag | before_size | PS_FIT_FREE))) {
        ps_tlsf_damaged(tlsf, "overwritten free block before", block);
    }
    size += before_size;
    if ((behind_head & PS_FIT_FREE) != 0) {
        size_t behind_size = ps_fit_bytes(behind_head);
        check_size(tlsf, behind, behind_size);
        unlist(tlsf, behind);
        size += behind_size;
    } else {
        behind->head = behind_head | PS_FIT_PREVIOUS_FREE;
    }
    size_t class = ps_fit_class_of(size);
    if (class != ps_fit_class_of(before_size)) {
        unlist(tlsf, before);
        list_in(tlsf, before, class);
    }
    mark_free(tlsf, before, size);
}

static inline void release(struct ps_tlsf *tlsf, struct block *block, size_t head) {
    size_t size = ps_fit_bytes(head);
    struct block *behind = block_at(block, size);
    size_t behind_head = tlsf_head_behind(tlsf, block, behind);
    block_poison(block, size);
    block->head = head | PS_FIT_FREE; /* remains in the middle of a merged block: a second free sees
                                        it */
    if ((head & PS_FIT_PREVIOUS_FREE) != 0) {
        merge_before(tlsf, block, size, behind_head);
    } else if ((behind_head & PS_FIT_FREE) != 0) {
        merge_behind(tlsf, block, size, ps_fit_bytes(behind_head));
    } else {
        behind->head = behind_head | PS_FIT_PREVIOUS_FREE;
        *block_back(behind) = block;
        list_in(tlsf, block, ps_fit_class_of(size));
    }
}

void ps_tlsf_release(struct ps_tlsf *tlsf, struct block *block, size_t head) {
    release(tlsf, block, head);
}

/* Frees the end of a used block, which is then `size` long. */
static PS_NOINLINE void shorten(struct ps_tlsf *tlsf, struct block *block, size_t size) {
    size_t left = ps_fit_bytes(block->head) - size;
    block->head -= left;
    release(tlsf, block_at(block, size), tlsf->tag | left);
}

/* Lengthens a used block to `size`, into the free one after it, which is long enough. */
static PS_NOINLINE void lengthen(struct ps_tlsf *tlsf, struct block *block, size_t size,
                                 size_t behind_size) {
    size_t old_size = ps_fit_bytes(block->head);
    struct block *behind = block_at(block, old_size);
    check_size(tlsf, behind, behind_size);
    size_t added = size - old_size;
    size_t left = behind_size - added;
    if (left < PS_FIT_MIN) {
        added = behind_size;
        unlist(tlsf, behind);
        block_at(behind, behind_size)->head &= ~(size_t)PS_FIT_PREVIOUS_FREE;
    } else {
        struct block *rest = block_at(behind, added);
        tlsf_unpoison(rest, sizeof *rest);
        size_t class = ps_fit_class_of(left);
        if (class == ps_fit_class_of(behind_size)) {
            list_instead(tlsf, behind, rest);
        } else {
            unlist(tlsf, behind);
            list_in(tlsf, rest, class);
        }
        mark_free(tlsf, rest, left);
    }
    block->head += added;
    block_unpoison(block, old_size + added);
}

/* In place. False: it does not fit there. */
static inline bool resize(struct ps_tlsf *tlsf, struct block *block, size_t head, size_t size) {
    size_t old_size = ps_fit_bytes(head);
    if (size <= old_size) {
        if (old_size - size >= PS_FIT_MIN) {
            shorten(tlsf, block, size);
        }
        return true;
    }
    size_t behind_head = tlsf_head_behind(tlsf, block, block_at(block, old_size));
    size_t behind_size = ps_fit_bytes(behind_head);
    if ((behind_head & PS_FIT_FREE) == 0 || old_size + behind_size < size) {
        return false;
    }
    lengthen(tlsf, block, size, behind_size);
    return true;
}

bool ps_tlsf_resize(struct ps_tlsf *tlsf, struct block *block, size_t size) {
    return resize(tlsf, block, block->head, size);
}

void *ps_tlsf_alloc(struct ps_tlsf *tlsf, size_t bytes) {
    if (PS_UNLIKELY(bytes >= tlsf->limit_bytes)) {
        return ps_tlsf_alloc_slow(tlsf, bytes, PS_FIT_UNIT);
    }
    size_t size = ps_fit_bytes_for(bytes);
    size_t class = ps_fit_find(&tlsf->index, ps_fit_class_from(size));
    if (PS_UNLIKELY(class == PS_FIT_NONE)) {
        return alloc_near(tlsf, bytes);
    }
    return take_first(tlsf, class, size);
}

void *ps_tlsf_alloc_aligned(struct ps_tlsf *tlsf, size_t bytes, size_t align) {
    if (PS_UNLIKELY(!ps_is_power_of_two(align))) {
        errno = EINVAL;
        return NULL;
    }
    if (PS_LIKELY(bytes < tlsf->limit_bytes && align < tlsf->limit_bytes)) {
        void *payload = ps_tlsf_take(tlsf, ps_fit_bytes_for(bytes), align);
        if (PS_LIKELY(payload != NULL)) {
            return payload;
        }
    }
    return ps_tlsf_alloc_slow(tlsf, bytes, align);
}

/* The head of what should be a used block of this pool. It may be anything else, at any address. */
static inline size_t head_of(const void *payload) {
    size_t head;
    memcpy(&head, (const char *)payload - PS_FIT_HEAD, sizeof head);
    return head;
}

static inline bool is_odd(const struct ps_tlsf *tlsf, const void *payload, size_t head) {
    return (((head ^ tlsf->expected) & (PS_FIT_TAG_MASK | PS_FIT_FREE)) |
            ((uintptr_t)payload & (PS_FIT_UNIT - 1))) != 0;
}

void ps_tlsf_free(struct ps_tlsf *tlsf, void *payload) {
    if (payload == NULL) {
        return;
    }
    size_t head = head_of(payload);
    if (PS_UNLIKELY(is_odd(tlsf, payload, head))) {
        ps_tlsf_free_slow(tlsf, payload);
        return;
    }
    release(tlsf, block_of(payload), head);
}

/* By a new block. */
static PS_NOINLINE void *move(struct ps_tlsf *tlsf, void *payload, size_t bytes) {
    struct block *block = block_of(payload);
    void *moved = ps_tlsf_alloc(tlsf, bytes);
    if (moved != NULL) {
        memcpy(moved, payload, ps_fit_bytes(block->head) - PS_FIT_HEAD);
        release(tlsf, block, block->head);
    }
    return moved;
}

void *ps_tlsf_realloc(struct ps_tlsf *tlsf, void *payload, size_t bytes) {
    if (payload == NULL) {
        return ps_tlsf_alloc(tlsf, bytes);
    }
    size_t head = head_of(payload);
    if (PS_UNLIKELY(bytes >= tlsf->limit_bytes || is_odd(tlsf, payload, head))) {
        return ps_tlsf_realloc_slow(tlsf, payload, bytes);
    }
    struct block *block = block_of(payload);
    return resize(tlsf, block, head, ps_fit_bytes_for(bytes)) ? payload
                                                              : move(tlsf, payload, bytes);
}
