#!/usr/bin/env bash
# exports: a plugin exports its entry and nothing else, and needs no library but the C library's own.
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
[ -n "$(sources "$TN_BUILD_DIR/lib/tenon" '*.so')" ] || skip "no plugin is built in $TN_BUILD_DIR/lib/tenon"
libraries='^(libc\.so\.6|libm\.so\.6|ld-linux-x86-64\.so\.2|ld-linux-aarch64\.so\.1)$'
[ "$TN_INSTRUMENTED" = 1 ] && libraries="$libraries|^lib(asan|ubsan|tsan|gcc_s)\\.so\\."

count=0
while IFS= read -r file; do
  count=$((count + 1))
  short=${file#"$TN_BUILD_DIR"/}
  exported=$(nm -D --defined-only "$file" | awk '{ print $NF }' | LC_ALL=C sort | tr '\n' ' ')
  [ "$exported" = "tn_module_v0 " ] || finding "$short: exports '${exported% }', want 'tn_module_v0' alone"
  while read -r needed; do
    case $short in lib/tenon/backend/cuda.so) [[ $needed =~ ^lib(cuda|cudart|cublas|cublasLt|stdc\+\+|gcc_s)\.so ]] && continue ;; esac
    [[ $needed =~ $libraries ]] || finding "$short: needs $needed, which a machine may not have"
  done < <(readelf -d "$file" | sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p')
done < <(sources "$TN_BUILD_DIR/lib/tenon" '*.so')
finish "exports of $count plugins"
