/* SPDX-License-Identifier: MIT */
/*
 * See language_java.h: names and lines of methods, and the compressed tables. Names are texts of
 * the pool of constants that the class has; the tags there tell whether they are.
 */
#include "shim/language_java.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/profile/profile.h"

#define WORD_BYTES sizeof(uintptr_t)
#define TAG_TEXT 1
#define HAS_LINES 1 /* of the flags of a method */
#define LINES_BYTES_LIMIT ((size_t)64 << 10)
#define VERSION_NO_ZEROS 20 /* from here on a compressed number has no byte 0 */
#define LAST_BYTE 192       /* of a number; bytes from here on are followed by another */
#define NUMBER_BYTES 5
#define PART_BYTES (PS_PROFILE_TEXT_BYTES + 1) /* of a text; so that a longer one is cut */
#define LINE_ESCAPE 0xff

static const char dots[] = "\xe2\x80\xa6"; /* an ellipsis in UTF-8 */
#define DOTS_BYTES (sizeof dots - 1)

/* ---- compressed tables ---- */

uint8_t ps_java_byte(struct ps_java_bytes *bytes) {
    if (bytes->at >= bytes->readable) {
        size_t part = PS_UNWIND_PAGE_BYTES - bytes->at % PS_UNWIND_PAGE_BYTES;
        if (bytes->at >= bytes->end ||
            ps_language_view(&bytes->java->memory, bytes->at, part) == NULL) {
            bytes->end = bytes->at;
            return 0;
        }
        bytes->readable = ps_min(bytes->at + part, bytes->end);
    }
    return *(const uint8_t *)bytes->at++;
}

uint32_t ps_java_number(struct ps_java_bytes *bytes) {
    uint32_t less = bytes->java->version >= VERSION_NO_ZEROS ? 1 : 0;
    uint32_t number = 0;
    for (unsigned i = 0; i < NUMBER_BYTES; i++) {
        uint32_t byte = ps_java_byte(bytes);
        number += (byte - less) << 6 * i;
        if (byte < LAST_BYTE) {
            break;
        }
    }
    return number;
}

static int32_t signed_number(struct ps_java_bytes *bytes) {
    uint32_t number = ps_java_number(bytes);
    return (int32_t)(number >> 1) ^ -(int32_t)(number & 1);
}

/* ---- texts ---- */

struct text {
    uintptr_t start;
    size_t bytes;
};

static bool open_symbol(struct ps_java *java, uintptr_t symbol, struct text *out) {
    out->start = ps_java_address(java, symbol, PS_JAVA_SYMBOL_BODY);
    out->bytes = symbol != 0 ? ps_java_short(java, symbol, PS_JAVA_SYMBOL_LENGTH) : 0;
    return out->bytes != 0;
}

/* The text of a pool, by its number. */
static bool open_constant(struct ps_java *java, uintptr_t pool, size_t index, struct text *out) {
    uintptr_t tags = ps_java_word(java, pool, PS_JAVA_POOL_TAGS);
    if (tags == 0 || index == 0 || (int64_t)index >= ps_java_int(java, pool, PS_JAVA_POOL_LENGTH)) {
        return false;
    }
    uintptr_t tag = ps_java_address(java, tags, PS_JAVA_TAGS_DATA) + index;
    const char *view = ps_language_view(&java->memory, tag, 1);
    uintptr_t place = ps_java_address(java, pool, PS_JAVA_POOL_BYTES) + index * WORD_BYTES;
    return view != NULL && *view == TAG_TEXT &&
           open_symbol(java, ps_java_word_at(java, place), out);
}

/* Copies a text, or the end of a longer one than PART_BYTES. Returns the bytes; 0: they cannot be
 * read. */
static size_t copy_end(struct ps_java *java, const struct text *text, char *buffer) {
    size_t bytes = ps_min(text->bytes, PART_BYTES);
    const char *view = ps_language_view(&java->memory, text->start + text->bytes - bytes, bytes);
    if (view == NULL) {
        return 0;
    }
    memcpy(buffer, view, bytes);
    return bytes;
}

static bool is_half(const char *at, unsigned char second) {
    return (unsigned char)at[0] == 0xed && ((unsigned char)at[1] & 0xf0) == second;
}

/* The ten bits of a half. */
static uint32_t half_of(const char *at) {
    return ((unsigned char)at[1] & 0xfu) << 6 | ((unsigned char)at[2] & 0x3fu);
}

/* Makes UTF-8 of what Java has: characters beyond 16 bits are two halves of three bytes each. Other
 * differences are a half alone, and two bytes for the character 0. */
static size_t make_text(char *text, size_t bytes) {
    size_t out = 0;
    for (size_t at = 0; at < bytes; out++) {
        if (bytes - at >= 6 && is_half(text + at, 0xa0) && is_half(text + at + 3, 0xb0)) {
            uint32_t character = 0x10000 + (half_of(text + at) << 10 | half_of(text + at + 3));
            text[out] = (char)(0xf0 | character >> 18);
            text[++out] = (char)(0x80 | (character >> 12 & 0x3f));
            text[++out] = (char)(0x80 | (character >> 6 & 0x3f));
            text[++out] = (char)(0x80 | (character & 0x3f));
            at += 6;
        } else if (bytes - at >= 3 && (is_half(text + at, 0xa0) || is_half(text + at, 0xb0))) {
            text[out] = '?';
            at += 3;
        } else if (bytes - at >= 2 && (unsigned char)text[at] == 0xc0) {
            text[out] = '?';
            at += 2;
        } else {
            text[out] = text[at++];
        }
    }
    return out;
}

/* Shortens a text to its end, with dots in front, if a record has no room for it. */
static const char *cut(char *text, size_t *bytes) {
    size_t more = *bytes > PS_PROFILE_TEXT_BYTES ? *bytes - PS_PROFILE_TEXT_BYTES + DOTS_BYTES : 0;
    while (more != 0 && ((unsigned char)text[more] & 0xc0) == 0x80) { /* ends: a character has 4 */
        more++;
    }
    if (more != 0) {
        memcpy(text + more - DOTS_BYTES, dots, DOTS_BYTES);
        *bytes -= more - DOTS_BYTES;
        text += more - DOTS_BYTES;
    }
    return text;
}

/* ---- methods ---- */

/* A method that has been read. */
struct method {
    uintptr_t constant;
    uintptr_t pool;
    uintptr_t code;
    size_t code_bytes;
    struct text name;
    struct text class_name;
};

static bool open_method(struct ps_java *java, uintptr_t method, struct method *out) {
    if (method == 0 || method % WORD_BYTES != 0) {
        return false;
    }
    out->constant = ps_java_word(java, method, PS_JAVA_METHOD_CONST);
    if (out->constant == 0 || out->constant % WORD_BYTES != 0) {
        return false;
    }
    out->pool = ps_java_word(java, out->constant, PS_JAVA_CONST_POOL);
    out->code = ps_java_address(java, out->constant, PS_JAVA_CONST_BYTES);
    out->code_bytes = ps_java_short(java, out->constant, PS_JAVA_CONST_CODE_BYTES);
    uint16_t name = ps_java_short(java, out->constant, PS_JAVA_CONST_NAME);
    uintptr_t holder = out->pool != 0 ? ps_java_word(java, out->pool, PS_JAVA_POOL_CLASS) : 0;
    uintptr_t symbol = holder != 0 ? ps_java_word(java, holder, PS_JAVA_CLASS_NAME) : 0;
    return open_constant(java, out->pool, name, &out->name) &&
           open_symbol(java, symbol, &out->class_name);
}

static bool open_file(struct ps_java *java, const struct method *method, struct text *out) {
    bool is_of_pool = ps_java_has(java, PS_JAVA_POOL_FILE);
    uint16_t index = is_of_pool
                         ? ps_java_short(java, method->pool, PS_JAVA_POOL_FILE)
                         : ps_java_short(java, ps_java_word(java, method->pool, PS_JAVA_POOL_CLASS),
                                         PS_JAVA_CLASS_FILE);
    return open_constant(java, method->pool, index, out);
}

/* The line of a place: of the entry before it that is next. An entry has a byte, with the distance
 * from the one before in code and in lines, or an escape and both. */
static uint32_t line_of(struct ps_java *java, const struct method *method, int32_t place) {
    uint16_t flags = ps_java_short(java, method->constant, PS_JAVA_CONST_FLAGS);
    uintptr_t words = (uint32_t)ps_java_int(java, method->constant, PS_JAVA_CONST_WORDS);
    uintptr_t at = method->code + method->code_bytes;
    struct ps_java_bytes bytes = {
        .java = java,
        .at = at,
        .readable = at,
        .end = ps_min(method->constant + words * WORD_BYTES, at + LINES_BYTES_LIMIT)};
    int64_t best = -1;
    int64_t reached = 0;
    int64_t line = 0;
    int64_t found = 0;
    if ((flags & HAS_LINES) == 0 || place == PS_JAVA_NO_PLACE) {
        return 0;
    }
    for (uint8_t head = ps_java_byte(&bytes); head != 0; head = ps_java_byte(&bytes)) {
        if (head == LINE_ESCAPE) {
            reached += signed_number(&bytes);
            line += signed_number(&bytes);
        } else {
            reached += head >> 3;
            line += head & 7;
        }
        if (reached <= place && reached >= best) {
            best = reached;
            found = line;
        }
    }
    return found > 0 && found <= UINT16_MAX ? (uint32_t)found : 0;
}

static bool has_text(const char *text, size_t bytes, const char *wanted) {
    size_t length = strlen(wanted);
    for (size_t i = 0; i + length <= bytes; i++) {
        if (memcmp(text + i, wanted, length) == 0) {
            return true;
        }
    }
    return false;
}

/* Classes that have been made for lambdas and method handles: stack traces of Java leave them out.
 * They have no file, or one without an extension. */
static bool is_made(const char *class_name, size_t class_bytes, const char *file,
                    size_t file_bytes) {
    return !has_text(file, file_bytes, ".") &&
           (has_text(class_name, class_bytes, "$$Lambda") ||
            has_text(class_name, class_bytes, "java/lang/invoke/"));
}

static uintptr_t make_site(struct ps_java *java, const struct method *method, int32_t place) {
    char file[PART_BYTES];
    char name[2 * PART_BYTES + 1];
    struct text source;
    static const char unknown[] = "Unknown Source"; /* as stack traces of Java have it */
    size_t name_bytes = copy_end(java, &method->class_name, name);
    size_t file_bytes = open_file(java, method, &source) ? copy_end(java, &source, file) : 0;
    if (name_bytes == 0 || is_made(name, name_bytes, file, file_bytes)) {
        return 0;
    }
    for (size_t i = 0; i < name_bytes; i++) {
        name[i] = name[i] == '/' ? '.' : name[i];
    }
    name[name_bytes++] = '.';
    size_t method_bytes = copy_end(java, &method->name, name + name_bytes);
    if (file_bytes == 0) {
        memcpy(file, unknown, sizeof unknown);
        file_bytes = sizeof unknown - 1;
    }
    name_bytes = make_text(name, name_bytes + method_bytes);
    file_bytes = make_text(file, file_bytes);
    struct ps_profile_line line = {.number = line_of(java, method, place),
                                   .file_bytes = file_bytes,
                                   .function_bytes = name_bytes};
    line.file = cut(file, &line.file_bytes);
    line.function = cut(name, &line.function_bytes);
    return method_bytes != 0 ? ps_profile_line_site(&line) : 0;
}

static void add_site(struct ps_java *java, uintptr_t site) {
    if (site != 0 && java->count < java->limit) {
        java->out[java->count++] = (struct ps_language_frame){.site = site};
    }
}

static struct ps_java_site *known_site(struct ps_java *java, uintptr_t address, uintptr_t at) {
    return &java->sites[((address ^ at) * PS_GOLDEN_64 >> 32) % PS_JAVA_SITES];
}

void ps_java_add(struct ps_java *java, uintptr_t address, int32_t place) {
    struct method method;
    uintptr_t at = (uint32_t)place;
    struct ps_java_site *known = known_site(java, address, at);
    if (known->method != address || known->at != at) {
        bool has_code = open_method(java, address, &method) && method.code_bytes != 0;
        *known = (struct ps_java_site){address, at, has_code ? make_site(java, &method, place) : 0};
    }
    add_site(java, known->site);
}

void ps_java_add_at(struct ps_java *java, uintptr_t address, uintptr_t instruction) {
    struct method method;
    struct ps_java_site *known = known_site(java, address, instruction);
    if (known->method != address || known->at != instruction) {
        bool has_code = open_method(java, address, &method) && method.code_bytes != 0;
        uintptr_t place = has_code ? instruction - method.code : 0;
        bool is_inside = has_code && place < method.code_bytes;
        uintptr_t site =
            has_code ? make_site(java, &method, is_inside ? (int32_t)place : PS_JAVA_NO_PLACE) : 0;
        *known = (struct ps_java_site){address, instruction, site};
    }
    add_site(java, known->site);
}
