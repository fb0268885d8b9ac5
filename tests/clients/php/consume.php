<?php

// Writes an invoice for each order, once, however often its message arrives. php-amqplib, PDO.

use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Exception\AMQPExceptionInterface;
use PhpAmqpLib\Exception\AMQPTimeoutException;
use PhpAmqpLib\Message\AMQPMessage;

require __DIR__ . '/vendor/autoload.php';

$stopping = false;
pcntl_async_signals(true);
pcntl_signal(SIGTERM, function () use (&$stopping) {
    $stopping = true;
});

function handle(PDO $database, AMQPMessage $message): void
{
    $database->beginTransaction();
    $receive = $database->prepare("SELECT inbox.receive('billing', ?)");
    $receive->execute([$message->get('message_id')]);
    if ($receive->fetchColumn()) {
        $order = json_decode($message->getBody(), false, 512, JSON_THROW_ON_ERROR);
        $insert = $database->prepare('INSERT INTO invoices (order_id, total) VALUES (?, ?)');
        $insert->execute([$order->id, $order->total ?? null]);
    }
    $database->commit();
    $message->ack();
}

function handleOrReject(PDO $database, AMQPMessage $message): void
{
    try {
        handle($database, $message);
    } catch (Throwable $error) {
        $database->rollBack(); // throws if the connection is lost: the message is not at fault
        if (preg_match('/^(40|53|57)/', (string) $error->getCode())) {
            throw $error; // a deadlock, a server without room or about to stop
        }
        error_log("cannot handle message {$message->get('message_id')}: to the dead-letter exchange: $error");
        $message->reject(false);
    }
}

// Consumes until a connection is lost, which throws, or until SIGTERM. The broker delivers again what is not acknowledged.
function consume(bool &$stopping): void
{
    $url = parse_url(getenv('DATABASE_URL'));
    $database = new PDO(
        sprintf('pgsql:host=%s;port=%d;dbname=%s', $url['host'], $url['port'] ?? 5432, ltrim($url['path'], '/')),
        $url['user'],
        $url['pass'] ?? null,
    );
    $url = parse_url(getenv('AMQP_URL'));
    $vhost = rawurldecode(substr($url['path'] ?? '//', 1));
    $broker = new AMQPStreamConnection($url['host'], $url['port'] ?? 5672, $url['user'], $url['pass'], $vhost);
    try {
        $channel = $broker->channel();
        $channel->basic_qos(0, 1, false); // one connection to the database has one transaction at a time
        $channel->basic_consume('billing', callback: fn (AMQPMessage $message) => handleOrReject($database, $message));
        while (!$stopping) {
            try {
                $channel->wait(timeout: 0.5);
            } catch (AMQPTimeoutException) {
                // nothing came within the half second
            }
        }
    } finally {
        $broker->close(); // does nothing if the connection is lost
    }
}

for ($delay = 1; !$stopping; $delay = min(2 * $delay, 8)) {
    $began = time();
    try {
        consume($stopping);
    } catch (PDOException | AMQPExceptionInterface $error) {
        $delay = time() - $began > 60 ? 1 : $delay; // it worked for a while
        error_log("{$error->getMessage()}; connecting again in $delay s");
        sleep($delay); // SIGTERM cuts it short
    }
}
