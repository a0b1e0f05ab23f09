/* prompts: what an experiment runs when the user brings no prompts: ten passages of plain English, about 100 tokens each,
 * of different kinds (story, recipe, code, table, dialogue, ...), for which the text that follows is not decided. */
#ifndef TN_CORE_AB_PROMPTS_H
#define TN_CORE_AB_PROMPTS_H

#include "base.h"

/* NULL past the end. */
const char *tn_ab_prompt_at(uint32_t i);

#endif
