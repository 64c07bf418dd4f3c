/* SPDX-License-Identifier: MIT */
/*
 * The example of region.h: a request with its texts, a descriptor, a table that grows, and a child
 * for short-lived blocks. Exits 0 when all is as it should be.
 */
#include <fcntl.h>
#include <poolshim/region.h>
#include <unistd.h>

struct header {
    const char *name;
    const char *value;
};

/* Cuts "name: value" lines up; the table grows in place while nothing else is allocated. */
static struct header *parse(struct ps_region *request, struct ps_region *scratch, const char *text,
                            size_t *count) {
    struct header *headers = NULL;
    size_t bytes = 0;
    char *lines = ps_region_strdup(scratch, text);
    for (char *line = strtok(lines, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        char *colon = strstr(line, ": ");
        headers = ps_region_realloc(request, headers, bytes, bytes + sizeof *headers);
        bytes += sizeof *headers;
        headers[bytes / sizeof *headers - 1] =
            (struct header){ps_region_strndup(scratch, line, (size_t)(colon - line)), colon + 2};
    }
    *count = bytes / sizeof *headers;
    for (size_t i = 0; i < *count; i++) { /* results move from scratch to the request */
        headers[i].name = ps_region_strdup(request, headers[i].name);
        headers[i].value = ps_region_strdup(request, headers[i].value);
    }
    return headers;
}

int main(void) {
    struct ps_region *request = ps_region_create(NULL);
    struct ps_region *scratch = ps_region_create_child(request, NULL);
    size_t count;
    struct header *headers = parse(request, scratch, "Host: example.org\nAccept: text\n", &count);
    ps_region_destroy(scratch);

    char *path = ps_region_printf(request, "/%s/%s", "dev", "null");
    int fd = open(path, O_RDONLY);
    ps_region_own_fd(request, fd);

    int is_good = count == 2 && strcmp(headers[0].value, "example.org") == 0 &&
                  strcmp(headers[1].name, "Accept") == 0 && fcntl(fd, F_GETFD) != -1;
    ps_region_destroy(request); /* closes fd, frees everything */
    return is_good && fcntl(fd, F_GETFD) == -1 ? 0 : 1;
}
