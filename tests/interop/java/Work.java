// The work of the listeners of this directory, which tests/interop/listeners.py runs.

final class Work {
  static void onMessage(byte[] bytes, long attempt) throws Exception {
    String payload = new String(bytes);
    System.out.println("begins " + payload + " " + attempt);
    Thread.sleep(payload.startsWith("slow") ? 6000 : 20);
    if (payload.startsWith("fail") && attempt == 1) throw new IllegalStateException("not yet");
    System.out.println("ends " + payload + " " + attempt);
  }

  static void onError(Throwable error, byte[] payload) {
    System.out.println("fails " + (payload == null ? "-" : new String(payload)) + " " + error);
  }
}
