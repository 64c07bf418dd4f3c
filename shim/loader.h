/* SPDX-License-Identifier: MIT */
/*
 * Questions to the loader. Two implementations: preloaded/loader.c is in libpoolshim.so,
 * linked/loader.c in libpoolshim.a, which is a part of the program and needs no loader. Called
 * outside of the engine's locks. Every function preserves errno.
 */
#ifndef PS_SHIM_LOADER_H
#define PS_SHIM_LOADER_H

#include "pools/engine/base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* libc's function of a name that the shim itself defines, or that of a library preloaded after this
 * one. NULL: there is none. */
PS_HOOK void *ps_loader_next(const char *name);

/* _dl_find_object of glibc 2.35 and later; NULL: there is none. */
PS_HOOK void *ps_loader_find_object(void);

/* True in the preloaded library of a program that has the linked one: it serves nothing. */
PS_HOOK bool ps_loader_is_idle(void);

/* The shim's own code in a file that has other code, too. False: the whole file is the shim's. */
PS_HOOK bool ps_loader_own_code(uintptr_t *begin, size_t *bytes);

/* The file and the function of a call site. */
struct ps_loader_site {
    const char *file;
    const char *function; /* NULL: not known */
};

/* False where no file has the address. The texts are the file's, or in `buffer`. */
PS_HOOK bool ps_loader_site_of(uintptr_t address, struct ps_loader_site *site, char *buffer,
                               size_t buffer_bytes);

#endif
