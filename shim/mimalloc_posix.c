/* SPDX-License-Identifier: MIT */
/*
 * See mimalloc.h: libc's functions of other systems under mimalloc's names, in the heap of the
 * calling thread. No locks.
 */
#include "shim/mimalloc.h"

#include "pools/engine/os/os.h"
#include "shim/entry.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

int mi_posix_memalign(void **result, size_t align, size_t size);
void *mi_memalign(size_t align, size_t size);
void *mi_valloc(size_t size);
void *mi_pvalloc(size_t size);
void *mi_reallocarray(void *block, size_t count, size_t size);
int mi_reallocarr(void *at, size_t count, size_t size);
unsigned short *mi_wcsdup(const unsigned short *text);
unsigned char *mi_mbsdup(const unsigned char *text);
int mi_dupenv_s(char **result, size_t *length, const char *name);
int mi_wdupenv_s(unsigned short **result, size_t *length, const unsigned short *name);

static void *make(size_t size, size_t align) {
    struct ps_mi_request request = {size, align, 0, false};
    return ps_mi_alloc(ps_mi_default(), &request);
}

static void *copy(const void *data, size_t bytes) {
    void *block = make(bytes, 1);
    return block != NULL ? memcpy(block, data, bytes) : NULL;
}

PS_EXPORT int mi_posix_memalign(void **result, size_t align, size_t size) {
    if (result == NULL || align % sizeof(void *) != 0 || !ps_is_power_of_two(align)) {
        return EINVAL;
    }
    void *block = make(size, align);
    if (block == NULL) {
        return ENOMEM;
    }
    *result = block;
    return 0;
}

PS_EXPORT void *mi_memalign(size_t align, size_t size) { return make(size, align); }
PS_EXPORT_ALIAS(mi_aligned_alloc, mi_memalign);

PS_EXPORT void *mi_valloc(size_t size) { return make(size, ps_os_page_bytes()); }

PS_EXPORT void *mi_pvalloc(size_t size) {
    size_t page_bytes = ps_os_page_bytes();
    if (size > PTRDIFF_MAX - page_bytes) {
        ps_mi_fail(ENOMEM, EOVERFLOW);
        return NULL;
    }
    return make(ps_round_up(size, page_bytes), page_bytes);
}

PS_EXPORT void *mi_reallocarray(void *block, size_t count, size_t size) {
    struct ps_mi_request request = {.align = 1};
    return ps_mi_multiply(count, size, &request.bytes)
               ? ps_mi_resize(ps_mi_default(), block, &request)
               : NULL;
}

/* at: of a pointer to a block. */
PS_EXPORT int mi_reallocarr(void *at, size_t count, size_t size) {
    void *block;
    int saved_errno = errno;
    if (at == NULL) {
        errno = EINVAL;
        return EINVAL;
    }
    memcpy(&block, at, sizeof block);
    block = mi_reallocarray(block, count, size);
    if (block == NULL) {
        return errno;
    }
    memcpy(at, &block, sizeof block);
    errno = saved_errno;
    return 0;
}

/* The characters have 16 bits, as those of Windows. */
PS_EXPORT unsigned short *mi_wcsdup(const unsigned short *text) {
    size_t length = 0;
    while (text != NULL && text[length] != 0) { /* ends: the text does */
        length++;
    }
    return text != NULL ? copy(text, (length + 1) * sizeof *text) : NULL;
}

PS_EXPORT unsigned char *mi_mbsdup(const unsigned char *text) {
    return text != NULL ? copy(text, strlen((const char *)text) + 1) : NULL;
}

/* The value of a variable; NULL: it is not set. */
static const char *variable(const char *name) {
    size_t length = strlen(name);
    char **rows = environ;
    for (size_t i = 0; rows != NULL && rows[i] != NULL; i++) {
        if (strncmp(rows[i], name, length) == 0 && rows[i][length] == '=') {
            return rows[i] + length + 1;
        }
    }
    return NULL;
}

PS_EXPORT int mi_dupenv_s(char **result, size_t *length, const char *name) {
    if (result == NULL || name == NULL) {
        return EINVAL;
    }
    if (length != NULL) {
        *length = 0;
    }
    const char *value = variable(name);
    *result = value != NULL ? copy(value, strlen(value) + 1) : NULL;
    if (value != NULL && *result == NULL) {
        return ENOMEM;
    }
    if (length != NULL && value != NULL) {
        *length = strlen(value);
    }
    return 0;
}

/* Windows alone has it. */
PS_EXPORT int mi_wdupenv_s(unsigned short **result, size_t *length, const unsigned short *name) {
    if (result == NULL || name == NULL) {
        return EINVAL;
    }
    if (length != NULL) {
        *length = 0;
    }
    *result = NULL;
    return EINVAL;
}
