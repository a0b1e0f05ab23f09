#!/usr/bin/env bash
# globals: no writable object in core, kernels or plugins; two engines live in one process.
# allow/globals.txt: <object file or library> <symbol> <reason>.
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
[ "$TN_INSTRUMENTED" = 1 ] && skip "sanitizers add writable objects of their own to every file"
[ -f "$TN_BUILD_DIR/libtenon_core.a" ] || skip "$TN_BUILD_DIR/libtenon_core.a is not built"

# writable <file>: the objects of size > 0 in writable sections. Tables of constant pointers (.data.rel.ro) are read
# only once loaded; the two names of the compiler's start files are in every shared library.
writable()
{
  objdump -t "$1" 2>/dev/null | awk '
    /^.*file format/ { next }
    { sub(/ \.(hidden|protected|internal) /, " ") }
    NF >= 5 {
      section = $(NF - 2); size = $(NF - 1); name = $NF
      if (section !~ /^(\.data|\.bss|\.tdata|\.tbss|\*COM\*|COMMON)/ || section ~ /^\.data\.rel\.ro/) next
      if (size ~ /^0+$/ || $0 ~ / d  /) next
      if (name == "completed.0" || name == "__dso_handle") next
      print name, section
    }'
}

count=0
while IFS= read -r file; do
  count=$((count + 1))
  short=${file#"$TN_BUILD_DIR"/}
  while read -r name section; do
    allowed globals "$(basename "$short")" "$name" && continue
    finding "$short: '$name' is a writable object ($section): hang it on the engine or the instance"
  done < <(writable "$file")
done < <(find "$TN_BUILD_DIR" -maxdepth 1 -name 'libtenon_*.a' | LC_ALL=C sort; sources "$TN_BUILD_DIR/lib/tenon" '*.so')
allow_list_has_reasons globals 2
finish "writable objects of $count libraries and plugins"
