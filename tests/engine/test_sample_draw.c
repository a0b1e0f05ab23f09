/* Draws from a law, and which settings are refused. */
#include "engine/sample.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <string.h>

#include "host/rng.h"
#include "stats.h"

Test(engine_sample_draw, each_candidate_has_its_interval)
{
  static const int32_t id[4] = {7, 3, 9, 1};
  static const double p[4] = {0.5, 0.25, 0, 0.25};
  const tn_law law = {id, p, 4, 0};
  cr_expect(tn_law_draw(&law, 0) == 7 && tn_law_draw(&law, 0.49999) == 7);
  cr_expect(tn_law_draw(&law, 0.5) == 3 && tn_law_draw(&law, 0.7499) == 3);
  cr_expect(tn_law_draw(&law, 0.75) == 1 && tn_law_draw(&law, 1 - 0x1p-53) == 1);
  cr_expect(tn_law_p(&law, 9) == 0 && tn_law_p(&law, 3) == 0.25 && tn_law_p(&law, 2) == 0);
}

Test(engine_sample_draw, draws_follow_the_law)
{
  enum { V = 40, N = 200000 };
  float logits[V];
  double p[V], wrong[V];
  uint64_t n[V] = {0}, state = 6;
  tn_sampler *s;
  cr_assert(tn_sampler_new(V, &s, NULL) == TN_OK);
  for (int i = 0; i < V; i++) logits[i] = (float)(plain_uniform(&state) * 4);
  tn_sampling how = tn_sampling_default();
  how.temperature = 0.8, how.top_p = 0.95;
  tn_law law = tn_sampler_law(s, &how, logits, NULL);
  for (int64_t i = 0; i < N; i++) n[tn_law_draw(&law, tn_rng_uniform(99, (uint64_t)i, TN_RNG_SAMPLE, 0))]++;
  for (int t = 0; t < V; t++) p[t] = tn_law_p(&law, t);
  cr_expect(chi_square(n, p, V) < 4, "%g", chi_square(n, p, V));
  how.temperature = 0.85; /* a law that is a little flatter must be told apart */
  law = tn_sampler_law(s, &how, logits, NULL);
  for (int t = 0; t < V; t++) wrong[t] = tn_law_p(&law, t);
  cr_expect(chi_square(n, wrong, V) > 8, "%g", chi_square(n, wrong, V));
  tn_sampler_free(s);
}

static void refused(tn_sampling how, const char *field)
{
  tn_err err = tn_err_init();
  cr_expect(tn_sampling_check(&how, 10, &err) == TN_E_ARG, "%s", field);
  cr_expect(strstr(err.msg, field) != NULL, "'%s' does not name %s", err.msg, field);
}

#define REFUSED(field_, value_, name_)       \
  do {                                       \
    tn_sampling how = tn_sampling_default(); \
    how.field_ = value_;                     \
    refused(how, name_);                     \
  } while (0)

Test(engine_sample_draw, check_names_the_field)
{
  static const int32_t outside[1] = {10};
  static const float zero[1] = {0};
  cr_expect(tn_sampling_check(&(tn_sampling){.top_p = 1, .repetition = 1}, 10, NULL) == TN_OK);
  REFUSED(temperature, -0.1, "temperature");
  REFUSED(temperature, NAN, "temperature");
  REFUSED(temperature, INFINITY, "temperature");
  REFUSED(top_p, 1.01, "top_p");
  REFUSED(top_p, -0.01, "top_p");
  REFUSED(top_p, NAN, "top_p");
  REFUSED(min_p, 1, "min_p");
  REFUSED(min_p, NAN, "min_p");
  REFUSED(repetition, 0, "repetition");
  REFUSED(repetition, NAN, "repetition");
  REFUSED(presence, 2.5, "presence");
  REFUSED(presence, NAN, "presence");
  REFUSED(frequency, -2.5, "frequency");
  REFUSED(top_k, -1, "top_k");
  REFUSED(penalty_last, -2, "penalty");
  tn_sampling how = tn_sampling_default();
  how.n_bias = 1, how.bias_token = outside, how.bias = zero;
  refused(how, "10");
}
