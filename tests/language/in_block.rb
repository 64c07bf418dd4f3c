# SPDX-License-Identifier: MIT
# A block, which a method in C calls in the midst of a sort.
require_relative "turns"

run do
  (1..BLOCKS).sort_by do |at|
    $kept << "y" * BLOCK_BYTES # PLANTED block (2 levels) in <main>
    -at
  end
end
