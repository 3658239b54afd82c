// What one connection can ask of Redisson: each command is a call of RDelayedQueue, of the
// RBlockingQueue behind it, or a loop of such calls. Knows nothing of the broker.

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;
import org.redisson.api.RBlockingQueue;
import org.redisson.api.RDelayedQueue;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.Codec;
import org.redisson.client.codec.StringCodec;

final class Actions {
  private static final int OFFERS_UNDER_WAY = 64;

  private final RedissonClient redisson;
  private final Map<String, RDelayedQueue<Object>> held = new ConcurrentHashMap<>();
  private Codec codec = StringCodec.INSTANCE;

  Actions(RedissonClient redisson) {
    this.redisson = redisson;
  }

  /** What a class-bound codec makes of JSON. */
  public static final class Order {
    public String id;
    public long cents;

    @Override
    public String toString() {
      return id + " for " + cents;
    }
  }

  /** Boolean and number answer an integer, a list an array, null nil, anything else its text. */
  Object run(List<byte[]> command) throws Exception {
    var name = text(command.get(0));
    var key = command.size() > 1 ? text(command.get(1)) : "";
    var words = command.stream().skip(2).map(Actions::text).collect(Collectors.toList());
    switch (name) {
      case "CODEC": // CODEC class of codec [class of payload]
        return use(key, words);
      case "TAKE": // answers the payload, and when it came by this program's clock, Unix ms
        return List.of(list(key).take(), System.currentTimeMillis());
      case "TAKEALL": // TAKEALL queue ms: until nothing has come for so long
        return takeAll(list(key), Long.parseLong(words.get(0)));
      case "TAKEUNTIL": // TAKEUNTIL queue payload: with take, until it gets this one
        return takeUntil(list(key), words.get(0));
      case "LISTPOLL": // LIST...: methods of the RBlockingQueue
        return list(key).poll();
      case "LISTREMOVE":
        return list(key).remove(value(command.get(2)));
      case "LISTREADALL":
        return list(key).readAll();
      case "LISTCLEAR":
        list(key).clear();
        return "OK";
      case "HOLDALL": // HOLDALL queue...: side by side, and waits for none
        holdAll(command);
        return "OK";
      case "TIME":
        return System.currentTimeMillis();
      default:
    }
    var queue = delayed(key);
    switch (name) {
      case "HOLD": // by now the delayed queue is created, and so is its transfer task
        return "OK";
      case "OFFER": // OFFER queue delay payload
        queue.offer(value(command.get(3)), Long.parseLong(words.get(0)), TimeUnit.MILLISECONDS);
        return "OK";
      case "OFFERMANY": // OFFERMANY queue count who least-delay longest-delay
        return offerMany(queue, Integer.parseInt(words.get(0)), words.get(1),
            Integer.parseInt(words.get(2)), Integer.parseInt(words.get(3)));
      case "CONTAINS":
        return queue.contains(value(command.get(2)));
      case "CONTAINSALL":
        return queue.containsAll(values(command));
      case "REMOVE":
        return queue.remove(value(command.get(2)));
      case "REMOVEALL":
        return queue.removeAll(values(command));
      case "RETAINALL":
        return queue.retainAll(values(command));
      case "READALL":
        return queue.readAll();
      case "ITERATE":
        return new ArrayList<>(collect(queue));
      case "SIZE":
        return queue.size();
      case "PEEK":
        return queue.peek();
      case "POLL":
        return queue.poll();
      case "POLLMANY": // newer than the oldest version here
        var poll = queue.getClass().getMethod("poll", int.class);
        poll.setAccessible(true);
        return poll.invoke(queue, Integer.parseInt(words.get(0)));
      case "POLLLAST": // POLLLAST queue other-list
        return queue.pollLastAndOfferFirstTo(words.get(0));
      case "CLEAR":
        queue.clear();
        return "OK";
      case "DELETE":
        return queue.delete();
      case "EXPIRE": // EXPIRE queue ms
        return queue.expire(Long.parseLong(words.get(0)), TimeUnit.MILLISECONDS);
      case "RENAME": // RENAME queue other
        queue.rename(words.get(0));
        return "OK";
      case "DESTROY":
        held.remove(key).destroy();
        return "OK";
      default:
        throw new IllegalArgumentException("unknown command " + name);
    }
  }

  private RBlockingQueue<Object> list(String name) {
    return redisson.getBlockingQueue(name, codec);
  }

  /** One for each queue, as programs have it: Redisson counts the calls of getDelayedQueue. */
  private RDelayedQueue<Object> delayed(String name) {
    return held.computeIfAbsent(name, key -> redisson.getDelayedQueue(list(key)));
  }

  /** A program with many queues: for those that cannot be served Redisson fails after seconds. */
  private void holdAll(List<byte[]> command) {
    for (var name : command.subList(1, command.size())) {
      var thread = new Thread(() -> redisson.getDelayedQueue(list(text(name))));
      thread.setUncaughtExceptionHandler((failed, error) -> System.err.println("refused: " + error));
      thread.start();
    }
  }

  /** By name, since not every version has every codec. */
  private Object use(String name, List<String> of) throws Exception {
    for (var home : List.of("org.redisson.codec.", "org.redisson.client.codec.")) {
      try {
        var found = Class.forName(home + name);
        codec = (Codec) (of.isEmpty()
            ? found.getDeclaredConstructor().newInstance()
            : found.getDeclaredConstructor(Class.class).newInstance(Class.forName(of.get(0))));
        return "OK";
      } catch (ClassNotFoundException error) {
        continue;
      }
    }
    throw new IllegalArgumentException("no codec " + name);
  }

  /** What a program with this codec would offer. */
  private Object value(byte[] bytes) {
    switch (codec.getClass().getSimpleName()) {
      case "ByteArrayCodec":
        return bytes;
      case "LongCodec":
        return Long.valueOf(text(bytes));
      default:
        return text(bytes);
    }
  }

  private List<Object> values(List<byte[]> command) {
    return command.stream().skip(2).map(this::value).collect(Collectors.toList());
  }

  private static List<Object> collect(Iterable<Object> queue) {
    var all = new ArrayList<Object>();
    queue.forEach(all::add);
    return all;
  }

  /** Payloads and times in turn. */
  private static List<Object> takeAll(RBlockingQueue<Object> list, long ms) throws Exception {
    var all = new ArrayList<Object>();
    while (true) {
      var payload = list.poll(ms, TimeUnit.MILLISECONDS);
      if (payload == null) {
        return all;
      }
      all.add(payload);
      all.add(System.currentTimeMillis());
    }
  }

  private static List<Object> takeUntil(RBlockingQueue<Object> list, String last)
      throws Exception {
    var all = new ArrayList<Object>();
    for (var payload = list.take(); !payload.equals(last); payload = list.take()) {
      all.add(payload);
      all.add(System.currentTimeMillis());
    }
    return all;
  }

  /** Each payload is `due who number`; due, Unix ms, is a moment before that of its score. */
  private static Object offerMany(
      RDelayedQueue<Object> queue, int count, String who, int least, int longest)
      throws Exception {
    var random = new Random(who.hashCode());
    var room = new Semaphore(OFFERS_UNDER_WAY);
    var failed = new AtomicReference<Throwable>();
    for (int number = 0; number < count; number++) {
      long delay = least + random.nextInt(longest - least);
      room.acquire();
      var payload = System.currentTimeMillis() + delay + " " + who + " " + number;
      queue.offerAsync(payload, delay, TimeUnit.MILLISECONDS).handle((done, error) -> {
        failed.compareAndSet(null, error);
        room.release();
        return null;
      });
    }
    room.acquire(OFFERS_UNDER_WAY);
    if (failed.get() != null) {
      throw new IllegalStateException(failed.get());
    }
    return count;
  }

  private static String text(byte[] bytes) {
    return new String(bytes, StandardCharsets.UTF_8);
  }
}
