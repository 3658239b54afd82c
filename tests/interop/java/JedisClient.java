// The broker from Jedis. Environment and steps: tests/interop/README.md.

import static java.nio.charset.StandardCharsets.UTF_8;
import static redis.clients.jedis.args.ListDirection.LEFT;
import static redis.clients.jedis.args.ListDirection.RIGHT;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import redis.clients.jedis.BuilderFactory;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.CommandObject;
import redis.clients.jedis.ConnectionPoolConfig;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.JedisClientConfig;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.SslOptions;
import redis.clients.jedis.commands.ProtocolCommand;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.util.KeyValue;

final class JedisClient {
  /** The commands of the broker: Jedis asks for their names as bytes. */
  enum Dq implements ProtocolCommand {
    OFFER, MOFFER, CANCEL, RESCHEDULE, PEEK, GET, FIRE, SIZE, TAKE, ACK, NACK, EXTEND, NONE;

    @Override
    public byte[] getRaw() {
      return ("DQ." + name()).getBytes(UTF_8);
    }
  }

  static JedisClientConfig config() throws Exception {
    var config = DefaultJedisClientConfig.builder().timeoutMillis(20_000);
    // Protocol 3 is what Jedis 8 opens with when told nothing.
    if (!Steps.RESP3) config.protocol(RedisProtocol.RESP2);
    if (!Steps.PASSWORD.isEmpty()) config.password(Steps.PASSWORD);
    if (!Steps.CA.isEmpty()) {
      char[] secret = "public".toCharArray();
      var tls = SslOptions.builder().truststore(Steps.trustFile(secret), secret);
      config.sslOptions(tls.trustStoreType("JKS").build());
    }
    return config.build();
  }

  public static void main(String[] args) throws Exception {
    String queue = Steps.QUEUE;
    // `broker` takes messages in; `backing` is the Redis where they come out, as a plain list.
    RedisClient broker =
        RedisClient.builder().hostAndPort("localhost", Steps.BROKER_PORT).clientConfig(config())
            .build();
    RedisClient backing = RedisClient.create("localhost", Steps.REDIS_PORT);
    Steps.is(broker.ping(), "PONG");
    Steps.passed("connect");

    String id = text(broker.executeCommand(dq(Dq.OFFER, queue, "30m", "hello")));
    long tomorrow = System.currentTimeMillis() + 86_400_000;
    String at = text(broker.executeCommand(dq(Dq.OFFER, queue, "AT", tomorrow, Steps.BINARY)));
    Steps.isTrue(at.startsWith(tomorrow + "-"), at);
    CommandArguments offer = dq(Dq.OFFER, queue, "1h", "order 42", "NAME", "order:42");
    String named = text(broker.executeCommand(offer));
    Steps.is(broker.executeCommand(offer.add("NX")), null);
    Steps.passed("offer");

    CommandArguments pairs = dq(Dq.MOFFER, queue, "2h", "one", "3h", "", "4h", Steps.BINARY);
    List<String> ids = new ArrayList<>();
    for (Object one : (List<?>) broker.executeCommand(pairs)) ids.add(text(one));
    Steps.is(ids.size(), 3);
    Steps.is(broker.executeCommand(dq(Dq.SIZE, queue)), 6L);
    Steps.passed("moffer");

    long cancelled = (long) broker.executeCommand(dq(Dq.CANCEL, queue, id));
    Steps.is(cancelled, 1L);
    Steps.is(broker.executeCommand(dq(Dq.CANCEL, queue, id).addObjects(ids)), 3L);
    broker.executeCommand(dq(Dq.OFFER, queue, "1h", "remind 42", "NAME", "remind:42"));
    long byName = (long) broker.executeCommand(dq(Dq.CANCEL, queue, "remind:42"));
    Steps.is(byName, 1L);
    Steps.passed("cancel");

    String moved = text(broker.executeCommand(dq(Dq.RESCHEDULE, queue, "order:42", "45m")));
    Steps.isTrue(!moved.equals(named), moved);
    Steps.is(broker.executeCommand(dq(Dq.RESCHEDULE, queue, named, "45m")), null);
    Steps.passed("reschedule");

    List<?> peeked = (List<?>) broker.executeCommand(dq(Dq.PEEK, queue, "COUNT", "5"));
    Steps.is(peeked.size(), 2);
    Map<String, Object> first = fields(peeked.get(0)), second = fields(peeked.get(1));
    Steps.is(text(first.get("id")), moved);
    Steps.is(text(first.get("name")), "order:42");
    Steps.is(text(first.get("payload")), "order 42");
    Steps.is(text(second.get("id")), at);
    Steps.is(second.get("name"), null);
    Steps.is(second.get("due"), tomorrow);
    Steps.is(second.get("payload"), Steps.BINARY);
    Steps.is(broker.executeCommand(dq(Dq.PEEK, queue + ":none")), List.of());
    Steps.passed("peek");

    refused("BADDELAY ", () -> broker.executeCommand(dq(Dq.OFFER, queue, "soon", "x")));
    refused("BADQUEUE ", () -> broker.executeCommand(dq(Dq.OFFER, "", "1h", "x")));
    refused("ERR wrong number of arguments", () -> broker.executeCommand(dq(Dq.OFFER, queue)));
    refused("ERR unknown command", () -> broker.executeCommand(dq(Dq.NONE, queue)));
    Steps.passed("errors");

    // A thousand without waiting; the replies come in order.
    List<Response<String>> replies = new ArrayList<>();
    try (var pipeline = broker.pipelined()) {
      for (int i = 0; i < 1000; i++) {
        var many = dq(Dq.OFFER, queue + ":many", "AT", tomorrow + i, "message " + i);
        replies.add(pipeline.appendCommand(new CommandObject<>(many, BuilderFactory.STRING)));
      }
    }
    for (int i = 0; i < 1000; i++) {
      Steps.isTrue(replies.get(i).get().startsWith(tomorrow + i + "-"), i);
    }
    Steps.passed("pipeline");

    // Of several queues, stored with one call, or not at all.
    try (var transaction = broker.multi()) {
      offer = dq(Dq.OFFER, queue + ":a", "1h", "first", "NAME", "one");
      pairs = dq(Dq.MOFFER, queue + ":b", "1h", Steps.BINARY, "2h", "");
      transaction.executeCommand(new CommandObject<>(offer, BuilderFactory.STRING));
      transaction.executeCommand(new CommandObject<>(pairs, BuilderFactory.STRING_LIST));
      List<Object> stored = transaction.exec();
      Steps.is(broker.executeCommand(dq(Dq.CANCEL, queue + ":a", stored.get(0))), 1L);
      Object[] two = ((List<?>) stored.get(1)).toArray();
      Steps.is(broker.executeCommand(dq(Dq.CANCEL, queue + ":b", two)), 2L);
    }
    try (var transaction = broker.multi()) {
      for (String delay : List.of("1h", "soon")) {
        offer = dq(Dq.OFFER, queue + ":a", delay, "x");
        transaction.executeCommand(new CommandObject<>(offer, BuilderFactory.STRING));
      }
      refused("EXECABORT ", transaction::exec);
    }
    Steps.is(broker.executeCommand(dq(Dq.SIZE, queue + ":a")), 0L);
    Steps.passed("transaction");

    broker.executeCommand(dq(Dq.OFFER, queue, "20ms", Steps.BINARY));
    KeyValue<byte[], byte[]> taken = backing.blpop(10.0, bytes(queue));
    Steps.is(text(taken.getKey()), queue);
    Steps.is(taken.getValue(), Steps.BINARY);
    Steps.passed("binary");

    String large = text(broker.executeCommand(dq(Dq.OFFER, queue, "1h", Steps.LARGE)));
    Steps.is(fields(broker.executeCommand(dq(Dq.GET, queue, large))).get("payload"), Steps.LARGE);
    Steps.is(broker.executeCommand(dq(Dq.FIRE, queue, large)), 1L);
    byte[] working = bytes(queue + ":working");
    byte[] work = backing.blmove(bytes(queue), working, LEFT, RIGHT, 10.0);
    Steps.is(work, Steps.LARGE);
    backing.lrem(working, 1, work);
    Steps.is(backing.exists(working), false);
    Steps.passed("large");

    // A message is handed out until it is acknowledged.
    broker.executeCommand(dq(Dq.MOFFER, queue, "0", "one", "0", "", "0", Steps.BINARY));
    List<Map<String, Object>> messages = new ArrayList<>();
    while (messages.size() < 3) {
      List<?> lent =
          (List<?>) broker.executeCommand(dq(Dq.TAKE, queue, "COUNT", "3", "BLOCK", "5s"));
      for (Object message : lent) messages.add(fields(message));
    }
    byte[][] payloads = {bytes("one"), {}, Steps.BINARY};
    for (int i = 0; i < 3; i++) {
      Steps.is(messages.get(i).get("payload"), payloads[i]);
      Steps.is(messages.get(i).get("attempt"), 1L);
    }
    Map<String, Object> given = messages.get(1);
    Object handled = messages.get(0).get("receipt"), two = given.get("receipt");
    Object three = messages.get(2).get("receipt");
    long acked = (long) broker.executeCommand(dq(Dq.ACK, queue, handled));
    Steps.is(acked, 1L);
    Steps.is(broker.executeCommand(dq(Dq.ACK, queue, handled)), 0L);
    Steps.is(broker.executeCommand(dq(Dq.EXTEND, queue, two, three, "LEASE", "2m")), 2L);
    CommandArguments nack = dq(Dq.NACK, queue, two, "DELAY", "0", "REASON", "not yet");
    Steps.is(broker.executeCommand(nack), 1L);
    List<?> again = (List<?>) broker.executeCommand(dq(Dq.TAKE, queue, "BLOCK", "5s"));
    Map<String, Object> retry = fields(again.get(0));
    Steps.is(retry.get("id"), given.get("id"));
    Steps.is(retry.get("attempt"), 2L);
    Steps.is(retry.get("payload"), new byte[0]);
    Steps.is(broker.executeCommand(dq(Dq.ACK, queue, retry.get("receipt"), three)), 2L);
    Steps.is(broker.executeCommand(dq(Dq.TAKE, queue)), null);
    Steps.passed("consume");

    ConnectionPoolConfig fifty = new ConnectionPoolConfig();
    fifty.setMaxTotal(50);
    var threads = Executors.newFixedThreadPool(50);
    try (RedisClient pool =
        RedisClient.builder().hostAndPort("localhost", Steps.BROKER_PORT).clientConfig(config())
            .poolConfig(fifty).build()) {
      Callable<Object> one = () -> pool.executeCommand(dq(Dq.OFFER, queue + ":pool", "1h", "x"));
      for (Future<Object> answer : threads.invokeAll(Collections.nCopies(1000, one))) {
        answer.get();
      }
      Steps.is(pool.executeCommand(dq(Dq.SIZE, queue + ":pool")), 1000L);
    }
    threads.shutdown();
    Steps.passed("pool");

    // A connection of the pool fails once when it was closed meanwhile: what may be repeated, is.
    Steps.restart();
    Object size = null;
    for (long end = System.nanoTime() + 10_000_000_000L; size == null; ) {
      try {
        size = broker.executeCommand(dq(Dq.SIZE, queue));
      } catch (JedisConnectionException broken) {
        if (System.nanoTime() > end) throw broken;
      }
    }
    Steps.is(size, 2L);
    Steps.passed("restart");

    broker.close();
    backing.close();
    Steps.passed("quit");
  }

  /** The first word of an error is its code. */
  static void refused(String code, Callable<Object> command) throws Exception {
    Object answer;
    try {
      answer = command.call();
    } catch (JedisDataException error) {
      Steps.isTrue(error.getMessage().startsWith(code), error);
      return;
    }
    throw new AssertionError(code + "expected, answered: " + answer);
  }

  /** A message as DQ.PEEK tells it: a map in RESP3, names and values in turn in RESP2. */
  static Map<String, Object> fields(Object message) {
    Map<String, Object> fields = new HashMap<>();
    List<?> list = (List<?>) message;
    if (Steps.RESP3) {
      for (Object one : list) {
        fields.put(text(((KeyValue<?, ?>) one).getKey()), ((KeyValue<?, ?>) one).getValue());
      }
    } else {
      for (int i = 0; i < list.size(); i += 2) fields.put(text(list.get(i)), list.get(i + 1));
    }
    return fields;
  }

  /** The queue comes first in every command, and is its key. */
  static CommandArguments dq(Dq name, String queue, Object... rest) {
    return new CommandArguments(name).key(queue).addObjects(rest);
  }

  static byte[] bytes(String text) {
    return text.getBytes(UTF_8);
  }

  static String text(Object bytes) {
    return new String((byte[]) bytes, UTF_8);
  }
}
