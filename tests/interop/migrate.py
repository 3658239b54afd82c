"""The code of a page of docs/migrate that stands below "After", run as it stands there.

    migrate.py PAGE: environment and steps as README.md beside this says.

A block has a head, and parts that begin with the comments Producer, Cancel and Consumer. Each part
runs in a program of its own, below the head and with a `remind` of ours: the first message that it
gets is handled, at the second it ends the program.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import redis

here = Path(__file__).parent
queue = os.environ["QUEUE"]
ports = {"7379": "BROKER_PORT", "7381": "REDIS_PORT"}
broker = redis.Redis(port=int(os.environ["BROKER_PORT"]))
backing = redis.Redis(port=int(os.environ["REDIS_PORT"]))

PYTHON = """
import os, sys, types
handled = []
def remind(payload):
    handled.append(payload)
    if len(handled) == 2:
        os._exit(0)
remind.delay = remind
sys.modules["tasks"] = types.SimpleNamespace(remind=remind)
"""
NODE = """
let handled = 0;
const remind = async () => { if (++handled === 2) process.exit(0); };
"""
# Redisson's config is the reader's, and so is not on the page.
JAVA = """
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.*;
import org.redisson.config.Config;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.commands.ProtocolCommand;
class Part {
  static int handled;
  static void remind(String payload) { if (++handled == 2) Runtime.getRuntime().halt(0); }
  public static void main(String[] args) throws Exception {
    var config = new Config();
    config.useSingleServer().setAddress("redis://localhost:" + System.getenv("REDIS_PORT"));
    if (true) {
"""


def run(language, code):
    """Each language's way to run one file. It ends by itself, or is ended when its work is done."""
    if language == "python":
        done = subprocess.run([sys.executable, "-c", PYTHON + code], timeout=60)
    elif language == "js":
        ended = "\nprocess.exit(0);" if "for (;;)" not in code else ""
        module = ["node", "--input-type=module", "-e", NODE + code + ended]
        done = subprocess.run(module, cwd=here / "node", timeout=60)
    else:
        with tempfile.TemporaryDirectory() as made:
            part = Path(made) / "Part.java"
            part.write_text(JAVA + code + "}\nRuntime.getRuntime().halt(0); } }")
            libraries = os.environ["JAVA_LIBRARIES"]
            done = subprocess.run(["java", "-cp", libraries, str(part)], timeout=60)
    assert done.returncode == 0, f"{done.returncode}:\n{code}"


def pending():
    return broker.execute_command("DQ.SIZE", queue)


text = Path(sys.argv[1]).read_text()
language, block = re.search(r"\n## After\n.*?\n```(\w+)\n(.*?)```", text, re.S).groups()
block = block.replace('"orders', '"' + queue)
for shown, name in ports.items():
    block = re.sub(rf"\b{shown}\b", os.environ[name], block)
head, producer, cancel, consumer = re.split(r"(?:#|//) (?:Producer|Cancel|Consumer).*\n", block)

run(language, head + producer)
assert pending() == 1
print("offer", flush=True)
run(language, head + cancel)
assert pending() == 0
print("cancel", flush=True)
run(language, head + producer)
message = broker.execute_command("DQ.PEEK", queue)[0]
broker.execute_command("DQ.FIRE", queue, message[b"id"])
payload = backing.blmove(queue, queue, 10, "LEFT", "LEFT")
backing.rpush(queue, payload)
run(language, head + consumer)
# The first is done. The second was under way when the program ended, and is not lost by BLMOVE.
assert backing.llen(queue) == 0
assert backing.lrange(queue + ":working", 0, -1) == ([payload] if "blmove" in consumer else [])
print("consume", flush=True)
