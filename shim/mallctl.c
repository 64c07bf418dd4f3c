/* SPDX-License-Identifier: MIT */
/*
 * jemalloc's mallctl, mallctlnametomib and mallctlbymib, with its prototypes, types and errors, for
 * the names of mallctl_values.c. Programs that were linked with jemalloc ask for their memory's
 * figures here: under the shim that is ours. Any thread; not in signal handlers. No locks.
 *
 * Such a program has a second heap, jemalloc's own, if it calls the functions that this library
 * does not have (mallocx and its relatives). They work with arenas and caches that the program
 * makes by mallctl("arenas.create") and the like. So a name without a row goes to the next library
 * that defines the function, unless it asks about the heap of malloc.
 *
 * A MIB of ours: the first component tells the row, that of an index is the index, others are 0.
 */
#include "shim/mallctl.h"

#include "pools/engine/base/compiler.h"
#include "shim/entry.h"
#include "shim/loader.h"

#include <errno.h>
#include <string.h>

#define MIB_MARK ((size_t)0x706f6f6c << 32) /* no index of jemalloc's tree */

int mallctl(const char *name, void *oldp, size_t *oldlenp, void *newp, size_t newlen);
int mallctlnametomib(const char *name, size_t *mibp, size_t *miblenp);
int mallctlbymib(const size_t *mib, size_t miblen, void *oldp, size_t *oldlenp, void *newp,
                 size_t newlen);

/* ---- values in the caller's memory ---- */

static int write_value(const struct ps_mallctl_row *row, size_t index, const void *newp,
                       size_t newlen) {
    uint64_t value = 0;
    if (newp == NULL && newlen == 0) {
        return 0;
    }
    if (row->write == NULL) {
        return EPERM;
    }
    if (newp == NULL || newlen != ps_mallctl_bytes(row->type)) {
        return EINVAL;
    }
    memcpy(&value, newp, newlen); /* little endian */
    return row->write(index, value);
}

/* As jemalloc does: where the caller expects another length, the common part is copied, too. */
static int read_value(const struct ps_mallctl_row *row, size_t index, void *oldp, size_t *oldlenp) {
    uint64_t value;
    size_t bytes = ps_mallctl_bytes(row->type);
    if (row->read == NULL) {
        return oldp != NULL || oldlenp != NULL ? EPERM : 0;
    }
    int error = row->read(index, &value);
    if (error != 0 || oldp == NULL || oldlenp == NULL) {
        return error;
    }
    size_t copied = *oldlenp < bytes ? *oldlenp : bytes;
    error = *oldlenp == bytes ? 0 : EINVAL;
    memcpy(oldp, &value, copied);
    *oldlenp = copied;
    return error;
}

static int access_row(const struct ps_mallctl_row *row, size_t index, void *oldp, size_t *oldlenp,
                      void *newp, size_t newlen) {
    if (row->type == PS_MALLCTL_ACTION) {
        bool has_value = oldp != NULL || oldlenp != NULL || newp != NULL || newlen != 0;
        return has_value ? EPERM : row->write(index, 0);
    }
    int error = write_value(row, index, newp, newlen);
    return error != 0 ? error : read_value(row, index, oldp, oldlenp);
}

/* ---- names of other heaps ---- */

/* True if a name asks about the heap of malloc, which no other library may answer. */
static bool is_of_malloc(const char *name) {
    static const char *const own[] = {"stats.", "opt.", "config.", "prof.", "arenas.bin."};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        if (strncmp(name, own[i], strlen(own[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- entry points ---- */

PS_EXPORT int mallctl(const char *name, void *oldp, size_t *oldlenp, void *newp, size_t newlen) {
    size_t index;
    const struct ps_mallctl_row *row = ps_mallctl_find(name, &index);
    if (row != NULL) {
        int error = access_row(row, index, oldp, oldlenp, newp, newlen);
        if (error != ENOENT) {
            return error;
        }
    }
    __typeof__(mallctl) *next = is_of_malloc(name) ? NULL : ps_loader_next("mallctl");
    return next != NULL ? next(name, oldp, oldlenp, newp, newlen) : ENOENT;
}

/* The components of a name; *at: which of them is the index. */
static size_t count_components(const char *name, size_t *at) {
    size_t count = 1;
    *at = 0;
    for (; *name != '\0'; name++) {
        count += *name == '.';
        *at = *name == '#' ? count - 1 : *at;
    }
    return count;
}

PS_EXPORT int mallctlnametomib(const char *name, size_t *mibp, size_t *miblenp) {
    size_t index;
    size_t at;
    const struct ps_mallctl_row *row = ps_mallctl_find(name, &index);
    if (row == NULL) {
        __typeof__(mallctlnametomib) *next =
            is_of_malloc(name) ? NULL : ps_loader_next("mallctlnametomib");
        return next != NULL ? next(name, mibp, miblenp) : ENOENT;
    }
    size_t count = count_components(row->name, &at);
    if (*miblenp < count) {
        return EINVAL;
    }
    memset(mibp, 0, count * sizeof *mibp);
    mibp[at] = index;
    mibp[0] = MIB_MARK + (size_t)(row - ps_mallctl_rows);
    *miblenp = count;
    return 0;
}

PS_EXPORT int mallctlbymib(const size_t *mib, size_t miblen, void *oldp, size_t *oldlenp,
                           void *newp, size_t newlen) {
    size_t at;
    if (miblen == 0 || mib[0] - MIB_MARK >= ps_mallctl_row_count) {
        __typeof__(mallctlbymib) *next = miblen == 0 ? NULL : ps_loader_next("mallctlbymib");
        return next != NULL ? next(mib, miblen, oldp, oldlenp, newp, newlen) : ENOENT;
    }
    const struct ps_mallctl_row *row = &ps_mallctl_rows[mib[0] - MIB_MARK];
    if (count_components(row->name, &at) != miblen) {
        return ENOENT;
    }
    return access_row(row, mib[at], oldp, oldlenp, newp, newlen);
}
