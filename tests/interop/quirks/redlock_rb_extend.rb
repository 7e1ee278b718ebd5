# frozen_string_literal: true

# SPDX-License-Identifier: BSD-2-Clause
#
# See redlock_rb_extend.py. usage: ruby redlock_rb_extend.rb URL URL URL   (where the gem is installed into gems)
Gem.use_paths(File.join(Dir.pwd, "gems"), [File.join(Dir.pwd, "gems"), *Gem.path])
require "redlock"

first, second = Array.new(2) { Redlock::Client.new(ARGV) }
lock = first.lock("job", 300)
sleep(0.01) until (between = second.lock("job", 30_000, retry_count: 0))
second.unlock(between)
extended = first.lock("job", 30_000, extend: lock)
puts "the lock ran out, another had it, and it was extended all the same" if extended
exit(lock && extended ? 0 : 1)
