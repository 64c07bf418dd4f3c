/* SPDX-License-Identifier: MIT */
/* Heavy on the compiler (recursive templates, variants, regex) and on the heap when it runs. */
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <regex>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

template <int N> struct chain {
    using type = std::tuple<typename chain<N - 1>::type, std::integral_constant<int, N>>;
    static constexpr long sum() { return chain<N - 1>::sum() + N; }
};
template <> struct chain<0> {
    using type = std::tuple<>;
    static constexpr long sum() { return 0; }
};

template <std::size_t... I> static auto make_table(std::index_sequence<I...>) {
    return std::vector<std::function<long(long)>>{[](long x) {
        return x * static_cast<long>(I + 1) + chain<static_cast<int>(I % 60)>::sum();
    }...};
}

using value = std::variant<int, double, std::string, std::vector<int>, std::map<int, std::string>>;

static std::size_t weight(const value &v) {
    return std::visit(
        [](const auto &held) -> std::size_t {
            using held_type = std::decay_t<decltype(held)>;
            if constexpr (std::is_arithmetic_v<held_type>) {
                return static_cast<std::size_t>(held);
            } else {
                return held.size();
            }
        },
        v);
}

struct node {
    int key;
    std::unique_ptr<node> left, right;
};

static void insert(std::unique_ptr<node> &root, int key) {
    std::unique_ptr<node> *place = &root;
    while (*place) {
        place = key < (*place)->key ? &(*place)->left : &(*place)->right;
    }
    *place = std::make_unique<node>(node{key, nullptr, nullptr});
}

static std::size_t depth(const std::unique_ptr<node> &root) {
    return root ? 1 + std::max(depth(root->left), depth(root->right)) : 0;
}

static long work(int seed) {
    std::vector<value> values;
    for (int i = 0; i < 20000; i++) {
        switch ((i + seed) % 5) {
        case 0:
            values.emplace_back(i);
            break;
        case 1:
            values.emplace_back(i / 2.0);
            break;
        case 2:
            values.emplace_back(std::string(static_cast<std::size_t>(i % 90), 'a'));
            break;
        case 3:
            values.emplace_back(std::vector<int>(static_cast<std::size_t>(i % 40), i));
            break;
        default:
            values.emplace_back(std::map<int, std::string>{{i, "x"}, {i + 1, "y"}});
            break;
        }
    }
    std::unique_ptr<node> root;
    for (int i = 0; i < 30000; i++) {
        insert(root, (i * 7919 + seed) % 30011);
    }
    long sum = std::accumulate(values.begin(), values.end(), 0L, [](long total, const value &v) {
        return total + static_cast<long>(weight(v));
    });
    return sum * 1000 + static_cast<long>(depth(root));
}

int main() {
    long results[4] = {};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++) {
        threads.emplace_back([&results, i] { results[i] = work(i); });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    std::printf("work: %ld %ld %ld %ld\n", results[0], results[1], results[2], results[3]);

    long folded = 1;
    for (const auto &step : make_table(std::make_index_sequence<200>{})) {
        folded = step(folded) % 1000003;
    }
    std::unordered_map<std::string, int> counts;
    const std::regex word("([a-z]+)([0-9]*)");
    std::string text;
    for (int i = 0; i < 3000; i++) {
        text += "word" + std::to_string(i % 300) + " ";
    }
    for (std::sregex_iterator match(text.begin(), text.end(), word), end; match != end; ++match) {
        counts[match->str()]++;
    }
    std::printf("folded: %ld, strings: %zu\n", folded, counts.size());
    return 0;
}
