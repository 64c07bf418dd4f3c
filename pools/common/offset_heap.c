/* SPDX-License-Identifier: MIT */
/*
 * Take, release and resize in a heap over offsets: find, split, merge. Every loop has a constant
 * bound. See offset_heap.h. Each change goes through ps_offset_store.
 */
#include "pools/common/offset_heap.h"
#include "pools/common/debug.h"

static inline void put(const struct ps_offset_memory *memory, uint64_t *word, uint64_t value) {
    ps_offset_store(memory, word, value);
}

/* The word that leads to a free block: of its list, or of the block before it there. */
static inline uint64_t *link_to(const struct ps_offset_memory *memory, uint64_t previous,
                                size_t class) {
    return previous != 0 ? &ps_offset_block(memory, previous)->next : &memory->heap->heads[class];
}

/* Notes the words that change when a block on a list gets another neighbour before it. */
static inline struct ps_offset_entry *note_next(const struct ps_offset_memory *memory,
                                                struct ps_offset_entry *end, uint64_t next) {
    return next != 0 ? ps_offset_note(memory, end, &ps_offset_block(memory, next)->previous) : end;
}

static inline void set_previous(const struct ps_offset_memory *memory, uint64_t next,
                                uint64_t previous) {
    if (next != 0) {
        ps_offset_block(memory, next)->previous = previous;
    }
}

/* The words of a class's bit. */
static inline struct ps_offset_entry *note_class(const struct ps_offset_memory *memory,
                                                 struct ps_offset_entry *end, size_t class) {
    struct ps_fit_index *index = &memory->heap->index;
    end = ps_offset_note(memory, end, &index->bits[class / 64]);
    return ps_offset_note(memory, end, &index->summary);
}

static inline struct ps_offset_entry *note_block(const struct ps_offset_memory *memory,
                                                 struct ps_offset_entry *end,
                                                 const struct ps_offset_block *block) {
    end = ps_offset_note(memory, end, &block->head);
    end = ps_offset_note(memory, end, &block->next);
    return ps_offset_note(memory, end, &block->previous);
}

/* The place of a block that becomes free. */
enum where {
    ANYWHERE,
    IN_FREE, /* within a free block, 32 bytes after its start at least: needs no notes */
};

/* Puts a free block, whose neighbours are used, on its list and marks it in the next block. */
static void list_in(const struct ps_offset_memory *memory, uint64_t offset, uint64_t size,
                    enum where where) {
    struct ps_offset_heap *heap = memory->heap;
    size_t class = ps_fit_class_of(size);
    struct ps_offset_block *block = ps_offset_block(memory, offset);
    uint64_t next = heap->heads[class];
    uint64_t *behind = &ps_offset_block(memory, offset + size)->head;
    bool is_marked = where == IN_FREE || (*behind & PS_FIT_PREVIOUS_FREE) != 0;
    if (memory->log != NULL) {
        struct ps_offset_entry *end = ps_offset_notes_begin(memory);
        end = where == ANYWHERE ? note_block(memory, end, block) : end;
        end = next != 0 ? note_next(memory, end, next) : note_class(memory, end, class);
        end = ps_offset_note(memory, end, &heap->heads[class]);
        end = is_marked ? end : ps_offset_note(memory, end, behind);
        end = ps_offset_note(memory, end, ps_offset_back(memory, offset + size));
        ps_offset_notes_end(memory, end);
    }
    if (next != 0) {
        ps_offset_block(memory, next)->previous = offset;
    } else {
        ps_fit_set(&heap->index, class);
    }
    heap->heads[class] = offset;
    if (!is_marked) {
        *behind |= PS_FIT_PREVIOUS_FREE;
    }
    *ps_offset_back(memory, offset + size) = offset;
    *block = (struct ps_offset_block){heap->tag | size | PS_FIT_FREE, next, 0};
}

static inline void list_out(const struct ps_offset_memory *memory, uint64_t offset, size_t class) {
    const struct ps_offset_block *block = ps_offset_block(memory, offset);
    uint64_t next = block->next;
    uint64_t previous = block->previous;
    uint64_t *link = link_to(memory, previous, class);
    bool is_only = next == 0 && previous == 0;
    if (memory->log != NULL) {
        struct ps_offset_entry *end = ps_offset_notes_begin(memory);
        end = ps_offset_note(memory, end, link);
        end = note_next(memory, end, next);
        end = is_only ? note_class(memory, end, class) : end;
        ps_offset_notes_end(memory, end);
    }
    *link = next;
    set_previous(memory, next, previous);
    if (is_only) {
        ps_fit_clear(&memory->heap->index, class);
    }
}

static inline size_t class_at(const struct ps_offset_memory *memory, uint64_t offset) {
    return ps_fit_class_of(ps_fit_bytes(ps_offset_block(memory, offset)->head));
}

/* A free block of the same class, at `moved`, takes the place of the one at `offset` on its list.
 * ANYWHERE: that was before it; IN_FREE: what is before `moved` becomes used, and its head is
 * noted. */
static inline void list_instead(const struct ps_offset_memory *memory, uint64_t offset,
                                size_t class, uint64_t moved, uint64_t size, enum where where) {
    const struct ps_offset_block *old = ps_offset_block(memory, offset);
    struct ps_offset_block *block = ps_offset_block(memory, moved);
    uint64_t next = old->next;
    uint64_t previous = old->previous;
    uint64_t *link = link_to(memory, previous, class);
    if (memory->log != NULL) {
        struct ps_offset_entry *end = ps_offset_notes_begin(memory);
        end = where == ANYWHERE ? note_block(memory, end, block)
                                : ps_offset_note(memory, end, &old->head);
        end = note_next(memory, end, next);
        end = ps_offset_note(memory, end, link);
        end = ps_offset_note(memory, end, ps_offset_back(memory, moved + size));
        ps_offset_notes_end(memory, end);
    }
    set_previous(memory, next, moved);
    *link = moved;
    *ps_offset_back(memory, moved + size) = moved;
    *block = (struct ps_offset_block){memory->heap->tag | size | PS_FIT_FREE, next, previous};
}

/* See ps_fit_gap. */
static uint64_t gap_before(uint64_t offset, uint64_t align) {
    return ps_fit_gap(offset + PS_FIT_HEAD, align);
}

/* Tries a few blocks of a class, which may be too short. */
static uint64_t find_near(const struct ps_offset_memory *memory, size_t class, uint64_t size,
                          uint64_t align) {
    uint64_t offset = memory->heap->heads[class];
    for (int tries = 0; offset != 0 && tries < PS_FIT_NEAR_MAX; tries++) {
        const struct ps_offset_block *block = ps_offset_block(memory, offset);
        if (ps_fit_bytes(block->head) >= size + gap_before(offset, align)) {
            return offset;
        }
        offset = block->next;
    }
    return 0;
}

/* The same where no class has blocks that all fit; 0: none. */
static PS_NOINLINE uint64_t find_any(const struct ps_offset_memory *memory, uint64_t size,
                                     uint64_t least, uint64_t align) {
    uint64_t offset = find_near(memory, ps_fit_class_of(least), size, align);
    return offset != 0 ? offset : find_near(memory, ps_fit_class_of(size), size, align);
}

/* Cuts a used block of `total`, before a used one, down to `size`; `flags` are those of its head.
 * The rest becomes free. */
static void cut(const struct ps_offset_memory *memory, uint64_t offset, uint64_t total,
                uint64_t size, uint64_t flags, enum where where) {
    if (total - size >= PS_FIT_MIN) {
        list_in(memory, offset + size, total - size, where);
        total = size;
    } else {
        uint64_t *behind = &ps_offset_block(memory, offset + total)->head;
        put(memory, behind, *behind & ~(uint64_t)PS_FIT_PREVIOUS_FREE);
    }
    put(memory, &ps_offset_block(memory, offset)->head, memory->heap->tag | total | flags);
}

/* Takes `size` bytes, aligned, of a free block that is long enough for them. */
static PS_NOINLINE uint64_t take_part(const struct ps_offset_memory *memory, uint64_t offset,
                                      uint64_t size, uint64_t align) {
    uint64_t total = ps_fit_bytes(ps_offset_block(memory, offset)->head);
    uint64_t gap = gap_before(offset, align);
    list_out(memory, offset, ps_fit_class_of(total));
    if (gap != 0) {
        list_in(memory, offset, gap, ANYWHERE);
    }
    cut(memory, offset + gap, total - gap, size, gap != 0 ? PS_FIT_PREVIOUS_FREE : 0, IN_FREE);
    return offset + gap;
}

uint64_t ps_offset_heap_take(const struct ps_offset_memory *memory, uint64_t size, uint64_t align) {
    uint64_t least = align > PS_FIT_UNIT ? size + align + PS_FIT_UNIT : size;
    size_t class = ps_fit_find(&memory->heap->index, ps_fit_class_from(least));
    if (PS_UNLIKELY(class == PS_FIT_NONE)) {
        uint64_t found = find_any(memory, size, least, align);
        return found != 0 ? take_part(memory, found, size, align) : 0;
    }
    uint64_t offset = memory->heap->heads[class];
    uint64_t left = ps_fit_bytes(ps_offset_block(memory, offset)->head) - size;
    if (align > PS_FIT_UNIT || left < PS_FIT_MIN || ps_fit_class_of(left) != class) {
        return take_part(memory, offset, size, align);
    }
    list_instead(memory, offset, class, offset + size, left, IN_FREE);
    ps_offset_block(memory, offset)->head = memory->heap->tag | size;
    return offset;
}

/* Both neighbours, or the one before. */
static PS_NOINLINE void merge_before(const struct ps_offset_memory *memory, uint64_t offset,
                                     uint64_t size, uint64_t behind_head) {
    struct ps_offset_block *block = ps_offset_block(memory, offset);
    if ((behind_head & PS_FIT_FREE) != 0) {
        list_out(memory, offset + size, class_at(memory, offset + size));
        size += ps_fit_bytes(behind_head);
    }
    put(memory, &block->head, block->head | PS_FIT_FREE); /* a second free sees it when it is merged
                                                           */
    uint64_t before = *ps_offset_back(memory, offset);
    list_out(memory, before, class_at(memory, before));
    list_in(memory, before, size + (offset - before), ANYWHERE);
}

/* The one after it, of another class than both together. */
static PS_NOINLINE void merge_behind(const struct ps_offset_memory *memory, uint64_t offset,
                                     uint64_t size, uint64_t behind, size_t class) {
    list_out(memory, behind, class);
    list_in(memory, offset, size, ANYWHERE);
}

void ps_offset_heap_release(const struct ps_offset_memory *memory, uint64_t offset) {
    uint64_t head = ps_offset_block(memory, offset)->head;
    uint64_t size = ps_fit_bytes(head);
    uint64_t behind = offset + size;
    uint64_t behind_head = ps_offset_block(memory, behind)->head;
    if ((head & PS_FIT_PREVIOUS_FREE) != 0) {
        merge_before(memory, offset, size, behind_head);
        return;
    }
    if ((behind_head & PS_FIT_FREE) != 0) {
        uint64_t behind_size = ps_fit_bytes(behind_head);
        size_t class = ps_fit_class_of(behind_size);
        size += behind_size;
        if (ps_fit_class_of(size) == class) {
            list_instead(memory, behind, class, offset, size, ANYWHERE);
            return;
        }
        merge_behind(memory, offset, size, behind, class);
        return;
    }
    list_in(memory, offset, size, ANYWHERE);
}

bool ps_offset_heap_resize(const struct ps_offset_memory *memory, uint64_t offset, uint64_t size) {
    uint64_t head = ps_offset_block(memory, offset)->head;
    uint64_t flags = head & PS_FIT_PREVIOUS_FREE;
    uint64_t total = ps_fit_bytes(head);
    uint64_t behind_head = ps_offset_block(memory, offset + total)->head;
    uint64_t behind = (behind_head & PS_FIT_FREE) != 0 ? ps_fit_bytes(behind_head) : 0;
    if (total + behind < size) {
        return false;
    }
    if (size > total || (behind != 0 && size < total)) {
        list_out(memory, offset + total, class_at(memory, offset + total));
        cut(memory, offset, total + behind, size, flags, ANYWHERE);
    } else if (total - size >= PS_FIT_MIN) {
        cut(memory, offset, total, size, flags, ANYWHERE);
    }
    return true;
}

void ps_offset_heap_format(const struct ps_offset_memory *memory, uint64_t tag, uint64_t bytes) {
    struct ps_offset_memory unlogged = {memory->base, memory->heap, NULL};
    memory->heap->tag = (tag | 1) << PS_FIT_TAG_SHIFT;
    memory->heap->end = bytes - PS_FIT_HEAD;
    ps_offset_block(memory, memory->heap->end)->head = memory->heap->tag;
    uint64_t first = ps_offset_first(memory);
    list_in(&unlogged, first, memory->heap->end - first, ANYWHERE);
}

/* The old stopper becomes the head of the added memory. */
void ps_offset_heap_extend(const struct ps_offset_memory *memory, uint64_t bytes) {
    struct ps_offset_heap *heap = memory->heap;
    uint64_t offset = heap->end;
    uint64_t added = bytes - ps_offset_bytes(memory);
    uint64_t *old_stopper = &ps_offset_block(memory, offset)->head;
    put(memory, old_stopper, heap->tag | added | (*old_stopper & PS_FIT_PREVIOUS_FREE));
    put(memory, &heap->end, offset + added);
    put(memory, &ps_offset_block(memory, heap->end)->head, heap->tag);
    ps_offset_heap_release(memory, offset);
}

uint64_t ps_offset_heap_used(const struct ps_offset_memory *memory, const void *payload,
                             const char *what, const char *name) {
    uint64_t offset = (uint64_t)((uintptr_t)payload - (uintptr_t)memory->base) - PS_FIT_HEAD;
    if (offset < ps_offset_first(memory) || offset >= memory->heap->end ||
        (offset + PS_FIT_HEAD) % PS_FIT_UNIT != 0) {
        ps_debug_misuse(what, payload, name);
    }
    uint64_t head = ps_offset_block(memory, offset)->head;
    if (((head ^ memory->heap->tag) & PS_FIT_TAG_MASK) != 0) {
        ps_debug_misuse(what, payload, name);
    }
    if ((head & PS_FIT_FREE) != 0) {
        ps_debug_misuse("double free of", payload, name);
    }
    return offset;
}
