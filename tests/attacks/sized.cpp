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

/* ---- a wrong promise, and nothing else: a: the function; b: the size that is promised ---- */

void promise_once(const struct attack *attack) {
    char *first = make(attack->a, attack->size);
    char *second = make(attack->a, attack->size);
    stage_write(first, 1, attack->size);
    unmake(attack->a, second, attack->size);
    stage_misuse();
    unmake(attack->a, first, attack->b);
    stage_after();
    stage_hunt(attack->size);
    stage_unnoticed("a wrong size");
}

const struct attack wrong_sizes[] = {
    {"delete-half", GOAL_UNNOTICED, 16, promise_once, SIZED_DELETE, 8},
    {"delete-one-more-step", GOAL_UNNOTICED, 64, promise_once, SIZED_DELETE, 80},
    {"delete-half", GOAL_UNNOTICED, 200, promise_once, SIZED_DELETE, 100},
    {"delete-double", GOAL_UNNOTICED, 1024, promise_once, SIZED_DELETE, 2048},
    {"delete-double", GOAL_UNNOTICED, 16 * KIB, promise_once, SIZED_DELETE, 32 * KIB},
    {"delete-small", GOAL_UNNOTICED, MIB, promise_once, SIZED_DELETE, 64},
    {"delete-array-half", GOAL_UNNOTICED, 64, promise_once, SIZED_ARRAY_DELETE, 32},
    {"delete-array-double", GOAL_UNNOTICED, 3000, promise_once, SIZED_ARRAY_DELETE, 6000},
    {"free-sized-half", GOAL_UNNOTICED, 32, promise_once, FREE_SIZED, 16},
    {"free-sized-double", GOAL_UNNOTICED, 100, promise_once, FREE_SIZED, 200},
    {"free-sized-small", GOAL_UNNOTICED, 100 * KIB, promise_once, FREE_SIZED, 1000},
    {"free-aligned-sized-half", GOAL_UNNOTICED, 256, promise_once, FREE_ALIGNED_SIZED, 128},
    {"aligned-delete-double", GOAL_UNNOTICED, 1024, promise_once, ALIGNED_WRONG_SIZE, 2048},
    {"aligned-delete-half", GOAL_UNNOTICED, 8192, promise_once, ALIGNED_WRONG_SIZE, 4096},
};

/* ---- the wrong family: a makes, b frees ---- */

enum kind { MALLOC, NEW, NEW_ARRAY, NEW_ALIGNED };

char *make_as(size_t kind, size_t size) {
    void *block = kind == MALLOC      ? malloc(size)
                  : kind == NEW       ? operator new(size)
                  : kind == NEW_ARRAY ? operator new[](size)
                                      :
                                      operator new(size, std::align_val_t(64));
    return static_cast<char *>(stage_hide(block));
}

void unmake_as(size_t kind, void *block) {
    switch (kind) {
    case MALLOC:
        free(block);
        break;
    case NEW:
        operator delete(block);
        break;
    case NEW_ARRAY:
        operator delete[](block);
        break;
    default:
        operator delete(block, std::align_val_t(64));
    }
}

void mix_families(const struct attack *attack) {
    char *first = make_as(attack->a, attack->size);
    char *second = make_as(attack->a, attack->size);
    stage_write(first, 1, attack->size);
    unmake_as(attack->a, second);
    stage_misuse();
    unmake_as(attack->b, stage_hide(first));
    stage_after();
    stage_hunt(attack->size);
    stage_unnoticed("the wrong function");
}

const struct attack wrong_functions[] = {
    {"malloc-delete", GOAL_UNNOTICED, 16, mix_families, MALLOC, NEW},
    {"malloc-delete", GOAL_UNNOTICED, 5000, mix_families, MALLOC, NEW},
    {"malloc-delete-array", GOAL_UNNOTICED, 64, mix_families, MALLOC, NEW_ARRAY},
    {"malloc-delete-array", GOAL_UNNOTICED, 200 * KIB, mix_families, MALLOC, NEW_ARRAY},
    {"new-free", GOAL_UNNOTICED, 24, mix_families, NEW, MALLOC},
    {"new-free", GOAL_UNNOTICED, 1024, mix_families, NEW, MALLOC},
    {"new-free", GOAL_UNNOTICED, 100 * KIB, mix_families, NEW, MALLOC},
    {"new-delete-array", GOAL_UNNOTICED, 64, mix_families, NEW, NEW_ARRAY},
    {"new-delete-array", GOAL_UNNOTICED, 16 * KIB, mix_families, NEW, NEW_ARRAY},
    {"new-array-delete", GOAL_UNNOTICED, 200, mix_families, NEW_ARRAY, NEW},
    {"new-array-delete", GOAL_UNNOTICED, MIB, mix_families, NEW_ARRAY, NEW},
    {"new-array-free", GOAL_UNNOTICED, 400, mix_families, NEW_ARRAY, MALLOC},
    {"aligned-delete", GOAL_UNNOTICED, 128, mix_families, NEW_ALIGNED, NEW},
    {"aligned-free", GOAL_UNNOTICED, 4096, mix_families, NEW_ALIGNED, MALLOC},
};

} // namespace

extern "C" const struct family sized_families[] = {
    FAMILY("size-confusion", "a free that promises the wrong size or alignment", promises),
    FAMILY("wrong-size", "a free that promises another size, once", wrong_sizes),
    FAMILY("wrong-function", "what one family of functions made, another one frees",
           wrong_functions),
    {nullptr, nullptr, nullptr, 0},
};
