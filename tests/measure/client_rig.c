/* client_rig: see client_rig.h. One thread a connection. */
#include "client_rig.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_CONNECTIONS = 64, MAX_REQUEST = 1 << 20 };

struct canned {
  int fd;
  const char *const *pieces;
  unsigned pause_ms;
  char url[64];
  pthread_t listener, answerers[MAX_CONNECTIONS];
  pthread_mutex_t lock;
  unsigned n;
  char *request; /* [MAX_REQUEST] */
};

typedef struct connection {
  canned *c;
  int fd;
} connection;

/* All of one request. */
static void read_request(connection *x, char *to)
{
  size_t n = 0, want = SIZE_MAX;
  while (n < want && n < MAX_REQUEST - 1) {
    ssize_t k = recv(x->fd, to + n, MAX_REQUEST - 1 - n, 0);
    if (k <= 0) break;
    n += (size_t)k;
    to[n] = '\0';
    const char *blank = strstr(to, "\r\n\r\n"), *length = strcasestr(to, "content-length:");
    if (blank) want = (size_t)(blank + 4 - to) + (length && length < blank ? strtoul(length + 15, NULL, 10) : 0);
  }
}

static void *answer(void *arg)
{
  connection *x = arg;
  char *request = calloc(1, MAX_REQUEST);
  read_request(x, request);
  pthread_mutex_lock(&x->c->lock);
  memcpy(x->c->request, request, MAX_REQUEST);
  pthread_mutex_unlock(&x->c->lock);
  for (size_t i = 0; x->c->pieces[i]; i++) {
    if (i > 0) usleep(x->c->pause_ms * 1000);
    if (send(x->fd, x->c->pieces[i], strlen(x->c->pieces[i]), MSG_NOSIGNAL) < 0) break;
  }
  shutdown(x->fd, SHUT_RDWR);
  close(x->fd);
  free(request);
  free(x);
  return NULL;
}

static void *listen_for(void *arg)
{
  canned *c = arg;
  for (;;) {
    int fd = accept(c->fd, NULL, NULL);
    if (fd < 0) return NULL;
    connection *x = malloc(sizeof *x);
    *x = (connection){c, fd};
    pthread_mutex_lock(&c->lock);
    if (c->n < MAX_CONNECTIONS) pthread_create(&c->answerers[c->n++], NULL, answer, x);
    pthread_mutex_unlock(&c->lock);
  }
}

canned *canned_open(const char *const *pieces, unsigned pause_ms)
{
  canned *c = calloc(1, sizeof *c);
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t n = sizeof a;
  c->pieces = pieces;
  c->pause_ms = pause_ms;
  c->request = calloc(1, MAX_REQUEST);
  c->fd = socket(AF_INET, SOCK_STREAM, 0);
  cr_assert(c->fd >= 0 && bind(c->fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(c->fd, 64) == 0);
  cr_assert(getsockname(c->fd, (struct sockaddr *)&a, &n) == 0);
  snprintf(c->url, sizeof c->url, "http://127.0.0.1:%u", ntohs(a.sin_port));
  pthread_mutex_init(&c->lock, NULL);
  cr_assert(pthread_create(&c->listener, NULL, listen_for, c) == 0);
  return c;
}

void canned_close(canned *c)
{
  shutdown(c->fd, SHUT_RDWR);
  pthread_join(c->listener, NULL);
  close(c->fd);
  for (unsigned i = 0; i < c->n; i++) pthread_join(c->answerers[i], NULL);
  pthread_mutex_destroy(&c->lock);
  free(c->request);
  free(c);
}

const char *canned_url(const canned *c) { return c->url; }

const char *canned_request(canned *c)
{
  pthread_mutex_lock(&c->lock);
  const char *r = c->request;
  pthread_mutex_unlock(&c->lock);
  return r;
}

unsigned canned_n(canned *c)
{
  pthread_mutex_lock(&c->lock);
  unsigned n = c->n;
  pthread_mutex_unlock(&c->lock);
  return n;
}
