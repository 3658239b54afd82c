<?php
// The broker from phpredis. Environment and steps: tests/interop/README.md.

$queue = getenv('QUEUE');
const BINARY = "\0nul\r\ncrlf\xff\0";
define('LARGE', str_repeat("\0\1\r\n\xfe\xff$*", 4 * 1024 * 1024 / 8));

function check(bool $so): void
{
    $so || throw new Exception('not so');
}

function passed(string $step): void
{
    echo $step, "\n";
}

/** phpredis 5 knows protocol 2 only. */
function connect(): Redis
{
    $broker = new Redis();
    if (getenv('CA')) {
        $tls = ['stream' => ['cafile' => getenv('CA')]];
        $broker->connect('tls://localhost', (int) getenv('BROKER_PORT'), 0, null, 0, 0, $tls);
    } else {
        $broker->connect('localhost', (int) getenv('BROKER_PORT'));
    }
    if (getenv('PASSWORD')) {
        check($broker->auth(getenv('PASSWORD')));
    }
    return $broker;
}

/** A message as DQ.PEEK tells it in RESP2: names and values in turn. */
function fields(array $message): array
{
    return array_column(array_chunk($message, 2), 1, 0);
}

// $broker takes messages in; $backing is the Redis where they come out, as a plain list.
$broker = connect();
$backing = new Redis();
$backing->connect('localhost', (int) getenv('REDIS_PORT'));
check($broker->ping());
passed('connect');

$id = $broker->rawCommand('DQ.OFFER', $queue, '30m', 'hello');
$tomorrow = (time() + 86400) * 1000;
$at = $broker->rawCommand('DQ.OFFER', $queue, 'AT', $tomorrow, BINARY);
check(str_starts_with($at, "$tomorrow-"));
$named = $broker->rawCommand('DQ.OFFER', $queue, '1h', 'order 42', 'NAME', 'order:42');
// Nil is `false`, as an error that begins with ERR is: the difference is in getLastError().
$again = $broker->rawCommand('DQ.OFFER', $queue, '1h', 'again', 'NAME', 'order:42', 'NX');
check($again === false && $broker->getLastError() === null);
passed('offer');

$ids = $broker->rawCommand('DQ.MOFFER', $queue, '2h', 'one', '3h', '', '4h', BINARY);
check(count(array_unique([...$ids, $id, $at, $named])) === 6);
check($broker->rawCommand('DQ.SIZE', $queue) === 6);
passed('moffer');

$cancelled = $broker->rawCommand('DQ.CANCEL', $queue, $id);
check($cancelled === 1);
check($broker->rawCommand('DQ.CANCEL', $queue, $id, ...$ids) === 3);
passed('cancel');

$moved = $broker->rawCommand('DQ.RESCHEDULE', $queue, 'order:42', '45m');
check(is_string($moved) && $moved !== $named);
check($broker->rawCommand('DQ.RESCHEDULE', $queue, $named, '45m') === false);
passed('reschedule');

$peeked = array_map('fields', $broker->rawCommand('DQ.PEEK', $queue, 'COUNT', 5));
check(array_column($peeked, 'payload') === ['order 42', BINARY]);
check(array_column($peeked, 'id') === [$moved, $at]);
check($peeked[0]['name'] === 'order:42' && !$peeked[1]['name']);
check($peeked[1]['due'] === $tomorrow);
check($broker->rawCommand('DQ.PEEK', "$queue:none") === []);
passed('peek');

// The first word of an error is its code. phpredis throws it; but where that word is ERR, it
// answers `false` and keeps the text.
foreach (
    [
        'BADDELAY ' => ['DQ.OFFER', $queue, 'soon', 'x'],
        'BADQUEUE ' => ['DQ.OFFER', '', '1h', 'x'],
        'ERR wrong number of arguments' => ['DQ.OFFER', $queue],
        'ERR unknown command' => ['DQ.NONE', $queue],
    ] as $code => $command
) {
    $broker->clearLastError();
    try {
        check($broker->rawCommand(...$command) === false);
        $error = $broker->getLastError();
    } catch (RedisException $thrown) {
        $error = $thrown->getMessage();
    }
    check(str_starts_with($error, $code));
}
$broker->clearLastError();
passed('errors');

// A thousand in one write; the replies come in order.
$pipeline = $broker->pipeline();
for ($i = 0; $i < 1000; $i++) {
    $pipeline->rawCommand('DQ.OFFER', "$queue:many", 'AT', $tomorrow + $i, "message $i");
}
foreach ($pipeline->exec() as $i => $one) {
    check(str_starts_with($one, $tomorrow + $i . '-'));
}
passed('pipeline');

$broker->rawCommand('DQ.OFFER', $queue, '20ms', BINARY);
[$name, $payload] = $backing->blPop($queue, 10);
check([$name, $payload] === [$queue, BINARY]);
passed('binary');

$large = $broker->rawCommand('DQ.OFFER', $queue, '1h', LARGE);
check(fields($broker->rawCommand('DQ.GET', $queue, $large))['payload'] === LARGE);
check($broker->rawCommand('DQ.FIRE', $queue, $large) === 1);
check($backing->blPop($queue, 10)[1] === LARGE);
passed('large');

// A message is handed out until it is acknowledged.
$broker->rawCommand('DQ.MOFFER', $queue, 0, 'one', 0, '', 0, BINARY);
$messages = [];
while (count($messages) < 3) {
    $taken = $broker->rawCommand('DQ.TAKE', $queue, 'COUNT', 3, 'BLOCK', '5s');
    $messages = [...$messages, ...array_map('fields', $taken)];
}
check(array_column($messages, 'payload') === ['one', '', BINARY]);
check(array_column($messages, 'attempt') === [1, 1, 1]);
[$one, $two, $three] = array_column($messages, 'receipt');
$acked = $broker->rawCommand('DQ.ACK', $queue, $one);
check($acked === 1);
check($broker->rawCommand('DQ.ACK', $queue, $one) === 0);
check($broker->rawCommand('DQ.EXTEND', $queue, $two, $three, 'LEASE', '2m') === 2);
check($broker->rawCommand('DQ.NACK', $queue, $two, 'DELAY', 0, 'REASON', 'not yet') === 1);
$again = fields($broker->rawCommand('DQ.TAKE', $queue, 'BLOCK', '5s')[0]);
check($again['id'] === $messages[1]['id'] && $again['attempt'] === 2 && $again['payload'] === '');
check($broker->rawCommand('DQ.ACK', $queue, $again['receipt'], $three) === 2);
// Nil in place of an array is an empty one here.
check($broker->rawCommand('DQ.TAKE', $queue) === []);
passed('consume');

// The pool of phpredis keeps connections for the next request: one process has one request, so
// fifty connections, in turn.
$pool = array_map(fn () => connect(), range(1, 50));
for ($i = 0; $i < 1000; $i++) {
    check(is_string($pool[$i % 50]->rawCommand('DQ.OFFER', "$queue:pool", '1h', 'x')));
}
foreach ($pool as $one) {
    $one->close();
}
passed('pool');

// phpredis connects again by itself, and says the password again.
passthru(getenv('RESTART'), $failed);
check($failed === 0);
check($broker->rawCommand('DQ.SIZE', $queue) === 2);
passed('restart');

check($broker->rawCommand('QUIT'));
check($broker->close() && $backing->close());
passed('quit');
