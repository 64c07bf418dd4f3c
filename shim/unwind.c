/* SPDX-License-Identifier: MIT */
/*
 * See unwind.h: the walk. No locks, no state but where the main thread's stack ends.
 */
#include "shim/unwind.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/os/auxiliary.h"
#include "pools/engine/os/syscall.h"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>

#define WORD_BYTES sizeof(uintptr_t)
#define PAGE_BYTES PS_UNWIND_PAGE_BYTES
#define MAIN_STACK_LIMIT ((uintptr_t)128 << 20) /* beyond this the kernel may map files */
#define STACK_LIMIT ((uintptr_t)1 << 30)        /* a frame further away is none */
#define TRUSTED_STEPS 64                        /* by frame pointers, checked at a time */
#define SIGNALS_LIMIT 8                         /* handlers that interrupt each other */
#define SIGNAL_SET_BYTES 8

/* The main thread's stack, without later changes of the limit of its growth. Written by a
 * constructor. */
static uintptr_t main_stack_end;
static uintptr_t main_stack_bytes;

PS_AT_START void ps_unwind_start(void) {
    ps_unwind_object_start();
    /* The kernel places the program's name above the stack of the main thread. */
    struct rlimit limit;
    if (ps_syscall6(SYS_prlimit64, 0, RLIMIT_STACK, 0, (long)&limit, 0, 0) == 0) {
        main_stack_end = ps_round_down((uintptr_t)ps_auxiliary(AT_EXECFN), WORD_BYTES);
        main_stack_bytes = ps_min(limit.rlim_cur, MAIN_STACK_LIMIT);
    }
}

/* ---- memory ---- */

/* The kernel copies the set of signals before it refuses the unknown operation; it changes nothing.
 */
bool ps_unwind_can_read(uintptr_t address) {
    const int no_operation = ~0;
    uintptr_t page = ps_round_down(address, PAGE_BYTES);
    long result =
        ps_syscall6(SYS_rt_sigprocmask, no_operation, (long)page, 0, SIGNAL_SET_BYTES, 0, 0);
    return result == -EINVAL;
}

/* The memory around a stack pointer that is known to be readable. */
static void set_bounds(struct ps_unwind *walk) {
    uintptr_t sp = walk->registers.sp;
    bool is_main = main_stack_end - sp < main_stack_bytes;
    walk->low = sp;
    walk->high = is_main ? main_stack_end : sp;
}

/* The pages that are known to be readable are one range, of the last that was asked for. */
static bool make_readable(struct ps_unwind *walk, uintptr_t address) {
    uintptr_t page = ps_round_down(address, PAGE_BYTES);
    if (!ps_unwind_can_read(address)) {
        return false;
    }
    bool is_next = walk->high == page && walk->high > walk->low;
    walk->low = is_next ? walk->low : page;
    walk->high = page + PAGE_BYTES;
    return true;
}

PS_READS_ANYTHING static uintptr_t word_at(uintptr_t address) {
    return *(const uintptr_t *)address;
}

static bool read_word(struct ps_unwind *walk, uintptr_t address, uintptr_t *out) {
    if (address % WORD_BYTES != 0) {
        return false;
    }
    bool is_known = address - walk->low < walk->high - walk->low;
    if (!PS_LIKELY(is_known) && !make_readable(walk, address)) {
        return false;
    }
    *out = word_at(address);
    return true;
}

/* ---- steps ---- */

static bool restore(struct ps_unwind *walk, uintptr_t from, int32_t place, uintptr_t *value) {
    if (place == PS_UNWIND_SAME) {
        return true;
    }
    if (place == PS_UNWIND_LOST) {
        *value = 0;
        return true;
    }
    return read_word(walk, from - (uintptr_t)(intptr_t)place, value);
}

/* Leaves a frame. The stack pointer of the caller must be higher: that ends each walk. */
static bool leave_frame(struct ps_unwind *walk, const struct ps_registers *caller) {
    uintptr_t sp = walk->registers.sp;
    uintptr_t pc = ps_registers_plain_address(caller->pc);
    bool is_first = walk->is_exact && caller->sp == sp; /* before a frame was made */
    if (pc == 0 || (caller->sp - sp - 1 >= STACK_LIMIT && !is_first)) {
        return false;
    }
    walk->registers = *caller;
    walk->registers.pc = pc;
    walk->registers.link = 0; /* a caller has called, and saved it */
    walk->is_exact = false;
    return true;
}

static bool step_by_rule(struct ps_unwind *walk, const struct ps_unwind_rule *rule) {
    const struct ps_registers *now = &walk->registers;
    struct ps_registers caller = *now;
    uintptr_t base = rule->base == PS_UNWIND_SP   ? now->sp
                     : rule->base == PS_UNWIND_FP ? now->fp
                                                  : now->extra;
    uintptr_t frame = base + (uintptr_t)(intptr_t)rule->offset;
    uintptr_t around = frame;
    if (rule->kind == PS_UNWIND_REALIGNED) {
        around = now->fp;
        if (!read_word(walk, frame, &frame)) {
            return false;
        }
    }
    caller.sp = frame;
    caller.pc = now->link;
    if (frame - now->sp > STACK_LIMIT || !restore(walk, frame, rule->link, &caller.pc) ||
        !restore(walk, around, rule->fp, &caller.fp) ||
        !restore(walk, around, rule->extra, &caller.extra)) {
        return false;
    }
    return leave_frame(walk, &caller);
}

/* From the code to which the handler of a signal returns, to the interrupted instruction, which may
 * have another stack. */
static bool step_by_signal(struct ps_unwind *walk) {
    uintptr_t context = walk->registers.sp + PS_SIGNAL_CONTEXT;
    uintptr_t word;
    if (++walk->signals > SIGNALS_LIMIT || !read_word(walk, context, &word) ||
        !read_word(walk, ps_round_down(context + sizeof(ucontext_t) - 1, WORD_BYTES), &word)) {
        return false;
    }
    ps_registers_of_signal((const ucontext_t *)context, &walk->registers);
    set_bounds(walk);
    walk->is_exact = true;
    return walk->registers.pc != 0;
}

/* ---- rules ---- */

/* The return address after a call may be on another line already, or in another function; the byte
 * before it is part of the call. */
static uintptr_t instruction_of(const struct ps_unwind *walk) {
    return walk->registers.pc - (walk->is_exact ? 0 : 1);
}

void ps_unwind_end(struct ps_unwind *walk) {
    if (walk->has_read) {
        ps_unwind_pages_drop(&walk->object, !walk->is_blind);
        walk->has_read = false;
    }
}

static bool find_object(struct ps_unwind *walk, uintptr_t address) {
    struct ps_unwind_object *object = &walk->object;
    if (address - object->start < object->end - object->start) {
        return true;
    }
    ps_unwind_end(walk);
    return ps_unwind_object_find(address, object);
}

static bool is_signal_return(const struct ps_unwind *walk) {
    static const unsigned char code[] = PS_SIGNAL_RETURN;
    uintptr_t pc = walk->registers.pc;
    return ps_unwind_can_read(pc) && ps_unwind_can_read(pc + sizeof code - 1) &&
           memcmp((const void *)pc, code, sizeof code) == 0;
}

static void find_rule(struct ps_unwind *walk, struct ps_unwind_rule *out) {
    uintptr_t address = instruction_of(walk);
    bool has_object = find_object(walk, address);
    *out = (struct ps_unwind_rule){.kind = PS_UNWIND_NONE};
    if (PS_LIKELY(has_object)) {
        if (PS_LIKELY(ps_unwind_cache_find(walk->object.identity, address, out))) {
            return;
        }
        ps_unwind_table_find(&walk->object, address, out);
        walk->has_read = true;
    }
    if (out->kind == PS_UNWIND_NONE && is_signal_return(walk)) {
        out->kind = PS_UNWIND_SIGNAL;
    }
    if (has_object) {
        ps_unwind_cache_add(walk->object.identity, address, out);
    }
}

/* ---- code without tables ---- */

/*
 * True where C++ enters the generated code of V8, by a function that saves registers above its
 * frame. Below it lie the frame's kind, ENTRY or CONSTRUCT_ENTRY, shifted by one, and zero
 * (EntryFrameConstants of V8's sources).
 */
static bool is_entry(struct ps_unwind *walk) {
    uintptr_t fp = walk->registers.fp;
    uintptr_t kind;
    uintptr_t zero;
    return PS_V8_SAVED_BYTES != 0 && fp - walk->registers.sp >= 2 * WORD_BYTES &&
           read_word(walk, fp - WORD_BYTES, &kind) && (kind == 2 || kind == 4) &&
           read_word(walk, fp - 2 * WORD_BYTES, &zero) && zero == 0;
}

/* By the frame pointer. */
static bool step_by_pointer(struct ps_unwind *walk) {
    const struct ps_registers *now = &walk->registers;
    struct ps_registers caller = {.sp = now->fp + PS_FRAME_ABOVE_POINTER};
    if (now->fp - now->sp >= STACK_LIMIT ||
        !read_word(walk, caller.sp - 2 * WORD_BYTES, &caller.fp) ||
        !read_word(walk, caller.sp - WORD_BYTES, &caller.pc)) {
        return false;
    }
    caller.sp += is_entry(walk) ? PS_V8_SAVED_BYTES : 0;
    return leave_frame(walk, &caller);
}

/* Out of a function whose rest takes the frame down and returns. */
static bool step_by_epilogue(struct ps_unwind *walk) {
    const struct ps_registers *now = &walk->registers;
    struct ps_registers caller = *now;
    uintptr_t last = now->pc + PS_EPILOGUE_BYTES - 1;
    if (!ps_unwind_can_read(now->pc) || !ps_unwind_can_read(last)) {
        return false;
    }
    long distance = ps_registers_epilogue((const unsigned char *)now->pc);
    uintptr_t place = now->sp + (uintptr_t)distance;
    caller.sp = place + WORD_BYTES;
    return distance >= 0 && read_word(walk, place, &caller.pc) && leave_frame(walk, &caller);
}

static bool step_without_rule(struct ps_unwind *walk) {
    bool is_return = !walk->is_exact;
    return (is_return && step_by_epilogue(walk)) || step_by_pointer(walk);
}

/* True if the frame was called by code of a file that has tables. */
static bool is_known_call(struct ps_unwind *walk) {
    struct ps_unwind_rule rule;
    const unsigned char *code = (const unsigned char *)walk->registers.pc;
    find_rule(walk, &rule);
    return rule.kind != PS_UNWIND_NONE &&
           walk->registers.pc - walk->object.start > PS_CODE_BEFORE &&
           ps_registers_follows_call(code);
}

/*
 * The register may have any value in code that does not use it for frames. So steps count only when
 * they lead to a call in code that has tables, to the end of the stack, or are many.
 */
static bool are_steps_true(const struct ps_unwind *walk, unsigned *steps) {
    struct ps_unwind ahead = *walk;
    for (*steps = 1; *steps <= TRUSTED_STEPS; ++*steps) {
        if (!step_without_rule(&ahead)) {
            return ahead.registers.fp == 0 && *steps > 1;
        }
        if (is_known_call(&ahead)) {
            return true;
        }
    }
    return true;
}

static bool step_blindly(struct ps_unwind *walk) {
    ps_unwind_end(walk);
    walk->is_blind = true;
    if (walk->trusted == 0 && !are_steps_true(walk, &walk->trusted)) {
        return false;
    }
    walk->trusted--;
    walk->pointer = walk->registers.fp;
    return step_without_rule(walk);
}

/* ---- the walk ---- */

void ps_unwind_begin(struct ps_unwind *walk) {
    walk->object = (struct ps_unwind_object){.start = 0};
    walk->trusted = 0;
    walk->signals = 0;
    walk->is_exact = true;
    walk->is_blind = false;
    walk->has_read = false;
    walk->is_over = false;
    set_bounds(walk);
}

static bool step(struct ps_unwind *walk) {
    struct ps_unwind_rule rule;
    find_rule(walk, &rule);
    switch (rule.kind) {
    case PS_UNWIND_FRAME:
    case PS_UNWIND_REALIGNED:
        return step_by_rule(walk, &rule);
    case PS_UNWIND_SIGNAL:
        return step_by_signal(walk);
    case PS_UNWIND_END:
        return false;
    default:
        return step_blindly(walk);
    }
}

uintptr_t ps_unwind_next(struct ps_unwind *walk) {
    if (walk->is_over) {
        return 0;
    }
    uintptr_t site = instruction_of(walk);
    walk->pointer = 0;
    walk->is_over = !step(walk);
    return site;
}
