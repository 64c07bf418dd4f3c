/* SPDX-License-Identifier: MIT */
/*
 * Actions at the end of a region: cleanups, descriptors, temporary files, data under keys. Their
 * records are blocks of the region; those of cleanups are reused. Callers: users, tree.c.
 */
#include "pools/region/region.h"

#include <errno.h>
#include <unistd.h>

/* Takes the cleanup off its list and its record back; the caller has what it needs of it. */
static void forget(struct ps_region_state *region, struct ps_region_cleanup *cleanup) {
    *cleanup->link = cleanup->next;
    if (cleanup->next != NULL) {
        cleanup->next->link = cleanup->link;
    }
    cleanup->function = NULL;
    cleanup->next = region->free_cleanups;
    region->free_cleanups = cleanup;
}

/* A handle that has run or was cancelled, and whose record is not used again yet, is noticed. */
static void check_handle(const struct ps_region_state *region,
                         const struct ps_region_cleanup *cleanup) {
    ps_region_check_thread(region);
    if (cleanup->function == NULL) {
        ps_debug_misuse("cleanup that is not registered:", cleanup, region->chunks.name);
    }
}

static struct ps_region_cleanup *add(struct ps_region_state *region,
                                     struct ps_region_cleanup **list, ps_region_function *function,
                                     void *argument) {
    ps_region_check_thread(region);
    struct ps_region_cleanup *cleanup = region->free_cleanups;
    if (cleanup != NULL) {
        region->free_cleanups = cleanup->next;
    } else {
        cleanup = PS_REGION_NEW(&region->hot, struct ps_region_cleanup, 1);
        if (cleanup == NULL) {
            return NULL;
        }
    }
    *cleanup = (struct ps_region_cleanup){*list, list, function, argument};
    if (cleanup->next != NULL) {
        cleanup->next->link = &cleanup->next;
    }
    *list = cleanup;
    return cleanup;
}

struct ps_region_cleanup *ps_region_on_destroy(struct ps_region *public,
                                               ps_region_function *function, void *argument) {
    struct ps_region_state *region = ps_region_state(public);
    return add(region, &region->cleanups, function, argument);
}

struct ps_region_cleanup *ps_region_on_destroy_early(struct ps_region *public,
                                                     ps_region_function *function, void *argument) {
    struct ps_region_state *region = ps_region_state(public);
    return add(region, &region->early_cleanups, function, argument);
}

void ps_region_cancel(struct ps_region *public, struct ps_region_cleanup *cleanup) {
    struct ps_region_state *region = ps_region_state(public);
    check_handle(region, cleanup);
    forget(region, cleanup);
}

void ps_region_run_now(struct ps_region *public, struct ps_region_cleanup *cleanup) {
    struct ps_region_state *region = ps_region_state(public);
    check_handle(region, cleanup);
    ps_region_function *function = cleanup->function;
    void *argument = cleanup->argument;
    forget(region, cleanup); /* first: the function may register, and may throw */
    function(argument);
}

/* Each is forgotten before it runs, so that it may register others: they are first on the list. */
void ps_region_run_all(struct ps_region_state *region, struct ps_region_cleanup **list) {
    struct ps_region_cleanup *cleanup;
    while ((cleanup = *list) != NULL) { /* ends when no cleanup registers another */
        ps_region_function *function = cleanup->function;
        void *argument = cleanup->argument;
        forget(region, cleanup);
        function(argument);
    }
}

/* --- Descriptors. The argument of close_fd is the descriptor itself. --- */

static void close_fd(void *argument) { close((int)(intptr_t)argument); }

struct tmpfile {
    int fd;
    char path[];
};

static void close_tmpfile(void *argument) {
    struct tmpfile *file = argument;
    unlink(file->path); /* whether it was still there does not matter */
    close(file->fd);
}

struct ps_region_cleanup *ps_region_own_fd(struct ps_region *region, int fd) {
    return ps_region_on_destroy(region, close_fd, (void *)(intptr_t)fd);
}

struct ps_region_cleanup *ps_region_own_tmpfile(struct ps_region *region, int fd,
                                                const char *path) {
    size_t path_bytes = strlen(path) + 1;
    size_t file_bytes = sizeof(struct tmpfile) + path_bytes;
    struct tmpfile *file = ps_region_alloc(region, file_bytes);
    if (file == NULL) {
        return NULL;
    }
    file->fd = fd;
    memcpy(file->path, path, path_bytes);
    struct ps_region_cleanup *cleanup = ps_region_on_destroy(region, close_tmpfile, file);
    if (cleanup == NULL) {
        ps_region_free(region, file, file_bytes, PS_ALIGN_DEFAULT);
    }
    return cleanup;
}

static bool is_of_fd(const struct ps_region_cleanup *cleanup, int fd) {
    if (cleanup->function == close_fd) {
        return (int)(intptr_t)cleanup->argument == fd;
    }
    return cleanup->function == close_tmpfile && ((struct tmpfile *)cleanup->argument)->fd == fd;
}

int ps_region_close_fd(struct ps_region *public, int fd) {
    struct ps_region_state *region = ps_region_state(public);
    ps_region_check_thread(region);
    struct ps_region_cleanup *cleanup = region->cleanups;
    while (cleanup != NULL && !is_of_fd(cleanup, fd)) {
        cleanup = cleanup->next;
    }
    if (cleanup == NULL) {
        errno = EBADF;
        return -1;
    }
    if (cleanup->function == close_tmpfile) {
        unlink(((struct tmpfile *)cleanup->argument)->path);
    }
    forget(region, cleanup);
    return close(fd);
}

/* --- Data under keys. --- */

static struct ps_region_data *find_data(const struct ps_region_state *region, const char *key) {
    struct ps_region_data *data = region->data;
    while (data != NULL && data->key != key && strcmp(data->key, key) != 0) {
        data = data->next;
    }
    return data;
}

bool ps_region_set_data(struct ps_region *public, const char *key, void *value,
                        ps_region_function *destructor) {
    struct ps_region_state *region = ps_region_state(public);
    ps_region_check_thread(region);
    struct ps_region_data *data = find_data(region, key);
    if (data == NULL) {
        data = PS_REGION_NEW(public, struct ps_region_data, 1);
        if (data == NULL) {
            return false;
        }
        *data = (struct ps_region_data){region->data, key, value, destructor};
        region->data = data;
        return true;
    }
    struct ps_region_data old = *data;
    data->key = key;
    data->value = value;
    data->destructor = destructor;
    if (old.destructor != NULL) {
        old.destructor(old.value);
    }
    return true;
}

void *ps_region_get_data(const struct ps_region *public, const char *key) {
    const struct ps_region_data *data = find_data(ps_region_const_state(public), key);
    return data != NULL ? data->value : NULL;
}

/* Newest first. Ends when no destructor sets another value. */
void ps_region_drop_data(struct ps_region_state *region) {
    while (region->data != NULL) {
        struct ps_region_data *data = region->data;
        region->data = data->next;
        if (data->destructor != NULL) {
            data->destructor(data->value);
        }
    }
}
