/* The broker from hiredis. Environment and steps: tests/interop/README.md. */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <hiredis.h>
#include <hiredis_ssl.h>

#define BINARY "\0nul\r\ncrlf\xff\0"
#define BINARY_LEN (sizeof BINARY - 1)
#define LARGE_LEN ((size_t)4 << 20)

#define check(condition)                                                       \
  do {                                                                         \
    if (!(condition)) {                                                        \
      fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition);          \
      exit(1);                                                                 \
    }                                                                          \
  } while (0)

static redisSSLContext *tls;
static int resp3;

static void passed(const char *step) {
  puts(step);
  fflush(stdout);
}

static int is(const redisReply *reply, const void *bytes, size_t len) {
  return reply && reply->type == REDIS_REPLY_STRING && reply->len == len &&
         !memcmp(reply->str, bytes, len);
}

static int is_text(const redisReply *reply, const char *text) {
  return is(reply, text, strlen(text));
}

/* The answer to one command; freed by whoever asked. */
static redisReply *dq(redisContext *broker, const char *format, ...) {
  va_list args;
  va_start(args, format);
  redisReply *reply = redisvCommand(broker, format, args);
  va_end(args);
  if (!reply) fprintf(stderr, "%s: %s\n", format, broker->errstr);
  check(reply);
  return reply;
}

static long long number(redisReply *reply) {
  check(reply->type == REDIS_REPLY_INTEGER);
  long long value = reply->integer;
  freeReplyObject(reply);
  return value;
}

static char *text(redisReply *reply) {
  if (reply->type != REDIS_REPLY_STRING) fprintf(stderr, "answered: %s\n", reply->str);
  check(reply->type == REDIS_REPLY_STRING);
  char *value = strdup(reply->str);
  freeReplyObject(reply);
  return value;
}

static void nil(redisReply *reply) {
  check(reply->type == REDIS_REPLY_NIL);
  freeReplyObject(reply);
}

/* The first word of an error is its code. */
static void refused(redisReply *reply, const char *code) {
  check(reply->type == REDIS_REPLY_ERROR);
  check(!strncmp(reply->str, code, strlen(code)));
  freeReplyObject(reply);
}

/* A message as DQ.PEEK tells it: a map in RESP3, names and values in turn in RESP2. */
static const redisReply *field(const redisReply *message, const char *name) {
  check(message->type == (resp3 ? REDIS_REPLY_MAP : REDIS_REPLY_ARRAY));
  for (size_t i = 0; i < message->elements; i += 2)
    if (is_text(message->element[i], name)) return message->element[i + 1];
  check(!"the field is there");
  return NULL;
}

static redisContext *connect_broker(void) {
  redisContext *broker = redisConnect("127.0.0.1", atoi(getenv("BROKER_PORT")));
  check(broker && !broker->err);
  if (tls) check(redisInitiateSSLWithContext(broker, tls) == REDIS_OK);
  if (*getenv("PASSWORD")) freeReplyObject(dq(broker, "AUTH %s", getenv("PASSWORD")));
  /* hiredis sends nothing by itself: protocol 3 has to be asked for. */
  if (resp3) freeReplyObject(dq(broker, "HELLO 3"));
  return broker;
}

int main(void) {
  const char *queue = getenv("QUEUE");
  resp3 = *getenv("PROTOCOL") == '3';
  if (*getenv("CA")) {
    redisInitOpenSSL();
    tls = redisCreateSSLContext(getenv("CA"), NULL, NULL, NULL, NULL, NULL);
    check(tls);
  }
  char *large = malloc(LARGE_LEN);
  for (size_t i = 0; i < LARGE_LEN; i++) large[i] = (char)i;

  /* `broker` takes messages in; `backing` is the Redis where they come out, as a plain list. */
  redisContext *broker = connect_broker();
  redisContext *backing = redisConnect("127.0.0.1", atoi(getenv("REDIS_PORT")));
  check(backing && !backing->err);
  freeReplyObject(dq(broker, "PING"));
  passed("connect");

  redisReply *reply = redisCommand(broker, "DQ.OFFER %s 30m %s", queue, "hello");
  char *id = text(reply);
  long long tomorrow = ((long long)time(NULL) + 86400) * 1000;
  char due[32];
  snprintf(due, sizeof due, "%lld", tomorrow);
  char *at = text(dq(broker, "DQ.OFFER %s AT %s %b", queue, due, BINARY, BINARY_LEN));
  check(!strncmp(at, due, strlen(due)));
  char *named = text(dq(broker, "DQ.OFFER %s 1h %s NAME order:42", queue, "order 42"));
  nil(dq(broker, "DQ.OFFER %s 1h again NAME order:42 NX", queue));
  passed("offer");

  reply = dq(broker, "DQ.MOFFER %s 2h one 3h %s 4h %b", queue, "", BINARY, BINARY_LEN);
  check(reply->type == REDIS_REPLY_ARRAY && reply->elements == 3);
  check(number(dq(broker, "DQ.SIZE %s", queue)) == 6);
  passed("moffer");

  redisReply *cancelled = redisCommand(broker, "DQ.CANCEL %s %s", queue, id);
  check(number(cancelled) == 1);
  redisReply **ids = reply->element;
  cancelled = dq(broker, "DQ.CANCEL %s %s %s %s %s", queue, id, ids[0]->str, ids[1]->str,
                 ids[2]->str);
  check(number(cancelled) == 3);
  freeReplyObject(reply);
  passed("cancel");

  char *moved = text(dq(broker, "DQ.RESCHEDULE %s order:42 45m", queue));
  check(strcmp(moved, named));
  nil(dq(broker, "DQ.RESCHEDULE %s %s 45m", queue, named));
  passed("reschedule");

  reply = dq(broker, "DQ.PEEK %s COUNT 5", queue);
  check(reply->type == REDIS_REPLY_ARRAY && reply->elements == 2);
  check(is_text(field(reply->element[0], "id"), moved));
  check(is_text(field(reply->element[0], "name"), "order:42"));
  check(is_text(field(reply->element[0], "payload"), "order 42"));
  check(is_text(field(reply->element[1], "id"), at));
  check(field(reply->element[1], "name")->type == REDIS_REPLY_NIL);
  check(field(reply->element[1], "due")->integer == tomorrow);
  check(is(field(reply->element[1], "payload"), BINARY, BINARY_LEN));
  freeReplyObject(reply);
  reply = dq(broker, "DQ.PEEK %s:none", queue);
  check(reply->type == REDIS_REPLY_ARRAY && reply->elements == 0);
  freeReplyObject(reply);
  passed("peek");

  refused(dq(broker, "DQ.OFFER %s soon x", queue), "BADDELAY ");
  refused(dq(broker, "DQ.OFFER %s 1h x", ""), "BADQUEUE ");
  refused(dq(broker, "DQ.OFFER %s", queue), "ERR wrong number of arguments");
  refused(dq(broker, "DQ.NONE %s", queue), "ERR unknown command");
  passed("errors");

  /* A thousand without waiting; the replies come in order. */
  for (int i = 0; i < 1000; i++)
    redisAppendCommand(broker, "DQ.OFFER %s:many AT %lld message%d", queue, tomorrow + i, i);
  for (int i = 0; i < 1000; i++) {
    check(redisGetReply(broker, (void **)&reply) == REDIS_OK);
    check(reply->type == REDIS_REPLY_STRING && atoll(reply->str) == tomorrow + i);
    freeReplyObject(reply);
  }
  passed("pipeline");

  free(text(dq(broker, "DQ.OFFER %s 20ms %b", queue, BINARY, BINARY_LEN)));
  redisReply *taken = redisCommand(backing, "BLPOP %s 10", queue);
  check(taken && taken->elements == 2 && is_text(taken->element[0], queue));
  check(is(taken->element[1], BINARY, BINARY_LEN));
  freeReplyObject(taken);
  passed("binary");

  free(id);
  id = text(dq(broker, "DQ.OFFER %s 1h %b", queue, large, LARGE_LEN));
  reply = dq(broker, "DQ.GET %s %s", queue, id);
  check(is(field(reply, "payload"), large, LARGE_LEN));
  freeReplyObject(reply);
  check(number(dq(broker, "DQ.FIRE %s %s", queue, id)) == 1);
  taken = redisCommand(backing, "BLPOP %s 10", queue);
  check(taken && taken->elements == 2 && is(taken->element[1], large, LARGE_LEN));
  freeReplyObject(taken);
  passed("large");

  /* A message is handed out until it is acknowledged. */
  reply = dq(broker, "DQ.MOFFER %s 0 one 0 %s 0 %b", queue, "", BINARY, BINARY_LEN);
  check(reply->type == REDIS_REPLY_ARRAY && reply->elements == 3);
  freeReplyObject(reply);
  const char *payloads[] = {"one", "", BINARY};
  const size_t lengths[] = {3, 0, BINARY_LEN};
  char *receipts[3], *given = NULL;
  for (int i = 0; i < 3; i++) {
    redisReply *lent = redisCommand(broker, "DQ.TAKE %s BLOCK 5s", queue);
    check(lent && lent->type == REDIS_REPLY_ARRAY && lent->elements == 1);
    check(is(field(lent->element[0], "payload"), payloads[i], lengths[i]));
    check(field(lent->element[0], "attempt")->integer == 1);
    receipts[i] = strdup(field(lent->element[0], "receipt")->str);
    if (i == 1) given = strdup(field(lent->element[0], "id")->str);
    freeReplyObject(lent);
  }
  redisReply *acked = redisCommand(broker, "DQ.ACK %s %s", queue, receipts[0]);
  check(number(acked) == 1);
  check(number(dq(broker, "DQ.ACK %s %s", queue, receipts[0])) == 0);
  reply = dq(broker, "DQ.EXTEND %s %s %s LEASE 2m", queue, receipts[1], receipts[2]);
  check(number(reply) == 2);
  reply = dq(broker, "DQ.NACK %s %s DELAY 0 REASON %s", queue, receipts[1], "not yet");
  check(number(reply) == 1);
  reply = dq(broker, "DQ.TAKE %s BLOCK 5s", queue);
  check(reply->type == REDIS_REPLY_ARRAY && reply->elements == 1);
  check(is_text(field(reply->element[0], "id"), given));
  check(field(reply->element[0], "attempt")->integer == 2);
  const char *again = field(reply->element[0], "receipt")->str;
  check(number(dq(broker, "DQ.ACK %s %s %s", queue, again, receipts[2])) == 2);
  freeReplyObject(reply);
  nil(dq(broker, "DQ.TAKE %s", queue));
  for (int i = 0; i < 3; i++) free(receipts[i]);
  free(given);
  passed("consume");

  /* hiredis has no pool: fifty connections, in turn. */
  redisContext *pool[50];
  for (int i = 0; i < 50; i++) pool[i] = connect_broker();
  for (int i = 0; i < 1000; i++) redisAppendCommand(pool[i % 50], "DQ.OFFER %s:pool 1h x", queue);
  for (int i = 0; i < 1000; i++) {
    check(redisGetReply(pool[i % 50], (void **)&reply) == REDIS_OK);
    free(text(reply));
  }
  check(number(dq(broker, "DQ.SIZE %s:pool", queue)) == 1000);
  for (int i = 0; i < 50; i++) redisFree(pool[i]);
  passed("pool");

  /* A closed connection is seen by the next command; a new one is up to us. */
  check(system(getenv("RESTART")) == 0);
  check(redisCommand(broker, "DQ.SIZE %s", queue) == NULL && broker->err);
  redisFree(broker);
  broker = connect_broker();
  check(number(dq(broker, "DQ.SIZE %s", queue)) == 2);
  passed("restart");

  reply = dq(broker, "QUIT");
  check(reply->type == REDIS_REPLY_STATUS && !strcmp(reply->str, "OK"));
  freeReplyObject(reply);
  redisFree(broker);
  redisFree(backing);
  if (tls) redisFreeSSLContext(tls);
  free(id), free(at), free(named), free(moved), free(large);
  passed("quit");
  return 0;
}
