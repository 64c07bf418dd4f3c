/* SPDX-License-Identifier: MIT */
/*
 * See probe.h. The layout of a note is that of SystemTap's user-space probes, version 3: address of
 * the probe, of .stapsdt.base as it was linked (a prelinked file differs there), of the semaphore;
 * provider, name, and a word for each argument: its size, @, its place.
 *
 * The semaphores have contents in the file: the kernel finds them by their offset there.
 */
#include "pools/engine/os/probe.h"

#include PS_ARCH_PART(probe.h)

#define SEMAPHORE __attribute__((section(".probes"), used))

SEMAPHORE uint16_t ps_probe_x_alloc_semaphore = 0;
SEMAPHORE uint16_t ps_probe_x_free_semaphore = 0;

#define NOTE(name, arguments, semaphore)                                                           \
    "990: nop\n"                                                                                   \
    ".pushsection .note.stapsdt, \"\", \"note\"\n"                                                 \
    ".balign 4\n"                                                                                  \
    ".4byte 992f - 991f, 994f - 993f, 3\n"                                                         \
    "991: .asciz \"stapsdt\"\n"                                                                    \
    "992: .balign 4\n"                                                                             \
    "993: .8byte 990b\n"                                                                           \
    ".8byte _.stapsdt.base\n"                                                                      \
    ".8byte " semaphore "\n"                                                                       \
    ".asciz \"otel_memory\"\n"                                                                     \
    ".asciz \"" name "\"\n"                                                                        \
    ".asciz \"" arguments "\"\n"                                                                   \
    "994: .balign 4\n"                                                                             \
    ".popsection\n"                                                                                \
    ".ifndef _.stapsdt.base\n"                                                                     \
    ".pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n"                    \
    ".weak _.stapsdt.base\n"                                                                       \
    ".hidden _.stapsdt.base\n"                                                                     \
    "_.stapsdt.base: .space 1\n"                                                                   \
    ".size _.stapsdt.base, 1\n"                                                                    \
    ".popsection\n"                                                                                \
    ".endif\n"

#define NOTE_OF(name, arguments) PS_PROBE(NOTE(name, arguments, "ps_probe_x_" name "_semaphore"))

/* Not inlined, nor copied: a note has one address. */
PS_NOINLINE PS_NOCLONE void ps_probe_alloc(const void *block, uint64_t bytes,
                                           uint64_t weight_bytes) {
    register const void *first PS_PROBE_IN_FIRST = block;
    register uint64_t second PS_PROBE_IN_SECOND = bytes;
    register uint64_t third PS_PROBE_IN_THIRD = weight_bytes;
    __asm__ volatile(NOTE_OF("alloc", PS_PROBE_THREE) : : "r"(first), "r"(second), "r"(third));
}

PS_NOINLINE PS_NOCLONE void ps_probe_free(const void *block) {
    register const void *first PS_PROBE_IN_FIRST = block;
    __asm__ volatile(NOTE_OF("free", PS_PROBE_ONE) : : "r"(first));
}
