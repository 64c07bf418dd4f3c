/* SPDX-License-Identifier: MIT */
/*
 * Two heaps that trust their caller, to prove that the attacks work: an attack that reaches its
 * goal against neither of them must say why it is there. NAIVE=tags: a word in front of each
 * block has its size, and free believes it; a word after the last block has the place of the next
 * one. NAIVE=classes: blocks of a power of two back to back, with the list of free ones in front of
 * the first; free believes the address, or the size that its caller promises. Both link freed
 * blocks in lists that run through the blocks, the newest first, and never give memory back.
 *
 * Preloaded by tests/attacks/test_attacks.py. One spin lock around everything.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LISTS 4096
#define CLASS_MIN_SHIFT 4
#define CLASS_COUNT 26
#define CLASS_SHIFT 34 /* 16 GiB of addresses per class */

#define EXPORT __attribute__((visibility("default"))) extern

struct node {
    struct node *next;
};

static int lock;
static int mode; /* 0: not started, 1: tags, 2: classes */
static char *arena;
static char *next_tagged;
static struct node *tagged_lists[LISTS];

/* Lies right in front of the first block of a class. */
struct class_head {
    struct node *list;
    char *next;
};

/* The first block of a class is aligned as any of them. */
static struct class_head *class_head(int class) {
    size_t start = ((size_t) class << CLASS_SHIFT) + ((size_t)1 << (CLASS_COUNT + 3));
    return (struct class_head *)(arena + start) - 1;
}

static void enter(void) {
    while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE)) {
    }
    if (mode == 0) {
        const char *name = getenv("NAIVE");
        mode = name != NULL && strcmp(name, "classes") == 0 ? 2 : 1;
        arena = mmap(NULL, (size_t)CLASS_COUNT << CLASS_SHIFT, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (arena == MAP_FAILED) {
            abort();
        }
        if (mode == 2) {
            for (int i = 0; i < CLASS_COUNT; i++) {
                class_head(i)->next = (char *)(class_head(i) + 1);
            }
        } else {
            next_tagged = arena + 16;
            ((char **)next_tagged)[-1] = next_tagged;
        }
    }
}

static void leave(void) { __atomic_store_n(&lock, 0, __ATOMIC_RELEASE); }

static int class_of(size_t size) {
    int class = 0;
    while (((size_t)1 << (class + CLASS_MIN_SHIFT)) < size && class < CLASS_COUNT - 1) {
        class ++;
    }
    return class;
}

static int class_at(const void *block) {
    size_t class = ((size_t)block - (size_t)arena) >> CLASS_SHIFT;
    return class < CLASS_COUNT ? (int)class : class_of(64);
}

/* Bytes of the block with its tag; lists go by sixteens, all large ones share by their bits. */
static size_t tagged_bytes(size_t size) { return (size + 8 + 15) & ~(size_t)15; }

static struct node **list_of_class(int class) { return &class_head(class)->list; }

static struct node **list_of_bytes(size_t bytes) {
    size_t index = bytes / 16;
    return &tagged_lists[index < LISTS - 64 ? index : LISTS - (size_t)__builtin_clzl(bytes) - 1];
}

static void *pop(struct node **list) {
    struct node *node = *list;
    if (node != NULL) {
        *list = node->next;
    }
    return node;
}

static void push(struct node **list, void *block) {
    struct node *node = block;
    node->next = *list;
    *list = node;
}

static void *take(size_t size) {
    if (mode == 2) {
        int class = class_of(size);
        void *block = pop(list_of_class(class));
        if (block == NULL) {
            block = class_head(class)->next;
            class_head(class)->next += (size_t)1 << (class + CLASS_MIN_SHIFT);
        }
        return block;
    }
    size_t bytes = tagged_bytes(size < 24 ? 24 : size);
    if (bytes / 16 >= LISTS - 64) {
        bytes = (size_t)1 << (64 - __builtin_clzl(bytes - 1));
    }
    char *block = pop(list_of_bytes(bytes));
    if (block == NULL) {
        block = ((char **)next_tagged)[-1];
        next_tagged = block + bytes;
        ((char **)next_tagged)[-1] = next_tagged;
    }
    ((size_t *)block)[-1] = bytes | 1;
    return block;
}

EXPORT size_t malloc_usable_size(void *block) {
    if (block == NULL) {
        return 0;
    }
    if (mode == 2) {
        return (size_t)1 << (class_at(block) + CLASS_MIN_SHIFT);
    }
    return (((size_t *)block)[-1] & ~(size_t)15) - 8;
}

EXPORT void *malloc(size_t size) {
    if (size >> CLASS_SHIFT != 0) {
        errno = ENOMEM;
        return NULL;
    }
    enter();
    void *block = take(size);
    leave();
    return block;
}

EXPORT void free(void *block) {
    if (block == NULL) {
        return;
    }
    enter();
    push(mode == 2 ? list_of_class(class_at(block)) : list_of_bytes(malloc_usable_size(block) + 8),
         block);
    leave();
}

EXPORT void free_sized(void *block, size_t size) {
    if (block == NULL) {
        return;
    }
    enter();
    push(mode == 2 ? list_of_class(class_of(size)) : list_of_bytes(tagged_bytes(size)), block);
    leave();
}

EXPORT void free_aligned_sized(void *block, size_t align, size_t size) {
    free_sized(block, size > align ? size : align);
}

EXPORT void *calloc(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    void *block = malloc(bytes);
    return block != NULL ? memset(block, 0, bytes) : NULL;
}

EXPORT void *realloc(void *block, size_t size) {
    if (block != NULL && size == 0) {
        free(block);
        return NULL;
    }
    size_t old = malloc_usable_size(block);
    if (block != NULL && size <= old) {
        return block;
    }
    void *moved = malloc(size);
    if (moved != NULL && block != NULL) {
        memcpy(moved, block, old);
        free(block);
    }
    return moved;
}

EXPORT void *memalign(size_t align, size_t size) {
    if (mode == 2) {
        return malloc(size > align ? size : align); /* a power of two is aligned to itself */
    }
    char *block = malloc(size + align + 32);
    if (((size_t)block & (align - 1)) != 0) {
        block = (char *)(((size_t)block + align + 15) & ~(align - 1));
        ((size_t *)block)[-1] = tagged_bytes(size < 24 ? 24 : size) | 1;
    }
    return block;
}

EXPORT void *aligned_alloc(size_t align, size_t size) { return memalign(align, size); }

EXPORT int posix_memalign(void **block, size_t align, size_t size) {
    *block = memalign(align, size);
    return 0;
}

EXPORT int malloc_trim(size_t pad) { return pad != 0; }

/* operator delete of C++14 and 17 with a size. */
EXPORT void _ZdlPvm(void *block, size_t size) { free_sized(block, size); }
EXPORT void _ZdaPvm(void *block, size_t size) { free_sized(block, size); }
EXPORT void _ZdlPvmSt11align_val_t(void *block, size_t size, size_t align) {
    free_aligned_sized(block, align, size);
}
