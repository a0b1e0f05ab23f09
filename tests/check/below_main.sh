#!/usr/bin/env bash
# below_main: core never ends the process and never prints, except in main.c and the subcommands of core/cli.
# allow/below_main.txt: <source file> <symbol> <reason>.
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
[ "$TN_INSTRUMENTED" = 1 ] && skip "sanitizers call abort from every file"
objects=$TN_BUILD_DIR/CMakeFiles/tenon_core.dir/core
[ -d "$objects" ] || skip "$objects is not built"
ends='exit _exit _Exit quick_exit abort __assert_fail __assert err errx'
prints='printf vprintf puts putchar perror stdout stderr __printf_chk __vprintf_chk'

count=0
while IFS= read -r object; do
  source=core/${object#"$objects"/}
  source=${source%.o}
  [ -f "$source" ] || continue
  count=$((count + 1))
  words=$ends
  case $source in core/cli/*) ;; *) words="$ends $prints" ;; esac
  while read -r symbol; do
    allowed below_main "$source" "$symbol" && continue
    finding "$source: uses $symbol: return a status and a message instead"
  done < <(nm -u "$object" | awk -v words=" $words " 'index(words, " " $NF " ") { print $NF }')
done < <(sources "$objects" '*.o')
allow_list_has_reasons below_main 2
finish "$count object files of core"
