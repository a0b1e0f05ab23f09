/* replay_main: runs a fuzz target on every file of the folders and files given, without a fuzzer.
 * Linked to each target in builds that have no libFuzzer, so that the corpus is replayed by every test run. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Runs the target on one file. The copy is exactly as long as the input, so that a read past its end is seen. */
static int replay_file(const char *path, off_t length)
{
  size_t size = (size_t)length;
  uint8_t *data = malloc(size ? size : 1);
  FILE *f = fopen(path, "rb");
  int rc = 0;
  if (!data || !f || fread(data, 1, size, f) != size) {
    fprintf(stderr, "%s: cannot read %zu bytes\n", path, size);
    rc = 1;
  } else {
    LLVMFuzzerTestOneInput(data, size);
  }
  if (f) fclose(f);
  free(data);
  return rc;
}

/* Replays a file, or the files directly inside a folder. Adds to *count. */
static int replay(const char *path, size_t *count)
{
  struct stat st;
  if (stat(path, &st) != 0) {
    fprintf(stderr, "%s: no such file or folder\n", path);
    return 1;
  }
  if (!S_ISDIR(st.st_mode)) {
    ++*count;
    return replay_file(path, st.st_size);
  }
  DIR *dir = opendir(path);
  if (!dir) {
    fprintf(stderr, "%s: cannot open the folder\n", path);
    return 1;
  }
  int rc = 0;
  for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
    char file[4096];
    int n = snprintf(file, sizeof file, "%s/%s", path, e->d_name);
    if (e->d_name[0] == '.') continue;
    if (n < 0 || (size_t)n >= sizeof file)
      rc = 1;
    else if (stat(file, &st) == 0 && S_ISREG(st.st_mode))
      rc |= replay(file, count);
  }
  closedir(dir);
  return rc;
}

int main(int argc, char **argv)
{
  size_t count = 0;
  int rc = 0;
  for (int i = 1; i < argc; i++) rc |= replay(argv[i], &count);
  if (count == 0) {
    fprintf(stderr, "no input replayed: give corpus files or folders\n");
    return 1;
  }
  printf("%zu inputs replayed\n", count);
  return rc;
}
