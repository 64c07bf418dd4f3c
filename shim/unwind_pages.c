/* SPDX-License-Identifier: MIT */
/*
 * See unwind.h: drops the pages of unwind tables that a walk has read. A read maps 64 KiB of the
 * file into the process (fault-around of the kernel), and the cache has the rule afterwards.
 *
 * MADV_DONTNEED discards what the process has written to a page. So it is applied only to pages of
 * a file that nothing has written to: those of tables, in a part that is not writable, of a file
 * without relocations in its code, and if the file is still mapped there: packers write programs to
 * anonymous memory, and some programs move theirs to huge pages.
 *
 * Advice for random access (MADV_RANDOM) does not end the fault-around. Reading the file by pread
 * would need a descriptor, which the program may see, a name, which may be another file's by now,
 * and system calls that the program's seccomp filter may answer with SIGSYS.
 *
 * Any thread, also in signal handlers. No locks.
 */
#include "shim/unwind_table.h"

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/bits.h"
#include "pools/engine/os/auxiliary.h"
#include "pools/engine/os/os.h"
#include "pools/engine/os/syscall.h"
#include "shim/unwind_head.h"

#include <sys/auxv.h>
#include <sys/mman.h>

/*
 * A table that is read again after a drop costs page faults, of 1 to 10 us. So a process drops at
 * most once in DROP_MS, and BURST times more at its start, when most addresses are new.
 */
#define DROP_MS 10
#define BURST 32

#define HUGE_BYTES ((uintptr_t)2 << 20) /* memory moved from a file to huge pages has as many */

/* MADV_WIPEONFORK and MADV_KEEPONFORK of Linux 4.14, which older headers do not have. */
enum { WIPE_ON_FORK = 18, KEEP_ON_FORK = 19 };

static uint64_t x_due_ms;    /* the time of the next drop, without the burst */
static uint32_t x_has_moved; /* a file's memory was found to be anonymous: nothing is dropped */

/* ---- what may be dropped ---- */

static bool has_text_relocations(const ElfW(Dyn) * entries, size_t count) {
    for (size_t i = 0; i < count && entries[i].d_tag != DT_NULL; i++) {
        if (entries[i].d_tag == DT_TEXTREL ||
            (entries[i].d_tag == DT_FLAGS && (entries[i].d_un.d_val & DF_TEXTREL) != 0)) {
            return true;
        }
    }
    return false;
}

struct range {
    uintptr_t begin;
    uintptr_t end;
};

/* The part of a file's memory in which its tables lie. False when it may differ from the file. */
static bool find_part(uintptr_t head, uintptr_t tables, struct range *out) {
    ElfW(Phdr) part;
    uintptr_t shift = head; /* from addresses in the file */
    bool has_first = false;
    bool is_clean = false;
    for (size_t i = 0; ps_unwind_head_part(head, i, &part); i++) { /* ends with the page */
        if (part.p_type == PT_LOAD && !has_first) {
            shift -= ps_round_down(part.p_vaddr, PS_UNWIND_PAGE_BYTES);
            has_first = true;
        }
        uintptr_t begin = shift + part.p_vaddr;
        if (part.p_type == PT_LOAD && tables - begin < part.p_filesz) {
            *out = (struct range){begin, begin + part.p_filesz};
            is_clean = (part.p_flags & PF_W) == 0;
        } else if (part.p_type == PT_DYNAMIC &&
                   has_text_relocations((const ElfW(Dyn) *)begin,
                                        part.p_memsz / sizeof(ElfW(Dyn)))) {
            return false;
        }
    }
    return is_clean;
}

/*
 * The loader describes a main program whose parts are not adjacent by the part with the code. A
 * library whose frames are on the stack is not unloaded. One to which a wrong frame pointer has led
 * may be unloaded by another thread at this moment, and its addresses be given to the program.
 */
static bool find_part_of(const struct ps_unwind_object *object, bool is_certain, uintptr_t tables,
                         struct range *out) {
    uintptr_t program = ps_round_down((uintptr_t)ps_auxiliary(AT_PHDR), PS_UNWIND_PAGE_BYTES);
    bool may_be_library = is_certain && object->start != program &&
                          object->end - object->start >= PS_UNWIND_HEAD_BYTES;
    return (may_be_library && find_part(object->start, tables, out)) ||
           find_part(program, tables, out);
}

/* Advice that is refused for a file's memory tells whether it is one's, and is taken back. */
static bool is_anonymous(uintptr_t page, uintptr_t page_bytes) {
    if (ps_syscall3(SYS_madvise, (long)page, (long)page_bytes, WIPE_ON_FORK) != 0) {
        return false;
    }
    (void)ps_syscall3(SYS_madvise, (long)page, (long)page_bytes, KEEP_ON_FORK);
    return true;
}

/* Relaxed, both: a drop by another thread makes the same check. */
static bool is_of_file(const struct range *pages, uintptr_t page_bytes) {
    uintptr_t last = pages->end - page_bytes;
    bool has_moved = ps_load_relaxed(&x_has_moved) != 0 || is_anonymous(last, page_bytes);
    for (uintptr_t at = pages->begin; at < last && !has_moved; at += HUGE_BYTES) {
        has_moved = is_anonymous(at, page_bytes);
    }
    if (has_moved) {
        ps_store_relaxed(&x_has_moved, 1u);
    }
    return !has_moved;
}

/* ---- how often ---- */

/* True if a drop is due. Relaxed, both: a count that is lost is one drop more. */
static bool take_turn(void) {
    uint64_t now_ms = ps_os_now_ms();
    uint64_t due_ms = ps_load_relaxed(&x_due_ms);
    if (due_ms > now_ms + (uint64_t)BURST * DROP_MS) {
        return false;
    }
    ps_store_relaxed(&x_due_ms, ps_max(due_ms, now_ms) + DROP_MS);
    return true;
}

void ps_unwind_pages_drop(const struct ps_unwind_object *object, bool is_certain) {
    struct range pages;
    uintptr_t tables = ps_unwind_table_begin(object);
    if (tables == 0 || !find_part_of(object, is_certain, tables, &pages)) {
        return;
    }
    uintptr_t page_bytes = ps_os_page_bytes();
    pages.begin = ps_round_up(tables, page_bytes);
    pages.end = ps_round_up(pages.end, page_bytes);
    if (pages.begin < pages.end && take_turn() && is_of_file(&pages, page_bytes)) {
        /* Refused for pages that are locked in memory: these remain. */
        (void)ps_syscall3(SYS_madvise, (long)pages.begin, (long)(pages.end - pages.begin),
                          MADV_DONTNEED);
    }
}
