/* SPDX-License-Identifier: MIT */
/*
 * Walks over the call frames of the calling thread. Allocates nothing, takes no lock (but see
 * unwind_object.c for old C libraries), and may be called at any time: from signal handlers, in
 * children of fork, at exit, while other threads open and close libraries.
 *
 * The step from a frame to its caller is a rule (struct ps_unwind_rule): the distance of the frame
 * from a register, and where the registers of the caller lie. It comes from the unwind tables of
 * the code's file (unwind_table.c) and is cached by address, so that most steps read no table. Code
 * without tables, which is generated at run time, is passed by frame pointers, if these lead to
 * code that has tables or to the end of the stack; else the walk ends there.
 *
 * Memory is read only if it belongs to the thread's stack: within the main thread's, or else after
 * the kernel was asked, once per page.
 *
 * Callers: shim/guard_trace.c, shim/profile_trace.c, shim/language*.c.
 */
#ifndef PS_SHIM_UNWIND_H
#define PS_SHIM_UNWIND_H

#include "pools/engine/os/registers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- unwind_object.c ---- */

/* A loaded file. */
struct ps_unwind_object {
    uintptr_t start; /* of its memory, to `end` */
    uintptr_t end;
    const unsigned char *index; /* .eh_frame_hdr; NULL: it has none */
    uint64_t identity;          /* differs between files that are loaded at one address in turn */
};

/* Prepares the search. Called once, by a constructor; may allocate. */
void ps_unwind_object_start(void);

/* The object in whose memory an address lies. False when there is none. */
bool ps_unwind_object_find(uintptr_t address, struct ps_unwind_object *out);

/* ---- unwind_table.c ---- */

enum ps_unwind_kind {
    PS_UNWIND_NONE = 0,  /* there is no rule */
    PS_UNWIND_FRAME,     /* frame = base + offset; the rest lies below it */
    PS_UNWIND_REALIGNED, /* frame = *(fp + offset); fp and extra lie around fp */
    PS_UNWIND_SIGNAL,    /* the handler of a signal returns here */
    PS_UNWIND_END,       /* the outermost frame */
};

enum ps_unwind_base { PS_UNWIND_SP, PS_UNWIND_FP, PS_UNWIND_EXTRA };

/* Values of a place, which are otherwise a distance downwards in bytes. */
#define PS_UNWIND_SAME (-1) /* the register has not been changed */
#define PS_UNWIND_LOST (-2)

/* Frame is the stack pointer of the caller, after the call. */
struct ps_unwind_rule {
    uint8_t kind;
    uint8_t base;
    int32_t offset;
    int32_t fp;    /* below the frame, or below fp where that is realigned */
    int32_t extra; /* likewise */
    int32_t link;  /* below the frame */
};

/* The rule at an address of an object's code. Kind NONE when the tables have none, or one that
 * needs more than a rule can say. */
void ps_unwind_table_find(const struct ps_unwind_object *object, uintptr_t address,
                          struct ps_unwind_rule *out);

/* ---- unwind_cache.c ---- */

/* The cached rule of an address. False when there is none. */
bool ps_unwind_cache_find(uint64_t identity, uintptr_t address, struct ps_unwind_rule *out);
void ps_unwind_cache_add(uint64_t identity, uintptr_t address, const struct ps_unwind_rule *rule);

/* ---- unwind_pages.c ---- */

/* Drops the pages of an object's tables from this process, if that is safe and was not done often
 * lately. is_certain: a frame of its code is on the stack, so that it is not unloaded meanwhile. */
void ps_unwind_pages_drop(const struct ps_unwind_object *object, bool is_certain);

/* ---- unwind.c ---- */

#define PS_UNWIND_PAGE_BYTES ((uintptr_t)4096) /* the least that any system maps */

/* True if the page of an address can be read at this moment. A system call. */
bool ps_unwind_can_read(uintptr_t address);

/* A walk. */
struct ps_unwind {
    struct ps_registers registers; /* of the frame that is next */
    struct ps_unwind_object object;
    uintptr_t low; /* of readable memory, to `high` */
    uintptr_t high;
    uintptr_t pointer; /* of the last site's frame, where its code has no table; else 0 */
    unsigned trusted;  /* steps by frame pointers that have been checked */
    unsigned signals;  /* handlers passed */
    bool is_exact;     /* pc is not a return address */
    bool is_blind;     /* a step was by frame pointer */
    bool has_read;     /* tables of the object */
    bool is_over;
};

/* Prepares walks. Called once, by a constructor, before the first; may allocate. */
void ps_unwind_start(void);

/* Begins a walk at the caller's frame. */
#define ps_unwind_here(walk)                                                                       \
    do {                                                                                           \
        ps_registers_read(&(walk)->registers);                                                     \
        ps_unwind_begin(walk);                                                                     \
    } while (0)
void ps_unwind_begin(struct ps_unwind *walk);

/* The site of the next frame, innermost first: an address of its call, or of the interrupted
 * instruction below a signal's handler; 0 after the last. */
uintptr_t ps_unwind_next(struct ps_unwind *walk);

/* Ends a walk, wherever it is: the pages of tables that it has read are dropped. */
void ps_unwind_end(struct ps_unwind *walk);

#endif
