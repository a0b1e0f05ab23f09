/* builtin: templates that have a name, for --chat-template NAME: the plain form of each family, without tools. */
#include <string.h>

#include "chat/template.h"

static const char chatml[] =
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

static const char llama2[] =
    "{% if messages and messages[0]['role'] == 'system' %}{% set system = messages[0]['content'] %}"
    "{% set messages = messages[1:] %}{% endif %}"
    "{% for message in messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% set content = message['content'] | trim %}"
    "{% if loop.first and system is defined %}"
    "{% set content = '<<SYS>>\\n' + system + '\\n<</SYS>>\\n\\n' + content %}{% endif %}"
    "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content + ' [/INST]' }}"
    "{% else %}{{ ' ' + content + ' ' + eos_token }}{% endif %}"
    "{% endfor %}";

static const char llama3[] =
    "{{ bos_token }}{% for message in messages %}"
    "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' "
    "}}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}";

static const char gemma[] =
    "{{ bos_token }}"
    "{% if messages and messages[0]['role'] == 'system' %}{% set system = messages[0]['content'] + '\\n\\n' %}"
    "{% set messages = messages[1:] %}{% else %}{% set system = '' %}{% endif %}"
    "{% for message in messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% set role = 'model' if message['role'] == 'assistant' else message['role'] %}"
    "{{ '<start_of_turn>' + role + '\\n' + (system if loop.first else '') + message['content'] | trim + "
    "'<end_of_turn>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}";

static const char mistral[] =
    "{{ bos_token }}"
    "{% if messages and messages[0]['role'] == 'system' %}{% set system = messages[0]['content'] + '\\n\\n' %}"
    "{% set messages = messages[1:] %}{% else %}{% set system = '' %}{% endif %}"
    "{% for message in messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('After the optional system message, conversation roles must alternate "
    "user/assistant/user/assistant/...') }}{% endif %}"
    "{% if message['role'] == 'user' %}"
    "{{ '[INST] ' + (system if loop.last else '') + message['content'] + '[/INST]' }}"
    "{% else %}{{ ' ' + message['content'] | trim + eos_token }}{% endif %}"
    "{% endfor %}";

static const char phi3[] = "{% for message in messages %}"
                           "{{ '<|' + message['role'] + '|>\\n' + message['content'] + '<|end|>\\n' }}"
                           "{% endfor %}"
                           "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}";

static const char phi4[] = "{% for message in messages %}"
                           "{{ '<|im_start|>' + message['role'] + '<|im_sep|>' + message['content'] + '<|im_end|>' }}"
                           "{% endfor %}"
                           "{% if add_generation_prompt %}{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}";

static const char deepseek3[] =
    "{{ bos_token }}"
    "{% for message in messages if message['role'] == 'system' %}{{ message['content'] + ('' if loop.last else "
    "'\\n\\n') }}"
    "{% endfor %}"
    "{% for message in messages %}"
    "{% if message['role'] == 'user' %}{{ '<\xEF\xBD\x9CUser\xEF\xBD\x9C>' + message['content'] }}"
    "{% elif message['role'] == 'assistant' %}"
    "{{ '<\xEF\xBD\x9C"
    "Assistant\xEF\xBD\x9C>' + message['content'] + "
    "'<\xEF\xBD\x9C"
    "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>' }}"
    "{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<\xEF\xBD\x9C"
    "Assistant\xEF\xBD\x9C>' }}{% endif %}";

static const char zephyr[] = "{% for message in messages %}"
                             "{{ '<|' + message['role'] + '|>\\n' + message['content'] + eos_token + '\\n' }}"
                             "{% endfor %}"
                             "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}";

static const struct {
  const char *name, *source;
} templates[] = {
    {"chatml", chatml}, {"qwen", chatml},         {"smollm", chatml},   {"llama2", llama2},
    {"llama3", llama3}, {"gemma", gemma},         {"mistral", mistral}, {"phi3", phi3},
    {"phi4", phi4},     {"deepseek3", deepseek3}, {"zephyr", zephyr},
};

const char *tn_chat_builtin(const char *name)
{
  for (size_t i = 0; i < TN_ARRAY_LEN(templates); i++) {
    if (strcmp(name, templates[i].name) == 0) return templates[i].source;
  }
  return NULL;
}

const char *tn_chat_builtin_name(size_t i) { return i < TN_ARRAY_LEN(templates) ? templates[i].name : NULL; }
