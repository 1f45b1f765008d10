-- Uses: ALONE, FULL, FULL_FORMAT, KEEP_MS, NEAR, NUMBER_MAX, SHARES_MAX, be_master, be_whole, head, idle_life, is_readable, k, now, post
-- The line of one key. KEYS[1] is its head, a string that begins with the last number that was given. It is of one of
-- three kinds:
--   nothing more: idle. The number is kept until the clock is KEEP_MS past it, so that numbers grow even past a clock
--        that was set back.
--   'a': alone. A ticket with nobody behind it: its card. Its life ends KEEP_MS before the key does, and not before
--        its number is the time. So a free lock is taken with one read and one write.
--   'f': full. Everything else: what is said below, then the id and the ticket of the first one.
-- The others stand behind, in keys of the same slot:
--        :l  sorted set, number -> id: the line
--        :e  sorted set, end of life -> id: who leaves by itself next
--        :t  hash, id -> ticket
--        :o  set of shares, and :<share> a sorted set, number -> id, for each: only where those behind
--            ask for unequal shares, so that what stands ahead of one is summed without a walk. `mixed` says
--            how many there are.
-- A card is what a client sends: 'a', id, then a body that the scripts do not read, but for what is at its front: the
-- inbox, the share, the capacity, and the ttl. Served are the first ones, up to the number `edge`. Times are microseconds
-- since 1970, by the server's clock.
local last, edge, quiet, latest, kept, wanted, taken = now - 1, 0, NUMBER_MAX, 0, 0, 0, 0
local of, behind, common, mixed = 0, 0, 0, 0
local front, first
local changed = false
-- Whoever asks for a leave hears of its own tickets by the answer: its inbox, and those letters.
local own, letters

-- A ticket is its number, its end, its share, whether it was told to leave, and its body.
local function pack(number, ends, take, told, body)
  return struct.pack('<ddI4B', number, ends, take, told) .. body
end

local function unpack_ticket(ticket)
  local number, ends, take, told, at = struct.unpack('<ddI4B', ticket)
  return number, ends, take, told, string.sub(ticket, at)
end

local function unpack_card(card)
  local take, capacity, ttl = struct.unpack('<I4I4d', card, 34)
  return take, capacity, string.sub(card, 2, 17), ttl, string.sub(card, 18)
end

-- Whose ticket it is: the body has it behind inbox, share, capacity, ttl and key.
local function owner_of(body)
  local at = 35 + struct.unpack('<I2', body, 33)
  return string.sub(body, at + 2, at + 1 + struct.unpack('<I2', body, at))
end

local function read()
  if not head then return end
  local kind, at = string.byte(head, 9), nil
  -- Another version of Tenure may keep something else here, and somebody may hold by it.
  if not is_readable(head) then
    -- What a server keeps that is a replica now does not matter.
    be_master()
    error('tenure-unreadable')
  end
  last = struct.unpack('<d', head)
  if kind == FULL then
    be_whole()
    last, kind, edge, quiet, latest, kept, wanted, taken, of, behind, common, mixed, at = struct.unpack(FULL_FORMAT, head)
    front, first = string.sub(head, at, at + 15), string.sub(head, at + 16)
  elseif kind == ALONE then
    local take
    take, of = struct.unpack('<I4I4', head, 42)
    latest = (math.floor(now / 1000) + redis.call('PTTL', k) - KEEP_MS) * 1000
    edge, wanted, taken, front = last, take, take, string.sub(head, 10, 25)
    first = pack(last, latest, take, 0, string.sub(head, 26))
  end
end

local function write()
  if not changed then return be_master() end
  if not front then
    local number = struct.pack('<d', last)
    redis.call('SET', k, number, 'PX', idle_life(number, now))
    return
  end
  local life = math.ceil(math.max(latest, last) / 1000) - math.floor(now / 1000) + KEEP_MS
  local number, ends, take, told, body = unpack_ticket(first)
  if behind == 0 and told == 0 and last == number and last <= latest and latest == ends then
    -- Its card, with the share that it has now.
    local card = 'a' .. front .. string.sub(body, 1, 16) .. struct.pack('<I4I4', take, of) .. string.sub(body, 25)
    redis.call('SET', k, struct.pack('<d', last) .. card, 'PX', life)
    return
  end
  if behind > 0 and latest + KEEP_MS * 1000 > kept then
    kept = latest + 2 * KEEP_MS * 1000
    local when = math.floor(kept / 1000)
    for _, name in ipairs({':l', ':e', ':t', ':o'}) do redis.call('PEXPIREAT', k .. name, when) end
    if mixed > 0 then
      for _, other in ipairs(redis.call('SMEMBERS', k .. ':o')) do
        redis.call('PEXPIREAT', k .. ':' .. other, when)
      end
    end
  end
  local state = struct.pack(FULL_FORMAT, last, FULL, edge, quiet, latest, kept, wanted, taken, of, behind, common, mixed)
  redis.call('SET', k, state .. front .. first, 'PX', life)
end

local function find(who)
  if who == front then return first end
  if behind > 0 then return redis.call('HGET', k .. ':t', who) end
  return false
end

local function tell(body, who, kind, number)
  local inbox, letter = string.sub(body, 1, 16), who .. kind .. struct.pack('<d', number)
  if inbox == own and kind == 'S' then
    letters = letters or {}
    letters[#letters + 1] = letter
  else
    post(inbox, letter)
  end
end

-- Those behind: in and out of their keys.
local function classify(who, number, take)
  if take == common then return end
  mixed = mixed + redis.call('SADD', k .. ':o', take)
  redis.call('ZADD', k .. ':' .. take, number, who)
  -- A key that has just come to be does not expire yet.
  if redis.call('ZCARD', k .. ':' .. take) == 1 then kept = 0 end
end

-- A share that nobody asks for any more is not counted any more.
local function declassify(who, take)
  if take == common then return end
  redis.call('ZREM', k .. ':' .. take, who)
  if redis.call('EXISTS', k .. ':' .. take) == 0 then mixed = mixed - redis.call('SREM', k .. ':o', take) end
end

-- Whether one more may stand behind with this share.
local function may_classify(take)
  return behind == 0 or take == common or mixed < SHARES_MAX or redis.call('SISMEMBER', k .. ':o', take) == 1
end

local function delete_behind()
  for _, take in ipairs(redis.call('SMEMBERS', k .. ':o')) do redis.call('DEL', k .. ':' .. take) end
  redis.call('DEL', k .. ':l', k .. ':e', k .. ':t', k .. ':o')
end

local function put_behind(who, number, ends, take, ticket)
  if behind == 0 then
    -- A head that was evicted may have left some behind. All of a line is on one server; while a slot is on its
    -- way to another one, the server refuses to be asked for several keys, and that ends the script here.
    if redis.call('EXISTS', k .. ':l', k .. ':e', k .. ':t', k .. ':o') > 0 then delete_behind() end
    common, mixed, kept = take, 0, 0
  end
  behind = behind + 1
  quiet = math.min(quiet, ends)
  redis.call('ZADD', k .. ':l', number, who)
  redis.call('ZADD', k .. ':e', ends, who)
  redis.call('HSET', k .. ':t', who, ticket)
  classify(who, number, take)
end

local function nobody_behind()
  if mixed > 0 then redis.call('DEL', k .. ':o') end
  behind, quiet, common, mixed, kept = 0, NUMBER_MAX, 0, 0, 0
end

local function leave_others(who, take)
  redis.call('ZREM', k .. ':e', who)
  redis.call('HDEL', k .. ':t', who)
  declassify(who, take)
  behind = behind - 1
  if behind == 0 then nobody_behind() end
end

-- Part of what stood behind was evicted or deleted: the rest of it is out as well, and told so by its next renewal.
local function forget_behind()
  delete_behind()
  mixed = 0
  nobody_behind()
  wanted, taken = 0, 0
  if front then
    local number, _, take = unpack_ticket(first)
    wanted = take
    if number <= edge then taken = take end
  end
end

-- The number and the ticket of the first one behind that comes after `after`.
local function next_behind(after)
  local found = redis.call('ZRANGEBYSCORE', k .. ':l', '(' .. string.format('%.0f', after), '+inf', 'LIMIT', 0, 1)
  local ticket = found[1] and redis.call('HGET', k .. ':t', found[1])
  if not ticket then
    forget_behind()
    return
  end
  return found[1], ticket
end

-- Takes a ticket out. Who follows is seen to by `settle`.
local function remove(who, ticket)
  local number, _, take = unpack_ticket(ticket)
  if who == front then
    front, first = nil, nil
  else
    redis.call('ZREM', k .. ':l', who)
    leave_others(who, take)
  end
  wanted = wanted - take
  if number <= edge then taken = taken - take end
  changed = true
end

-- The first one behind is the front.
local function promote()
  local who = redis.call('ZPOPMIN', k .. ':l')[1]
  local ticket = who and redis.call('HGET', k .. ':t', who)
  if not ticket then
    forget_behind()
    return
  end
  local _, _, take = unpack_ticket(ticket)
  leave_others(who, take)
  front, first = who, ticket
end

-- The front of the line is served, for as long as it fits; who is served now is told so.
local function settle()
  if not front and behind > 0 then promote() end
  while taken < wanted do
    local who, ticket = front, first
    if edge >= (unpack_ticket(first)) then who, ticket = next_behind(edge) end
    if not who then return end
    local number, _, take, _, body = unpack_ticket(ticket)
    if taken + take > of then return end
    taken, edge, changed = taken + take, number, true
    tell(body, who, 'S', number)
  end
end

-- Those whose life has ended are all out before anyone is served in their place.
local function expire()
  local before = changed
  changed = false
  if front and select(2, unpack_ticket(first)) <= now then remove(front, first) end
  while behind > 0 and quiet <= now do
    local gone = redis.call('ZRANGEBYSCORE', k .. ':e', '-inf', now, 'LIMIT', 0, 1000)
    for _, who in ipairs(gone) do
      local ticket = redis.call('HGET', k .. ':t', who)
      if ticket then remove(who, ticket) else forget_behind() end
    end
    if behind > 0 and #gone < 1000 then
      local next_end = redis.call('ZRANGE', k .. ':e', 0, 0, 'WITHSCORES')
      if next_end[2] then quiet = tonumber(next_end[2]) else forget_behind() end
      changed = true
    end
  end
  if changed then settle() end
  changed = changed or before
end

-- How much stands ahead of a ticket, and how many.
local function ahead_of(who, number)
  if who == front then return 0, 0 end
  local rank = redis.call('ZRANK', k .. ':l', who)
  if not rank then return end
  local _, _, first_take = unpack_ticket(first)
  local sum, plain = first_take, rank
  if mixed > 0 then
    for _, take in ipairs(redis.call('SMEMBERS', k .. ':o')) do
      local count = redis.call('ZCOUNT', k .. ':' .. take, '-inf', '(' .. string.format('%.0f', number))
      sum, plain = sum + take * count, plain - count
    end
  end
  return sum + common * plain, rank + 1
end

-- When a waiter should look even if nobody tells it. Only those at the front are asked to: the others
-- would all come at once, and their heartbeats find out as well.
local function look_of(rank)
  if rank > NEAR then return -1 end
  local _, first_end, first_take = unpack_ticket(first)
  if taken > first_take then first_end = math.min(first_end, math.max(quiet, now)) end
  return first_end - now
end

-- A ticket's place, behind so much and so many.
local function place_behind(ticket, ahead, rank)
  if not ahead then
    forget_behind()
    changed = true
    return false
  end
  local number, ends, _, told = unpack_ticket(ticket)
  if number <= edge then return {1, number, ahead, ends - now, -1, told} end
  return {0, number, ahead, ends - now, look_of(rank), told}
end

local function place(who, ticket)
  return place_behind(ticket, ahead_of(who, (unpack_ticket(ticket))))
end

-- A sign of life, which also carries a note, and a share that can only shrink. Nothing changes about a ticket
-- that was told to leave: its life ends when it would have.
local function renew(who, ticket, take, ttl, floor, body)
  local number, ends, had, told = unpack_ticket(ticket)
  if told == 1 then return place(who, ticket) end
  ends, take = math.max(ends, now + ttl), math.min(take, had)
  -- Where there is no room for one more share it stays as it is, and the next sign of life carries it again.
  if take < had and who ~= front and not may_classify(take) then take = had end
  latest, last = math.max(latest, ends), math.max(last, math.min(floor, NUMBER_MAX))
  ticket = pack(number, ends, take, 0, body)
  changed = true
  if who == front then
    first = ticket
  else
    redis.call('HSET', k .. ':t', who, ticket)
    redis.call('ZADD', k .. ':e', ends, who)
    if take < had then
      declassify(who, had)
      classify(who, number, take)
    end
  end
  if take < had then
    wanted = wanted - had + take
    if number <= edge then taken = taken - had + take end
    settle()
  end
  return place(who, ticket)
end
