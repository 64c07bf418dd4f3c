# SPDX-License-Identifier: MIT
# A module of C that the standard library calls for the program.
require_relative "turns"
require "json"

TEXT = JSON.generate({ text: "x" * BLOCK_BYTES })

def load_text
  $kept << JSON.parse(TEXT) # PLANTED load_text
end

run { BLOCKS.times { load_text } } if $0 == __FILE__
