/* machine: what an experiment ran on. See report.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "ab/report.h"

/* What follows the colon of the first line of a file that begins with key (NULL: the first line itself); "" when there is
 * none. */
static void line_of(const char *path, const char *key, char out[128])
{
  char line[512];
  out[0] = '\0';
  FILE *f = fopen(path, "re");
  if (!f) return;
  while (out[0] == '\0' && fgets(line, sizeof line, f)) {
    const char *colon = strchr(line, ':');
    if (key && (strncmp(line, key, strlen(key)) != 0 || !colon)) continue;
    const char *text = key ? colon + 1 + strspn(colon + 1, " \t") : line;
    snprintf(out, 128, "%.*s", (int)strcspn(text, "\n"), text);
  }
  fclose(f);
}

json_t *tn_ab_machine(void)
{
  char cpu[128], memory[128], load[128], governor[128];
  struct utsname u = {0};
  line_of("/proc/cpuinfo", "model name", cpu);
  line_of("/proc/meminfo", "MemTotal", memory);
  line_of("/proc/loadavg", NULL, load);
  line_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", NULL, governor);
  (void)uname(&u);
  return json_pack("{s:s, s:i, s:s, s:s, s:I, s:s, s:s, s:s}", "processor", cpu, "cpus",
                   (int)sysconf(_SC_NPROCESSORS_ONLN), "kernel", u.release, "arch", u.machine, "memory_bytes",
                   (json_int_t)strtoll(memory, NULL, 10) * 1024, "load", load, "governor", governor, "version",
                   TN_VERSION);
}
