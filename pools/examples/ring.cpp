// SPDX-License-Identifier: MIT
// The example of ring.hpp: a tree of words is built in one thread and dropped in another. Exits 0
// when all is as it should be.
#include <future>
#include <poolshim/ring.hpp>
#include <utility>

namespace {

struct Node {
    Node *left;
    Node *right;
};

Node *make_tree(ps::ring &ring, int depth) {
    Node *node = ring.make<Node>(Node{nullptr, nullptr});
    if (depth > 1) {
        node->left = make_tree(ring, depth - 1);
        node->right = make_tree(ring, depth - 1);
    }
    return node;
}

int count(const Node *node) {
    return node == nullptr ? 0 : 1 + count(node->left) + count(node->right);
}

} // namespace

int main() {
    ps::ring ring;
    int total = 0;
    for (int round = 0; round < 10; round++) {
        ps::ring_frame frame = ring.begin();
        Node *tree = make_tree(ring, 12);
        frame.seal();
        auto counted = std::async(std::launch::async,
                                  [tree, frame = std::move(frame)]() { return count(tree); });
        total += counted.get();
    }
    return total == 10 * 4095 && ring.stats().frame_count == 0 ? 0 : 1;
}
