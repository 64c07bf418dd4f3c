/* SPDX-License-Identifier: MIT */
/*
 * Names of a shared heap. A name is written once and never removed; its offset is one word. So
 * lookups need no lock, and nothing is noted in the log: the names are consistent after each store.
 * See shared.h.
 */
#include "pools/shared/shared.h"

#include <errno.h>
#include <string.h>

/* Compares a name of the heap with one of any length. */
static bool is_same(const char *text, const char *name) {
    size_t i = 0;
    while (i < PS_SHARED_NAME_MAX && name[i] != 0 && text[i] == name[i]) {
        i++;
    }
    return text[i] == name[i];
}

static struct shared_name *find(const struct ps_shared *heap, const char *name) {
    struct shared_header *header = shared_header(heap);
    /* acquire: pairs with add; the names below the count are there. */
    uint64_t count = ps_load_acquire(&header->x_name_count);
    for (uint64_t i = 0; i < count && i < PS_SHARED_NAMES_MAX; i++) {
        if (is_same(header->names[i].text, name)) {
            return &header->names[i];
        }
    }
    return NULL;
}

/* Under the lock. NULL and ENOSPC. */
static struct shared_name *add(struct ps_shared *heap, const char *name) {
    struct shared_header *header = shared_header(heap);
    /* relaxed: written under the lock only. */
    uint64_t count = ps_load_relaxed(&header->x_name_count);
    if (count >= PS_SHARED_NAMES_MAX) {
        errno = ENOSPC;
        return NULL;
    }
    struct shared_name *added = &header->names[count];
    memset(added->text, 0, sizeof added->text);
    for (size_t i = 0; name[i] != 0; i++) { /* at most PS_SHARED_NAME_MAX: is_name */
        added->text[i] = name[i];
    }
    /* release: pairs with find. A process killed before this has added nothing. */
    ps_store_release(&header->x_name_count, count + 1);
    return added;
}

static bool is_name(const struct ps_shared *heap, const char *name) {
    if (shared_is_reader(heap)) {
        errno = EROFS;
        return false;
    }
    size_t length = strnlen(name, PS_SHARED_NAME_MAX + 1);
    if (length == 0 || length > PS_SHARED_NAME_MAX) {
        errno = EINVAL;
        return false;
    }
    return true;
}

/* Sets the name's offset, unless is_claim and it has one. */
static struct shared_name *set(struct ps_shared *heap, const char *name, ps_offset offset,
                               bool is_claim) {
    if (!is_name(heap, name)) {
        return NULL;
    }
    (void)ps_shared_enter(heap);
    struct shared_name *found = find(heap, name);
    if (found == NULL) {
        found = add(heap, name);
    }
    /* relaxed: written under the lock only. */
    if (found != NULL && !(is_claim && ps_load_relaxed(&found->x_offset) != 0)) {
        /* release: pairs with ps_shared_root; makes the contents of the block visible. */
        ps_store_release(&found->x_offset, offset);
    }
    ps_shared_leave(heap);
    return found;
}

ps_offset ps_shared_root(const struct ps_shared *heap, const char *name) {
    const struct shared_name *found = name[0] != 0 ? find(heap, name) : NULL;
    /* acquire: pairs with set. */
    return found != NULL ? ps_load_acquire(&found->x_offset) : 0;
}

bool ps_shared_set_root(struct ps_shared *heap, const char *name, ps_offset offset) {
    return set(heap, name, offset, false) != NULL;
}

ps_offset ps_shared_claim_root(struct ps_shared *heap, const char *name, ps_offset offset) {
    const struct shared_name *found = set(heap, name, offset, true);
    /* acquire: pairs with set, in another process. */
    return found != NULL ? ps_load_acquire(&found->x_offset) : 0;
}

const char *ps_shared_root_name(const struct ps_shared *heap, size_t number) {
    const struct shared_header *header = shared_header(heap);
    /* acquire: pairs with add. */
    return number < ps_load_acquire(&header->x_name_count) && number < PS_SHARED_NAMES_MAX
               ? header->names[number].text
               : NULL;
}
