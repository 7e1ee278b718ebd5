/* SPDX-License-Identifier: BSD-2-Clause
 *
 * In place of libFuzzer, for any compiler: runs each file of the given directories once. usage:
 * fuzz_NAME DIRECTORY...
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run_file(const char *directory, const char *name) {
    char path[4096];
    static uint8_t data[1 << 20];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    const size_t size = fread(data, 1, sizeof data, file);
    fclose(file);
    LLVMFuzzerTestOneInput(data, size);
}

int main(int argc, char **argv) {
    unsigned count = 0;
    for (int i = 1; i < argc; i++) {
        struct dirent **names;
        const int found = scandir(argv[i], &names, NULL, alphasort);
        if (found < 0) {
            perror(argv[i]);
            return 1;
        }
        for (int k = 0; k < found; k++) {
            if (names[k]->d_name[0] != '.') run_file(argv[i], names[k]->d_name), count++;
            free(names[k]);
        }
        free(names);
    }
    printf("%u inputs\n", count);
    return count == 0;
}
