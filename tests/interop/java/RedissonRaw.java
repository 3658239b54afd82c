// The broker from Redisson's connection, the only place where it sends commands that it does not
// know. (RDelayedQueue needs none of them.) Environment and steps: tests/interop/README.md.

import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RFuture;
import org.redisson.client.RedisClient;
import org.redisson.client.RedisClientConfig;
import org.redisson.client.RedisConnection;
import org.redisson.client.RedisException;
import org.redisson.client.codec.ByteArrayCodec;
import org.redisson.client.protocol.RedisStrictCommand;
import org.redisson.client.protocol.decoder.ObjectListReplayDecoder;
import org.redisson.config.Protocol;

final class RedissonRaw {
  static RedisStrictCommand<byte[]> value(String name) {
    return new RedisStrictCommand<>(name);
  }

  static RedisStrictCommand<Long> integer(String name) {
    return new RedisStrictCommand<>(name);
  }

  static RedisStrictCommand<List<Object>> list(String name) {
    return new RedisStrictCommand<>(name, new ObjectListReplayDecoder<>());
  }

  public static void main(String[] args) throws Exception {
    String queue = Steps.QUEUE;
    boolean tls = !Steps.CA.isEmpty();
    var config = new RedisClientConfig();
    config.setAddress((tls ? "rediss" : "redis") + "://localhost:" + Steps.BROKER_PORT);
    // Protocol 2 is what Redisson opens with when told nothing.
    if (Steps.RESP3) config.setProtocol(Protocol.RESP3);
    if (!Steps.PASSWORD.isEmpty()) config.setPassword(Steps.PASSWORD);
    if (tls) config.setSslTrustManagerFactory(Steps.trust());

    // `broker` takes messages in; `backing` is the Redis where they come out, as a plain list.
    RedisClient client = RedisClient.create(config);
    RedisConnection broker = client.connect();
    var plain = new RedisClientConfig().setAddress("redis://localhost:" + Steps.REDIS_PORT);
    RedisClient other = RedisClient.create(plain);
    RedisConnection backing = other.connect();
    var bytes = ByteArrayCodec.INSTANCE;
    Steps.is(text(broker.sync(bytes, value("PING"))), "PONG");
    Steps.passed("connect");

    String id = text(broker.sync(bytes, value("DQ.OFFER"), queue, "30m", "hello"));
    long tomorrow = System.currentTimeMillis() + 86_400_000;
    String at = text(broker.sync(bytes, value("DQ.OFFER"), queue, "AT", tomorrow, Steps.BINARY));
    Steps.isTrue(at.startsWith(tomorrow + "-"), at);
    Object[] offer = {queue, "1h", "order 42", "NAME", "order:42"};
    String named = text(broker.sync(bytes, value("DQ.OFFER"), offer));
    Object[] again = {queue, "1h", "again", "NAME", "order:42", "NX"};
    Steps.is(broker.sync(bytes, value("DQ.OFFER"), again), null);
    Steps.passed("offer");

    Object[] pairs = {queue, "2h", "one", "3h", "", "4h", Steps.BINARY};
    List<Object> ids = broker.sync(bytes, list("DQ.MOFFER"), pairs);
    Steps.is(ids.size(), 3);
    Steps.is(broker.sync(bytes, integer("DQ.SIZE"), queue), 6L);
    Steps.passed("moffer");

    long cancelled = broker.sync(bytes, integer("DQ.CANCEL"), queue, id);
    Steps.is(cancelled, 1L);
    Object[] rest = {queue, id, ids.get(0), ids.get(1), ids.get(2)};
    Steps.is(broker.sync(bytes, integer("DQ.CANCEL"), rest), 3L);
    Steps.passed("cancel");

    String moved = text(broker.sync(bytes, value("DQ.RESCHEDULE"), queue, "order:42", "45m"));
    Steps.isTrue(!moved.equals(named), moved);
    Steps.is(broker.sync(bytes, value("DQ.RESCHEDULE"), queue, named, "45m"), null);
    Steps.passed("reschedule");

    List<Object> peeked = broker.sync(bytes, list("DQ.PEEK"), queue, "COUNT", 5);
    Steps.is(peeked.size(), 2);
    Map<String, Object> first = fields(peeked.get(0)), second = fields(peeked.get(1));
    Steps.is(text(first.get("id")), moved);
    Steps.is(text(first.get("name")), "order:42");
    Steps.is(text(first.get("payload")), "order 42");
    Steps.is(text(second.get("id")), at);
    Steps.is(second.get("name"), null);
    Steps.is(second.get("due"), tomorrow);
    Steps.is(second.get("payload"), Steps.BINARY);
    Steps.is(broker.sync(bytes, list("DQ.PEEK"), queue + ":none"), List.of());
    Steps.passed("peek");

    // The first word of an error is its code, before what Redisson adds.
    refused(broker, "BADDELAY ", "DQ.OFFER", queue, "soon", "x");
    refused(broker, "BADQUEUE ", "DQ.OFFER", "", "1h", "x");
    refused(broker, "ERR wrong number of arguments", "DQ.OFFER", queue);
    refused(broker, "ERR unknown command", "DQ.NONE", queue);
    Steps.passed("errors");

    // A thousand without waiting; the replies come in order.
    List<RFuture<byte[]>> replies = new ArrayList<>();
    for (int i = 0; i < 1000; i++) {
      Object[] many = {queue + ":many", "AT", tomorrow + i, "message " + i};
      replies.add(broker.async(bytes, value("DQ.OFFER"), many));
    }
    for (int i = 0; i < 1000; i++) {
      String reply = text(replies.get(i).toCompletableFuture().get(10, TimeUnit.SECONDS));
      Steps.isTrue(reply.startsWith(tomorrow + i + "-"), reply);
    }
    Steps.passed("pipeline");

    broker.sync(bytes, value("DQ.OFFER"), queue, "20ms", Steps.BINARY);
    List<Object> taken = backing.sync(bytes, list("BLPOP"), queue, 10);
    Steps.is(text(taken.get(0)), queue);
    Steps.is(taken.get(1), Steps.BINARY);
    Steps.passed("binary");

    String large = text(broker.sync(bytes, value("DQ.OFFER"), queue, "1h", Steps.LARGE));
    List<Object> got = broker.sync(bytes, list("DQ.GET"), queue, large);
    Steps.is(fields(got).get("payload"), Steps.LARGE);
    Steps.is(broker.sync(bytes, integer("DQ.FIRE"), queue, large), 1L);
    taken = backing.sync(bytes, list("BLPOP"), queue, 10);
    Steps.is(taken.get(1), Steps.LARGE);
    Steps.passed("large");

    // A message is handed out until it is acknowledged. Takes that wait have a connection of their
    // own, since all others would wait behind them.
    RedisConnection taker = client.connect();
    Object[] dueNow = {queue, 0, "one", 0, "", 0, Steps.BINARY};
    broker.sync(bytes, list("DQ.MOFFER"), dueNow);
    List<Map<String, Object>> messages = new ArrayList<>();
    while (messages.size() < 3) {
      List<Object> lent = taker.sync(bytes, list("DQ.TAKE"), queue, "COUNT", 3, "BLOCK", "5s");
      for (Object message : lent) messages.add(fields(message));
    }
    byte[][] payloads = {{'o', 'n', 'e'}, {}, Steps.BINARY};
    for (int i = 0; i < 3; i++) {
      Steps.is(messages.get(i).get("payload"), payloads[i]);
      Steps.is(messages.get(i).get("attempt"), 1L);
    }
    Map<String, Object> given = messages.get(1);
    Object handled = messages.get(0).get("receipt"), two = given.get("receipt");
    Object three = messages.get(2).get("receipt");
    long acked = broker.sync(bytes, integer("DQ.ACK"), queue, handled);
    Steps.is(acked, 1L);
    Steps.is(broker.sync(bytes, integer("DQ.ACK"), queue, handled), 0L);
    Steps.is(broker.sync(bytes, integer("DQ.EXTEND"), queue, two, three, "LEASE", "2m"), 2L);
    Object[] nack = {queue, two, "DELAY", 0, "REASON", "not yet"};
    Steps.is(broker.sync(bytes, integer("DQ.NACK"), nack), 1L);
    List<Object> back = taker.sync(bytes, list("DQ.TAKE"), queue, "BLOCK", "5s");
    Map<String, Object> retry = fields(back.get(0));
    Steps.is(retry.get("id"), given.get("id"));
    Steps.is(retry.get("attempt"), 2L);
    Steps.is(retry.get("payload"), new byte[0]);
    Object[] both = {queue, retry.get("receipt"), three};
    Steps.is(broker.sync(bytes, integer("DQ.ACK"), both), 2L);
    // Nil in place of an array.
    Steps.is(taker.sync(bytes, list("DQ.TAKE"), queue), Steps.RESP3 ? null : List.of());
    Steps.passed("consume");

    // The pool of Redisson is not below this: fifty connections, in turn.
    List<RedisConnection> pool = new ArrayList<>();
    for (int i = 0; i < 50; i++) pool.add(client.connect());
    replies.clear();
    for (int i = 0; i < 1000; i++) {
      RedisConnection one = pool.get(i % 50);
      replies.add(one.async(bytes, value("DQ.OFFER"), queue + ":pool", "1h", "x"));
    }
    for (var reply : replies) reply.toCompletableFuture().get(10, TimeUnit.SECONDS);
    Steps.is(broker.sync(bytes, integer("DQ.SIZE"), queue + ":pool"), 1000L);
    for (RedisConnection one : pool) one.closeAsync().sync();
    Steps.passed("pool");

    // It connects again by itself; what is sent before fails, some of it after ten seconds.
    Steps.restart();
    Object size = null;
    for (long end = System.nanoTime() + 30_000_000_000L; size == null; ) {
      try {
        size = broker.sync(bytes, integer("DQ.SIZE"), queue);
      } catch (RedisException broken) {
        if (System.nanoTime() > end) throw broken;
      }
    }
    Steps.is(size, 2L);
    Steps.passed("restart");

    client.shutdown();
    other.shutdown();
    Steps.passed("quit");
  }

  static void refused(RedisConnection broker, String code, String name, Object... args) {
    Object answer;
    try {
      answer = broker.sync(ByteArrayCodec.INSTANCE, value(name), args);
    } catch (RedisException error) {
      Steps.isTrue(error.getMessage().startsWith(code), error);
      return;
    }
    throw new AssertionError(code + "expected, answered: " + answer);
  }

  /** It reads maps as it reads arrays: names and values in turn, in both protocols. */
  static Map<String, Object> fields(Object message) {
    Map<String, Object> fields = new HashMap<>();
    List<?> list = (List<?>) message;
    for (int i = 0; i < list.size(); i += 2) fields.put(text(list.get(i)), list.get(i + 1));
    return fields;
  }

  static String text(Object bytes) {
    return bytes instanceof byte[] some ? new String(some, UTF_8) : (String) bytes;
  }
}
