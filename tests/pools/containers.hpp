// SPDX-License-Identifier: MIT
// Checks that a container with ps::node_allocator does what the same container, or one of the same
// order, does with its usual allocator. Included after unit.h by the tests of containers.
#ifndef PS_TESTS_POOLS_CONTAINERS_HPP
#define PS_TESTS_POOLS_CONTAINERS_HPP

#include <algorithm>
#include <poolshim/adapters.hpp>
#include <poolshim/containers.hpp>
#include <poolshim/pool.hpp>
#include <string>
#include <utility>
#include <vector>

template <class T> using of = ps::node_allocator<T>;

// A type of more than the usual alignment, from and to int.
struct alignas(64) wide {
    wide(int from = 0) : number(from) {}
    bool operator==(const wide &other) const { return number == other.number; }
    int number;
};

// A value with memory of its own, which a node's destructor must free.
struct text {
    text(int from = 0) : words(std::to_string(from) + " and so many more characters") {}
    bool operator==(const text &other) const { return words == other.words; }
    bool operator<(const text &other) const { return words < other.words; }
    std::string words;
};
using entry = std::pair<const int, text>;

template <class T> std::size_t used(const ps::node_allocator<T> &allocator) {
    return allocator.stats().used_count;
}

template <class Container> std::size_t length(const Container &container) {
    return std::size_t(std::distance(container.begin(), container.end()));
}

// has_nodes: each element has an object of the pool.
template <class Container> void check_used(const Container &container, bool has_nodes) {
    if (has_nodes) {
        CHECK_EQ(used(container.get_allocator()), length(container));
    }
}

template <class Container, class Model> void check_equal(const Container &one, const Model &model) {
    CHECK_EQ(length(one), length(model));
    CHECK(std::equal(one.begin(), one.end(), model.begin()));
}

// The copies and moves that each container has.
template <class Container, class Model>
void check_moves(Container &container, const Model &model, bool has_nodes) {
    Container copy(container);
    check_equal(copy, model);
    Container moved(std::move(container));
    check_equal(moved, model);
    check_used(moved, has_nodes);
    container = copy;
    check_equal(container, model);
    container.swap(moved);
    moved = std::move(copy);
    check_equal(moved, model);
    check_used(moved, has_nodes);
    moved.clear();
    CHECK(moved.empty());
    check_used(moved, has_nodes);
}

template <class Container, class Model> void check_sequence(bool has_nodes) {
    Container container;
    Model model;
    for (int i = 0; i < 500; i++) {
        container.push_back(typename Container::value_type(i));
        model.push_back(typename Model::value_type(i));
        if (i % 3 == 0) {
            container.erase(container.begin());
            model.erase(model.begin());
        }
    }
    check_equal(container, model);
    check_used(container, has_nodes);
    check_moves(container, model, has_nodes);
}

template <class Container, class Model> void check_front(bool has_nodes) {
    Container container;
    Model model;
    for (int i = 0; i < 500; i++) {
        container.push_front(i);
        model.push_front(i);
        if (i % 3 == 0) {
            container.pop_front();
            model.pop_front();
        }
    }
    check_equal(container, model);
    check_used(container, has_nodes);
    check_moves(container, model, has_nodes);
}

// Hashed containers of two libraries have two orders.
template <class Container> auto sorted(const Container &container) {
    using value = typename Container::value_type;
    std::vector<std::remove_const_t<value>> all(container.begin(), container.end());
    std::sort(all.begin(), all.end());
    return all;
}

template <class Container> auto sorted_pairs(const Container &container) {
    std::vector<std::pair<int, text>> all;
    for (const auto &each : container) {
        all.emplace_back(each.first, each.second);
    }
    std::sort(all.begin(), all.end());
    return all;
}

template <class Container, class Model> void check_keys(bool has_nodes) {
    Container container;
    Model model;
    for (int i = 0; i < 1000; i++) {
        container.insert(i * 7 % 300);
        model.insert(i * 7 % 300);
        container.erase(i % 50);
        model.erase(i % 50);
    }
    CHECK(sorted(container) == sorted(model));
    check_used(container, has_nodes);
    Container copy(container);
    Container moved(std::move(container));
    container = copy;
    container.swap(moved);
    CHECK(sorted(container) == sorted(moved));
    CHECK(sorted(copy) == sorted(model));
    container.clear(); // they share a pool
    moved.clear();
    check_used(moved, has_nodes);
}

template <class Container, class Model> void check_pairs(bool has_nodes) {
    Container container;
    Model model;
    for (int i = 0; i < 1000; i++) {
        container.emplace(i * 7 % 300, i);
        model.emplace(i * 7 % 300, i);
        container.erase(i % 50);
        model.erase(i % 50);
    }
    CHECK(sorted_pairs(container) == sorted_pairs(model));
    check_used(container, has_nodes);
    Container copy(container);
    Container moved(std::move(container));
    container = copy;
    container.swap(moved);
    CHECK(sorted_pairs(container) == sorted_pairs(moved));
    CHECK(sorted_pairs(copy) == sorted_pairs(model));
    container.clear(); // they share a pool
    moved.clear();
    check_used(moved, has_nodes);
}

#endif
