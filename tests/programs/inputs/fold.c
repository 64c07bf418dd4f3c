/* SPDX-License-Identifier: MIT */
/* Something for compilers to optimise: generated functions, folded together; prints one sum. */
#include <stdio.h>

#define ONE(n)                                                                                     \
    static unsigned step_##n(unsigned x) {                                                         \
        for (unsigned i = 0; i < (n % 7u) + 1; i++) {                                              \
            x = (x ^ (n##u * 2654435761u)) * 31u + (x >> (n % 13u));                               \
        }                                                                                          \
        return x;                                                                                  \
    }
#define TEN(n)                                                                                     \
    ONE(n##0)                                                                                      \
    ONE(n##1) ONE(n##2) ONE(n##3) ONE(n##4) ONE(n##5) ONE(n##6) ONE(n##7) ONE(n##8) ONE(n##9)
#define CALLS(n)                                                                                   \
    step_##n##0, step_##n##1, step_##n##2, step_##n##3, step_##n##4, step_##n##5, step_##n##6,     \
        step_##n##7, step_##n##8, step_##n##9

TEN(1);
TEN(2);
TEN(3);
TEN(4);
TEN(5);
TEN(6);
TEN(7);
TEN(8);
TEN(9);
TEN(10);
TEN(11);
TEN(12);

static unsigned (*const steps[])(unsigned) = {CALLS(1), CALLS(2),  CALLS(3),  CALLS(4),
                                              CALLS(5), CALLS(6),  CALLS(7),  CALLS(8),
                                              CALLS(9), CALLS(10), CALLS(11), CALLS(12)};

int main(void) {
    unsigned sum = 1;
    for (unsigned round = 0; round < 1000; round++) {
        for (unsigned i = 0; i < sizeof steps / sizeof steps[0]; i++) {
            sum = steps[i](sum);
        }
    }
    printf("sum: %u\n", sum);
    return 0;
}
