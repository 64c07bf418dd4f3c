/* SPDX-License-Identifier: MIT */
/*
 * Allocation tokens of Clang 22 and later: with -fsanitize=alloc-token the compiler calls these
 * functions instead of malloc, operator new and so on. The last argument, or with
 * -fsanitize-alloc-token-fast-abi the name, tells an id for the type that is allocated. Blocks of
 * different kinds of types lie in different partitions of the heap, which have fronts
 * (pools/engine/heap/partition_path.h):
 *
 *   id                        partition
 *   0 to 7                    of the id
 *   8 to 2^32 - 1             with POOLSHIM_TOKEN_MAX one of 4 for data, or one of 4 for pointers;
 *                             without it of the id, and from 1024 on one for all
 *   2^32 to SIZE_MAX / 2 - 1  data: types without pointers, without -falloc-token-max; one of 4
 *   above                     pointers: types with pointers, likewise
 *
 * With a maximum, types with pointers have the upper half of the ids. An id alone does not tell the
 * maximum, so ids above 7 share a partition only where the option tells it.
 *
 * A partition is made when it is first needed, and never ends. Without memory for one, and before
 * relocation, blocks are those of the plain heap. docs/heaps.md has the guarantees.
 *
 * The names are those that Clang makes: a prefix, and the name of the function. No locks.
 */
#include "pools/engine/heap/bootstrap.h"
#include "pools/engine/heap/partition_path.h"
#include "pools/engine/os/os.h"
#include "shim/config.h"
#include "shim/cxx.h"
#include "shim/lasting.h"
#include "shim/text.h"

#include <stdlib.h>

#define IDS 8
#define OWN_IDS 1024
#define SHARES 4
#define HASHES ((size_t)1 << 32)
#define POINTERS (SIZE_MAX / 2)
#define CALLER __builtin_return_address(0)

enum slot {
    SLOT_DATA = OWN_IDS,
    SLOT_POINTERS = SLOT_DATA + SHARES,
    SLOT_OTHER = SLOT_POINTERS + SHARES,
    SLOTS
};

static struct ps_partition *x_partitions[SLOTS]; /* NULL: not made yet */

static inline size_t slot_of_half(size_t token, size_t half) {
    return (token < half ? (size_t)SLOT_DATA : (size_t)SLOT_POINTERS) + token % SHARES;
}

/* For an id from IDS on. One beyond the maximum is of code that was compiled with another. */
static PS_NOINLINE size_t slot_of_many(size_t token) {
    size_t half = ps_shim_settings()->token_max / 2;
    if (half <= IDS / 2) {
        return token < OWN_IDS ? token : (size_t)SLOT_OTHER;
    }
    return token < 2 * half ? slot_of_half(token, half) : (size_t)SLOT_OTHER;
}

static inline size_t slot_of(size_t token) {
    if (PS_LIKELY(token >= HASHES)) {
        return slot_of_half(token, POINTERS);
    }
    return PS_LIKELY(token < IDS) ? token : slot_of_many(token);
}

/* NULL: it cannot be made. */
static PS_COLD struct ps_partition *make(size_t slot) {
    static const char *const kinds[] = {"data ", "pointers "};
    char name[PS_PARTITION_NAME_BYTES];
    struct ps_text text;
    ps_text_start(&text, name, sizeof name - 1, PS_TEXT_TO_BUFFER);
    ps_text_add(&text, "token ");
    if (slot == SLOT_OTHER) {
        ps_text_add(&text, "other");
    } else if (slot >= SLOT_DATA) {
        ps_text_add(&text, kinds[slot >= SLOT_POINTERS]);
        ps_text_add_number(&text, slot % SHARES);
    } else {
        ps_text_add_number(&text, slot);
    }
    name[text.length] = '\0';
    return ps_lasting_make(&x_partitions[slot], name);
}

static inline struct ps_partition *partition_of(size_t slot) {
    struct ps_partition *partition = ps_load_acquire(&x_partitions[slot]); /* pairs with make */
    return PS_LIKELY(partition != NULL) ? partition : make(slot);
}

/* ---- what the names do, in the partition of a slot ---- */

static inline void *token_malloc(size_t size, size_t slot) {
    struct ps_partition *partition = partition_of(slot);
    return PS_LIKELY(partition != NULL) ? ps_partition_alloc_few(partition, size)
                                        : ps_heap_alloc(size);
}

static PS_NOINLINE PS_NOCLONE void *zalloc(size_t size, size_t slot) {
    struct ps_partition *partition = partition_of(slot);
    return PS_LIKELY(partition != NULL) ? ps_partition_alloc(partition, size, 1, true)
                                        : ps_block_zalloc(size);
}

/* align: a power of two. */
static PS_NOINLINE PS_NOCLONE void *alloc_aligned(size_t align, size_t size, size_t slot) {
    struct ps_partition *partition = partition_of(slot);
    if (PS_UNLIKELY(partition == NULL)) {
        return ps_block_alloc_aligned(size, align);
    }
    return ps_lasting_alloc_aligned(partition, size, align);
}

static PS_NOINLINE PS_NOCLONE void *token_calloc(size_t count, size_t size, size_t slot) {
    size_t bytes;
    return ps_multiply(count, size, &bytes) ? zalloc(bytes, slot) : NULL;
}

static void *move(void *block, size_t size, size_t slot) {
    return ps_block_move(token_malloc(size, slot), block, size);
}

/* The block is in the partition of the call's id afterwards. Id 0, which stands for types that the
 * compiler does not know, too, leaves it where it is. */
static PS_NOINLINE PS_NOCLONE void *token_realloc(void *block, size_t size, size_t slot) {
    if (block == NULL) {
        return token_malloc(size, slot);
    }
    if (size == 0) {
        ps_heap_free(block);
        return NULL;
    }
    bool stays = slot == 0 || ps_partition_of(block) == partition_of(slot);
    return stays ? ps_block_resize(block, size) : move(block, size, slot);
}

static PS_NOINLINE PS_NOCLONE void *token_reallocarray(void *block, size_t count, size_t size,
                                                       size_t slot) {
    size_t bytes;
    return ps_multiply(count, size, &bytes) ? token_realloc(block, bytes, slot) : NULL;
}

/* Errors and odd alignments as in malloc.c. */
static PS_NOINLINE PS_NOCLONE void *token_memalign(size_t align, size_t size, size_t slot) {
    if (align > (size_t)1 << 63) {
        errno = EINVAL;
        return NULL;
    }
    if (!ps_is_power_of_two(align)) {
        align = align == 0 ? 1 : (size_t)2 << ps_log2(align);
    }
    return alloc_aligned(align, size, slot);
}

static PS_NOINLINE PS_NOCLONE void *token_valloc(size_t size, size_t slot) {
    return alloc_aligned(ps_os_page_bytes(), size, slot);
}

static PS_NOINLINE PS_NOCLONE void *token_pvalloc(size_t size, size_t slot) {
    size_t page_bytes = ps_os_page_bytes();
    size_t rounded = ps_round_up(size, page_bytes);
    if (rounded < size) {
        errno = ENOMEM;
        return NULL;
    }
    return alloc_aligned(page_bytes, ps_max(rounded, page_bytes), slot);
}

static PS_NOINLINE PS_NOCLONE int token_posix_memalign(void **result, size_t align, size_t size,
                                                       size_t slot) {
    if (!ps_is_power_of_two(align) || align % sizeof(void *) != 0) {
        return EINVAL;
    }
    void *block = alloc_aligned(align, size, slot);
    if (block == NULL) {
        return ENOMEM; /* and so is errno */
    }
    *result = block;
    return 0;
}

/* ---- operator new ---- */

struct nothrow; /* std::nothrow_t, by reference */

void *_Znwm(size_t size);
void *_Znam(size_t size);
void *_ZnwmSt11align_val_t(size_t size, size_t align);
void *_ZnamSt11align_val_t(size_t size, size_t align);
void *_ZnwmRKSt9nothrow_t(size_t size, const struct nothrow *tag);
void *_ZnamRKSt9nothrow_t(size_t size, const struct nothrow *tag);
void *_ZnwmSt11align_val_tRKSt9nothrow_t(size_t size, size_t align, const struct nothrow *tag);
void *_ZnamSt11align_val_tRKSt9nothrow_t(size_t size, size_t align, const struct nothrow *tag);

/* A program that replaces an operator gets its own, without the id: its delete belongs to it. */
static inline void *token_new(size_t size, bool is_array, size_t slot) {
    void *block = NULL;
    if (PS_LIKELY(ps_cxx_is_ours(is_array))) {
        block = token_malloc(size, slot);
    }
    if (PS_UNLIKELY(block == NULL)) { /* or the program's handler, or bad_alloc */
        return is_array ? _Znam(size) : _Znwm(size);
    }
    return ps_cxx_made(block, is_array ? PS_FAMILY_NEW_ARRAY : PS_FAMILY_NEW);
}

static PS_NOINLINE PS_NOCLONE void *try_aligned(size_t size, size_t align, bool is_array,
                                                size_t slot) {
    bool is_ours = ps_is_power_of_two(align) && ps_cxx_is_ours_aligned(is_array);
    void *block = is_ours ? alloc_aligned(align, size, slot) : NULL;
    return block != NULL ? ps_cxx_made(block, PS_FAMILY_NEW_ALIGNED) : NULL;
}

static inline void *token__Znwm(size_t size, size_t slot) { return token_new(size, false, slot); }
static PS_NOINLINE PS_NOCLONE void *token__Znam(size_t size, size_t slot) {
    return token_new(size, true, slot);
}

static PS_NOINLINE PS_NOCLONE void *token__ZnwmSt11align_val_t(size_t size, size_t align,
                                                               size_t slot) {
    void *block = try_aligned(size, align, false, slot);
    return block != NULL ? block : _ZnwmSt11align_val_t(size, align);
}

static PS_NOINLINE PS_NOCLONE void *token__ZnamSt11align_val_t(size_t size, size_t align,
                                                               size_t slot) {
    void *block = try_aligned(size, align, true, slot);
    return block != NULL ? block : _ZnamSt11align_val_t(size, align);
}

static PS_NOINLINE PS_NOCLONE void *try_new(size_t size, bool is_array, size_t slot) {
    void *block = ps_cxx_is_ours(is_array) ? token_malloc(size, slot) : NULL;
    enum ps_family family = is_array ? PS_FAMILY_NEW_ARRAY : PS_FAMILY_NEW;
    return block != NULL ? ps_cxx_made(block, family) : NULL;
}

static PS_NOINLINE PS_NOCLONE void *
token__ZnwmRKSt9nothrow_t(size_t size, const struct nothrow *tag, size_t slot) {
    void *block = try_new(size, false, slot);
    return block != NULL ? block : _ZnwmRKSt9nothrow_t(size, tag);
}

static PS_NOINLINE PS_NOCLONE void *
token__ZnamRKSt9nothrow_t(size_t size, const struct nothrow *tag, size_t slot) {
    void *block = try_new(size, true, slot);
    return block != NULL ? block : _ZnamRKSt9nothrow_t(size, tag);
}

static PS_NOINLINE PS_NOCLONE void *
token__ZnwmSt11align_val_tRKSt9nothrow_t(size_t size, size_t align, const struct nothrow *tag,
                                         size_t slot) {
    void *block = try_aligned(size, align, false, slot);
    return block != NULL ? block : _ZnwmSt11align_val_tRKSt9nothrow_t(size, align, tag);
}

static PS_NOINLINE PS_NOCLONE void *
token__ZnamSt11align_val_tRKSt9nothrow_t(size_t size, size_t align, const struct nothrow *tag,
                                         size_t slot) {
    void *block = try_aligned(size, align, true, slot);
    return block != NULL ? block : _ZnamSt11align_val_tRKSt9nothrow_t(size, align, tag);
}

/* ---- forms of tcmalloc: with a hint on how often the block is used, or with its size ---- */

static PS_NOINLINE PS_NOCLONE void *token__Znwm12__hot_cold_t(size_t size, uint8_t hint,
                                                              size_t slot) {
    (void)hint;
    return token__Znwm(size, slot);
}

static PS_NOINLINE PS_NOCLONE void *token__Znam12__hot_cold_t(size_t size, uint8_t hint,
                                                              size_t slot) {
    (void)hint;
    return token__Znam(size, slot);
}

static PS_NOINLINE PS_NOCLONE void *
token__ZnwmRKSt9nothrow_t12__hot_cold_t(size_t size, const struct nothrow *tag, uint8_t hint,
                                        size_t slot) {
    (void)hint;
    return token__ZnwmRKSt9nothrow_t(size, tag, slot);
}

static PS_NOINLINE PS_NOCLONE void *
token__ZnamRKSt9nothrow_t12__hot_cold_t(size_t size, const struct nothrow *tag, uint8_t hint,
                                        size_t slot) {
    (void)hint;
    return token__ZnamRKSt9nothrow_t(size, tag, slot);
}

static PS_NOINLINE PS_NOCLONE void *
token__ZnwmSt11align_val_t12__hot_cold_t(size_t size, size_t align, uint8_t hint, size_t slot) {
    (void)hint;
    return token__ZnwmSt11align_val_t(size, align, slot);
}

static PS_NOINLINE PS_NOCLONE void *
token__ZnamSt11align_val_t12__hot_cold_t(size_t size, size_t align, uint8_t hint, size_t slot) {
    (void)hint;
    return token__ZnamSt11align_val_t(size, align, slot);
}

static PS_NOINLINE PS_NOCLONE void *token__ZnwmSt11align_val_tRKSt9nothrow_t12__hot_cold_t(
    size_t size, size_t align, const struct nothrow *tag, uint8_t hint, size_t slot) {
    (void)hint;
    return token__ZnwmSt11align_val_tRKSt9nothrow_t(size, align, tag, slot);
}

static PS_NOINLINE PS_NOCLONE void *token__ZnamSt11align_val_tRKSt9nothrow_t12__hot_cold_t(
    size_t size, size_t align, const struct nothrow *tag, uint8_t hint, size_t slot) {
    (void)hint;
    return token__ZnamSt11align_val_tRKSt9nothrow_t(size, align, tag, slot);
}

struct sized_pointer {
    void *block;
    size_t bytes;
};

static struct sized_pointer with_size(void *block) {
    return (struct sized_pointer){block, ps_block_usable(block)};
}

static PS_NOINLINE PS_NOCLONE struct sized_pointer token___size_returning_new(size_t size,
                                                                              size_t slot) {
    return with_size(token__Znwm(size, slot));
}

static PS_NOINLINE PS_NOCLONE struct sized_pointer
token___size_returning_new_hot_cold(size_t size, uint8_t hint, size_t slot) {
    (void)hint;
    return with_size(token__Znwm(size, slot));
}

static PS_NOINLINE PS_NOCLONE struct sized_pointer
token___size_returning_new_aligned(size_t size, size_t align, size_t slot) {
    return with_size(token__ZnwmSt11align_val_t(size, align, slot));
}

static PS_NOINLINE PS_NOCLONE struct sized_pointer
token___size_returning_new_aligned_hot_cold(size_t size, size_t align, uint8_t hint, size_t slot) {
    (void)hint;
    return with_size(token__ZnwmSt11align_val_t(size, align, slot));
}

/* ---- the names ---- */

/* Defines the names of a function: with the id as an argument, then with each id in the name. */
#define PACK(...) __VA_ARGS__
#define NAMED(prefix, name, type, parameters, arguments, slot)                                     \
    extern type prefix##name(parameters);                                                          \
    PS_EXPORT type prefix##name(parameters) { return token_##name(arguments, slot); }
#define TOKEN(name, type, parameters, arguments)                                                   \
    NAMED(__alloc_token_, name, type, PACK(PACK parameters, size_t token), PACK arguments,         \
          slot_of(token))                                                                          \
    NAMED(__alloc_token_0_, name, type, PACK parameters, PACK arguments, 0)                        \
    NAMED(__alloc_token_1_, name, type, PACK parameters, PACK arguments, 1)                        \
    NAMED(__alloc_token_2_, name, type, PACK parameters, PACK arguments, 2)                        \
    NAMED(__alloc_token_3_, name, type, PACK parameters, PACK arguments, 3)                        \
    NAMED(__alloc_token_4_, name, type, PACK parameters, PACK arguments, 4)                        \
    NAMED(__alloc_token_5_, name, type, PACK parameters, PACK arguments, 5)                        \
    NAMED(__alloc_token_6_, name, type, PACK parameters, PACK arguments, 6)                        \
    NAMED(__alloc_token_7_, name, type, PACK parameters, PACK arguments, 7)

TOKEN(malloc, void *, (size_t size), (size))
TOKEN(calloc, void *, (size_t count, size_t size), (count, size))
TOKEN(realloc, void *, (void *block, size_t size), (block, size))
TOKEN(reallocarray, void *, (void *block, size_t count, size_t size), (block, count, size))
TOKEN(memalign, void *, (size_t align, size_t size), (align, size))
#define token_aligned_alloc token_memalign
TOKEN(aligned_alloc, void *, (size_t align, size_t size), (align, size))
TOKEN(valloc, void *, (size_t size), (size))
TOKEN(pvalloc, void *, (size_t size), (size))
TOKEN(posix_memalign, int, (void **result, size_t align, size_t size), (result, align, size))

TOKEN(_Znwm, void *, (size_t size), (size))
TOKEN(_Znam, void *, (size_t size), (size))
TOKEN(_ZnwmSt11align_val_t, void *, (size_t size, size_t align), (size, align))
TOKEN(_ZnamSt11align_val_t, void *, (size_t size, size_t align), (size, align))
TOKEN(_ZnwmRKSt9nothrow_t, void *, (size_t size, const struct nothrow *tag), (size, tag))
TOKEN(_ZnamRKSt9nothrow_t, void *, (size_t size, const struct nothrow *tag), (size, tag))
TOKEN(_ZnwmSt11align_val_tRKSt9nothrow_t, void *,
      (size_t size, size_t align, const struct nothrow *tag), (size, align, tag))
TOKEN(_ZnamSt11align_val_tRKSt9nothrow_t, void *,
      (size_t size, size_t align, const struct nothrow *tag), (size, align, tag))

TOKEN(_Znwm12__hot_cold_t, void *, (size_t size, uint8_t hint), (size, hint))
TOKEN(_Znam12__hot_cold_t, void *, (size_t size, uint8_t hint), (size, hint))
TOKEN(_ZnwmRKSt9nothrow_t12__hot_cold_t, void *,
      (size_t size, const struct nothrow *tag, uint8_t hint), (size, tag, hint))
TOKEN(_ZnamRKSt9nothrow_t12__hot_cold_t, void *,
      (size_t size, const struct nothrow *tag, uint8_t hint), (size, tag, hint))
TOKEN(_ZnwmSt11align_val_t12__hot_cold_t, void *, (size_t size, size_t align, uint8_t hint),
      (size, align, hint))
TOKEN(_ZnamSt11align_val_t12__hot_cold_t, void *, (size_t size, size_t align, uint8_t hint),
      (size, align, hint))
TOKEN(_ZnwmSt11align_val_tRKSt9nothrow_t12__hot_cold_t, void *,
      (size_t size, size_t align, const struct nothrow *tag, uint8_t hint),
      (size, align, tag, hint))
TOKEN(_ZnamSt11align_val_tRKSt9nothrow_t12__hot_cold_t, void *,
      (size_t size, size_t align, const struct nothrow *tag, uint8_t hint),
      (size, align, tag, hint))
TOKEN(__size_returning_new, struct sized_pointer, (size_t size), (size))
TOKEN(__size_returning_new_hot_cold, struct sized_pointer, (size_t size, uint8_t hint),
      (size, hint))
TOKEN(__size_returning_new_aligned, struct sized_pointer, (size_t size, size_t align),
      (size, align))
TOKEN(__size_returning_new_aligned_hot_cold, struct sized_pointer,
      (size_t size, size_t align, uint8_t hint), (size, align, hint))
