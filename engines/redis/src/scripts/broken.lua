-- Which of these tickets were broken a short while ago. ARGV: their ids.
be_master()
return redis.call('HMGET', KEYS[1] .. ':b', unpack(ARGV))
