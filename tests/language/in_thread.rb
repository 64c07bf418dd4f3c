# SPDX-License-Identifier: MIT
# A thread, beside threads that allocate without end.
require_relative "turns"

def leak_in_thread
  BLOCKS.times do
    $kept << "z" * BLOCK_BYTES # PLANTED leak_in_thread
  end
end

def share
  is_over = false
  busy = 3.times.map { Thread.new { "b" * 500 until is_over } }
  Thread.new { leak_in_thread }.join
  is_over = true
  busy.each(&:join)
end

run { share } if $0 == __FILE__
