/* engine_sweep: a whole engine, from open to close, with each allocation failing in turn, the plugins' included. */
#ifndef TN_TESTS_OOM_ENGINE_SWEEP_H
#define TN_TESTS_OOM_ENGINE_SWEEP_H

typedef struct sweep_composition {
  const char *model;    /* of tests/data/tiny */
  const char *sets[16]; /* "section.key=value", NULL-terminated */
} sweep_composition;

/* Opens the engine, runs two requests over their first tokens, and closes it, once for each allocation of all this. Ends
 * the test, or says what is wrong with which allocation:
 *   an engine that does not open, a request that is refused and a step that fails say TN_E_NOMEM and a text;
 *   nothing stays behind;
 *   a request that did not fail says what it says when no allocation fails, and so does one that is asked again. */
void sweep_engine(const sweep_composition *c);

#define SWEEP(name_, model_, ...)                                                                          \
  Test(oom_engine, name_)                                                                                  \
  {                                                                                                        \
    static const sweep_composition c = {model_, {"engine.threads=1", "engine.ctx=64", __VA_ARGS__, NULL}}; \
    sweep_engine(&c);                                                                                      \
  }

#endif
