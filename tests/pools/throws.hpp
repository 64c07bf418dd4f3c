// SPDX-License-Identifier: MIT
// throws<E>(call): true if the call throws an E. Any other exception passes through.
#ifndef PS_TESTS_POOLS_THROWS_HPP
#define PS_TESTS_POOLS_THROWS_HPP

template <class Exception, class Call> bool throws(Call call) {
    try {
        call();
    } catch (const Exception &) {
        return true;
    }
    return false;
}

#endif
