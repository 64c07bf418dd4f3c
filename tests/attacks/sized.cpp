/* SPDX-License-Identifier: MIT */
/*
 * Frees that promise something wrong: another size, another alignment, the wrong function. An
 * allocator that believes them puts a block among others that are larger. Called by main.c; calls
 * the stage; no locks.
 */
#include "attack.h"

#include <dlfcn.h>
#include <malloc.h>
#include <new>
#include <stdlib.h>

namespace {

enum function {
    SIZED_DELETE,
    SIZED_ARRAY_DELETE,
    FREE_SIZED,
    FREE_ALIGNED_SIZED,
    ALIGNED_AS_PLAIN,
    PLAIN_AS_ALIGNED,
    ALIGNED_WRONG_SIZE,
};

/* The C23 functions are not everywhere; where there is none, nobody can misuse it. */
template <class Function> Function *function_of(const char *name) {
    return reinterpret_cast<Function *>(dlsym(RTLD_DEFAULT, name));
}

void free_sized_wrongly(char *block, size_t size) {
    if (auto *call = function_of<void(void *, size_t)>("free_sized")) {
        call(block, size);
    } else {
        free(block);
    }
}

void free_aligned_sized_wrongly(char *block, size_t size) {
    if (auto *call = function_of<void(void *, size_t, size_t)>("free_aligned_sized")) {
        call(block, 64, size);
    } else {
        free(block);
    }
}

char *make(size_t function, size_t size) {
    void *block = nullptr;
    switch (function) {
    case SIZED_ARRAY_DELETE:
        block = operator new[](size);
        break;
    case FREE_SIZED:
        block = malloc(size);
        break;
    case FREE_ALIGNED_SIZED:
        block = aligned_alloc(64, (size + 63) & ~size_t(63));
        break;
    case ALIGNED_AS_PLAIN:
    case ALIGNED_WRONG_SIZE:
        block = operator new(size, std::align_val_t(1024));
        break;
    default:
        block = operator new(size);
    }
    return static_cast<char *>(stage_hide(block));
}

void unmake(size_t function, char *block, size_t size) {
    switch (function) {
    case SIZED_DELETE:
        operator delete(block, size);
        break;
    case SIZED_ARRAY_DELETE:
        operator delete[](block, size);
        break;
    case FREE_SIZED:
        free_sized_wrongly(block, size);
        break;
    case FREE_ALIGNED_SIZED:
        free_aligned_sized_wrongly(block, size);
        break;
    case PLAIN_AS_ALIGNED:
        operator delete(block, size, std::align_val_t(1024));
        break;
    case ALIGNED_WRONG_SIZE:
        operator delete(block, size, std::align_val_t(1024));
        break;
    default:
        operator delete(block, size);
    }
}

/* a: the function; b: the size that is promised. Neighbours of the same make are live. */
void free_with_promise(const struct attack *attack) {
    char *blocks[24];
    size_t count = attack->size <= 64 * KIB ? 24 : 6;
    for (size_t i = 0; i < count; i++) {
        blocks[i] = stage_take_as(make(attack->a, attack->size), attack->size);
    }
    for (size_t i = 1; i < count; i += 2) {
        stage_forget(blocks[i]);
        stage_misuse();
        unmake(attack->a, blocks[i], attack->b);
        stage_after();
    }
    stage_hunt(attack->b);
    stage_hunt(attack->size);
    for (size_t i = 0; i < count; i += 2) { /* the honest half goes the honest way */
        stage_forget(blocks[i]);
        unmake(attack->a == ALIGNED_AS_PLAIN ? size_t(ALIGNED_WRONG_SIZE) : attack->a, blocks[i],
               attack->size);
    }
    stage_hunt(attack->size);
}

const struct attack promises[] = {
    {"delete-larger", GOAL_TWO_OWNERS, 16, free_with_promise, SIZED_DELETE, 200},
    {"delete-larger", GOAL_TWO_OWNERS, 64, free_with_promise, SIZED_DELETE, 1024},
    {"delete-larger", GOAL_TWO_OWNERS, 200, free_with_promise, SIZED_DELETE, 400},
    {"delete-larger", GOAL_TWO_OWNERS, 1024, free_with_promise, SIZED_DELETE, 16 * KIB},
    {"delete-larger", GOAL_TWO_OWNERS, 4096, free_with_promise, SIZED_DELETE, 8192},
    {"delete-much-larger", GOAL_TWO_OWNERS, 64, free_with_promise, SIZED_DELETE, 100 * KIB},
    {"delete-array-larger", GOAL_TWO_OWNERS, 24, free_with_promise, SIZED_ARRAY_DELETE, 64},
    {"delete-array-larger", GOAL_TWO_OWNERS, 1024, free_with_promise, SIZED_ARRAY_DELETE, 2048},
    {"free-sized-larger", GOAL_TWO_OWNERS, 64, free_with_promise, FREE_SIZED, 512},
    {"free-aligned-sized", GOAL_TWO_OWNERS, 192, free_with_promise, FREE_ALIGNED_SIZED, 1024},
    {"aligned-wrong-size", GOAL_TWO_OWNERS, 1024, free_with_promise, ALIGNED_WRONG_SIZE, 4096},
    {"plain-as-aligned", GOAL_TWO_OWNERS, 64, free_with_promise, PLAIN_AS_ALIGNED, 64},
};

} // namespace

extern "C" const struct family sized_families[] = {
    FAMILY("size-confusion", "a free that promises the wrong size or alignment", promises),
    {nullptr, nullptr, nullptr, 0},
};
