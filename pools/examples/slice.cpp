// SPDX-License-Identifier: MIT
// A binary tree whose nodes are slices: made by one type, owned by pointers one word wide.
#include <cstdio>
#include <poolshim/slice.hpp>

struct node {
    explicit node(int v) : value(v) {}
    int value;
    ps::slice_ptr<node> left;
    ps::slice_ptr<node> right;
};

static void insert(ps::slice_ptr<node> &tree, int value) {
    ps::slice_ptr<node> *place = &tree;
    while (*place) {
        place = value < (*place)->value ? &(*place)->left : &(*place)->right;
    }
    *place = ps::make_slice<node>(value);
}

static long sum(const ps::slice_ptr<node> &tree) {
    return tree ? tree->value + sum(tree->left) + sum(tree->right) : 0;
}

int main() {
    ps::slice_ptr<node> tree;
    for (int i = 0; i < 1000; i++) {
        insert(tree, i * 7919 % 1000);
    }
    std::printf("sum %ld\n", sum(tree));
    return sum(tree) == 499500 ? 0 : 1;
}
