/* text_case: upper and lower case, and classes of characters, of all of Unicode: the C library's tables for C.UTF-8. Of the
 * characters whose upper case is several, only sharp s is known; the others keep their own. */
#include <locale.h>
#include <wctype.h>

#include "chat/jinja.h"
#include "utf8.h"

static bool is_ascii(tn_js s)
{
  for (size_t i = 0; i < s.n; i++) {
    if ((unsigned char)s.p[i] >= 0x80) return false;
  }
  return true;
}

/* The tables that the text needs: the plain ones where it is ASCII. The caller's, freelocale(). */
static bool tables(tn_jrun *r, tn_js s, locale_t *out)
{
  *out = newlocale(LC_CTYPE_MASK, is_ascii(s) ? "C" : "C.UTF-8", (locale_t)0);
  if (*out) return true;
  return tn_j_fail(r, TN_E_UNSUPPORTED, "upper and lower case of a text that is not ASCII need the locale C.UTF-8");
}

bool tn_js_case(tn_jrun *r, tn_js s, int how, tn_js *out)
{
  locale_t l;
  tn_jbuf b = {0};
  bool ok = true, begins = true;
  if (!tables(r, s, &l)) return false;
  for (size_t i = 0; ok && i < s.n;) {
    uint32_t cp = 0;
    int n = tn_utf8_decode(s.p + i, s.n - i, &cp);
    if (n <= 0) n = 1;
    bool upper = how == TN_JCASE_UPPER || (begins && how != TN_JCASE_LOWER);
    wint_t c = upper ? towupper_l(cp, l) : towlower_l(cp, l);
    begins = how == TN_JCASE_TITLE && !iswalpha_l(cp, l);
    char text[4] = "SS";
    size_t len = 2;
    if (cp != 0xDF || !upper)
      len = tn_utf8_encode((uint32_t)c, text);
    else if (how != TN_JCASE_UPPER)
      text[1] = 's';
    uint8_t marks[4];
    memset(marks, s.m ? s.m[i] : 0, sizeof marks);
    ok = tn_jbuf_add(r, &b, (tn_js){text, s.m ? marks : NULL, len});
    i += (size_t)n;
  }
  freelocale(l);
  *out = tn_jbuf_str(&b);
  return ok;
}

static bool in_class(wint_t c, tn_jclass k, locale_t l)
{
  switch (k) {
    case TN_JC_ALPHA: return iswalpha_l(c, l) && !iswdigit_l(c, l);
    case TN_JC_DIGIT: return iswdigit_l(c, l);
    case TN_JC_ALNUM: return iswalnum_l(c, l);
    default: return false;
  }
}

bool tn_js_class(tn_jrun *r, tn_js s, tn_jclass k, bool *out)
{
  locale_t l;
  bool cased = false, all = s.n > 0;
  if (!tables(r, s, &l)) return false;
  for (size_t i = 0; all && i < s.n;) {
    uint32_t cp = 0;
    int n = tn_utf8_decode(s.p + i, s.n - i, &cp);
    if (n <= 0) n = 1;
    bool upper = iswupper_l(cp, l), lower = iswlower_l(cp, l);
    cased = cased || upper || lower;
    if (k == TN_JC_SPACE)
      all = tn_js_space_at(s, i) > 0;
    else if (k == TN_JC_UPPER || k == TN_JC_LOWER)
      all = k == TN_JC_UPPER ? !lower : !upper;
    else
      all = in_class(cp, k, l);
    i += (size_t)n;
  }
  freelocale(l);
  *out = all && (cased || (k != TN_JC_UPPER && k != TN_JC_LOWER));
  return true;
}
