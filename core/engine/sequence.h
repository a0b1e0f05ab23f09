/* sequence: the state of one request from submission to its last token.
 *
 *   tokens  [ prompt .................. | generated ........ ]
 *            <-- n_done: committed, in the KV cache -->|<- todo ->| n_tok
 *
 * While decoding todo is 1: the pending token, sampled but not yet run. Preemption sets n_done back to 0 (recompute) or
 * keeps the KV as bytes (swap). Thread rule: engine thread only. */
#ifndef TN_CORE_ENGINE_SEQUENCE_H
#define TN_CORE_ENGINE_SEQUENCE_H

#include "kv.h"
#include "rope.h"
#include "sample.h"
#include "verify.h"

enum {
  TN_FINISH_NONE = 0,
  TN_FINISH_STOP = 1 /* end-of-generation or stop token */,
  TN_FINISH_LENGTH = 2,
  TN_FINISH_CANCELLED = 3,
  TN_FINISH_ERROR = 4
};

#define TN_UNTIL_FULL (-1)

typedef struct tn_request { /* arrays are copied at submission */
  const int32_t *prompt;
  int64_t n_prompt; /* >= 1 */
  int64_t max_new;  /* tokens to generate at most; 0: only run the prompt; TN_UNTIL_FULL: what the context has left */
  tn_sampling sampling;
  uint64_t key;        /* key of the request's random draws: its seed */
  uint32_t n_logprobs; /* alternatives reported with each token, 0..20 */
  uint32_t score;      /* 1: logits of the prompt's rows go to events.logits */
  int64_t score_from;  /* from this text position on */
  const int32_t *stop; /* [n_stop] tokens that end generation */
  uint32_t n_stop;
  int32_t priority;
  uint32_t ignore_eog;    /* 1: end-of-generation tokens do not end it */
  uint32_t no_prefix;     /* 1: all of the prompt is run, and no other request finds its entries */
  uint64_t cache_salt[2]; /* entries are found by requests of the same salt only: what keeps clients apart, 0 0: all */
  uint64_t sibling; /* a sequence with the same prompt: this one waits for its entries, 0: none. For n answers, n - 1
                     * requests name the first; where nothing is shared they do not wait */
  void *user;       /* handed back in events */
  const int32_t *forced; /* [n_forced] what generation writes, whatever the logits say; NULL: it chooses. Drafts are */
  int64_t n_forced;      /* verified against it. max_new is at most n_forced, and no token ends the request */
} tn_request;

#define TN_MAX_LOGPROBS 20u

typedef struct tn_signals { /* accumulators for eviction; arrays [n_groups] -> [cap] */
  tn_signal total, window;  /* since written; of the prompt's last rows */
  int64_t **attn, **win, **knorm;
} tn_signals;

typedef struct tn_seq {
  uint64_t id;
  uint32_t state;  /* TN_SEQ_* */
  uint32_t finish; /* TN_FINISH_* */
  tn_request req;  /* arrays owned */
  int32_t *tokens; /* [cap] */
  int64_t n_tok, cap, n_prompt, n_done, max_len;
  int64_t n_given;  /* the prompt as an eviction policy sees it: of a scored text what comes before the scored rows */
  int64_t n_cached; /* tokens that were not run: of a fork, a restored session, or found in the prefix index */
  bool foreign;     /* its entries came from outside: nobody else is to find them */
  const tn_rope_table *rope;
  int64_t regime;
  tn_kv_seq *kv;    /* NULL while waiting or swapped */
  uint8_t *swapped; /* KV as bytes */
  size_t n_swapped;
  int64_t window_end;  /* text position up to which rows feed the window signal; 0: it is complete */
  tn_signals *signals; /* NULL: no policy wants any */
  int64_t next_evict;  /* act when n_done reaches it; TN_POS_INF: never */
  uint64_t n_dropped, n_demoted;
  uint32_t begun; /* plugins know the sequence */
  /* this step */
  uint32_t preempt;                  /* TN_PREEMPT_* by which it leaves, 0: it stays */
  uint32_t run;                      /* tokens of the text that run, 0: not in this step */
  uint32_t n_nodes;                  /* drafted nodes behind them */
  int32_t *node_token, *node_parent; /* [TN_MAX_NODES] */
  const float **node_q;
  int32_t row0, out0; /* first row, first logits row */
  uint32_t n_out;
  /* figures */
  uint64_t arrival_ns, first_token_ns, last_token_ns, prompt_ns;
  uint64_t n_drafted, n_accepted, n_verify, n_preempted;
  struct tn_seq *next; /* in order of arrival */
} tn_seq;

/* max_len: most tokens it can come to hold. signals of n_groups groups with cap entries each, when wanted. */
tn_status tn_seq_new(uint64_t id, const tn_request *req, int64_t max_len, tn_seq **out, tn_err *err);
void tn_seq_free(tn_seq *s);

tn_status tn_seq_push(tn_seq *s, int32_t token);

static inline int64_t tn_seq_todo(const tn_seq *s) { return s->n_tok - s->n_done; }

/* A scored request: the first of this step's rows whose logits are wanted (run: none). The last row of the text always
 * is, so that something can follow it. */
static inline uint32_t tn_score_first(const tn_seq *s)
{
  int64_t first = s->req.score_from - s->n_done;
  if (first < 0) first = 0;
  if (s->n_done + s->run == s->n_tok && first >= s->run) first = (int64_t)s->run - 1;
  return first < s->run ? (uint32_t)first : s->run;
}

tn_signals *tn_signals_new(uint32_t n_groups, size_t cap, bool attn, bool window, bool knorm);
void tn_signals_clear(tn_signals *s, uint32_t n_groups, size_t cap);
void tn_signals_free(tn_signals *s, uint32_t n_groups);

#endif
