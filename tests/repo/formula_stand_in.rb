# SPDX-License-Identifier: MIT
# As much of Homebrew as a formula of one archive needs: fetches it, compares the checksum, installs
# below a prefix, runs the test of the formula.
#
#     ruby formula_stand_in.rb FORMULA PREFIX
require "digest"
require "fileutils"
require "open-uri"
require "pathname"
require "tmpdir"

class Pathname
  def install(names)
    mkpath
    names.each { |name| FileUtils.cp_r(name, self) }
  end
end

class Formula
  class << self
    %i[desc homepage url version sha256 license].each do |name|
      define_method(name) do |value = nil|
        value ? instance_variable_set("@#{name}", value) : instance_variable_get("@#{name}")
      end
    end

    def needs = @needs ||= []

    def depends_on(what) = needs << (what.is_a?(Hash) ? what.values.first : what)

    def test(&block) = define_method(:run_test, &block)
  end

  attr_reader :prefix

  def initialize(prefix) = @prefix = Pathname(prefix)

  def bin = prefix/"bin"

  def lib = prefix/"lib"

  def shell_output(command)
    output = `#{command}`
    abort("#{command}: status #{$?.exitstatus}") unless $?.success?
    output
  end

  def assert_match(text, output)
    abort("the test finds no #{text}") unless output.include?(text)
  end
end

load(File.expand_path(ARGV[0]))
formula = Poolshim.new(File.expand_path(ARGV[1]))
facts = Poolshim
content = URI.open(facts.url.delete_prefix("file://"), "rb", &:read)
abort("the checksum of #{facts.url} is another") if Digest::SHA256.hexdigest(content) != facts.sha256
Dir.mktmpdir do |folder|
  File.binwrite("#{folder}/archive", content)
  system("tar", "xf", "#{folder}/archive", "-C", folder, exception: true)
  Dir.chdir(Dir["#{folder}/*/"].fetch(0)) { formula.install }
end
formula.run_test if ENV["RUN_TEST"]
puts "poolshim #{facts.version} #{facts.license} #{facts.needs.reverse.join(" ")}"
puts formula.caveats
