/* SPDX-License-Identifier: MIT */
/*
 * The Memory Tagging Extension of 64-bit ARM. The instructions are written as numbers: an assembler
 * knows their names only where the whole file is compiled for processors that have them.
 */

#define PS_MTE_HAS_INSTRUCTIONS true

/* .Lps_x5 is 5: the operand's register, as a number. */
#define MTE_NUMBERS                                                                                \
    ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30\n"  \
    ".equ .Lps_x\\n, \\n\n"                                                                        \
    ".endr\n"

/* irg: the pointer with a random tag that is not in `excluded`, a bit for each. */
static inline char *ps_mte_draw(char *pointer, uint64_t excluded) {
    char *drawn;
    __asm__(MTE_NUMBERS ".inst 0x9ac01000 | .Lps_%2 << 16 | .Lps_%1 << 5 | .Lps_%0"
            : "=r"(drawn)
            : "r"(pointer), "r"(excluded));
    return drawn;
}

/* ldg: the address with the tag of its memory. */
static inline char *ps_mte_load(const char *address) {
    const char *loaded = address;
    __asm__ volatile(MTE_NUMBERS ".inst 0xd9600000 | .Lps_%0 << 5 | .Lps_%0"
                     : "+r"(loaded)
                     :
                     : "memory");
    return (char *)loaded;
}

/* stg, st2g: gives the 16 or 32 bytes at a pointer the pointer's tag. */
static inline void ps_mte_store_16(char *pointer) {
    __asm__ volatile(MTE_NUMBERS ".inst 0xd9200800 | .Lps_%0 << 5 | .Lps_%0"
                     :
                     : "r"(pointer)
                     : "memory");
}

/* `pairs`: a constant number of 32 bytes, added to the pointer. */
#define ps_mte_store_32(pointer, pairs)                                                            \
    __asm__ volatile(MTE_NUMBERS ".inst 0xd9a00800 | %c1 << 13 | .Lps_%0 << 5 | .Lps_%0"           \
                     :                                                                             \
                     : "r"(pointer), "i"(pairs)                                                    \
                     : "memory")
