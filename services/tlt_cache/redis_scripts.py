"""
Lua scripts of the Redis store. Each runs on the keys of one shard, which share a hash slot.

KEYS[1..4] are the hash of index entries, the sums, and the order of the frames by arrival and by policy. The others are
payloads, one string each.
"""

ADMIT = """
local budget = tonumber(ARGV[1])
local used = tonumber(redis.call('HGET', KEYS[2], 'bytes') or '0')
local last = tonumber(redis.call('HGET', KEYS[2], 'sequence') or '0')
local now = redis.call('TIME')
local id = math.max(last, tonumber(now[1]) * 1000000 + tonumber(now[2]))
local first = redis.pcall('HSET', KEYS[2], 'sequence', string.format('%.0f', id))
local full = type(first) == 'table' and first.err
if full and not string.find(full, 'OOM') then return first end
local bytes, tokens, out = 0, 0, {}
for i = 5, #KEYS do
  local at = 2 + (i - 5) * 4
  local size = redis.call('MEMORY', 'USAGE', KEYS[i])
  if full or not size then
    redis.call('DEL', KEYS[i])
    table.insert(out, -1)
  elseif used + bytes + size + tonumber(ARGV[at]) > budget then
    redis.call('DEL', KEYS[i])
    table.insert(out, 0)
  else
    id = id + 1
    size = size + tonumber(ARGV[at])
    local name = string.format('%016.0f', id)
    redis.call('PERSIST', KEYS[i])
    redis.call('HSET', KEYS[1], name, struct.pack('<I8', size) .. ARGV[at + 3])
    redis.call('ZADD', KEYS[3], name, name)
    redis.call('ZADD', KEYS[4], ARGV[at + 2], name)
    bytes = bytes + size
    tokens = tokens + tonumber(ARGV[at + 1])
    table.insert(out, 1)
  end
end
if bytes > 0 then
  redis.call('HSET', KEYS[2], 'sequence', string.format('%.0f', id))
  redis.call('HINCRBY', KEYS[2], 'bytes', bytes)
  redis.call('HINCRBY', KEYS[2], 'tokens', tokens)
end
return out
"""
"""
Budget; (bytes of the index entry, states, policy, entry) of each payload -> for each 1 if it was admitted, 0 if it does
not fit the budget, -1 if Redis has reached its memory limit. What was not admitted is deleted. Redis refuses the first
write of a script only, so that a frame is admitted whole or not at all.

A frame counts with what Redis uses for it: the allocated size of its payload, and that of its index entry.

Sequence numbers are microseconds of Redis' clock, so that they go on increasing after a flush. All have 16 digits, so
that frames of one policy are sorted by them.
"""

REMOVE = """
local removed = 0
for i = 5, #KEYS do
  local at = 1 + (i - 5) * 3
  if redis.call('HDEL', KEYS[1], ARGV[at]) == 1 then
    redis.call('DEL', KEYS[i])
    redis.call('ZREM', KEYS[3], ARGV[at])
    redis.call('ZREM', KEYS[4], ARGV[at])
    redis.call('HINCRBY', KEYS[2], 'bytes', -ARGV[at + 1])
    redis.call('HINCRBY', KEYS[2], 'tokens', -ARGV[at + 2])
    removed = removed + 1
  end
end
redis.call('HINCRBY', KEYS[2], 'evicted', removed)
return removed
"""
"""(Sequence number, bytes, states) of each payload -> number of frames removed."""
