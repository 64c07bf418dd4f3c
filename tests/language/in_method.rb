# SPDX-License-Identifier: MIT
# A method of a class.
require_relative "turns"

class Cache
  def add(size)
    $kept << "x" * size # PLANTED add
  end
end

def fill
  cache = Cache.new
  BLOCKS.times { cache.add(BLOCK_BYTES) }
end

run { fill } if $0 == __FILE__
