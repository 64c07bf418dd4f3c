// SPDX-License-Identifier: MIT
// Frames in C++: each request has a scope, in which it builds what it needs; an exception closes it
// as a return does.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <poolshim/stack.hpp>
#include <stdexcept>

struct Field {
    const char *name;
    const char *value;
    Field *next;
};

// In the innermost frame of the stack that is given.
template <class Stack> Field *parse(Stack &stack, const char *text) {
    char *copy = stack.strdup(text);
    Field *first = nullptr;
    for (char *rest = nullptr, *item = strtok_r(copy, "&", &rest); item != nullptr;
         item = strtok_r(nullptr, "&", &rest)) {
        char *value = std::strchr(item, '=');
        if (value == nullptr) {
            throw std::invalid_argument("a field without value");
        }
        *value = '\0';
        first = stack.template make<Field>(Field{item, value + 1, first});
    }
    return first;
}

static int serve(ps::stack &stack, const char *request) {
    ps::scope scope(stack);
    int count = 0;
    for (const Field *field = parse(scope, request); field != nullptr; field = field->next) {
        count++;
    }
    return count;
}

int main() {
    ps::stack stack;
    int errors = 0;
    int fields = 0;
    for (int round = 0; round < 1000; round++) {
        try {
            fields += serve(stack, "name=ada&born=1815");
            fields += serve(stack, round % 10 == 0 ? "name" : "name=alan");
        } catch (const std::invalid_argument &) {
            errors++;
        }
    }
    std::printf("%d fields, %d bad requests, %zu bytes in use\n", fields, errors,
                stack.stats().used_bytes);
    bool is_right = fields == 2900 && errors == 100 && stack.stats().used_bytes == 0;
    return is_right ? EXIT_SUCCESS : EXIT_FAILURE;
}
