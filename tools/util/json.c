/* Writing JSON text: strings with escapes. */
#include "json.h"

/* The length of the valid UTF-8 sequence at `s`, or 0. */
static int sequence(const unsigned char *s)
{
    static const struct {
        unsigned char first_low, first_high, second_low, second_high;
        int length;
    } forms[] = {
        {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
        {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
        {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    if (s[0] < 0x80) return 1;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (s[0] < forms[i].first_low || s[0] > forms[i].first_high) continue;
        if (s[1] < forms[i].second_low || s[1] > forms[i].second_high) return 0;
        for (int k = 2; k < forms[i].length; k++)
            if ((s[k] & 0xc0) != 0x80) return 0;
        return forms[i].length;
    }
    return 0;
}

void json_string(FILE *out, const char *text)
{
    if (text == NULL) {
        fputs("null", out);
        return;
    }
    fputc('"', out);
    for (const unsigned char *s = (const unsigned char *)text; *s != '\0';) {
        int length = sequence(s);
        if (length == 0) {
            fputs("\\ufffd", out);
            length = 1;
        } else if (*s < 0x20 || *s == 0x7f) {
            fprintf(out, "\\u%04x", *s);
        } else if (*s == '"' || *s == '\\') {
            fprintf(out, "\\%c", *s);
        } else {
            fwrite(s, 1, (size_t)length, out);
        }
        s += length;
    }
    fputc('"', out);
}
