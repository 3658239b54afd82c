// A consumer of a stream with Lettuce, which tests/interop/streams.py runs.

import io.lettuce.core.Consumer;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.StreamMessage;
import io.lettuce.core.XReadArgs;
import io.lettuce.core.XReadArgs.StreamOffset;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.IntegerOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;

final class LettuceStream {
  enum Dq implements ProtocolKeyword {
    NACK;

    @Override
    public byte[] getBytes() {
      return "DQ.NACK".getBytes();
    }
  }

  @SuppressWarnings("unchecked")
  public static void main(String[] none) {
    var queue = System.getenv("QUEUE");
    var broker = sync("BROKER_PORT");
    var backing = sync("REDIS_PORT");
    System.out.println("reads");
    var worker = Consumer.from("g", "worker");
    while (true) {
      var args = XReadArgs.Builder.block(2000).count(10);
      for (StreamMessage<String, String> entry :
          backing.xreadgroup(worker, args, StreamOffset.lastConsumed(queue))) {
        var fields = entry.getBody();
        var payload = fields.get("payload");
        var attempt = Integer.parseInt(fields.getOrDefault("attempt", "1"));
        System.out.println(payload + " " + attempt);
        if (attempt == 1 && payload.equals("die")) {
          System.exit(0);
        } else if (attempt == 1 && payload.equals("back")) {
          var terms = new CommandArgs<>(StringCodec.UTF8).addKey(queue);
          terms.add("GROUP").add("g").add(entry.getId()).add("DELAY").add(100);
          broker.dispatch(Dq.NACK, new IntegerOutput<>(StringCodec.UTF8), terms);
        } else {
          backing.xack(queue, "g", entry.getId());
        }
      }
    }
  }

  static io.lettuce.core.api.sync.RedisCommands<String, String> sync(String port) {
    var uri = RedisURI.create("127.0.0.1", Integer.parseInt(System.getenv(port)));
    return RedisClient.create(uri).connect().sync();
  }
}
