// SPDX-License-Identifier: MIT
// What the four programs of this folder share: each has its work once, as a template, and runs it
// on malloc and new, on std::pmr and on poolshim's pools. All three must have the same result.
//
//     PROGRAM                     each variant, a few rounds: 0 if their results agree
//     PROGRAM VARIANT [ROUNDS]    one of malloc, pmr and pools
//
// scripts/bench --pools --programs measures them.
#ifndef POOLSHIM_EXAMPLES_VARIANTS_HPP
#define POOLSHIM_EXAMPLES_VARIANTS_HPP

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace variants {

// Numbers that are the same in each variant and on each system.
class Random {
  public:
    explicit Random(std::uint64_t seed) : state_(seed) {}
    // 0 to limit - 1.
    std::uint32_t below(std::uint32_t limit) {
        state_ = state_ * 6364136223846793005u + 1442695040888963407u;
        return static_cast<std::uint32_t>((state_ >> 32) * limit >> 32);
    }

  private:
    std::uint64_t state_;
};

// FNV-1a, to be continued with its own result.
inline std::uint64_t hash(std::string_view text, std::uint64_t from = 14695981039346656037u) {
    for (char letter : text) {
        from = (from ^ static_cast<unsigned char>(letter)) * 1099511628211u;
    }
    return from;
}

inline void require(bool is_right, const char *what) {
    if (!is_right) {
        std::fprintf(stderr, "wrong: %s\n", what);
        std::exit(1);
    }
}

// Does the work so many times; returns a number that depends on all of it.
using Run = std::uint64_t (*)(unsigned rounds);

struct Variants {
    Run malloc;
    Run pmr;
    Run pools;
};

inline bool parse_rounds(const char *text, unsigned *rounds) {
    char *end;
    errno = 0;
    unsigned long number = std::strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || number - 1 >= 1000000) {
        return false;
    }
    *rounds = static_cast<unsigned>(number);
    return true;
}

inline int main(int argc, char **argv, const Variants &variants, unsigned few_rounds) {
    const struct {
        const char *name;
        Run run;
    } table[] = {{"malloc", variants.malloc}, {"pmr", variants.pmr}, {"pools", variants.pools}};
    if (argc == 1) {
        std::uint64_t results[3];
        for (int i = 0; i < 3; i++) {
            results[i] = table[i].run(few_rounds);
        }
        require(results[0] == results[1] && results[0] == results[2], "the results differ");
        return 0;
    }
    unsigned rounds = few_rounds;
    for (const auto &variant : table) {
        if (argc <= 3 && std::strcmp(argv[1], variant.name) == 0 &&
            (argc == 2 || parse_rounds(argv[2], &rounds))) {
            std::printf("{\"variant\": \"%s\", \"rounds\": %u, \"result\": \"%016llx\"}\n",
                        variant.name, rounds, static_cast<unsigned long long>(variant.run(rounds)));
            return 0;
        }
    }
    std::fprintf(stderr, "usage: %s [malloc|pmr|pools [ROUNDS, 1 to 1000000]]\n", argv[0]);
    return 2;
}

} // namespace variants

#endif
