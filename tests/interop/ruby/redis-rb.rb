# The broker from redis-rb. Environment and steps: tests/interop/README.md.

require "redis"

QUEUE = ENV.fetch("QUEUE")
BINARY = "\0nul\r\ncrlf\xFF\0".b.freeze
LARGE = ((0..255).map(&:chr).join.b * (4 << 12)).freeze # 4 MiB

# redis-rb 4 knows protocol 2 only.
OPTIONS = { host: "localhost", port: ENV.fetch("BROKER_PORT").to_i }
OPTIONS[:password] = ENV["PASSWORD"] unless ENV["PASSWORD"].empty?
OPTIONS.update(ssl: true, ssl_params: { ca_file: ENV["CA"] }) unless ENV["CA"].empty?
$stdout.sync = true

def passed(step)
  puts step
end

def is(got, expected)
  raise "got #{got.inspect[0, 200]}, expected #{expected.inspect[0, 200]}" unless got == expected
end

# `broker` takes messages in; `backing` is the Redis where they come out, as a plain list.
broker = Redis.new(**OPTIONS)
backing = Redis.new(host: "localhost", port: ENV.fetch("REDIS_PORT").to_i)
is broker.ping, "PONG"
passed "connect"

id = broker.call("DQ.OFFER", QUEUE, "30m", "hello")
tomorrow = (Time.now.to_f * 1000).to_i + 86_400_000
at = broker.call("DQ.OFFER", QUEUE, "AT", tomorrow, BINARY)
is at.start_with?("#{tomorrow}-"), true
named = broker.call("DQ.OFFER", QUEUE, "1h", "order 42", "NAME", "order:42")
is broker.call("DQ.OFFER", QUEUE, "1h", "again", "NAME", "order:42", "NX"), nil
passed "offer"

ids = broker.call("DQ.MOFFER", QUEUE, "2h", "one", "3h", "", "4h", BINARY)
is [*ids, id, at, named].uniq.size, 6
is broker.call("DQ.SIZE", QUEUE), 6
passed "moffer"

cancelled = broker.call("DQ.CANCEL", QUEUE, id)
is cancelled, 1
is broker.call("DQ.CANCEL", QUEUE, id, *ids), 3
passed "cancel"

moved = broker.call("DQ.RESCHEDULE", QUEUE, "order:42", "45m")
is [moved.class, moved == named], [String, false]
is broker.call("DQ.RESCHEDULE", QUEUE, named, "45m"), nil
passed "reschedule"

# Names and values in turn.
peeked = broker.call("DQ.PEEK", QUEUE, "COUNT", 5).map { |message| Hash[*message] }
is peeked.map { |m| m["payload"].b }, ["order 42".b, BINARY]
is peeked.map { |m| m["name"] }, ["order:42", nil]
is peeked.map { |m| m["id"] }, [moved, at]
is peeked[1]["due"], tomorrow
is broker.call("DQ.PEEK", "#{QUEUE}:none"), []
passed "peek"

# The first word of an error is its code.
{
  "BADDELAY " => ["DQ.OFFER", QUEUE, "soon", "x"],
  "BADQUEUE " => ["DQ.OFFER", "", "1h", "x"],
  "ERR wrong number of arguments" => ["DQ.OFFER", QUEUE],
  "ERR unknown command" => ["DQ.NONE", QUEUE],
}.each do |code, command|
  answer = broker.call(*command)
  raise "#{command} was answered: #{answer}"
rescue Redis::CommandError => error
  is error.message.start_with?(code), true
end
passed "errors"

# A thousand in one write; the replies come in order.
many = broker.pipelined do |pipeline|
  1000.times do |i|
    pipeline.call(["DQ.OFFER", "#{QUEUE}:many", "AT", tomorrow + i, "message #{i}"])
  end
end
is many.map(&:to_i), Array.new(1000) { |i| tomorrow + i }
passed "pipeline"

broker.call("DQ.OFFER", QUEUE, "20ms", BINARY)
name, payload = backing.blpop(QUEUE, timeout: 10)
is [name, payload.b], [QUEUE, BINARY]
passed "binary"

large = broker.call("DQ.OFFER", QUEUE, "1h", LARGE)
is Hash[*broker.call("DQ.GET", QUEUE, large)]["payload"].b == LARGE, true
is broker.call("DQ.FIRE", QUEUE, large), 1
is backing.blpop(QUEUE, timeout: 10)[1].b == LARGE, true
passed "large"

# A message is handed out until it is acknowledged.
broker.call("DQ.MOFFER", QUEUE, 0, "one", 0, "", 0, BINARY)
messages = []
while messages.size < 3
  taken = broker.call("DQ.TAKE", QUEUE, "COUNT", 3, "BLOCK", "4s")
  messages += taken.map { |message| Hash[*message] }
end
is messages.map { |m| m["payload"].b }, ["one".b, "".b, BINARY]
is messages.map { |m| m["attempt"] }, [1, 1, 1]
first, second, third = messages.map { |m| m["receipt"] }
acked = broker.call("DQ.ACK", QUEUE, first)
is acked, 1
is broker.call("DQ.ACK", QUEUE, first), 0
is broker.call("DQ.EXTEND", QUEUE, second, third, "LEASE", "2m"), 2
is broker.call("DQ.NACK", QUEUE, second, "DELAY", 0, "REASON", "not yet"), 1
again = Hash[*broker.call("DQ.TAKE", QUEUE, "BLOCK", "4s").first]
is again.values_at("id", "attempt", "payload"), [messages[1]["id"], 2, ""]
is broker.call("DQ.ACK", QUEUE, again["receipt"], third), 2
is broker.call("DQ.TAKE", QUEUE), nil
passed "consume"

# The pool of Ruby is a package of its own: fifty connections, a thread each.
threads = Array.new(50) do
  Thread.new do
    one = Redis.new(**OPTIONS)
    20.times { one.call("DQ.OFFER", "#{QUEUE}:pool", "1h", "x") }
    one.close
  end
end
threads.each(&:join)
is broker.call("DQ.SIZE", "#{QUEUE}:pool"), 1000
passed "pool"

# redis-rb connects again by itself, once.
is system(ENV.fetch("RESTART")), true
is broker.call("DQ.SIZE", QUEUE), 2
passed "restart"

is broker.quit, "OK"
backing.close
passed "quit"
