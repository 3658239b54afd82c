// A program that uses Redisson, and does what it is told over a socket:
// `Program REDIS_PORT [SUBSCRIPTION_CONNECTIONS]`.
//
// It speaks RESP, so that the driver talks to it with the same client as to Redis and the broker,
// and so that it can be tried by hand with redis-cli. Each connection is a thread, and a command is
// one call of Redisson (`Actions.java`). It prints `ready PORT`, and ends when its stdin closes, as
// a program ends that was killed: nothing is shut down.

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

public final class Program {
  public static void main(String[] arguments) throws Exception {
    // All settings are Redisson's own, but the codec, which differs from version to version.
    var config = new Config();
    config.setCodec(StringCodec.INSTANCE);
    var single = config.useSingleServer().setAddress("redis://127.0.0.1:" + arguments[0]);
    // Each serves five queues, so that Redisson's own setting does for 250.
    if (arguments.length > 1) {
      single.setSubscriptionConnectionPoolSize(Integer.parseInt(arguments[1]));
    }
    var redisson = Redisson.create(config);
    var server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    start(() -> accept(server, redisson));
    System.out.println("ready " + server.getLocalPort());
    System.in.transferTo(OutputStream.nullOutputStream());
    Runtime.getRuntime().halt(0);
  }

  private interface Task {
    void run() throws Exception;
  }

  private static void start(Task task) {
    new Thread(() -> {
      try {
        task.run();
      } catch (Exception error) {
        System.err.println("connection closed: " + error);
      }
    }).start();
  }

  private static void accept(ServerSocket server, RedissonClient redisson) throws IOException {
    while (true) {
      var socket = server.accept();
      start(() -> serve(socket, redisson));
    }
  }

  private static void serve(Socket socket, RedissonClient redisson) throws IOException {
    try (socket) {
      socket.setTcpNoDelay(true);
      var in = new DataInputStream(new BufferedInputStream(socket.getInputStream()));
      var out = new BufferedOutputStream(socket.getOutputStream());
      var actions = new Actions(redisson);
      for (var command = read(in); command != null; command = read(in)) {
        try {
          write(out, actions.run(command));
        } catch (Exception error) {
          var line = "-ERR " + error.toString().replaceAll("[\r\n]+", " ") + "\r\n";
          out.write(line.getBytes(StandardCharsets.UTF_8));
        }
        out.flush();
      }
    }
  }

  /** One command: an array of strings; null at the end. */
  private static List<byte[]> read(DataInputStream in) throws IOException {
    var head = line(in);
    if (head == null) {
      return null;
    }
    var command = new ArrayList<byte[]>();
    for (int left = Integer.parseInt(head.substring(1)); left > 0; left--) {
      var bytes = new byte[Integer.parseInt(line(in).substring(1))];
      in.readFully(bytes);
      in.skipBytes(2);
      command.add(bytes);
    }
    return command;
  }

  private static String line(DataInputStream in) throws IOException {
    var line = new StringBuilder();
    for (int next = in.read(); next != '\n'; next = in.read()) {
      if (next < 0) {
        return null;
      }
      line.append((char) next);
    }
    return line.toString().trim();
  }

  private static void write(OutputStream out, Object reply) throws IOException {
    if (reply == null) {
      out.write("$-1\r\n".getBytes());
    } else if (reply instanceof Collection) {
      var all = (Collection<?>) reply;
      out.write(("*" + all.size() + "\r\n").getBytes());
      for (var one : all) {
        write(out, one);
      }
    } else if (reply instanceof Boolean) {
      write(out, (boolean) reply ? 1 : 0);
    } else if (reply instanceof Number) {
      out.write((":" + reply + "\r\n").getBytes());
    } else {
      var text = reply.toString().getBytes(StandardCharsets.UTF_8);
      var bytes = reply instanceof byte[] ? (byte[]) reply : text;
      out.write(("$" + bytes.length + "\r\n").getBytes());
      out.write(bytes);
      out.write("\r\n".getBytes());
    }
  }
}
