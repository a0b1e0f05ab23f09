#!/usr/bin/env bash
# size: a .c file has at most 400 lines and a function at most 60; a .cu file at most 450.
# allow/size.txt lets a file or function be longer, with a reason, up to 700 (800 for .cu) and 120 lines.
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

# limit <key> <usual limit> <hard limit>: the limit in force for a file, or for file:function.
limit()
{
  local extra
  extra=$(awk -v key="$1" '!/^#/ && $1 == key { print $2 }' "$ALLOW_DIR/size.txt" 2>/dev/null)
  if [ -z "$extra" ]; then echo "$2"; elif [ "$extra" -gt "$3" ]; then echo "$3"; else echo "$extra"; fi
}

# functions <file>: "<name> <lines> <first line>" of each function. The house style puts a function's braces at the
# start of a line of their own; the signature counts.
functions()
{
  awk '
    /^[A-Za-z_]/ && !/;[ \t]*$/ { if (!open && !held) { start = NR; head = $0; held = 1 } else if (!open) head = head $0 }
    /;[ \t]*$/ && !open { held = 0; head = "" }
    /^#/ || /^$/ { if (!open) { held = 0; head = "" } }
    /^{[ \t]*$/ { open = 1; if (!held) start = NR }
    /^}/ { if (open) {
        name = head; sub(/\(.*/, "", name); sub(/[ \t]+$/, "", name); sub(/.*[ \t*]/, "", name)
        print (name == "" ? "?" : name), NR - start + 1, start }
      open = 0; held = 0; head = "" }' "$1"
}

count=0
while IFS= read -r file; do
  count=$((count + 1))
  lines=$(wc -l <"$file")
  case $file in *.cu) usual=450 hard=800 ;; *) usual=400 hard=700 ;; esac
  if [ "$lines" -gt "$usual" ]; then
    most=$(limit "$file" $usual $hard)
    [ "$lines" -gt "$most" ] && finding "$file:1: $lines lines, at most $most: split it by idea"
  fi
  while read -r name length start; do
    [ "$length" -gt 60 ] || continue
    most=$(limit "$file:$name" 60 120)
    [ "$length" -gt "$most" ] && finding "$file:$start: $name has $length lines, at most $most: name its phases"
  done < <(functions "$file")
done < <(for dir in core kernels plugins contrib tests; do sources $dir '*.c' '*.cu'; done | grep -v '^tests/data/')
allow_list_has_reasons size 2
finish "sizes of $count files and their functions"
