/* idot_scalar: products of a line (16 rows x 4 unsigned bytes) with 4 signed bytes, in plain C. */
#ifndef TN_KERNELS_CPU_IDOT_SCALAR_H
#define TN_KERNELS_CPU_IDOT_SCALAR_H

typedef struct vw {
  uint8_t v[TNK_LINE];
} vw;
typedef struct vi {
  int32_t v[TNK_LANES];
} vi;
typedef vi vp;
typedef struct va {
  int8_t v[4];
} va;

enum { TNK_SIGNED8 = 0 };
#define TNK_CHAIN(bits) 8

TNK_AI vw vw_load(const uint8_t *p)
{
  vw w;
  memcpy(w.v, p, sizeof w.v);
  return w;
}
TNK_AI void vw_store(uint8_t *p, vw w) { memcpy(p, w.v, sizeof w.v); }

/* (dword << up >> down) & mask in every byte; up and down below 8, masks that no bit crosses bytes under. */
TNK_AI vw vw_bits(vw w, int up, int down, uint8_t mask)
{
  for (int i = 0; i < TNK_LINE; i++) w.v[i] = (uint8_t)((w.v[i] << up >> down) & mask);
  return w;
}
TNK_AI vw vw_or(vw a, vw b)
{
  for (int i = 0; i < TNK_LINE; i++) a.v[i] |= b.v[i];
  return a;
}
TNK_AI vw vw_add(vw w, int x)
{
  for (int i = 0; i < TNK_LINE; i++) w.v[i] = (uint8_t)(w.v[i] + x);
  return w;
}
TNK_AI vw vw_table(vw code, const uint8_t table[16])
{
  for (int i = 0; i < TNK_LINE; i++) code.v[i] = table[code.v[i]];
  return code;
}
TNK_AI va va_load(const int8_t *p)
{
  va a;
  memcpy(a.v, p, sizeof a.v);
  return a;
}
TNK_AI vp vp_mla(vp c, vw w, va a)
{
  for (int r = 0; r < TNK_LANES; r++) {
    for (int b = 0; b < 4; b++) c.v[r] += w.v[4 * r + b] * a.v[b];
  }
  return c;
}
TNK_AI vp vp_mul(vw w, va a) { return vp_mla((vp){{0}}, w, a); }
TNK_AI vi vi_of(vp c) { return c; }
TNK_AI vi vi_mul8(vw w, va a) { return vp_mul(w, a); }
TNK_AI vi vi_add(vi a, vi b)
{
  for (int r = 0; r < TNK_LANES; r++) a.v[r] += b.v[r];
  return a;
}
TNK_AI vi vi_add1(vi a, int32_t x)
{
  for (int r = 0; r < TNK_LANES; r++) a.v[r] += x;
  return a;
}
TNK_AI vf vf_of(vi a) { TNK_LANEWISE((float)a.v[i]); }

/* Byte b of every dword of a line, as a number. */
TNK_AI vf vf_byte(const uint8_t *line, int b) { TNK_LANEWISE((float)line[4 * i + b]); }

#endif
