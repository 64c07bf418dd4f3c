/* SPDX-License-Identifier: MIT */
/*
 * The stacks of the profile: the engine's hook ps_profile_trace. A native stack (unwind.h), in
 * which each frame of an interpreter's loop is replaced by the frames of the program that it runs
 * (language.h).
 *
 *   native:   malloc, list_resize, LOOP, call, sort, LOOP, run, main
 *   program:  compare (a call of the loop), outer, module (a call of the loop)
 *   stored:   malloc, list_resize, compare, outer, module, main
 *
 * Frames of the interpreter's own object between two loops are left out, and those outside of the
 * outermost one; native code of others, as of modules and of a program with an interpreter in it,
 * remains. An interpreter whose loop is made of tail calls has no frame of it: the frames of the
 * program then replace the innermost one of the interpreter's object, and the others are left out.
 * Each frame of generated code that runs the program counts as a loop; of a program whose frames
 * are known without it, as those of Java, each part of the native stack in such code. No state, no
 * locks but the table's.
 */
#include "shim/guard_trace.h"
#include "shim/language.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/profile/profile.h"

#define INNER_LIMIT (PS_PROFILE_FRAMES / 2) /* native frames inside of the innermost loop */

enum kind { OTHER, INTERPRETER, LOOP, MADE /* in no file */ };

struct stack {
    size_t count;
    uintptr_t sites[PS_PROFILE_FRAMES];
    uintptr_t pointers[PS_PROFILE_FRAMES]; /* of frames without a table; else 0 */
    uint8_t kinds[PS_PROFILE_FRAMES];
    size_t loops; /* 1 beyond the outermost loop; 0: there is none */
    bool has_made_code;
    struct ps_language_runtime *runtime; /* of the innermost frame that has one */
};

/* Frames of the program, and how many are stored already. */
struct program {
    size_t count;
    size_t used;
    struct ps_language_frame frames[PS_LANGUAGE_FRAMES];
};

struct output {
    size_t count;
    size_t limit;
    uintptr_t *sites;
};

static enum kind kind_of(struct stack *stack, const struct ps_unwind_object *object,
                         uintptr_t site) {
    if (site - object->start >= object->end - object->start) {
        return MADE;
    }
    struct ps_language_runtime *runtime = ps_language_of(object);
    if (runtime == NULL || (stack->runtime != NULL && stack->runtime != runtime)) {
        return OTHER;
    }
    stack->runtime = runtime;
    return site - runtime->loop < runtime->loop_bytes ? LOOP : INTERPRETER;
}

static void take_native(struct stack *stack, struct ps_unwind *walk, uintptr_t site, size_t limit) {
    while (stack->count < limit && site != 0) {
        enum kind kind = kind_of(stack, &walk->object, site);
        stack->has_made_code |= kind == MADE;
        stack->kinds[stack->count] = (uint8_t)kind;
        stack->pointers[stack->count] = walk->pointer;
        stack->sites[stack->count++] = site;
        site = stack->count < limit ? ps_unwind_next(walk) : 0;
    }
}

/* Code that no file has may be the program: then the first frame of each part is the loop's. */
static void find_loops(struct stack *stack, const struct ps_language_runtime *runtime) {
    bool is_before = false; /* the frame before is of such code */
    for (size_t i = 0; i < stack->count; i++) {
        bool is_made = stack->kinds[i] == MADE;
        if (is_made) {
            stack->kinds[i] = !runtime->has_frames ? OTHER : is_before ? INTERPRETER : LOOP;
        }
        is_before = is_made;
        stack->loops = stack->kinds[i] == LOOP ? i + 1 : stack->loops;
    }
}

/* Reads the program, and finds the frames of generated code that run it. */
static void take_program(struct stack *stack, struct ps_language_runtime *runtime,
                         struct program *program) {
    const struct ps_language_stack native = {stack->count, stack->sites, stack->pointers};
    for (size_t i = 0; i < stack->count && runtime->is_generated; i++) {
        bool is_generated = stack->pointers[i] != 0; /* V8's own code, too: a part of it */
        stack->kinds[i] = is_generated ? INTERPRETER : stack->kinds[i];
    }
    program->count = runtime->frames(runtime, &native, program->frames, PS_LANGUAGE_FRAMES);
    for (size_t i = 0; i < stack->count && runtime->is_generated; i++) {
        if (stack->pointers[i] != 0) {
            stack->kinds[i] = LOOP;
            stack->loops = i + 1;
        }
    }
}

static void put(struct output *out, uintptr_t site) {
    if (out->count < out->limit) {
        out->sites[out->count++] = site;
    }
}

/* Stores the frames that one call of the loop runs, or all that are left. */
static void put_program(struct output *out, struct program *program, bool is_last) {
    while (program->used < program->count) {
        const struct ps_language_frame *frame = &program->frames[program->used++];
        put(out, frame->site);
        if (frame->is_entry && !is_last) {
            return;
        }
    }
}

/* Stores the native frames, with those of the program in their places. */
static void merge(struct output *out, const struct stack *stack, struct program *program,
                  bool has_frames) {
    bool has_loop = stack->loops != 0 || has_frames;
    bool is_inner = true; /* no frame of the program is stored yet */
    for (size_t i = 0; i < stack->count; i++) {
        enum kind kind = (enum kind)stack->kinds[i];
        if (has_loop ? kind == LOOP : is_inner && kind == INTERPRETER) {
            put_program(out, program, !has_loop || i + 1 == stack->loops);
            is_inner = false;
        } else if (is_inner ? i < INNER_LIMIT : kind == OTHER) {
            put(out, stack->sites[i]);
        }
    }
    put_program(out, program, true);
}

size_t ps_profile_trace(uintptr_t *sites, size_t limit) {
    struct ps_unwind walk;
    struct stack stack = {.count = 0};
    struct program program = {.count = 0};
    struct output out = {.limit = ps_min(limit, PS_PROFILE_FRAMES), .sites = sites};
    if (!ps_trace_is_ready()) {
        return 0;
    }
    ps_unwind_here(&walk);
    take_native(&stack, &walk, ps_trace_first(&walk, 0), out.limit);
    ps_unwind_end(&walk);
    struct ps_language_runtime *runtime = stack.runtime;
    runtime = runtime != NULL ? runtime : ps_language_of_process(stack.has_made_code);
    if (runtime != NULL) {
        find_loops(&stack, runtime);
    }
    if (runtime != NULL && (stack.loops != 0 || !runtime->needs_loop)) {
        take_program(&stack, runtime, &program);
    }
    if (program.count == 0) {
        for (size_t i = 0; i < stack.count; i++) {
            put(&out, stack.sites[i]);
        }
    } else {
        merge(&out, &stack, &program, runtime->has_frames);
    }
    return out.count;
}
