// A listener: calls methods with the messages of queues. Below it is its test, which
// tests/interop/listeners.py runs.

import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.ConnectionPoolConfig;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.commands.ProtocolCommand;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.util.KeyValue;

final class JedisListener {
  interface OnMessage {
    void handle(byte[] payload, long attempt) throws Exception;
  }

  interface OnError {
    void failed(Throwable error, byte[] payload);
  }

  enum Dq implements ProtocolCommand {
    TAKE, ACK, NACK, EXTEND;

    @Override
    public byte[] getRaw() {
      return ("DQ." + name()).getBytes(UTF_8);
    }
  }

  record Queue(String name, OnMessage onMessage, OnError onError, int places, long leaseMs) {}

  private final RedisClient broker;
  private final List<Thread> threads = new ArrayList<>();
  private final ScheduledExecutorService extender = Executors.newScheduledThreadPool(1);
  volatile boolean stopping;

  /** A read timeout longer than a take waits, and connections for all queues and places. */
  JedisListener(String host, int port) {
    var config = DefaultJedisClientConfig.builder().timeoutMillis(15_000).build();
    var pool = new ConnectionPoolConfig();
    pool.setTestOnBorrow(true); // Replaces connections that broke while they were idle.
    broker =
        RedisClient.builder().hostAndPort(host, port).clientConfig(config).poolConfig(pool).build();
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
    broker.close();
  }

  private void listen(Queue queue) {
    var free = new Semaphore(queue.places());
    var pool = Executors.newFixedThreadPool(queue.places());
    while (!stopping) {
      free.acquireUninterruptibly(); // Waits until there is one. Nobody else takes places.
      free.release();
      for (Object one : take(queue, free.availablePermits())) {
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

  private List<?> take(Queue queue, int places) {
    if (stopping) return List.of();
    var take = new CommandArguments(Dq.TAKE).key(queue.name());
    take.add("COUNT").add(places).add("BLOCK").add("2s").add("LEASE").add(queue.leaseMs());
    try {
      var taken = (List<?>) broker.executeCommand(take);
      return taken == null ? List.of() : taken;
    } catch (JedisException error) {
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
      broker.executeCommand(new CommandArguments(command).key(queue.name()).addObjects(args));
      return true;
    } catch (JedisException error) {
      queue.onError().failed(error, null);
      return false;
    }
  }

  private static Map<String, Object> fields(Object message) {
    Map<String, Object> fields = new HashMap<>();
    for (Object one : (List<?>) message) {
      var field = (KeyValue<?, ?>) one;
      fields.put(new String((byte[]) field.getKey(), UTF_8), field.getValue());
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
    var listener = new JedisListener("localhost", port);
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
