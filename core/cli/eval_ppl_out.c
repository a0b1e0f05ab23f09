/* eval_ppl_out: reports of `tenon eval ppl` and `kld`. See eval_ppl.h. */
#include "cli/eval_ppl.h"

void ppl_print_row(const tn_quality *q, const tn_kld_stats *s, bool first)
{
  if (first)
    printf("chunk             PPL               ln(PPL(Q)/PPL(base))          KL Divergence              Δp RMS"
           "            Same top p\n");
  printf("%4u    %9.4f ± %9.4f    %10.5f ± %10.5f    %10.5f ± %10.5f    %6.3f ± %6.3f %%    %6.3f ± %6.3f %%\n",
         q->n_done, s->ppl.value, s->ppl.error, s->ln_ratio.value, s->ln_ratio.error, s->kld.value, s->kld.error,
         100 * s->dp_rms.value, 100 * s->dp_rms.error, 100 * s->same_top.value, 100 * s->same_top.error);
}

static int print_text(ppl_args *a, const tn_chunks *c, const tn_quality *q, const tn_kld_stats *s)
{
  char print[TN_FINGERPRINT_HEX + 1];
  tn_err err = tn_err_init();
  const char *partial = q->n_done < q->n_chunks ? " (partial)" : "";
  if (q->n_done < q->n_chunks && !a->kld) printf("\n");
  if (a->kld) {
    printf("\n");
    tn_eval_print_stats(s);
  } else {
    printf("Final estimate: PPL = %.4f +/- %.5f%s\n", s->ppl.value, s->ppl.error, partial);
  }
  if (tn_eval_print_buckets(q, c, (uint32_t)a->buckets, &err) != TN_OK) return tn_cli_fail(&a->e.cli, &err);
  tn_composition_short(a->e.setup[0].composition, print);
  printf("%s%lld tokens scored in %u of %u chunks%s; composition %s", a->kld || a->buckets ? "\n" : "", (long long)q->n,
         q->n_done, q->n_chunks, partial, print);
  if (a->e.has_reference) {
    tn_composition_short(a->e.setup[1].composition, print);
    printf(", reference %s", print);
  }
  if (a->base_file) printf(", base %s", a->base_file);
  printf("\n");
  tn_eval_print_untrained(&a->e.setup[0], "tested composition");
  if (a->e.has_reference) tn_eval_print_untrained(&a->e.setup[1], "reference");
  return tn_cli_done(a->e.cli.usage->command, TN_EXIT_OK);
}

static int print_json(ppl_args *a, const tn_chunks *c, const tn_quality *q, const tn_kld_stats *s)
{
  json_t *j = tn_eval_subject_json(&a->e.setup[0]);
  json_t *more =
      json_pack("{s:I, s:I, s:I, s:I, s:i, s:i, s:b}", "n_scored", (json_int_t)q->n, "n_tokens",
                (json_int_t)c->n_tokens, "n_ctx", (json_int_t)c->n_ctx, "n_prompt", (json_int_t)c->n_prompt, "n_chunks",
                (int)q->n_chunks, "n_done", (int)q->n_done, "partial", (int)(q->n_done < q->n_chunks));
  if (j && more && !a->kld) {
    json_object_set_new(more, "ppl", json_real(s->ppl.value));
    json_object_set_new(more, "error", json_real(s->ppl.error));
  } else if (j && more) {
    json_object_set_new(more, "stats", tn_eval_stats_json(s));
    if (a->base_file) json_object_set_new(more, "base", json_string(a->base_file));
    if (a->e.has_reference) json_object_set_new(more, "reference", tn_eval_subject_json(&a->e.setup[1]));
  }
  if (j && more && a->buckets) json_object_set_new(more, "buckets", tn_eval_buckets_json(q, c, (uint32_t)a->buckets));
  if (j && more && json_object_update(more, j) == 0) {
    json_decref(j);
    return tn_cli_json(a->e.cli.usage->command, more);
  }
  json_decref(j);
  json_decref(more);
  return tn_cli_json(a->e.cli.usage->command, NULL);
}

int ppl_report(ppl_args *a, const tn_chunks *c, const tn_quality *q)
{
  tn_kld_stats s;
  tn_err err = tn_err_init();
  if (q->n == 0) {
    tn_fail(&err, TN_E_STATE, "ended before the first chunk was done: there is nothing to report");
    return tn_cli_fail(&a->e.cli, &err);
  }
  if (tn_kld_stats_of(q->tokens, q->n, q->based, &s, &err) != TN_OK) return tn_cli_fail(&a->e.cli, &err);
  return a->e.engine.json ? print_json(a, c, q, &s) : print_text(a, c, q, &s);
}
