// The broker from Lettuce. Environment and steps: tests/interop/README.md.

import static java.nio.charset.StandardCharsets.UTF_8;

import io.lettuce.core.ClientOptions;
import io.lettuce.core.KeyValue;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.SslOptions;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.async.RedisAsyncCommands;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.output.CommandOutput;
import io.lettuce.core.output.IntegerOutput;
import io.lettuce.core.output.NestedMultiOutput;
import io.lettuce.core.output.ValueOutput;
import io.lettuce.core.output.ValueListOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import io.lettuce.core.protocol.ProtocolVersion;
import io.lettuce.core.support.AsyncConnectionPoolSupport;
import io.lettuce.core.support.BoundedPoolConfig;
import java.io.File;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;

final class LettuceClient {
  /** The commands of the broker: Lettuce asks for their names as bytes. */
  enum Dq implements ProtocolKeyword {
    OFFER, MOFFER, CANCEL, RESCHEDULE, PEEK, GET, FIRE, SIZE, TAKE, ACK, NACK, EXTEND, NONE;

    @Override
    public byte[] getBytes() {
      return bytes("DQ." + name());
    }
  }

  public static void main(String[] args) throws Exception {
    String queue = Steps.QUEUE;
    var uri = RedisURI.builder().withHost("localhost").withPort(Steps.BROKER_PORT);
    var options = ClientOptions.builder();
    // Protocol 3 is what Lettuce opens with when told nothing.
    if (!Steps.RESP3) options.protocolVersion(ProtocolVersion.RESP2);
    if (!Steps.PASSWORD.isEmpty()) uri.withPassword(Steps.PASSWORD.toCharArray());
    if (!Steps.CA.isEmpty()) {
      uri.withSsl(true);
      options.sslOptions(SslOptions.builder().trustManager(new File(Steps.CA)).build());
    }

    // `broker` takes messages in; `backing` is the Redis where they come out, as a plain list.
    RedisClient client = RedisClient.create(uri.build());
    client.setOptions(options.build());
    RedisClient other = RedisClient.create(RedisURI.create("localhost", Steps.REDIS_PORT));
    var connection = client.connect(ByteArrayCodec.INSTANCE);
    RedisCommands<byte[], byte[]> broker = connection.sync();
    RedisCommands<byte[], byte[]> backing = other.connect(ByteArrayCodec.INSTANCE).sync();
    Steps.is(broker.ping(), "PONG");
    Steps.passed("connect");

    String id = text(broker.dispatch(Dq.OFFER, value(), args(queue, "30m", "hello")));
    long tomorrow = System.currentTimeMillis() + 86_400_000;
    var due = args(queue, "AT").add(tomorrow).addValue(Steps.BINARY);
    String at = text(broker.dispatch(Dq.OFFER, value(), due));
    Steps.isTrue(at.startsWith(tomorrow + "-"), at);
    var offer = args(queue, "1h", "order 42", "NAME", "order:42");
    String named = text(broker.dispatch(Dq.OFFER, value(), offer));
    Steps.is(broker.dispatch(Dq.OFFER, value(), offer.add("NX")), null);
    Steps.passed("offer");

    var pairs = args(queue, "2h", "one", "3h", "", "4h").addValue(Steps.BINARY);
    List<byte[]> ids = broker.dispatch(Dq.MOFFER, new ValueListOutput<>(CODEC), pairs);
    Steps.is(ids.size(), 3);
    Steps.is(broker.dispatch(Dq.SIZE, integer(), args(queue)), 6L);
    Steps.passed("moffer");

    long cancelled = broker.dispatch(Dq.CANCEL, integer(), args(queue, id));
    Steps.is(cancelled, 1L);
    var rest = args(queue, id).addValues(ids);
    Steps.is(broker.dispatch(Dq.CANCEL, integer(), rest), 3L);
    Steps.passed("cancel");

    var sooner = args(queue, "order:42", "45m");
    String moved = text(broker.dispatch(Dq.RESCHEDULE, value(), sooner));
    Steps.isTrue(!moved.equals(named), moved);
    Steps.is(broker.dispatch(Dq.RESCHEDULE, value(), args(queue, named, "45m")), null);
    Steps.passed("reschedule");

    List<Object> peeked = broker.dispatch(Dq.PEEK, nested(), args(queue, "COUNT", "5"));
    Steps.is(peeked.size(), 2);
    Map<String, Object> first = fields(peeked.get(0)), second = fields(peeked.get(1));
    Steps.is(text(first.get("id")), moved);
    Steps.is(text(first.get("name")), "order:42");
    Steps.is(text(first.get("payload")), "order 42");
    Steps.is(text(second.get("id")), at);
    Steps.is(second.get("name"), null);
    Steps.is(second.get("due"), tomorrow);
    Steps.is(second.get("payload"), Steps.BINARY);
    Steps.is(broker.dispatch(Dq.PEEK, nested(), args(queue + ":none")), List.of());
    Steps.passed("peek");

    refused(broker, "BADDELAY ", Dq.OFFER, args(queue, "soon", "x"));
    refused(broker, "BADQUEUE ", Dq.OFFER, args("", "1h", "x"));
    refused(broker, "ERR wrong number of arguments", Dq.OFFER, args(queue));
    refused(broker, "ERR unknown command", Dq.NONE, args(queue));
    Steps.passed("errors");

    // A thousand without waiting; the replies come in order.
    RedisAsyncCommands<byte[], byte[]> async = connection.async();
    List<RedisFuture<byte[]>> replies = new ArrayList<>();
    for (int i = 0; i < 1000; i++) {
      var many = args(queue + ":many", "AT").add(tomorrow + i).add("message " + i);
      replies.add(async.dispatch(Dq.OFFER, value(), many));
    }
    for (int i = 0; i < 1000; i++) {
      String reply = text(replies.get(i).get(10, TimeUnit.SECONDS));
      Steps.isTrue(reply.startsWith(tomorrow + i + "-"), reply);
    }
    Steps.passed("pipeline");

    broker.dispatch(Dq.OFFER, value(), args(queue, "20ms").addValue(Steps.BINARY));
    KeyValue<byte[], byte[]> taken = backing.blpop(10, bytes(queue));
    Steps.is(text(taken.getKey()), queue);
    Steps.is(taken.getValue(), Steps.BINARY);
    Steps.passed("binary");

    var megabytes = args(queue, "1h").addValue(Steps.LARGE);
    String large = text(broker.dispatch(Dq.OFFER, value(), megabytes));
    Object got = broker.dispatch(Dq.GET, nested(), args(queue, large));
    Steps.is(fields(got).get("payload"), Steps.LARGE);
    Steps.is(broker.dispatch(Dq.FIRE, integer(), args(queue, large)), 1L);
    Steps.is(backing.blpop(10, bytes(queue)).getValue(), Steps.LARGE);
    Steps.passed("large");

    // A message is handed out until it is acknowledged. Takes that wait have a connection of their
    // own, since all others would wait behind them.
    RedisCommands<byte[], byte[]> taker = client.connect(ByteArrayCodec.INSTANCE).sync();
    var dueNow = args(queue, "0", "one", "0", "", "0").addValue(Steps.BINARY);
    broker.dispatch(Dq.MOFFER, nested(), dueNow);
    List<Map<String, Object>> messages = new ArrayList<>();
    while (messages.size() < 3) {
      var take = args(queue, "COUNT", "3", "BLOCK", "5s");
      List<Object> lent = taker.dispatch(Dq.TAKE, nested(), take);
      for (Object message : lent) messages.add(fields(message));
    }
    byte[][] payloads = {bytes("one"), {}, Steps.BINARY};
    for (int i = 0; i < 3; i++) {
      Steps.is(messages.get(i).get("payload"), payloads[i]);
      Steps.is(messages.get(i).get("attempt"), 1L);
    }
    Map<String, Object> given = messages.get(1);
    String handled = text(messages.get(0).get("receipt")), two = text(given.get("receipt"));
    String three = text(messages.get(2).get("receipt"));
    long acked = broker.dispatch(Dq.ACK, integer(), args(queue, handled));
    Steps.is(acked, 1L);
    Steps.is(broker.dispatch(Dq.ACK, integer(), args(queue, handled)), 0L);
    var longer = args(queue, two, three, "LEASE", "2m");
    Steps.is(broker.dispatch(Dq.EXTEND, integer(), longer), 2L);
    var nack = args(queue, two, "DELAY", "0", "REASON", "not yet");
    Steps.is(broker.dispatch(Dq.NACK, integer(), nack), 1L);
    List<Object> again = taker.dispatch(Dq.TAKE, nested(), args(queue, "BLOCK", "5s"));
    Map<String, Object> retry = fields(again.get(0));
    Steps.is(retry.get("id"), given.get("id"));
    Steps.is(retry.get("attempt"), 2L);
    Steps.is(retry.get("payload"), new byte[0]);
    var both = args(queue, text(retry.get("receipt")), three);
    Steps.is(broker.dispatch(Dq.ACK, integer(), both), 2L);
    // Nil in place of an array.
    List<Object> nothing = taker.dispatch(Dq.TAKE, nested(), args(queue));
    Steps.is(nothing, Steps.RESP3 ? Collections.singletonList(null) : List.of());
    Steps.passed("consume");

    var fifty = BoundedPoolConfig.builder().minIdle(50).maxIdle(50).maxTotal(50).build();
    var pool =
        AsyncConnectionPoolSupport.createBoundedObjectPool(
            () -> client.connectAsync(ByteArrayCodec.INSTANCE, uri.build()), fifty);
    List<CompletableFuture<Void>> workers = new ArrayList<>();
    for (int i = 0; i < 50; i++) {
      workers.add(pool.acquire().thenCompose(one -> offers(one, queue, 20)
          .thenCompose(done -> pool.release(one))));
    }
    CompletableFuture.allOf(workers.toArray(CompletableFuture[]::new)).get(30, TimeUnit.SECONDS);
    Steps.is(broker.dispatch(Dq.SIZE, integer(), args(queue + ":pool")), 1000L);
    pool.close();
    Steps.passed("pool");

    // What is sent while there is no connection waits for the next one.
    Steps.restart();
    Steps.is(broker.dispatch(Dq.SIZE, integer(), args(queue)), 2L);
    Steps.passed("restart");

    client.shutdown();
    other.shutdown();
    Steps.passed("quit");
  }

  static CompletionStage<byte[]> offers(
      StatefulRedisConnection<byte[], byte[]> connection, String queue, int count) {
    var offer = args(queue + ":pool", "1h", "x");
    CompletionStage<byte[]> stored = connection.async().dispatch(Dq.OFFER, value(), offer);
    return count == 1
        ? stored
        : stored.thenCompose(done -> offers(connection, queue, count - 1));
  }

  /** The first word of an error is its code. */
  static void refused(
      RedisCommands<byte[], byte[]> broker, String code, Dq command,
      CommandArgs<byte[], byte[]> args) {
    byte[] answer;
    try {
      answer = broker.dispatch(command, value(), args);
    } catch (RedisCommandExecutionException error) {
      Steps.isTrue(error.getMessage().startsWith(code), error);
      return;
    }
    throw new AssertionError(code + "expected, answered: " + text(answer));
  }

  /** This output reads maps as it reads arrays: names and values in turn, in both protocols. */
  static Map<String, Object> fields(Object message) {
    Map<String, Object> fields = new HashMap<>();
    List<?> list = (List<?>) message;
    for (int i = 0; i < list.size(); i += 2) fields.put(text(list.get(i)), list.get(i + 1));
    return fields;
  }

  static final ByteArrayCodec CODEC = ByteArrayCodec.INSTANCE;

  static CommandOutput<byte[], byte[], byte[]> value() {
    return new ValueOutput<>(CODEC);
  }

  static CommandOutput<byte[], byte[], Long> integer() {
    return new IntegerOutput<>(CODEC);
  }

  static CommandOutput<byte[], byte[], List<Object>> nested() {
    return new NestedMultiOutput<>(CODEC);
  }

  static CommandArgs<byte[], byte[]> args(String queue, String... rest) {
    var args = new CommandArgs<>(CODEC).addKey(bytes(queue));
    for (String one : rest) args.addValue(bytes(one));
    return args;
  }

  static byte[] bytes(String text) {
    return text.getBytes(UTF_8);
  }

  static String text(Object bytes) {
    return new String((byte[]) bytes, UTF_8);
  }
}
