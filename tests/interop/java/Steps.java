// What the Java clients of tests/interop/README.md share: their environment, and how they fail.

import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.nio.charset.StandardCharsets;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.Arrays;
import java.util.Objects;
import javax.net.ssl.TrustManagerFactory;

final class Steps {
  static final String QUEUE = System.getenv("QUEUE");
  static final boolean RESP3 = System.getenv("PROTOCOL").equals("3");
  static final String PASSWORD = System.getenv("PASSWORD");
  static final String CA = System.getenv("CA");
  static final int BROKER_PORT = Integer.parseInt(System.getenv("BROKER_PORT"));
  static final int REDIS_PORT = Integer.parseInt(System.getenv("REDIS_PORT"));

  static final byte[] BINARY = "\0nul\r\ncrlf\u00ff\0".getBytes(StandardCharsets.ISO_8859_1);
  static final byte[] LARGE = new byte[4 << 20];

  static {
    // Threads of the clients would keep a program alive whose `main` has failed.
    Thread.setDefaultUncaughtExceptionHandler((thread, error) -> {
      error.printStackTrace();
      System.exit(1);
    });
    for (int i = 0; i < LARGE.length; i++) LARGE[i] = (byte) i;
  }

  static void passed(String step) {
    System.out.println(step);
  }

  static void is(Object got, Object expected) {
    if (got instanceof byte[] bytes && expected instanceof byte[] others) {
      if (Arrays.equals(bytes, others)) return;
    } else if (Objects.equals(got, expected)) return;
    throw new AssertionError("got " + got + ", expected " + expected);
  }

  static void isTrue(boolean condition, Object shown) {
    if (!condition) throw new AssertionError(shown);
  }

  static void restart() throws Exception {
    is(new ProcessBuilder(System.getenv("RESTART")).inheritIO().start().waitFor(), 0);
  }

  /** Java reads no PEM into a trust store by itself. */
  static KeyStore trustStore() throws Exception {
    KeyStore store = KeyStore.getInstance("JKS");
    store.load(null, null);
    try (FileInputStream pem = new FileInputStream(CA)) {
      var certificate = CertificateFactory.getInstance("X.509").generateCertificate(pem);
      store.setCertificateEntry("ca", certificate);
    }
    return store;
  }

  static TrustManagerFactory trust() throws Exception {
    var trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    trust.init(trustStore());
    return trust;
  }

  static File trustFile(char[] secret) throws Exception {
    File file = File.createTempFile("broker", ".jks");
    file.deleteOnExit();
    try (FileOutputStream out = new FileOutputStream(file)) {
      trustStore().store(out, secret);
    }
    return file;
  }
}
