/* SPDX-License-Identifier: MIT */
/*
 * See unwind_table.h: the instructions of an entry. Understands all that compilers emit for frames,
 * and of expressions those of realigned frames and of linkers' stubs; all else has no rule.
 */
#include "shim/unwind_table.h"

#include <string.h>

#define STATE_DEPTH 4 /* of remembered states; compilers use one */

/* Instructions; the first three have an operand in their lower 6 bits. */
enum {
    OP_ADVANCE = 0x40,
    OP_OFFSET = 0x80,
    OP_RESTORE = 0xc0,
    OP_HIGH_BITS = 0xc0,
    OP_NOP = 0x00,
    OP_SET_LOC = 0x01,
    OP_ADVANCE_1 = 0x02,
    OP_ADVANCE_2 = 0x03,
    OP_ADVANCE_4 = 0x04,
    OP_OFFSET_EXTENDED = 0x05,
    OP_RESTORE_EXTENDED = 0x06,
    OP_UNDEFINED = 0x07,
    OP_SAME_VALUE = 0x08,
    OP_REGISTER = 0x09,
    OP_REMEMBER_STATE = 0x0a,
    OP_RESTORE_STATE = 0x0b,
    OP_DEF_CFA = 0x0c,
    OP_DEF_CFA_REGISTER = 0x0d,
    OP_DEF_CFA_OFFSET = 0x0e,
    OP_DEF_CFA_EXPRESSION = 0x0f,
    OP_EXPRESSION = 0x10,
    OP_OFFSET_EXTENDED_SF = 0x11,
    OP_DEF_CFA_SF = 0x12,
    OP_DEF_CFA_OFFSET_SF = 0x13,
    OP_VAL_OFFSET = 0x14,
    OP_VAL_OFFSET_SF = 0x15,
    OP_VAL_EXPRESSION = 0x16,
    OP_NEGATE_RA_STATE = 0x2d,
    OP_ARGS_SIZE = 0x2e,
};

/* Parts of expressions. */
enum { EXPRESSION_DEREF = 0x06, EXPRESSION_LITERAL = 0x30, EXPRESSION_REGISTER = 0x70 };

/* Location of the value of a register: in the register, at an offset from the frame or from fp, or
 * one that no rule can say. */
enum place_kind { PLACE_SAME, PLACE_FRAME, PLACE_FP, PLACE_UNKNOWN, PLACE_UNDEFINED };
struct place {
    enum place_kind kind;
    int64_t offset;
};

enum { FP, EXTRA, LINK, PLACES };

enum frame_kind { FRAME_OFFSET, FRAME_DEREF, FRAME_UNKNOWN };
struct state {
    enum frame_kind frame;
    uint64_t base; /* number of a register */
    int64_t offset;
    struct place places[PLACES];
};

struct machine {
    const struct ps_unwind_entry *entry;
    uintptr_t wanted;
    uintptr_t at;
    struct state state;
    struct state initial; /* after the common part */
    struct state remembered[STATE_DEPTH];
    size_t depth;
    bool has_failed;
};

static struct place *place_of(struct machine *machine, struct state *state, uint64_t number) {
    if (number == machine->entry->link_register) {
        return &state->places[LINK];
    }
    if (number == PS_DWARF_FP) {
        return &state->places[FP];
    }
    return number == PS_DWARF_EXTRA ? &state->places[EXTRA] : NULL;
}

static void set_place(struct machine *machine, uint64_t number, enum place_kind kind,
                      int64_t offset) {
    struct place *place = place_of(machine, &machine->state, number);
    if (place != NULL) {
        *place = (struct place){kind, offset};
    }
}

static void restore_place(struct machine *machine, uint64_t number) {
    struct place *place = place_of(machine, &machine->state, number);
    if (place != NULL) {
        *place = *place_of(machine, &machine->initial, number);
    }
}

static void set_frame(struct machine *machine, uint64_t base, int64_t offset) {
    machine->state.frame = FRAME_OFFSET;
    machine->state.base = base;
    machine->state.offset = offset;
}

/* ---- expressions ---- */

/*
 * The stub of a procedure linkage table pushes a word in the last of its instructions: frame = sp +
 * 8 + ((pc & 15) >= k) * 8. The linker writes it as this expression, k + 0x30 in place of the 0.
 */
static const unsigned char stub_expression[] = {0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a,
                                                0,    0x2a, 0x33, 0x24, 0x22};
#define STUB_LITERAL 6

static bool is_stub(const unsigned char *text, size_t bytes) {
    return bytes == sizeof stub_expression && PS_DWARF_SP == 7 &&
           memcmp(text, stub_expression, STUB_LITERAL) == 0 &&
           memcmp(text + STUB_LITERAL + 1, stub_expression + STUB_LITERAL + 1,
                  sizeof stub_expression - STUB_LITERAL - 1) == 0;
}

/* A register and an offset, and what follows them. */
static bool read_based(struct ps_unwind_reader *reader, uint64_t *base, int64_t *offset) {
    uint64_t op = ps_unwind_read_fixed(reader, 1);
    *base = op - EXPRESSION_REGISTER;
    *offset = ps_unwind_read_sleb(reader);
    return !reader->has_failed && *base < 32;
}

static void set_frame_by_expression(struct machine *machine, struct ps_unwind_reader text) {
    struct state *state = &machine->state;
    const unsigned char *start = text.at;
    size_t bytes = (size_t)(text.end - text.at);
    state->frame = FRAME_UNKNOWN;
    if (!text.has_failed && is_stub(start, bytes)) {
        bool has_pushed =
            (machine->wanted & 15) >= (unsigned)start[STUB_LITERAL] - EXPRESSION_LITERAL;
        set_frame(machine, PS_DWARF_SP, has_pushed ? 16 : 8);
    } else if (read_based(&text, &state->base, &state->offset)) {
        bool is_deref = text.end - text.at == 1 && *text.at == EXPRESSION_DEREF;
        state->frame = is_deref ? FRAME_DEREF : text.at == text.end ? FRAME_OFFSET : FRAME_UNKNOWN;
    }
}

static void set_place_by_expression(struct machine *machine, uint64_t number,
                                    struct ps_unwind_reader text) {
    uint64_t base;
    int64_t offset;
    bool is_known = read_based(&text, &base, &offset) && base == PS_DWARF_FP && text.at == text.end;
    set_place(machine, number, is_known ? PLACE_FP : PLACE_UNKNOWN, offset);
}

/* ---- instructions ---- */

static void remember(struct machine *machine) {
    if (machine->depth == STATE_DEPTH) {
        machine->has_failed = true;
        return;
    }
    machine->remembered[machine->depth++] = machine->state;
}

static void recall(struct machine *machine) {
    if (machine->depth == 0) {
        machine->has_failed = true;
        return;
    }
    machine->state = machine->remembered[--machine->depth];
}

/* True if the instruction was one about the frame. */
static bool run_frame_op(struct machine *machine, struct ps_unwind_reader *reader, uint64_t op) {
    int64_t unit = machine->entry->data_unit;
    struct state *state = &machine->state;
    uint64_t number;
    switch (op) {
    case OP_DEF_CFA:
        number = ps_unwind_read_uleb(reader);
        set_frame(machine, number, (int64_t)ps_unwind_read_uleb(reader));
        return true;
    case OP_DEF_CFA_SF:
        number = ps_unwind_read_uleb(reader);
        set_frame(machine, number, ps_unwind_read_sleb(reader) * unit);
        return true;
    case OP_DEF_CFA_REGISTER:
        set_frame(machine, ps_unwind_read_uleb(reader), state->offset);
        return true;
    case OP_DEF_CFA_OFFSET:
        set_frame(machine, state->base, (int64_t)ps_unwind_read_uleb(reader));
        return true;
    case OP_DEF_CFA_OFFSET_SF:
        set_frame(machine, state->base, ps_unwind_read_sleb(reader) * unit);
        return true;
    case OP_DEF_CFA_EXPRESSION:
        number = ps_unwind_read_uleb(reader);
        set_frame_by_expression(machine, ps_unwind_read_part(reader, number));
        return true;
    default:
        return false;
    }
}

/* True if the instruction was one about a register. */
static bool run_place_op(struct machine *machine, struct ps_unwind_reader *reader, uint64_t op) {
    int64_t unit = machine->entry->data_unit;
    uint64_t number = 0;
    if (op >= OP_OFFSET_EXTENDED && op <= OP_VAL_EXPRESSION) {
        number = ps_unwind_read_uleb(reader);
    }
    switch (op) {
    case OP_OFFSET_EXTENDED:
        set_place(machine, number, PLACE_FRAME, (int64_t)ps_unwind_read_uleb(reader) * unit);
        return true;
    case OP_OFFSET_EXTENDED_SF:
        set_place(machine, number, PLACE_FRAME, ps_unwind_read_sleb(reader) * unit);
        return true;
    case OP_RESTORE_EXTENDED:
        restore_place(machine, number);
        return true;
    case OP_UNDEFINED:
        set_place(machine, number, PLACE_UNDEFINED, 0);
        return true;
    case OP_SAME_VALUE:
        set_place(machine, number, PLACE_SAME, 0);
        return true;
    case OP_REGISTER:
    case OP_VAL_OFFSET:
    case OP_VAL_OFFSET_SF:
        (void)ps_unwind_read_uleb(reader);
        set_place(machine, number, PLACE_UNKNOWN, 0);
        return true;
    case OP_EXPRESSION:
    case OP_VAL_EXPRESSION: {
        uint64_t bytes = ps_unwind_read_uleb(reader);
        struct ps_unwind_reader text = ps_unwind_read_part(reader, bytes);
        text.has_failed |= op == OP_VAL_EXPRESSION;
        set_place_by_expression(machine, number, text);
        return true;
    }
    default:
        return false;
    }
}

static void run_other_op(struct machine *machine, struct ps_unwind_reader *reader, uint64_t op) {
    const struct ps_unwind_entry *entry = machine->entry;
    switch (op) {
    case OP_NOP:
    case OP_NEGATE_RA_STATE: /* signatures are removed from all return addresses */
        break;
    case OP_SET_LOC:
        machine->at = ps_unwind_read_pointer(reader, entry->encoding);
        break;
    case OP_ADVANCE_1:
    case OP_ADVANCE_2:
    case OP_ADVANCE_4:
        machine->at +=
            ps_unwind_read_fixed(reader, (size_t)1 << (op - OP_ADVANCE_1)) * entry->code_unit;
        break;
    case OP_REMEMBER_STATE:
        remember(machine);
        break;
    case OP_RESTORE_STATE:
        recall(machine);
        break;
    case OP_ARGS_SIZE:
        (void)ps_unwind_read_uleb(reader);
        break;
    default:
        machine->has_failed = true;
    }
}

static void run_op(struct machine *machine, struct ps_unwind_reader *reader) {
    uint64_t op = ps_unwind_read_fixed(reader, 1);
    uint64_t operand = op & ~(uint64_t)OP_HIGH_BITS;
    switch (op & OP_HIGH_BITS) {
    case OP_ADVANCE:
        machine->at += operand * machine->entry->code_unit;
        break;
    case OP_OFFSET:
        set_place(machine, operand, PLACE_FRAME,
                  (int64_t)ps_unwind_read_uleb(reader) * machine->entry->data_unit);
        break;
    case OP_RESTORE:
        restore_place(machine, operand);
        break;
    default: {
        bool is_location = op >= OP_SET_LOC && op <= OP_ADVANCE_4;
        bool is_stack = op == OP_REMEMBER_STATE || op == OP_RESTORE_STATE;
        bool is_other = is_location || is_stack || op == OP_NOP || op > OP_VAL_EXPRESSION;
        if (is_other ||
            (!run_frame_op(machine, reader, op) && !run_place_op(machine, reader, op))) {
            run_other_op(machine, reader, op);
        }
    }
    }
}

/* Runs up to the wanted address, to which later instructions do not apply. */
static void run(struct machine *machine, struct ps_unwind_reader reader) {
    while (reader.at < reader.end && !machine->has_failed && machine->at <= machine->wanted) {
        run_op(machine, &reader); /* reads a byte or more */
        machine->has_failed |= reader.has_failed;
    }
}

/* ---- the rule ---- */

/* A distance downwards from the frame, or from fp. False when a rule cannot say it. */
static bool distance_of(const struct place *place, enum place_kind wanted, int32_t *out) {
    if (place->kind == PLACE_SAME) {
        *out = PS_UNWIND_SAME;
        return true;
    }
    *out = PS_UNWIND_LOST;
    if (place->kind != wanted || place->offset > 0 || place->offset <= INT32_MIN) {
        return false;
    }
    *out = (int32_t)-place->offset;
    return true;
}

static bool base_of(uint64_t number, uint8_t *out) {
    *out = number == PS_DWARF_SP   ? PS_UNWIND_SP
           : number == PS_DWARF_FP ? PS_UNWIND_FP
                                   : PS_UNWIND_EXTRA;
    return number == PS_DWARF_SP || number == PS_DWARF_FP || number == PS_DWARF_EXTRA;
}

static void make_rule(const struct state *state, struct ps_unwind_rule *out) {
    bool is_deref = state->frame == FRAME_DEREF;
    enum place_kind kind = is_deref ? PLACE_FP : PLACE_FRAME;
    if (state->places[LINK].kind == PLACE_UNDEFINED) {
        *out = (struct ps_unwind_rule){.kind = PS_UNWIND_END};
        return;
    }
    if (state->frame == FRAME_UNKNOWN || !base_of(state->base, &out->base) ||
        (is_deref && out->base != PS_UNWIND_FP) || state->offset < INT32_MIN ||
        state->offset > INT32_MAX || !distance_of(&state->places[LINK], PLACE_FRAME, &out->link)) {
        return;
    }
    (void)distance_of(&state->places[FP], kind, &out->fp);
    (void)distance_of(&state->places[EXTRA], kind, &out->extra);
    out->offset = (int32_t)state->offset;
    out->kind = is_deref ? PS_UNWIND_REALIGNED : PS_UNWIND_FRAME;
}

void ps_unwind_table_run(const struct ps_unwind_entry *entry, uintptr_t address,
                         struct ps_unwind_rule *out) {
    struct machine machine = {.entry = entry, .wanted = address, .at = entry->begin};
    *out = (struct ps_unwind_rule){.kind = PS_UNWIND_NONE};
    if (entry->is_signal) {
        out->kind = PS_UNWIND_SIGNAL;
        return;
    }
    machine.state.frame = FRAME_UNKNOWN;
    run(&machine, entry->common_ops);
    machine.initial = machine.state;
    machine.at = entry->begin;
    run(&machine, entry->ops);
    if (!machine.has_failed) {
        make_rule(&machine.state, out);
    }
}
