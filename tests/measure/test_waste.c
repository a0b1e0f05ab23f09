/* What the cache's memory is used for: the arithmetic by hand, and each memory plugin on one request whose pages can be
 * counted. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>

#include "replay_rig.h"

static bool near(double a, double b) { return fabs(a - b) <= 1e-6 * (1 + fabs(b)); }

/* 100 bytes, 40 held, of them 10 empty; 20 free and 10 idle, so 30 are promised, of which 12 will be filled. */
Test(measure_waste, by_hand)
{
  tn_waste w = {0};
  tn_waste_now a = {
      .total = 100, .held = 40, .idle = 10, .free = 20, .empty = 10, .to_come = 12, .n_seqs = 2, .n_waiting = 1};
  tn_waste_now b = {.total = 100, .held = 10, .free = 90, .to_come = 7, .n_seqs = 1};
  tn_waste_add(&w, &a, 2);
  tn_waste_add(&w, &b, 4);
  cr_assert(near(w.seconds, 6) && near(w.total, 600) && near(w.filled, 60 + 40) && near(w.internal, 20));
  cr_assert(near(w.temporary, 24) && near(w.external, 36) && near(w.free, 60 + 360) && near(w.free_waiting, 60));
  cr_assert(near(w.seqs, 8) && w.peak_seqs == 2 && w.peak_held == 40);
  cr_assert(near(tn_waste_share(&w, w.filled), 100.0 / 180));
  cr_assert(near(tn_waste_share(&w, w.filled + w.internal + w.temporary + w.external), 1));
  cr_assert(near(tn_waste_share(&(tn_waste){0}, 0), 0));
}

/* One request of 20 tokens, answered by 20; it asked for `asks`. Pages of 16 tokens: 2 for 32 entries, then 3. Steps take
 * as long as each other. */
enum { PROMPT = 20, ANSWER = 20, PAGE = 16, STEPS = ANSWER };

static replay_rig *one_request(const char *memory, const char *pages, int64_t asks)
{
  static const tn_replay_cost cost = {1000, 0};
  const char *const sets[] = {memory, pages, "engine.ctx=256", "engine.max_seqs=2", "engine.max_rows=64", NULL};
  replay_rig *r = replay_open("llama", &cost, sets);
  tn_trace t;
  tn_err err = tn_err_init();
  cr_assert(tn_trace_poisson(1, 1, PROMPT, ANSWER, 0, &t, &err) == TN_OK);
  tn_replay_cfg cfg = {.trace = &t, .speed = 1, .usual_new = 1, .most_new = asks};
  replay_go(r, &cfg);
  cr_assert(r->f.completed == 1 && r->f.n_new == ANSWER && r->more.steps == STEPS, "%llu tokens in %llu steps",
            (unsigned long long)r->f.n_new, (unsigned long long)r->more.steps);
  tn_trace_free(&t);
  return r;
}

/* Shares over the steps, in pages: what the plugin sets aside in all, and what of it is never taken. */
static void check(const replay_rig *r, int64_t aside, const char *what)
{
  double filled = 0, internal = 0, temporary = 0, external = 0, page = 1e-3;
  for (int k = 0; k < STEPS; k++) {
    int64_t entries = PROMPT + k, held = (entries + PAGE - 1) / PAGE, end = 3;
    int64_t promised = aside > held ? aside - held : 0, later = end - held < promised ? end - held : promised;
    filled += (double)entries / PAGE * page;
    internal += (double)(held * PAGE - entries) / PAGE * page;
    temporary += (double)later * page;
    external += (double)(promised - later) * page;
  }
  const tn_waste *w = &r->more.waste;
  double all = filled + internal + temporary + external;
  cr_assert(near(w->seconds, STEPS * 1e-3) && w->peak_seqs == 1, "%g s", w->seconds);
  cr_assert(near(tn_waste_share(w, w->filled), filled / all), "%s: filled %g, want %g", what,
            tn_waste_share(w, w->filled), filled / all);
  cr_assert(near(tn_waste_share(w, w->internal), internal / all), "%s: internal %g, want %g", what,
            tn_waste_share(w, w->internal), internal / all);
  cr_assert(near(tn_waste_share(w, w->temporary), temporary / all), "%s: temporary %g, want %g", what,
            tn_waste_share(w, w->temporary), temporary / all);
  cr_assert(near(tn_waste_share(w, w->external), external / all), "%s: external %g, want %g", what,
            tn_waste_share(w, w->external), external / all);
}

Test(measure_waste, paged)
{
  replay_rig *r = one_request("compose.memory=paged", "memory.paged.page_tokens=16", 0);
  check(r, 0, "paged");
  replay_close(r);
  r = one_request("compose.memory=paged", "memory.paged.page_tokens=16", 100); /* asking for more changes nothing */
  check(r, 0, "paged");
  replay_close(r);
}

Test(measure_waste, promised_at_admission)
{
  replay_rig *r = one_request("compose.memory=static_paged", "memory.static_paged.page_tokens=16", 0);
  check(r, (PROMPT + ANSWER + PAGE - 1) / PAGE, "static_paged");
  replay_close(r);
  r = one_request("compose.memory=static_paged", "memory.static_paged.page_tokens=16", 100);
  check(r, (PROMPT + 100 + PAGE - 1) / PAGE, "static_paged, a request for more");
  replay_close(r);
}

/* A slab holds ctx and a step's rows, and one page more. */
Test(measure_waste, slab)
{
  replay_rig *r = one_request("compose.memory=contiguous", "memory.contiguous.page_tokens=16", 0);
  check(r, (256 + 64) / PAGE + 1, "contiguous");
  replay_close(r);
}
