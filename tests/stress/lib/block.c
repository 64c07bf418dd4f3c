/* SPDX-License-Identifier: MIT */
/* Makes, checks and frees one block; see block.h. */
#include "tests/stress/lib/block.h"

#include "tests/stress/lib/finding.h"
#include "tests/stress/lib/operators.h"
#include "tests/stress/lib/pattern.h"
#include "tests/stress/lib/shadow.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

static const char *const call_names[BLOCK_CALLS] = {
    "malloc",        "calloc",   "realloc", "reallocarray", "posix_memalign",
    "aligned_alloc", "memalign", "valloc",  "pvalloc"};

static void (*sized_free)(void *bytes, size_t size);
static void (*aligned_sized_free)(void *bytes, size_t alignment, size_t size);
static int is_left_out[BLOCK_CALLS];
static int may_ask_impossible; /* not all allocators set errno */
static int may_refuse;
static unsigned operator_forms; /* of operator new, that are used; 0: none */

unsigned long long block_refusals;

static const char *name_of(unsigned call) {
    return call < BLOCK_NEW ? call_names[call] : operators_name(call - BLOCK_NEW);
}

void block_start(int is_plain, int may_refuse_any) {
    void *library = operators_library_of("malloc");
    may_refuse = may_refuse_any;
    for (unsigned call = 0; call < BLOCK_CALLS; call++) {
        is_left_out[call] = operators_library_of(call_names[call]) != library ||
                            (is_plain && call >= BLOCK_POSIX_MEMALIGN);
    }
    may_ask_impossible = !is_plain;
    if (!may_refuse && operators_start(library)) {
        operator_forms = is_plain ? OPERATOR_ALIGNED : OPERATOR_FORMS;
    }
    if (operators_library_of("free_sized") == library) {
        sized_free = (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "free_sized");
    }
    if (operators_library_of("free_aligned_sized") == library) {
        aligned_sized_free =
            (void (*)(void *, size_t, size_t))dlsym(RTLD_DEFAULT, "free_aligned_sized");
    }
}

enum block_call block_random_call(struct random_state *random) {
    static const unsigned char limits[BLOCK_CALLS] = {140, 190, 206, 214, 234, 244, 252, 254, 255};
    if (operator_forms != 0 && random_below(random, 6) == 0) {
        return (enum block_call)(BLOCK_NEW + random_below(random, operator_forms));
    }
    uint32_t kind = random_below(random, 256);
    unsigned call = 0;
    while (call < BLOCK_PVALLOC && kind >= limits[call]) {
        call++;
    }
    return is_left_out[call] ? BLOCK_MALLOC : (enum block_call)call;
}

/* 16 and a page are usual; larger ones are rare, as they take much address space. */
static size_t random_alignment(struct random_state *random) {
    uint32_t kind = random_below(random, 64);
    if (kind < 16) {
        return kind < 8 ? 16 : 4096;
    }
    if (kind == 63) {
        return (size_t)8192 << random_below(random, 9);
    }
    return (size_t)8 << random_below(random, 10);
}

static void *call_api(enum block_call call, size_t size, size_t alignment) {
    void *bytes = NULL;
    switch (call) {
    case BLOCK_MALLOC:
        return malloc(size);
    case BLOCK_CALLOC:
        return size % 8 == 0 ? calloc(size / 8, 8) : calloc(1, size);
    case BLOCK_REALLOC:
        return realloc(NULL, size);
    case BLOCK_REALLOCARRAY:
        return size % 4 == 0 ? reallocarray(NULL, 4, size / 4) : reallocarray(NULL, size, 1);
    case BLOCK_POSIX_MEMALIGN: {
        int result = posix_memalign(&bytes, alignment, size);
        errno = result;
        if (result != 0 && !(may_refuse && result == ENOMEM)) {
            finding_report("posix_memalign(%zu, %zu) returned %d", alignment, size, result);
        }
        return bytes;
    }
    case BLOCK_ALIGNED_ALLOC:
        return aligned_alloc(alignment, size);
    case BLOCK_MEMALIGN:
        return memalign(alignment, size);
    case BLOCK_VALLOC:
        return valloc(size);
    case BLOCK_PVALLOC:
        return pvalloc(size);
    default:
        return operators_new(call - BLOCK_NEW, size, alignment);
    }
}

static size_t promised_alignment(enum block_call call, size_t size, size_t alignment) {
    if (call == BLOCK_VALLOC || call == BLOCK_PVALLOC) {
        return 4096;
    }
    return alignment != 0 ? alignment : size <= 8 ? 8 : 16;
}

/* True if a request was refused and may be; counts it. */
static int is_refused(const void *bytes) {
    int is_out = bytes == NULL && may_refuse && errno == ENOMEM;
    if (is_out) {
        __atomic_fetch_add(&block_refusals, 1, __ATOMIC_RELAXED);
    }
    return is_out;
}

/* Checks the invariants of a block just returned, before it is written. */
static void check_fresh(const struct block *block) {
    const char *name = name_of(block->call);
    size_t promised = promised_alignment(block->call, block->size, block->alignment);
    if (block->bytes == NULL) {
        finding_report("out of memory: %s of %zu bytes returned NULL (errno %d)", name, block->size,
                       errno);
    }
    if (((uintptr_t)block->bytes & (promised - 1)) != 0) {
        finding_report("misaligned: %s of %zu bytes returned %p, not aligned to %zu", name,
                       block->size, (void *)block->bytes, promised);
    }
    if (block->usable < block->size) {
        finding_report("short: %s of %zu bytes returned %p with %zu usable", name, block->size,
                       (void *)block->bytes, block->usable);
    }
    const void *shared = shadow_mark(block->bytes, block->usable);
    if (shared != SHADOW_CLEAN) {
        finding_report("overlap: %s of %zu bytes returned %p (%zu usable), live already at %p",
                       name, block->size, (void *)block->bytes, block->usable, shared);
    }
    if (block->call == BLOCK_CALLOC) {
        size_t dirt = pattern_find_dirt(block->bytes, block->size);
        if (dirt != PATTERN_INTACT) {
            finding_report("not zero: calloc of %zu bytes returned %p, dirty at offset %zu",
                           block->size, (void *)block->bytes, dirt);
        }
    }
}

static void report_damage(const struct block *block, size_t offset, const char *when) {
    finding_report("damaged %s: block %p of %zu bytes (%zu usable) from %s by thread %llu, at "
                   "offset %zu",
                   when, (void *)block->bytes, block->size, block->usable, name_of(block->call),
                   (unsigned long long)block->maker, offset);
}

/* Fills the block and publishes it in *place. */
static void publish(struct block *place, struct block *fresh, struct random_state *random) {
    unsigned char *bytes = fresh->bytes;
    fresh->seed = random_next(random);
    fresh->maker = finding_place.thread_serial;
    pattern_write(bytes, fresh->usable, fresh->seed);
    fresh->bytes = NULL;
    *place = *fresh;
    __atomic_store_n(&place->bytes, bytes, __ATOMIC_RELEASE);
}

/* Takes the block out of its place; from here on the caller has the only reference. */
static struct block withdraw(struct block *place) {
    struct block taken = *place;
    __atomic_store_n(&place->bytes, NULL, __ATOMIC_RELEASE);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    const void *missing = shadow_clear(taken.bytes, taken.usable);
    if (missing != SHADOW_CLEAN) {
        finding_report("lost: block %p of %zu bytes is not marked live at %p", (void *)taken.bytes,
                       taken.size, missing);
    }
    return taken;
}

static int is_aligned_call(enum block_call call) {
    return call == BLOCK_POSIX_MEMALIGN || call == BLOCK_ALIGNED_ALLOC || call == BLOCK_MEMALIGN ||
           (call >= BLOCK_NEW && ((call - BLOCK_NEW) & OPERATOR_ALIGNED) != 0);
}

void block_make(struct block *block, enum block_call call, size_t size,
                struct random_state *random) {
    size_t alignment = is_aligned_call(call) ? random_alignment(random) : 0;
    finding_place.operation++;
    struct block fresh = {.size = size, .alignment = (uint32_t)alignment, .call = (uint32_t)call};
    fresh.bytes = call_api(call, size, alignment);
    if (is_refused(fresh.bytes)) {
        return;
    }
    fresh.usable = malloc_usable_size(fresh.bytes);
    check_fresh(&fresh);
    publish(block, &fresh, random);
}

void block_verify(const struct block *block) {
    size_t damage = pattern_find_damage(block->bytes, block->usable, block->usable, block->seed);
    if (damage != PATTERN_INTACT) {
        report_damage(block, damage, "while live");
    }
    size_t usable = malloc_usable_size(block->bytes);
    if (usable != block->usable) {
        finding_report("usable size of %p changed from %zu to %zu", (void *)block->bytes,
                       block->usable, usable);
    }
}

void block_give_back(struct block *block, struct random_state *random) {
    if (block->bytes == NULL) {
        return;
    }
    block_verify(block);
    struct block taken = withdraw(block);
    finding_place.operation++;
    uint32_t kind = random_below(random, 16);
    errno = 4711;
    if (taken.call >= BLOCK_NEW) {
        operators_delete(taken.call - BLOCK_NEW, taken.bytes, taken.size, taken.alignment, random);
    } else if (kind == 0 && taken.call <= BLOCK_REALLOCARRAY && sized_free != NULL) {
        sized_free(taken.bytes, taken.size);
    } else if (kind == 1 && taken.call == BLOCK_ALIGNED_ALLOC && aligned_sized_free != NULL) {
        aligned_sized_free(taken.bytes, taken.alignment, taken.size);
    } else {
        free(taken.bytes);
    }
    if (errno != 4711) {
        finding_report("free of %p (%zu bytes) set errno to %d", (void *)taken.bytes, taken.size,
                       errno);
    }
}

/* Puts back a block that was withdrawn, as it was. */
static void put_back(struct block *place, struct block *old) {
    unsigned char *bytes = old->bytes;
    const void *shared = shadow_mark(bytes, old->usable);
    if (shared != SHADOW_CLEAN) {
        finding_report("overlap: %p of %zu bytes was not resized, live already at %p",
                       (void *)bytes, old->size, shared);
    }
    old->bytes = NULL;
    *place = *old;
    __atomic_store_n(&place->bytes, bytes, __ATOMIC_RELEASE);
    block_verify(place);
}

void block_resize(struct block *block, size_t size, struct random_state *random) {
    block_verify(block);
    struct block old = withdraw(block);
    size_t kept = old.size < size ? old.size : size;
    int is_array =
        size % 8 == 0 && random_below(random, 4) == 0 && !is_left_out[BLOCK_REALLOCARRAY];
    finding_place.operation++;
    struct block fresh = {.size = size, .call = is_array ? BLOCK_REALLOCARRAY : BLOCK_REALLOC};
    fresh.bytes = is_array ? reallocarray(old.bytes, size / 8, 8) : realloc(old.bytes, size);
    if (fresh.bytes == NULL && size == 0) {
        return; /* realloc to nothing has freed it, as glibc does */
    }
    if (is_refused(fresh.bytes)) {
        put_back(block, &old);
        return;
    }
    fresh.usable = malloc_usable_size(fresh.bytes);
    check_fresh(&fresh);
    size_t damage = pattern_find_damage(fresh.bytes, old.usable, kept, old.seed);
    if (damage != PATTERN_INTACT) {
        finding_report("damaged by realloc: %p of %zu bytes to %p of %zu bytes, at offset %zu",
                       (void *)old.bytes, old.size, (void *)fresh.bytes, size, damage);
    }
    publish(block, &fresh, random);
}

static void check_refused(const void *bytes, int error, const char *name) {
    if (bytes != NULL || error != ENOMEM) {
        finding_report("impossible: %s returned %p (errno %d)", name, bytes, error);
    }
}

void block_ask_impossible(struct random_state *random) {
    volatile size_t size = SIZE_MAX - random_log_uniform(random, 1, (uint64_t)1 << 62);
    void *bytes = NULL;
    finding_place.operation++;
    if (!may_ask_impossible) {
        return;
    }
    errno = 0;
    switch (random_below(random, 4)) {
    case 0:
        bytes = malloc(size);
        check_refused(bytes, errno, "malloc");
        break;
    case 1:
        bytes = calloc(size / 2, 3);
        check_refused(bytes, errno, "calloc");
        break;
    case 2:
        if (!is_left_out[BLOCK_REALLOCARRAY]) {
            bytes = reallocarray(NULL, 3, size / 2);
            check_refused(bytes, errno, "reallocarray");
        }
        break;
    default:
        if (!is_left_out[BLOCK_POSIX_MEMALIGN] && posix_memalign(&bytes, 24, 8) != EINVAL) {
            finding_report("impossible: posix_memalign took an alignment of 24");
        }
        break;
    }
}
