<?php
// The broker from Predis. Environment and steps: tests/interop/README.md.

require 'Predis/autoload.php';

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

/** Predis 1 knows protocol 2 only. */
function connect(): Predis\Client
{
    $server = ['host' => 'localhost', 'port' => (int) getenv('BROKER_PORT')];
    if (getenv('CA')) {
        $server += ['scheme' => 'tls', 'ssl' => ['cafile' => getenv('CA')]];
    }
    if (getenv('PASSWORD')) {
        $server['password'] = getenv('PASSWORD');
    }
    return new Predis\Client($server);
}

/** A message as DQ.PEEK tells it in RESP2: names and values in turn. */
function fields(array $message): array
{
    return array_column(array_chunk($message, 2), 1, 0);
}

// $broker takes messages in; $backing is the Redis where they come out, as a plain list.
$broker = connect();
$backing = new Predis\Client(['host' => 'localhost', 'port' => (int) getenv('REDIS_PORT')]);
check($broker->ping()->getPayload() === 'PONG');
passed('connect');

$id = $broker->executeRaw(['DQ.OFFER', $queue, '30m', 'hello']);
$tomorrow = (time() + 86400) * 1000;
$at = $broker->executeRaw(['DQ.OFFER', $queue, 'AT', $tomorrow, BINARY]);
check(str_starts_with($at, "$tomorrow-"));
$named = $broker->executeRaw(['DQ.OFFER', $queue, '1h', 'order 42', 'NAME', 'order:42']);
$again = $broker->executeRaw(['DQ.OFFER', $queue, '1h', 'again', 'NAME', 'order:42', 'NX']);
check($again === null);
passed('offer');

$ids = $broker->executeRaw(['DQ.MOFFER', $queue, '2h', 'one', '3h', '', '4h', BINARY]);
check(count(array_unique([...$ids, $id, $at, $named])) === 6);
check($broker->executeRaw(['DQ.SIZE', $queue]) === 6);
passed('moffer');

$cancelled = $broker->executeRaw(['DQ.CANCEL', $queue, $id]);
check($cancelled === 1);
check($broker->executeRaw(['DQ.CANCEL', $queue, $id, ...$ids]) === 3);
passed('cancel');

$moved = $broker->executeRaw(['DQ.RESCHEDULE', $queue, 'order:42', '45m']);
check(is_string($moved) && $moved !== $named);
check($broker->executeRaw(['DQ.RESCHEDULE', $queue, $named, '45m']) === null);
passed('reschedule');

$peeked = array_map('fields', $broker->executeRaw(['DQ.PEEK', $queue, 'COUNT', 5]));
check(array_column($peeked, 'payload') === ['order 42', BINARY]);
check(array_column($peeked, 'id') === [$moved, $at]);
check(array_column($peeked, 'name') === ['order:42', null]);
check($peeked[1]['due'] === $tomorrow);
check($broker->executeRaw(['DQ.PEEK', "$queue:none"]) === []);
passed('peek');

// The first word of an error is its code. executeRaw answers the text, executeCommand throws it.
foreach (
    [
        'BADDELAY' => ['DQ.OFFER', $queue, 'soon', 'x'],
        'BADQUEUE' => ['DQ.OFFER', '', '1h', 'x'],
        'ERR' => ['DQ.NONE', $queue],
    ] as $code => $command
) {
    $failed = null;
    check(str_starts_with($broker->executeRaw($command, $failed), $code) && $failed);
    try {
        $broker->executeCommand(new Predis\Command\RawCommand($command));
        check(false);
    } catch (Predis\Response\ServerException $error) {
        check($error->getErrorType() === $code);
    }
}
passed('errors');

// A thousand in one write; the replies come in order.
$replies = $broker->pipeline(function ($pipeline) use ($queue, $tomorrow) {
    for ($i = 0; $i < 1000; $i++) {
        $offer = ['DQ.OFFER', "$queue:many", 'AT', $tomorrow + $i, "message $i"];
        $pipeline->executeCommand(new Predis\Command\RawCommand($offer));
    }
});
foreach ($replies as $i => $one) {
    check(str_starts_with($one, $tomorrow + $i . '-'));
}
passed('pipeline');

$broker->executeRaw(['DQ.OFFER', $queue, '20ms', BINARY]);
[$name, $payload] = $backing->blpop($queue, 10);
check([$name, $payload] === [$queue, BINARY]);
passed('binary');

$large = $broker->executeRaw(['DQ.OFFER', $queue, '1h', LARGE]);
check(fields($broker->executeRaw(['DQ.GET', $queue, $large]))['payload'] === LARGE);
check($broker->executeRaw(['DQ.FIRE', $queue, $large]) === 1);
check($backing->blpop($queue, 10)[1] === LARGE);
passed('large');

// A message is handed out until it is acknowledged.
$broker->executeRaw(['DQ.MOFFER', $queue, 0, 'one', 0, '', 0, BINARY]);
$messages = [];
while (count($messages) < 3) {
    $taken = $broker->executeRaw(['DQ.TAKE', $queue, 'COUNT', 3, 'BLOCK', '5s']);
    $messages = [...$messages, ...array_map('fields', $taken)];
}
check(array_column($messages, 'payload') === ['one', '', BINARY]);
check(array_column($messages, 'attempt') === [1, 1, 1]);
[$one, $two, $three] = array_column($messages, 'receipt');
$acked = $broker->executeRaw(['DQ.ACK', $queue, $one]);
check($acked === 1);
check($broker->executeRaw(['DQ.ACK', $queue, $one]) === 0);
check($broker->executeRaw(['DQ.EXTEND', $queue, $two, $three, 'LEASE', '2m']) === 2);
check($broker->executeRaw(['DQ.NACK', $queue, $two, 'DELAY', 0, 'REASON', 'not yet']) === 1);
$again = fields($broker->executeRaw(['DQ.TAKE', $queue, 'BLOCK', '5s'])[0]);
check($again['id'] === $messages[1]['id'] && $again['attempt'] === 2 && $again['payload'] === '');
check($broker->executeRaw(['DQ.ACK', $queue, $again['receipt'], $three]) === 2);
check($broker->executeRaw(['DQ.TAKE', $queue]) === null);
passed('consume');

// Predis has no pool: fifty connections, in turn.
$pool = array_map(fn () => connect(), range(1, 50));
for ($i = 0; $i < 1000; $i++) {
    $one = $pool[$i % 50]->executeRaw(['DQ.OFFER', "$queue:pool", '1h', 'x'], $failed);
    check(is_string($one) && !$failed);
}
foreach ($pool as $one) {
    $one->disconnect();
}
passed('pool');

// The first command on a closed connection fails; the next one connects again.
passthru(getenv('RESTART'), $failed);
check($failed === 0);
try {
    $size = $broker->executeRaw(['DQ.SIZE', $queue]);
} catch (Predis\Connection\ConnectionException $broken) {
    $size = $broker->executeRaw(['DQ.SIZE', $queue]);
}
check($size === 2);
passed('restart');

$broker->quit();
$backing->quit();
passed('quit');
