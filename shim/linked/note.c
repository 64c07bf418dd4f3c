/* SPDX-License-Identifier: MIT */
/*
 * The note by which other processes find the control page and the layout in a program that
 * libpoolshim.a is a part of: it has no table of symbols, or need not have one. The note lies in
 * memory, and strip keeps it. Read by scripts/poolshim_cli/foreign/image.py. No state.
 *
 * Owner "poolshim", type 1; then two distances of 8 bytes, each from its own place: to
 * poolshim_control and to poolshim_layout.
 */

__asm__(".pushsection .note.poolshim, \"a\", \"note\"\n"
        ".balign 4\n"
        ".4byte 2f - 1f, 5f - 3f, 1\n"
        "1: .asciz \"poolshim\"\n"
        "2: .balign 4\n"
        "3: .8byte poolshim_control - 3b\n"
        "4: .8byte poolshim_layout - 4b\n"
        "5: .popsection\n");
