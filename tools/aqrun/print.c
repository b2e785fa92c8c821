/* Words of commands, quoted for users and shells. */
#include "job.h"

#include <stdio.h>

/* Print a word, quoted if necessary for a shell. */
static void print_word(const char *word)
{
    if (word[0] != '\0' && word[strspn(word, LETTERS_AND_DIGITS "_-+=./:,@%")] == '\0') {
        fputs(word, stdout);
        return;
    }
    putchar('\'');
    for (; *word != '\0'; word++) {
        if (*word == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*word);
    }
    putchar('\'');
}

void print_variable(const char *name, const char *value)
{
    printf("%s=", name);
    print_word(value);
    putchar(' ');
}

void print_words(char *const *words)
{
    for (char *const *word = words; *word != NULL; word++) {
        if (word != words) putchar(' ');
        print_word(*word);
    }
}
