/* SPDX-License-Identifier: MIT */
/*
 * The auxiliary vector, which the kernel passes to each program, and the kernel's code that is
 * mapped into the process (the vDSO), found by the names of its symbols. libc's getauxval
 * and clock_gettime are not called: a program may interpose them, and its function may allocate.
 * Called by os_linux.c, clock.c and the start-up code of shim/. No locks; any thread.
 */
#ifndef PS_OS_AUXILIARY_H
#define PS_OS_AUXILIARY_H

#include <stddef.h>

/* The value of an entry (AT_PAGESZ, ...); 0 where there is none. */
unsigned long ps_auxiliary(unsigned long type);

/*
 * The address of a function of an ELF image in memory, whatever the version of its symbol; NULL
 * where there is none. The image is the vDSO's: complete, trusted, and not relocated.
 */
void *ps_auxiliary_symbol(const void *image, const char *name);

/* The same of the vDSO of this process, which may have none. */
void *ps_auxiliary_vdso(const char *name);

#endif
