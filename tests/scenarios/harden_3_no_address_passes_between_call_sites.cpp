// expect: exit 0
// env: POOLSHIM_HARDEN=3 POOLSHIM_GUARD_SAMPLE=1000000000
// flags: -faligned-new
/* SPDX-License-Identifier: MIT */
/*
 * Level 3: as many call sites as the heap has parts share no page, in millions of random calls of
 * threads that free each other's blocks, resize them, and trim; nor do they in the child of a fork.
 * Each function that allocates has sites of its own. (Guarded samples are in no part: there are
 * none.)
 */
#include "claim.h"

#include <malloc.h>
#include <new>
#include <pthread.h>
#include <sys/wait.h>

#define SITES 24 /* others are libc's */
#define THREADS 4
#define CALLS 150000
#define PLACES 4000
#define PAGE_BITS 18

enum Maker { MALLOC, CALLOC, REALLOC, MEMALIGN, POSIX, NEW, ARRAY, NOTHROW, ALIGNED, MAKERS };

struct Block {
    char *address;
    size_t bytes;
    int site;
};

static struct {
    pthread_mutex_t lock;
    Block block;
} x_places[PLACES];
static uint64_t x_owners[(size_t)1 << PAGE_BITS]; /* page << 8 | site + 1; 0: none yet */

/* Each instance is a function, and so a call site, of its own. */
template <int Site> __attribute__((noinline)) void *make(size_t bytes) {
    void *block = nullptr;
    switch (Site % MAKERS) {
    case MALLOC:
        block = claim_hide(malloc(bytes));
        break;
    case CALLOC:
        block = claim_hide(calloc(1, bytes));
        break;
    case REALLOC:
        block = claim_hide(realloc(claim_hide(nullptr), bytes));
        break;
    case MEMALIGN:
        block = claim_hide(memalign(64, bytes));
        break;
    case POSIX:
        CLAIM(posix_memalign(&block, 32, bytes) == 0);
        break;
    case NEW:
        block = claim_hide(::operator new(bytes));
        break;
    case ARRAY:
        block = claim_hide(::operator new[](bytes));
        break;
    case NOTHROW:
        block = claim_hide(::operator new(bytes, std::nothrow));
        break;
    default:
        block = claim_hide(::operator new(bytes, std::align_val_t(128)));
    }
    CLAIM(block != nullptr);
    return block;
}

typedef void *(*make_function)(size_t bytes);
template <int Site> struct Table {
    static void fill(make_function *functions) {
        functions[Site] = make<Site>;
        Table<Site - 1>::fill(functions);
    }
};
template <> struct Table<-1> {
    static void fill(make_function *functions) { (void)functions; }
};
static make_function makers[SITES];

static void destroy(const Block &block) {
    switch (block.site % MAKERS) {
    case NEW:
    case NOTHROW:
        ::operator delete(block.address);
        break;
    case ARRAY:
        ::operator delete[](block.address);
        break;
    case ALIGNED:
        ::operator delete(block.address, std::align_val_t(128));
        break;
    default:
        free(block.address);
    }
}

static void note_page(uintptr_t page, int site) {
    uint64_t wanted = (uint64_t)page << 8 | (uint64_t)(site + 1);
    size_t at = (size_t)(page * UINT64_C(0x9e3779b97f4a7c15) >> (64 - PAGE_BITS));
    for (;; at = (at + 1) % ((size_t)1 << PAGE_BITS)) { /* ends: there are fewer pages */
        uint64_t found = 0;
        if (__atomic_compare_exchange_n(&x_owners[at], &found, wanted, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
            return;
        }
        if (found >> 8 == page) {
            CLAIM(found == wanted);
            return;
        }
    }
}

static void note(const Block &block) {
    uintptr_t last = ((uintptr_t)block.address + block.bytes - 1) >> 12;
    for (uintptr_t page = (uintptr_t)block.address >> 12; page <= last; page++) {
        note_page(page, block.site);
    }
}

static uint64_t next(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static size_t random_size(uint64_t *state) {
    uint64_t random = next(state);
    size_t limit = random % 16 != 0 ? 300 : random % 256 != 0 ? 5000 : 60000;
    return (random >> 20) % limit + 1;
}

/* realloc may be given blocks of the functions of C alone. */
static bool may_resize(int site) { return site % MAKERS <= POSIX; }

static void step(uint64_t *state) {
    size_t at = next(state) % PLACES;
    pthread_mutex_lock(&x_places[at].lock);
    Block *block = &x_places[at].block;
    if (block->address != nullptr && may_resize(block->site) && next(state) % 3 == 0) {
        block->bytes = random_size(state);
        block->address = static_cast<char *>(claim_hide(realloc(block->address, block->bytes)));
        CLAIM(block->address != nullptr);
        note(*block);
    } else if (block->address != nullptr) {
        destroy(*block);
        block->address = nullptr;
    } else {
        block->site = (int)(next(state) % SITES);
        block->bytes = random_size(state);
        block->address = static_cast<char *>(makers[block->site](block->bytes));
        memset(block->address, 0x5a, block->bytes);
        note(*block);
    }
    pthread_mutex_unlock(&x_places[at].lock);
}

static void run_steps(uint64_t seed, size_t count) {
    uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15);
    for (size_t i = 0; i < count; i++) {
        step(&state);
        if (i % 32768 == 32767) {
            malloc_trim(0);
        }
    }
}

static void *run(void *seed) {
    run_steps((uintptr_t)seed, CALLS);
    return nullptr;
}

/* Locks that other threads had are nobody's, and the places under them half written. */
static void run_child() {
    for (size_t i = 0; i < PLACES; i++) {
        pthread_mutex_init(&x_places[i].lock, nullptr);
        x_places[i].block.address = nullptr;
    }
    run_steps(99, CALLS / 4);
    _exit(0);
}

int main() {
    pthread_t threads[THREADS];
    Table<SITES - 1>::fill(makers);
    for (size_t i = 0; i < PLACES; i++) {
        pthread_mutex_init(&x_places[i].lock, nullptr);
    }
    run_steps(1, CALLS / 4); /* alone */
    for (size_t i = 0; i < THREADS; i++) {
        CLAIM(pthread_create(&threads[i], nullptr, run, (void *)(i + 2)) == 0);
    }
    pid_t child = fork();
    if (child == 0) {
        run_child();
    }
    int status = -1;
    CLAIM(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], nullptr);
    }
    return 0;
}
