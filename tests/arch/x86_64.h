/* SPDX-License-Identifier: MIT */
/*
 * See arch.h.
 */

#define TEST_AUDIT_ARCH AUDIT_ARCH_X86_64

#define TEST_ADDRESS_BITS UINTPTR_MAX

#define TEST_TRAP_FLAG 0x100u

static inline void test_set_trap_flag(bool is_on) {
    uint64_t flags;
    __asm__ volatile("pushfq\n\tpopq %0" : "=r"(flags));
    flags = is_on ? flags | TEST_TRAP_FLAG : flags & ~(uint64_t)TEST_TRAP_FLAG;
    __asm__ volatile("pushq %0\n\tpopfq" : : "r"(flags) : "cc", "memory");
}

/* Functions that call their argument. */
#define TEST_HAS_CODE 1
#define TEST_CODE_WITHOUT_FRAME                                                                    \
    { 0x48, 0x83, 0xec, 0x08, 0xff, 0xd7, 0x48, 0x83, 0xc4, 0x08, 0xc3 }
#define TEST_CODE_WITH_POINTER                                                                     \
    { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3 }
/* Of the words at its first argument eight, below its pointer; then it calls the second. */
#define TEST_CODE_WITH_SLOTS                                                                       \
    {                                                                                              \
        0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x40, /* push rbp; mov rbp, rsp; sub rsp, 64 */  \
            0x48, 0x8b, 0x07, 0x48, 0x89, 0x45, 0xf8,   /* mov rax, [rdi]; mov [rbp - 8], rax */   \
            0x48, 0x8b, 0x47, 0x08, 0x48, 0x89, 0x45, 0xf0, 0x48, 0x8b, 0x47, 0x10, 0x48, 0x89,    \
            0x45, 0xe8, 0x48, 0x8b, 0x47, 0x18, 0x48, 0x89, 0x45, 0xe0, 0x48, 0x8b, 0x47, 0x20,    \
            0x48, 0x89, 0x45, 0xd8, 0x48, 0x8b, 0x47, 0x28, 0x48, 0x89, 0x45, 0xd0, 0x48, 0x8b,    \
            0x47, 0x30, 0x48, 0x89, 0x45, 0xc8, 0x48, 0x8b, 0x47, 0x38, 0x48, 0x89, 0x45, 0xc0,    \
            0xff, 0xd6, /* call rsi */                                                             \
            0x48, 0x89, 0xec, 0x5d, 0xc3                                                           \
    }
/* push rbp; mov ebp, 0x12345678; call rdi; pop rbp; nop; ret */
#define TEST_CODE_WITHOUT_POINTER                                                                  \
    { 0x55, 0xbd, 0x78, 0x56, 0x34, 0x12, 0xff, 0xd7, 0x90, 0x5d, 0xc3 }
/* push rbp; lea rbp, [rsp + 0x18]; call rdi: a pointer into the stack, but to no frame */
#define TEST_CODE_WITH_OTHER_USE                                                                   \
    { 0x55, 0x48, 0x8d, 0x6c, 0x24, 0x18, 0xff, 0xd7, 0x90, 0x5d, 0xc3 }
