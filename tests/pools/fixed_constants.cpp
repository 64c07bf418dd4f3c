// SPDX-License-Identifier: MIT
// ps::fixed and ps::shared_fixed in constant evaluation, C++20: compiled by test_pools.py, not run.
// With -DMISUSE=double_free or foreign it is an error.
#include <poolshim/fixed.hpp>

struct node {
    int value;
    node *next;
    constexpr node(int own_value, node *own_next) : value(own_value), next(own_next) {}
};

struct counted {
    int *count;
    explicit constexpr counted(int *own_count) : count(own_count) { ++*count; }
    constexpr ~counted() { --*count; }
};

// 1 to 4 in a list, whose head is replaced by 9: newest first, as at run time.
template <template <class, std::size_t> class Pool> constexpr int sum_of_list() {
    Pool<node, 4> pool;
    node *first = nullptr;
    for (int i = 1; i <= 4; i++) {
        first = pool.create(i, first);
    }
    if (pool.create(5, nullptr) != nullptr || pool.size() != 4 || !pool.owns(first)) {
        return -1;
    }
    node *second = first->next;
    pool.destroy(first);
    if (pool.size() != 3 || pool.create(9, second) != first) {
        return -2;
    }
    int sum = 0;
    pool.each([&sum](const node &each) { sum += each.value; });
    pool.reset();
    node outside(0, nullptr);
    return pool.size() == 0 && !pool.owns(&outside) ? sum : -3;
}
template <class T, std::size_t N> using fixed = ps::fixed<T, N>;
template <class T, std::size_t N> using shared_fixed = ps::shared_fixed<T, N>;
static_assert(sum_of_list<fixed>() == 1 + 2 + 3 + 9);
static_assert(sum_of_list<shared_fixed>() == 1 + 2 + 3 + 9);

constexpr int living_behind_the_pool() {
    int living = 0;
    int within = 0;
    {
        ps::fixed<counted, 3> pool;
        pool.create(&living);
        counted *second = pool.create(&living);
        pool.create(&living);
        pool.destroy(second);
        within = living;
    }
    return within == 2 ? living : -1;
}
static_assert(living_behind_the_pool() == 0);

enum class misuse { none, double_free, foreign };
constexpr bool is_free_of(misuse kind) {
    ps::fixed<int, 2> pool;
    int outside = 0;
    int *object = pool.create(1);
    pool.destroy(object);
    if (kind == misuse::double_free) {
        pool.destroy(object);
    }
    if (kind == misuse::foreign) {
        pool.destroy(&outside);
    }
    return true;
}
#ifndef MISUSE
#define MISUSE none
#endif
static_assert(is_free_of(misuse::MISUSE));

// Constant-initialised, whatever the type is.
class not_literal {
    int number_;

  public:
    not_literal();
    ~not_literal();
};
constinit ps::fixed<counted, 3> literals;
constinit ps::shared_fixed<not_literal, 3> others;
constinit ps::fixed<int, 3 << 20> many;
