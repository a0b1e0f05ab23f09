/* outbox: see outbox.h. */
#include "serve/outbox.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct tn_outbox {
  pthread_mutex_t lock;
  uint32_t refs;
  int status, fd;
  char *bytes; /* [n], read up to at */
  size_t n, cap, at;
  bool ended, gone, waiting;
  void (*wake)(void *ctx);
  void *wake_ctx;
  uint64_t last_ns;
};

tn_outbox *tn_outbox_new(void)
{
  tn_outbox *o = tn_zalloc(1, sizeof *o);
  if (!o) return NULL;
  pthread_mutex_init(&o->lock, NULL);
  o->refs = 1;
  o->fd = -1;
  o->last_ns = tn_now_ns();
  return o;
}

void tn_outbox_hold(tn_outbox *o)
{
  pthread_mutex_lock(&o->lock);
  o->refs++;
  pthread_mutex_unlock(&o->lock);
}

void tn_outbox_drop(tn_outbox *o)
{
  if (!o) return;
  pthread_mutex_lock(&o->lock);
  bool last = --o->refs == 0;
  pthread_mutex_unlock(&o->lock);
  if (!last) return;
  pthread_mutex_destroy(&o->lock);
  free(o->bytes);
  free(o);
}

/* With the lock held. */
static void wake(tn_outbox *o)
{
  if (!o->waiting || !o->wake) return;
  o->waiting = false;
  o->wake(o->wake_ctx);
}

void tn_outbox_begin(tn_outbox *o, int status)
{
  pthread_mutex_lock(&o->lock);
  o->status = status;
  wake(o);
  pthread_mutex_unlock(&o->lock);
}

static bool grow(tn_outbox *o, size_t n)
{
  if (o->at > 0 && o->at == o->n) o->at = o->n = 0;
  if (o->n + n <= o->cap) return true;
  if (o->at > 0) {
    memmove(o->bytes, o->bytes + o->at, o->n - o->at);
    o->n -= o->at;
    o->at = 0;
  }
  if (o->n + n <= o->cap) return true;
  if (o->n + n > TN_OUTBOX_MAX) return false;
  char *grown = realloc(o->bytes, 2 * (o->n + n));
  if (!grown) return false;
  o->bytes = grown;
  o->cap = 2 * (o->n + n);
  return true;
}

/* With the lock held. */
static bool put(tn_outbox *o, const char *bytes, size_t n)
{
  if (o->ended) return false;
  bool ok = !o->gone && grow(o, n);
  if (ok) {
    memcpy(o->bytes + o->n, bytes, n);
    o->n += n;
    o->last_ns = tn_now_ns();
  } else {
    o->gone = true;
  }
  wake(o);
  return ok;
}

bool tn_outbox_put(tn_outbox *o, const char *bytes, size_t n)
{
  pthread_mutex_lock(&o->lock);
  bool ok = put(o, bytes, n);
  pthread_mutex_unlock(&o->lock);
  return ok;
}

void tn_outbox_end(tn_outbox *o)
{
  pthread_mutex_lock(&o->lock);
  o->ended = true;
  wake(o);
  pthread_mutex_unlock(&o->lock);
}

void tn_outbox_keep_alive(tn_outbox *o, uint64_t ns)
{
  static const char comment[] = ": keep-alive\n\n";
  pthread_mutex_lock(&o->lock);
  if (o->status == 200 && !o->ended && !o->gone && tn_now_ns() - o->last_ns > ns) put(o, comment, sizeof comment - 1);
  pthread_mutex_unlock(&o->lock);
}

bool tn_outbox_left(tn_outbox *o)
{
  pthread_mutex_lock(&o->lock);
  if (!o->gone && o->fd >= 0) {
    struct pollfd p = {.fd = o->fd, .events = POLLRDHUP};
    if (poll(&p, 1, 0) > 0 && p.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) {
      o->gone = true;
      wake(o);
    }
  }
  bool gone = o->gone;
  pthread_mutex_unlock(&o->lock);
  return gone;
}

void tn_outbox_attach(tn_outbox *o, int fd, void (*wake_fn)(void *ctx), void *ctx)
{
  pthread_mutex_lock(&o->lock);
  o->fd = fd;
  o->wake = wake_fn;
  o->wake_ctx = ctx;
  pthread_mutex_unlock(&o->lock);
}

void tn_outbox_leave(tn_outbox *o)
{
  pthread_mutex_lock(&o->lock);
  o->gone = true;
  o->fd = -1;
  o->wake = NULL;
  o->waiting = false;
  pthread_mutex_unlock(&o->lock);
}

/* With the lock held. */
static void wait_for(tn_outbox *o, void (*suspend)(void *ctx), void *ctx)
{
  o->waiting = true;
  suspend(ctx);
}

int tn_outbox_status(tn_outbox *o, void (*suspend)(void *ctx), void *ctx)
{
  pthread_mutex_lock(&o->lock);
  int status = o->gone ? TN_OUTBOX_GONE : o->status;
  if (status == 0) wait_for(o, suspend, ctx);
  pthread_mutex_unlock(&o->lock);
  return status;
}

long tn_outbox_read(tn_outbox *o, char *buf, size_t cap, void (*suspend)(void *ctx), void *ctx)
{
  long n = TN_OUTBOX_WAIT;
  pthread_mutex_lock(&o->lock);
  size_t have = o->n - o->at;
  if (o->gone) {
    n = TN_OUTBOX_GONE;
  } else if (have > 0) {
    n = (long)(have < cap ? have : cap);
    memcpy(buf, o->bytes + o->at, (size_t)n);
    o->at += (size_t)n;
  } else if (o->ended) {
    n = TN_OUTBOX_END;
  } else {
    wait_for(o, suspend, ctx);
  }
  pthread_mutex_unlock(&o->lock);
  return n;
}

bool tn_outbox_whole(tn_outbox *o, tn_str *all, void (*suspend)(void *ctx), void *ctx)
{
  pthread_mutex_lock(&o->lock);
  bool whole = o->ended || o->gone;
  if (whole)
    *all = (tn_str){o->bytes, o->gone ? 0 : o->n};
  else
    wait_for(o, suspend, ctx);
  pthread_mutex_unlock(&o->lock);
  return whole;
}
