# SPDX-License-Identifier: MIT
# The code of a file, when it is loaded.
require_relative "turns"

run { load File.join(__dir__, "loaded_module.rb") } if $0 == __FILE__
