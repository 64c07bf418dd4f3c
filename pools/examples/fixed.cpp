// SPDX-License-Identifier: MIT
// A parser whose nodes live inside of it: it can be put on the stack, and the longest expression is
// known when it is compiled.
#include <cstdio>
#include <poolshim/fixed.hpp>

class calculator {
  public:
    // Sums and products of digits, like 2*3+4. False: more than 32 nodes, or another sign.
    bool evaluate(const char *text, int *result) {
        at_ = text;
        node *sum = parse_sum();
        bool is_right = sum != nullptr && *at_ == '\0';
        *result = is_right ? sum->value() : 0;
        nodes_.reset();
        return is_right;
    }

  private:
    struct node {
        char sign; // or a digit
        node *left;
        node *right;
        int value() const {
            return sign == '+'   ? left->value() + right->value()
                   : sign == '*' ? left->value() * right->value()
                                 : sign - '0';
        }
    };

    node *parse_digit() {
        if (*at_ < '0' || *at_ > '9') {
            return nullptr;
        }
        return nodes_.create(node{*at_++, nullptr, nullptr});
    }
    node *parse_product() { return parse_chain('*', &calculator::parse_digit); }
    node *parse_sum() { return parse_chain('+', &calculator::parse_product); }
    node *parse_chain(char sign, node *(calculator::*parse_part)()) {
        node *chain = (this->*parse_part)();
        while (chain != nullptr && *at_ == sign) {
            at_++;
            node *part = (this->*parse_part)();
            chain = part == nullptr ? nullptr : nodes_.create(node{sign, chain, part});
        }
        return chain;
    }

    ps::fixed<node, 32> nodes_;
    const char *at_ = nullptr;
};

int main() {
    calculator calculator;
    int result = 0;
    bool is_right = calculator.evaluate("2*3+4*5+1", &result);
    std::printf("%d\n", result);
    bool is_long = calculator.evaluate("1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1", &result);
    return is_right && !is_long && calculator.evaluate("7", &result) && result == 7 ? 0 : 1;
}
