/* trig: sine and cosine that give the same bits on every machine and compiler. Polynomials of fdlibm (Sun, 1993)
 * after a three-part Cody-Waite reduction; error under 1 ulp of f32 for |x| <= 2^22. Pure. */
#ifndef TN_CORE_HOST_TRIG_H
#define TN_CORE_HOST_TRIG_H

void tn_sincos(double x, double *s, double *c);

#endif
