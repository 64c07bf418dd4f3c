/* SPDX-License-Identifier: MIT */
/*
 * See profile.h: the names of pools in stacks. The name is copied into the table before the chunk
 * is taken, so no pool has to outlive its samples. No locks but the table's.
 */
#include "pools/engine/base/bits.h"
#include "pools/engine/profile/demand.h"
#include "pools/engine/profile/profile.h"

#include <string.h>

#define FAMILY_BYTES 24 /* of the text, at most; all families are shorter */
#define NAME_BYTES 39   /* as in poolshim/registry.h */

/* Whose chunk this thread takes; 0: none. A site, no pointer: a source that does not return, as by
 * an exception, leaves it behind. */
static __thread uintptr_t taker __attribute__((tls_model("initial-exec")));

/* A pool's name as far as it is text: bytes that would end the quotes or move a cursor are
 * replaced, and no character of UTF-8 is cut. */
static size_t copy_name(char *out, const char *name) {
    size_t length = strnlen(name, NAME_BYTES + 1);
    if (length > NAME_BYTES) {
        length = NAME_BYTES;
        while (length > 0 && ((unsigned char)name[length] & 0xc0) == 0x80) {
            length--;
        }
    }
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)name[i];
        out[i] = byte < ' ' || byte == 0x7f || byte == '"' ? '?' : name[i];
    }
    return length;
}

static uintptr_t site_of(const char *family, const char *name) {
    char text[FAMILY_BYTES + NAME_BYTES + sizeof " \"\""];
    size_t length = strnlen(family, FAMILY_BYTES);
    memcpy(text, family, length);
    if (name != NULL && name[0] != '\0' && strcmp(name, family) != 0) {
        text[length++] = ' ';
        text[length++] = '"';
        length += copy_name(text + length, name);
        text[length++] = '"';
    }
    const struct ps_profile_line line = {.file = PS_PROFILE_POOL_FILE,
                                         .file_bytes = sizeof PS_PROFILE_POOL_FILE - 1,
                                         .function = text,
                                         .function_bytes = length};
    return ps_profile_line_site(&line);
}

uintptr_t ps_profile_heap_site(const char *name) { return site_of("heap", name); }

bool ps_profile_pool_begins(const char *family, const char *name, size_t bytes) {
    if ((ps_demand_now() & PS_DEMAND_STACKS) == 0 || !ps_profile_pages_may_be_due(bytes)) {
        return false;
    }
    taker = site_of(family, name);
    return true;
}

void ps_profile_pool_ends(void) { taker = 0; }

uintptr_t ps_profile_pool_site(void) { return taker; }

bool ps_profile_pool_of(uintptr_t site, struct ps_profile_pool *out) {
    struct ps_profile_line line;
    if (!ps_profile_is_line(site)) {
        return false;
    }
    ps_profile_line_of(site, &line);
    if (line.file_bytes != sizeof PS_PROFILE_POOL_FILE - 1 ||
        memcmp(line.file, PS_PROFILE_POOL_FILE, line.file_bytes) != 0) {
        return false;
    }
    *out = (struct ps_profile_pool){.family = line.function, .family_bytes = line.function_bytes};
    const char *quote = memchr(line.function, '"', line.function_bytes);
    size_t before = quote != NULL ? (size_t)(quote - line.function) : line.function_bytes;
    if (before != 0 && line.function_bytes - before > 2) {
        out->family_bytes = before - 1;
        out->name = quote + 1;
        out->name_bytes = line.function_bytes - before - 2;
    }
    return true;
}
