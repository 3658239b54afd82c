// A consumer of a stream with Redisson, which tests/interop/streams.py runs. It offers one message
// itself, by a delayed queue whose own transfers fail at the stream.

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.stream.StreamReadGroupArgs;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

final class RedissonStream {
  @SuppressWarnings("deprecation")
  public static void main(String[] none) {
    var queue = System.getenv("QUEUE");
    var config = new Config();
    config.useSingleServer().setAddress("redis://127.0.0.1:" + System.getenv("REDIS_PORT"));
    var redisson = Redisson.create(config);
    var list = redisson.<String>getBlockingQueue(queue, StringCodec.INSTANCE);
    redisson.getDelayedQueue(list).offer("offered", 300, TimeUnit.MILLISECONDS);
    System.out.println("offers");
    var stream = redisson.<String, String>getStream(queue, StringCodec.INSTANCE);
    var args = StreamReadGroupArgs.neverDelivered().count(10).timeout(Duration.ofSeconds(2));
    while (true) {
      stream
          .readGroup("g", "worker", args)
          .forEach(
              (entry, fields) -> {
                var payload = fields.get("payload");
                var attempt = Integer.parseInt(fields.getOrDefault("attempt", "1"));
                System.out.println(payload + " " + attempt);
                if (attempt == 1 && payload.equals("die")) {
                  System.exit(0);
                } else if (attempt > 1 || !payload.equals("back")) {
                  stream.ack("g", entry);
                }
              });
    }
  }
}
