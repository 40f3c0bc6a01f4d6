#define _GNU_SOURCE
#include "inferior.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t child;
static int memory = -1, input = -1, output = -1;
/* How the program ended, once it has. */
static int ending = -1;

pid_t inferior_pid(void)
{
    return child;
}

bool inferior_start(char **words)
{
    int to[2], from[2], go[2];
    if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC) || pipe2(go, O_CLOEXEC))
        return false;
    child = fork();
    if (child == 0) {
        char byte;
        dup2(to[0], 0);
        dup2(from[1], 1);
        close(go[1]);
        if (read(go[0], &byte, 1) == 1)
            execvp(words[0], words);
        _exit(127);
    }
    if (child < 0 || ptrace(PTRACE_SEIZE, child, NULL, (void *)PTRACE_O_EXITKILL))
        return false;
    input = to[1];
    output = from[0];
    close(to[0]);
    close(from[1]);
    return write(go[1], ".", 1) == 1;
}

/* Takes what the kernel has to tell about the program, and lets it go on. Returns whether there was something. */
static bool take_status(int options)
{
    int status;
    if (ending >= 0 || waitpid(child, &status, options | __WALL) != child)
        return false;
    if (!WIFSTOPPED(status)) {
        ending = status;
        return false;
    }
    bool group_stop = status >> 16 == PTRACE_EVENT_STOP;
    int signal = group_stop ? 0 : WSTOPSIG(status);
    ptrace(group_stop ? PTRACE_LISTEN : PTRACE_CONT, child, NULL, (void *)(long)signal);
    return true;
}

void inferior_pass_signals(void)
{
    while (take_status(WNOHANG))
        continue;
}

/* Reads a line, and passes signals on meanwhile: until then the program is stopped by them. */
static bool read_line(char *line, size_t size)
{
    size_t length = 0;
    while (length + 1 < size) {
        struct pollfd ready = {output, POLLIN, 0};
        inferior_pass_signals();
        if (poll(&ready, 1, 10) == 0)
            continue;
        if (read(output, line + length, 1) != 1)
            return false;
        if (line[length] == '\n') {
            line[length] = 0;
            return true;
        }
        length++;
    }
    return false;
}

bool inferior_line(const char *word, char *rest, size_t size)
{
    char line[256];
    size_t length = strlen(word);
    while (read_line(line, sizeof line)) {
        if (strncmp(line, word, length) == 0 && line[length] == ' ') {
            snprintf(rest, size, "%s", line + length + 1);
            return true;
        }
    }
    return false;
}

bool inferior_write(const char *line)
{
    return write(input, line, strlen(line)) == (ssize_t)strlen(line);
}

bool inferior_end(void)
{
    close(input);
    while (take_status(0))
        continue;
    return ending >= 0 && WIFEXITED(ending) && WEXITSTATUS(ending) == 0;
}

ssize_t inferior_memory(uint64_t address, void *read, const void *written, size_t size)
{
    if (memory < 0) {
        /* Not earlier: the memory of before exec is another one. */
        char path[64];
        snprintf(path, sizeof path, "/proc/%d/mem", child);
        memory = open(path, O_RDWR | O_CLOEXEC);
        if (memory < 0)
            return -1;
    }
    if (written)
        return pwrite(memory, written, size, (off_t)address);
    return pread(memory, read, size, (off_t)address);
}
