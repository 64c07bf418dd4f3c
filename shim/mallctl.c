/* SPDX-License-Identifier: MIT */
/*
 * jemalloc's mallctl, mallctlnametomib and mallctlbymib, with its prototypes, types and errors, for
 * the names of mallctl.def: all of jemalloc's. Programs that were linked with jemalloc ask for
 * their memory's figures here: under the shim that is ours. Any thread; not in signal handlers. No
 * locks.
 */
#include "shim/mallctl.h"

#include "shim/entry.h"

#include <errno.h>
#include <string.h>

int mallctl(const char *name, void *oldp, size_t *oldlenp, void *newp, size_t newlen);
int mallctlnametomib(const char *name, size_t *mibp, size_t *miblenp);
int mallctlbymib(const size_t *mib, size_t miblen, void *oldp, size_t *oldlenp, void *newp,
                 size_t newlen);

/* ---- values in the caller's memory ---- */

static bool wants_old(const struct ps_mallctl_request *request) {
    return request->old_value != NULL && request->old_bytes != NULL;
}

/* As jemalloc does: where the caller expects another length, the common part is copied, too. */
static int put_old(const struct ps_mallctl_row *row, const struct ps_mallctl_request *request,
                   uint64_t value) {
    size_t bytes = ps_mallctl_bytes(row->type);
    if (!wants_old(request)) {
        return 0;
    }
    size_t copied = ps_min(*request->old_bytes, bytes);
    int error = *request->old_bytes == bytes ? 0 : EINVAL;
    memcpy(request->old_value, &value, copied); /* little endian */
    *request->old_bytes = copied;
    return error;
}

static int write_new(const struct ps_mallctl_row *row, const size_t *indexes,
                     const struct ps_mallctl_request *request) {
    uint64_t value = 0;
    const struct ps_mallctl_source *source = &ps_mallctl_sources[row->value];
    if (request->new_bytes != ps_mallctl_bytes(row->type)) {
        return EINVAL;
    }
    memcpy(&value, request->new_value, request->new_bytes); /* little endian */
    return source->write != NULL ? source->write(indexes, value) : EPERM;
}

int ps_mallctl_give(const struct ps_mallctl_request *request, const void *value, size_t bytes) {
    if (!wants_old(request) || *request->old_bytes != bytes) {
        if (request->old_bytes != NULL) {
            *request->old_bytes = 0;
        }
        return EINVAL;
    }
    memcpy(request->old_value, value, bytes);
    return 0;
}

/* ---- accesses ---- */

static int read_row(const struct ps_mallctl_row *row, const size_t *indexes,
                    const struct ps_mallctl_request *request) {
    uint64_t value;
    if (request->new_value != NULL || request->new_bytes != 0) {
        return EPERM;
    }
    int error = ps_mallctl_sources[row->value].get.read(row->argument, indexes, &value);
    return error != 0 ? error : put_old(row, request, value);
}

/* The old value is where the caller wants it if the new one was taken. */
static int exchange(const struct ps_mallctl_row *row, const size_t *indexes,
                    const struct ps_mallctl_request *request) {
    uint64_t value;
    int error = ps_mallctl_sources[row->value].get.read(row->argument, indexes, &value);
    if (error != 0) {
        return error;
    }
    if (wants_old(request) && *request->old_bytes != ps_mallctl_bytes(row->type)) {
        return put_old(row, request, value);
    }
    error = request->new_value != NULL ? write_new(row, indexes, request) : 0;
    return error != 0 ? error : put_old(row, request, value);
}

/* Refreshes if any value is written, and reads. */
static int refresh(const struct ps_mallctl_row *row, const size_t *indexes,
                   const struct ps_mallctl_request *request) {
    uint64_t value;
    int error = request->new_value != NULL ? write_new(row, indexes, request) : 0;
    if (error == 0) {
        error = ps_mallctl_sources[row->value].get.read(row->argument, indexes, &value);
    }
    return error != 0 ? error : put_old(row, request, value);
}

static int store(const struct ps_mallctl_row *row, const size_t *indexes,
                 const struct ps_mallctl_request *request) {
    bool has_old = request->old_value != NULL || request->old_bytes != NULL;
    if (has_old) {
        return EPERM;
    }
    if (request->new_value == NULL) {
        bool is_default = row->access == PS_MALLCTL_DUMP;
        return is_default ? ps_mallctl_sources[row->value].write(indexes, 0) : EINVAL;
    }
    return write_new(row, indexes, request);
}

static int act(const struct ps_mallctl_row *row, const size_t *indexes,
               const struct ps_mallctl_request *request) {
    bool has_value = request->old_value != NULL || request->old_bytes != NULL ||
                     request->new_value != NULL || request->new_bytes != 0;
    return has_value ? EPERM : ps_mallctl_sources[row->value].write(indexes, 0);
}

static int access_row(const struct ps_mallctl_row *row, const size_t *indexes,
                      const struct ps_mallctl_request *request) {
    bool writes = request->new_value != NULL;
    switch ((enum ps_mallctl_access)row->access) {
    case PS_MALLCTL_READ:
        return read_row(row, indexes, request);
    case PS_MALLCTL_PROFILE:
        return writes && !ps_mallctl_has_profile() ? ENOENT : exchange(row, indexes, request);
    case PS_MALLCTL_WRITE:
        return exchange(row, indexes, request);
    case PS_MALLCTL_EPOCH:
        return refresh(row, indexes, request);
    case PS_MALLCTL_DUMP:
        return ps_mallctl_has_profile() ? store(row, indexes, request) : ENOENT;
    case PS_MALLCTL_STORE:
        return store(row, indexes, request);
    case PS_MALLCTL_DO:
        return act(row, indexes, request);
    case PS_MALLCTL_CALL:
        return ps_mallctl_sources[row->value].get.call(request);
    default: /* PS_MALLCTL_NONE */
        return ENOENT;
    }
}

/* ---- entry points ---- */

PS_EXPORT int mallctlbymib(const size_t *mib, size_t miblen, void *oldp, size_t *oldlenp,
                           void *newp, size_t newlen) {
    size_t indexes[PS_MALLCTL_INDEXES] = {0};
    const struct ps_mallctl_row *row = ps_mallctl_at(mib, miblen, indexes);
    const struct ps_mallctl_request request = {oldp, oldlenp, newp, newlen};
    return row != NULL ? access_row(row, indexes, &request) : ENOENT;
}

PS_EXPORT int mallctl(const char *name, void *oldp, size_t *oldlenp, void *newp, size_t newlen) {
    size_t mib[PS_MALLCTL_DEPTH];
    size_t length = PS_MALLCTL_DEPTH;
    return ps_mallctl_find(name, mib, &length) != NULL
               ? mallctlbymib(mib, length, oldp, oldlenp, newp, newlen)
               : ENOENT;
}

PS_EXPORT int mallctlnametomib(const char *name, size_t *mibp, size_t *miblenp) {
    size_t indexes[PS_MALLCTL_INDEXES];
    size_t length = *miblenp;
    if (length == 0) {
        return 0;
    }
    const struct ps_mallctl_row *row = ps_mallctl_find(name, mibp, &length);
    if (length == 0 || (row != NULL && ps_mallctl_at(mibp, length, indexes) == NULL)) {
        return ENOENT;
    }
    *miblenp = length;
    return 0;
}
