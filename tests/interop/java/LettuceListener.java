// A listener: calls methods with the messages of queues. Below it is its test, which
// tests/interop/listeners.py runs.

import static java.nio.charset.StandardCharsets.UTF_8;

import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisException;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.output.IntegerOutput;
import io.lettuce.core.output.NestedMultiOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
final class LettuceListener {
  interface OnMessage {
    void handle(byte[] payload, long attempt) throws Exception;
  }

  interface OnError {
    void failed(Throwable error, byte[] payload);
  }

  enum Dq implements ProtocolKeyword {
    TAKE, ACK, NACK, EXTEND;

    @Override
    public byte[] getBytes() {
      return ("DQ." + name()).getBytes(UTF_8);
    }
  }

  record Queue(String name, OnMessage onMessage, OnError onError, int places, long leaseMs) {}

  private final RedisClient client;
  private final RedisCommands<byte[], byte[]> broker;
  private final List<Thread> threads = new ArrayList<>();
  private final ScheduledExecutorService extender = Executors.newScheduledThreadPool(1);
  volatile boolean stopping;

  /** Its timeout, a minute, is longer than a take waits. */
  LettuceListener(String host, int port) {
    client = RedisClient.create(RedisURI.create(host, port));
    broker = client.connect(CODEC).sync();
  }

  /** `onMessage` in `places` threads; it returns when the work is done. */
  void register(Queue queue) {
    threads.add(new Thread(() -> listen(queue)));
  }

  void start() {
    threads.forEach(Thread::start);
  }

  /** Returns when the last handler has ended, or after 2 seconds if none is at work. */
  void stop() {
    stopping = true;
    for (Thread thread : threads) {
      try {
        thread.join();
      } catch (InterruptedException end) {
        Thread.currentThread().interrupt();
      }
    }
    extender.shutdown();
    client.shutdown();
  }

  private void listen(Queue queue) {
    var free = new Semaphore(queue.places());
    var pool = Executors.newFixedThreadPool(queue.places());
    var taker = client.connect(CODEC).sync(); // Commands would wait behind a take that waits.
    while (!stopping) {
      free.acquireUninterruptibly(); // Waits until there is one. Nobody else takes places.
      free.release();
      for (Object one : take(taker, queue, free.availablePermits())) {
        Map<String, Object> message = fields(one);
        if (stopping) {
          settle(queue, Dq.NACK, message.get("receipt"), "SILENT");
          continue;
        }
        free.acquireUninterruptibly();
        pool.execute(() -> {
          try {
            handle(queue, message);
          } finally {
            free.release();
          }
        });
      }
    }
    free.acquireUninterruptibly(queue.places());
    pool.shutdown();
  }

  private List<?> take(RedisCommands<byte[], byte[]> taker, Queue queue, int places) {
    if (stopping) return List.of();
    var take = args(queue, "COUNT", places, "BLOCK", "2s", "LEASE", queue.leaseMs());
    try {
      List<Object> taken = taker.dispatch(Dq.TAKE, new NestedMultiOutput<>(CODEC), take);
      taken.remove(null); // Nil is an array of it.
      return taken;
    } catch (RedisException error) {
      queue.onError().failed(error, null);
      pause(1000);
      return List.of();
    }
  }

  private void handle(Queue queue, Map<String, Object> message) {
    Object receipt = message.get("receipt");
    byte[] payload = (byte[]) message.get("payload");
    long third = queue.leaseMs() / 3;
    Runnable extend = () -> send(queue, Dq.EXTEND, receipt, "LEASE", queue.leaseMs());
    var extending = extender.scheduleAtFixedRate(extend, third, third, TimeUnit.MILLISECONDS);
    try {
      queue.onMessage().handle(payload, (long) message.get("attempt"));
      settle(queue, Dq.ACK, receipt);
    } catch (Exception error) {
      String reason = error.toString();
      reason = reason.substring(0, Math.min(reason.length(), 128)); // At most 512 bytes.
      settle(queue, Dq.NACK, receipt, "REASON", reason);
      queue.onError().failed(error, payload);
    } finally {
      extending.cancel(false);
    }
  }

  private void settle(Queue queue, Dq command, Object... args) {
    for (long pause : new long[] {100, 1000, 5000, 0}) {
      if (send(queue, command, args)) return; // It may be repeated.
      pause(pause);
    }
  }

  private boolean send(Queue queue, Dq command, Object... args) {
    try {
      broker.dispatch(command, new IntegerOutput<>(CODEC), args(queue, args));
      return true;
    } catch (RedisException error) {
      queue.onError().failed(error, null);
      return false;
    }
  }

  private static final ByteArrayCodec CODEC = ByteArrayCodec.INSTANCE;

  private static CommandArgs<byte[], byte[]> args(Queue queue, Object... rest) {
    var args = new CommandArgs<>(CODEC).addKey(queue.name().getBytes(UTF_8));
    for (Object one : rest) {
      args.add(one instanceof byte[] bytes ? bytes : one.toString().getBytes(UTF_8));
    }
    return args;
  }

  private static Map<String, Object> fields(Object message) {
    Map<String, Object> fields = new HashMap<>();
    var list = (List<?>) message;
    for (int i = 0; i < list.size(); i += 2) {
      fields.put(new String((byte[]) list.get(i), UTF_8), list.get(i + 1));
    }
    return fields;
  }

  private static void pause(long ms) {
    try {
      Thread.sleep(ms);
    } catch (InterruptedException end) {
      Thread.currentThread().interrupt();
    }
  }

  public static void main(String[] args) {
    int port = Integer.parseInt(System.getenv("BROKER_PORT"));
    var listener = new LettuceListener("localhost", port);
    String queue = System.getenv("QUEUE");
    listener.register(new Queue(queue, Work::onMessage, Work::onError, 4, 4000));
    Runtime.getRuntime().addShutdownHook(new Thread(() -> {
      listener.stopping = true;
      System.out.println("stopping");
      listener.stop();
    }));
    listener.start();
  }
}
