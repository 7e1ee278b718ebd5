# frozen_string_literal: true

# SPDX-License-Identifier: BSD-2-Clause
#
# redlock-rb on the same locks: its defaults. ../README.md has the protocol. usage: ruby peer.rb URL ...
#
# It extends with extend_only_if_locked, as its manual says under "extend_only_if_locked"; without that, the same call makes
# a lock that was lost anew.
Gem.use_paths(File.join(Dir.pwd, "gems"), [File.join(Dir.pwd, "gems"), *Gem.path])
require "json"
require "redlock"

$stdout.sync = true

def now
  Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

# A client as the protocol wants it.
class Peer
  def initialize(urls)
    @manager = Redlock::Client.new(urls)
    @locks = {}
  end

  def take(resource, ttl_ms, wait_ms)
    over = now + wait_ms / 1000.0
    loop do
      lock = @manager.lock(resource, ttl_ms, wait_ms.zero? ? { retry_count: 0 } : {})
      return lock if lock || now >= over
    end
  end

  def acquire(resource, ttl_ms, wait_ms)
    lock = take(resource, ttl_ms.to_i, wait_ms.to_i)
    return { ok: false, why: "held by another" } unless lock

    @locks[resource] = lock
    { ok: true, token: lock[:value] }
  end

  def extend(resource, ttl_ms)
    lock = @manager.lock(resource, ttl_ms.to_i, extend: @locks[resource], extend_only_if_locked: true)
    { ok: lock ? true : false }
  end

  def release(resource)
    @manager.unlock(@locks[resource])
    { ok: true }
  end

  # Not atomic on purpose: whoever looks meanwhile finds it empty.
  def turn(path)
    value = Integer(File.read(path), 10)
    sleep(0.002)
    File.write(path, value + 1)
  end

  def take_or_not(resource, ttl_ms, wait_ms)
    take(resource, ttl_ms, wait_ms)
  rescue StandardError
    sleep(0.01)
    nil
  end

  def count(resource, path, seconds, ttl_ms)
    told = { turns: 0, failed: 0 }
    over = now + seconds.to_f
    while (left = over - now).positive?
      lock = take_or_not(resource, ttl_ms.to_i, (left * 1000).ceil)
      turn(path) if lock
      told[lock ? :turns : :failed] += 1
      @manager.unlock(lock) if lock
    end
    told
  end
end

def obey(peer, command, *more)
  peer.public_send(command, *more)
rescue Redlock::LockError, RedisClient::Error => e
  { ok: false, why: "#{e.class}: #{e.message}" }
end

peer = Peer.new(ARGV)
defaults = { ttl: "none: it is always said", retries: Redlock::Client::DEFAULT_RETRY_COUNT,
             delay_ms: "#{Redlock::Client::DEFAULT_RETRY_DELAY} + 0 to #{Redlock::Client::DEFAULT_RETRY_JITTER}",
             drift: "1 % + 2 ms", node_timeout_ms: Redlock::Client::DEFAULT_REDIS_TIMEOUT * 1000,
             nodes: "one after the other", "redis-client": RedisClient::VERSION }
puts JSON.generate(ready: true, name: "redlock-rb", version: Redlock::VERSION, key: "R", token: "UUID", defaults: defaults)
while (line = $stdin.gets)
  words = line.split
  break if words[0] == "quit"

  puts JSON.generate(obey(peer, *words))
end
