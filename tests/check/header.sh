#!/usr/bin/env bash
# header: include/plugin_api.h compiles alone, in every language and with every compiler that a plugin may use,
# without a warning and without a byte of implicit padding.
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
header=include/plugin_api.h
flags=(-fsyntax-only -Wall -Wextra -Wpedantic -Wpadded -Werror -I include)
count=0

# compile <compiler> <language> <standard>
compile()
{
  local out
  command -v "$1" >/dev/null || { echo "skip: no $1 on this machine"; return; }
  count=$((count + 1))
  out=$(printf '#include "plugin_api.h"\n' | "$1" -x "$2" -std="$3" "${flags[@]}" - 2>&1) && return
  finding "$header: $1 -std=$3: $(grep -m1 -E 'error|warning' <<<"$out")"
}

for std in c11 c17; do
  compile gcc c $std
  compile clang c $std
done
for std in c++11 c++14 c++17 c++20; do
  compile g++ c++ $std
  compile clang++ c++ $std
done
finish "$header in $count combinations of compiler and standard"
