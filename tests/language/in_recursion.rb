# SPDX-License-Identifier: MIT
# A method that calls itself more often than a stack has frames.
require_relative "turns"

def descend(depth)
  return descend(depth - 1) if depth > 0
  BLOCKS.times do
    $kept << "r" * BLOCK_BYTES # PLANTED descend
  end
end

run { descend(300) } if $0 == __FILE__
