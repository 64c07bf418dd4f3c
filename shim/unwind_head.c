/* SPDX-License-Identifier: MIT */
/* See unwind_head.h. */
#include "shim/unwind_head.h"

#include <string.h>

bool ps_unwind_head_part(uintptr_t head, size_t index, ElfW(Phdr) * out) {
    ElfW(Ehdr) header;
    memcpy(&header, (const void *)head, sizeof header);
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || index >= header.e_phnum) {
        return false;
    }
    size_t at = header.e_phoff + index * sizeof *out;
    if (at > PS_UNWIND_HEAD_BYTES - sizeof *out) {
        return false;
    }
    memcpy(out, (const void *)(head + at), sizeof *out);
    return true;
}
