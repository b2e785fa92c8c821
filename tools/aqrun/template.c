/* A manager's command specified by the user: AQ_MPIRUN_CMD="mpirun -np %N %C". */
#include "manager.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct template
{
    const struct manager_request *request;
    const char *variable; /* name of the variable, for messages */
    struct words words;
    bool has_program;
};

/* Expand a placeholder that stands for several words. Returns false if the word is not one. */
static bool template_list(struct template *to, const char *word)
{
    char *const *command = to->request->command;
    if (strcmp(word, "%C") == 0 || strcmp(word, "%A") == 0) {
        for (command += word[1] == 'A'; *command != NULL; command++)
            words_add(&to->words, "%s", *command);
        to->has_program = to->has_program || word[1] == 'C';
        return true;
    }
    if (strcmp(word, "%V") != 0) return false;
    if (to->request->verbose) words_add(&to->words, "-v");
    return true;
}

/* Replace the placeholders in a word. Returns NULL if one is unknown, or if out of memory. */
static char *template_word(struct template *to, const char *word, char *why, size_t room)
{
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    if (file == NULL) return NULL;
    for (; *word != '\0'; word++) {
        char sign = *word == '%' ? word[1] : ' ';
        if (sign == '\0' || strchr("NP% ", sign) == NULL) {
            snprintf(
                why, room,
                "%s: unknown %.2s: give %%N, %%P and %%%%, and as separate words %%C, %%A and %%V",
                to->variable, word);
            fclose(file);
            free(text);
            return NULL;
        }
        word += *word == '%';
        if (sign == 'N')
            fprintf(file, "%u", to->request->place->ranks);
        else if (sign == 'P')
            fputs(to->request->command[0], file);
        else
            fputc(*word, file);
        to->has_program = to->has_program || sign == 'P';
    }
    if (fclose(file) == 0) return text;
    free(text);
    return NULL;
}

/* Expand all words. Returns false on failure, with the reason in `why`. */
static bool template_expand(struct template *to, const struct words *words, char *why, size_t room)
{
    for (size_t i = 0; i < words->used; i++) {
        if (template_list(to, words->argv[i])) continue;
        char *word = template_word(to, words->argv[i], why, room);
        if (word == NULL) return false;
        words_add_text(&to->words, "", word);
    }
    return !words->failed && !to->words.failed;
}

char **manager_template(const struct manager_request *request, const char *variable,
                        const char *text, char why[HOSTS_WHY])
{
    struct template to = {.request = request, .variable = variable};
    struct words words = {0};
    words_split(&words, text);
    snprintf(why, HOSTS_WHY, "%s=\"%.200s\": out of memory", variable, text);
    bool expanded = template_expand(&to, &words, why, HOSTS_WHY);
    words_free(words.argv);
    if (expanded && to.has_program) return to.words.argv;
    if (expanded)
        snprintf(why, HOSTS_WHY,
                 "%s=\"%.200s\" does not contain the program: add %%C, which stands for the "
                 "program with its arguments",
                 variable, text);
    words_free(to.words.argv);
    return NULL;
}
