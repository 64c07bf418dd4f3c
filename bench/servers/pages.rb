# SPDX-License-Identifier: MIT
# A web server's worker in Ruby: 16 threads that parse JSON and build pages, in four generations, as
# a server restarts its threads. Each caches its last 8 pages. When the load ends the garbage is
# collected, then nothing happens until standard input ends.
#
#     ruby pages.rb REQUESTS          (of all threads together)
require 'json'
require 'erb'

THREADS = 16
GENERATIONS = 4
KEPT_PAGES = 8
PAGE = ERB.new(<<~HTML, trim_mode: '-')
  <html><head><title><%= title %></title></head><body>
  <%- groups.each do |name, rows| -%>
  <h2><%= ERB::Util.html_escape(name) %></h2><table>
  <%- rows.each do |row| -%>
  <tr><td><%= row['id'] %></td><td><%= ERB::Util.html_escape(row['text']) %></td>
  <td><%= row['tags'].join(', ') %></td></tr>
  <%- end -%>
  </table>
  <%- end -%>
  </body></html>
HTML

def document(random)
  rows = Array.new(20 + random.rand(180)) do |id|
    { id: id, group: "group #{random.rand(12)}", text: 'x & y ' * (1 + random.rand(40)),
      tags: Array.new(random.rand(6)) { |n| "tag#{n}" } }
  end
  JSON.generate(rows)
end

def page(text)
  title = "page of #{text.length} bytes"
  groups = JSON.parse(text).group_by { |row| row['group'] }.sort
  PAGE.result(binding)
end

requests = Integer(ARGV.fetch(0))
built = Queue.new
GENERATIONS.times do |generation|
  threads = Array.new(THREADS) do |number|
    Thread.new do
      random = Random.new(generation * THREADS + number)
      kept = []
      [requests / THREADS / GENERATIONS, 1].max.times do
        kept << page(document(random))
        kept.shift if kept.length > KEPT_PAGES
      end
      built << kept.sum(&:length)
    end
  end
  threads.each(&:join)
end
abort 'pages.rb: a thread built nothing' if Array.new(built.length) { built.pop }.any?(&:zero?)
GC.start
puts 'load ended'
$stdout.flush
$stdin.read
