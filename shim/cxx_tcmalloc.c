/* SPDX-License-Identifier: MIT */
/*
 * gperftools' C++ class MallocExtension, as its instance() returns it to programs that were
 * compiled with its header: an object whose first word is the address of a table of functions. Both
 * are laid out by the Itanium C++ ABI. gperftools appends to the table and changes no entry of it,
 * so that one table serves all versions. See tcmalloc.h for what the functions do.
 *
 * MallocExtension::Register is not here: libtcmalloc calls it at its start, and would make its own
 * heap, which has no block, the one that programs query. No locks.
 */
#include "shim/cxx_tcmalloc.h"

#include "shim/entry.h"
#include "shim/tcmalloc.h"

#include <string.h>

struct ps_cxx_extension {
    void (*const *functions)(void);
};

/* Types of the program that are passed by address. */
struct allocator; /* SysAllocator */
struct range;     /* base::MallocRange */

typedef struct ps_cxx_extension this_type;

/* The object is constant: a delete has no effect. */
static void destroy(this_type *this) { (void)this; }

static bool verify_all(this_type *this) {
    (void)this;
    ps_tcmalloc_verify_all();
    return true;
}

static bool verify(this_type *this, const void *block) {
    (void)this;
    ps_tcmalloc_verify(block);
    return true;
}

static bool count_blocks(this_type *this, int *blocks, size_t *total,
                         int histogram[PS_TCMALLOC_HISTOGRAM]) {
    (void)this;
    ps_tcmalloc_count_blocks(blocks, total, histogram);
    return true;
}

static void get_stats(this_type *this, char *buffer, int bytes) {
    (void)this;
    ps_tcmalloc_write_stats(buffer, bytes);
}

/* gperftools allows to call the function for no range. */
static void visit_ranges(this_type *this, void *context,
                         void (*visit)(void *, const struct range *)) {
    (void)this;
    (void)context;
    (void)visit;
}

static bool get_property(this_type *this, const char *name, size_t *value) {
    (void)this;
    return ps_tcmalloc_get(PS_TCMALLOC_GPERFTOOLS, name, strlen(name), value);
}

static bool set_property(this_type *this, const char *name, size_t value) {
    (void)this;
    return ps_tcmalloc_set(name, value);
}

static void mark_idle(this_type *this) {
    (void)this;
    ps_tcmalloc_empty_thread();
}

/* A thread begins to use the heap at its next call. */
static void mark_busy(this_type *this) { (void)this; }

/* As gperftools says of an allocator that cannot have its memory from another. */
static struct allocator *get_allocator(this_type *this) {
    (void)this;
    return NULL;
}

static void set_allocator(this_type *this, struct allocator *allocator) {
    (void)this;
    (void)allocator;
}

static void release(this_type *this, size_t bytes) {
    (void)this;
    (void)ps_tcmalloc_release(bytes);
}

static void release_all(this_type *this) {
    (void)this;
    (void)ps_tcmalloc_release(SIZE_MAX);
}

static void set_rate(this_type *this, double rate) {
    (void)this;
    ps_tcmalloc_set_rate(rate);
}

static double get_rate(this_type *this) {
    (void)this;
    return ps_tcmalloc_rate();
}

static size_t estimate(this_type *this, size_t size) {
    (void)this;
    return ps_block_length(size, 1);
}

static size_t usable(this_type *this, const void *block) {
    (void)this;
    return ps_block_usable(block);
}

static int get_ownership(this_type *this, const void *address) {
    (void)this;
    return ps_tcmalloc_owns(address) ? PS_TCMALLOC_OWNED : PS_TCMALLOC_NOT_OWNED;
}

static void **read_growth(this_type *this) {
    (void)this;
    return NULL;
}

static size_t thread_bytes(this_type *this) {
    (void)this;
    return ps_tcmalloc_thread_bytes();
}

/* The part before the first function is what the ABI has there: the distance to the whole object,
 * and the type's description, which code without dynamic_cast does not read. */
#define HEAD 2
#define SLOT(function) (void (*)(void))(function)

static void (*const table[])(void) = {
    NULL,
    NULL,
    SLOT(destroy), /* in place */
    SLOT(destroy), /* by delete */
    SLOT(verify_all),
    SLOT(verify), /* of new */
    SLOT(verify), /* of new[] */
    SLOT(verify), /* of malloc */
    SLOT(count_blocks),
    SLOT(get_stats),
    SLOT(ps_cxx_tcmalloc_sample),
    SLOT(ps_cxx_tcmalloc_growth),
    SLOT(visit_ranges),
    SLOT(get_property),
    SLOT(set_property),
    SLOT(mark_idle),
    SLOT(mark_busy),
    SLOT(get_allocator),
    SLOT(set_allocator),
    SLOT(release),
    SLOT(release_all),
    SLOT(set_rate),
    SLOT(get_rate),
    SLOT(estimate),
    SLOT(usable),
    SLOT(get_ownership),
    SLOT(ps_cxx_tcmalloc_lists),
    SLOT(ps_cxx_tcmalloc_stacks),
    SLOT(read_growth),
    SLOT(thread_bytes),
    SLOT(mark_idle), /* MarkThreadTemporarilyIdle */
};

/* MallocExtension::instance() */
this_type *_ZN15MallocExtension8instanceEv(void);
PS_EXPORT this_type *_ZN15MallocExtension8instanceEv(void) {
    static this_type instance = {table + HEAD};
    return &instance;
}
