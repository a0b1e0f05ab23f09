#!/usr/bin/env bash
# includes: who may include what.
#   plugins    plugin_api.h, the C library, files of their own folder; backends also kernels/
#   core       plugin_api.h, core/, kernels/, the C library, the libraries of the build; never a plugin
#   kernels    kernels/, the C library; neither plugin_api.h nor core/
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

c_library=' assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg
  stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string tgmath time uchar wchar wctype '
posix=' dirent dlfcn elf endian fcntl getopt link netdb poll pthread regex sched semaphore strings sys/[a-z]* unistd ftw
  arpa/inet netinet/[a-z]* gnu/libc-version '
instructions=' immintrin x86intrin xmmintrin cpuid arm_neon '
cuda=' cuda cuda_runtime cuda_fp16 cuda_bf16 cuda_fp8 cublas_v2 cublasLt mma curand_kernel cuda_pipeline
  cooperative_groups cub/[a-z]* nccl '
libraries=' ini jansson pcre2 microhttpd curl/curl histedit mpi '

# known <header> <list>...: is a system header in one of the lists? The lists hold shell patterns without .h
known()
{
  local name=${1%.h} pattern list
  name=${name%.cuh}
  shift
  for list in "$@"; do
    for pattern in $list; do
      # shellcheck disable=SC2053 # the entries are patterns
      [[ $name == $pattern ]] && return 0
    done
  done
  return 1
}

# place <folder of the including file> <"header">: sets `where` to the file of the tree that a quoted header names, by
# the rules of the build: the including file's folder, include/, core/, kernels/ and the root, in that order.
place()
{
  local base path
  where='no such file'
  for base in "$1" include core kernels .; do
    [ -f "$base/$2" ] || continue
    path=$base/$2
    while [[ $path =~ ^(.*/)?[^/.]+/\.\./(.*)$ ]]; do path=${BASH_REMATCH[1]}${BASH_REMATCH[2]}; done
    where=${path#./}
    return
  done
}

# check <file> <allowed places, patterns> <allowed lists of system headers>...
check()
{
  local file=$1 places=$2 line form header where pattern good
  shift 2
  while IFS=: read -r line form; do
    [[ $form =~ ([<\"])([^\>\"]+)[\>\"] ]] || continue
    header=${BASH_REMATCH[2]}
    if [ "${BASH_REMATCH[1]}" = '"' ]; then
      place "${file%/*}" "$header"
    elif [ "$header" = tenon/plugin_api.h ]; then
      where=include/plugin_api.h
    else
      known "$header" "$@" || finding "$file:$line: <$header> is not among the headers that this folder may include"
      continue
    fi
    good=0
    for pattern in $places; do
      # shellcheck disable=SC2053
      [[ $where == $pattern ]] && good=1
    done
    [ $good = 1 ] || finding "$file:$line: \"$header\" ($where) is out of bounds here; allowed: $places"
  done < <(strip_comments "$file" | grep -nE '^[ \t]*#[ \t]*include[ \t]*[<"]')
}

set -f
count=0
while IFS= read -r file; do
  count=$((count + 1))
  IFS=/ read -r _ slot entry rest <<<"$file"
  own=$file
  [ -n "$rest" ] && own="plugins/$slot/$entry/*"
  case $slot in
    backend) check "$file" "include/plugin_api.h kernels/* $own" "$c_library" "$posix" "$instructions" "$cuda" ;;
    *) check "$file" "include/plugin_api.h $own" "$c_library" ;;
  esac
done < <(set +f; sources plugins '*.[ch]' '*.cu' '*.cuh')
while IFS= read -r file; do
  count=$((count + 1))
  check "$file" 'include/plugin_api.h core/* kernels/*' "$c_library" "$posix" "$instructions" "$libraries"
done < <(set +f; sources core '*.[ch]')
while IFS= read -r file; do
  count=$((count + 1))
  check "$file" 'kernels/*' "$c_library" "$instructions" "$cuda"
done < <(set +f; sources kernels '*.[ch]' '*.cu' '*.cuh')
check include/plugin_api.h '' "$c_library"
finish "includes of $((count + 1)) files"
