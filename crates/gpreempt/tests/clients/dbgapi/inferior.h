/* The program that is debugged: a traced child with a pipe to its standard input and one from its standard output. */
#ifndef INFERIOR_H
#define INFERIOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Starts a program, traced from its first instruction on. */
bool inferior_start(char **words);
pid_t inferior_pid(void);
/* Passes on the signals that the tracer has stopped, as a debugger does that is not interested in them. */
void inferior_pass_signals(void);
/* Waits for a line of the program that begins with `word`; stores what follows. */
bool inferior_line(const char *word, char *rest, size_t size);
/* Lets the program go on. */
bool inferior_write(const char *line);
/* Ends tracing, waits until the program has ended, and tells whether that was with success. */
bool inferior_end(void);
/* Reads or writes its memory. Returns the number of bytes, or -1. */
ssize_t inferior_memory(uint64_t address, void *read, const void *written, size_t size);

#endif
