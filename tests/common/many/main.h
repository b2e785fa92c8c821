/*
 * Included by the compiler before each source of a binary with many programs (aq_many_programs):
 * renames its main() to AQT_MAIN, without mangling in C++. It is a macro because the sources are
 * complete programs.
 */
#ifndef AQT_MANY_MAIN_H
#define AQT_MANY_MAIN_H

#define AQT_TEXT_OF(name) #name
#define AQT_TEXT(name)    AQT_TEXT_OF(name)

#define main(...)                                                                                  \
    AQT_MAIN(__VA_ARGS__) __asm__(AQT_TEXT(AQT_MAIN));                                             \
    int AQT_MAIN(__VA_ARGS__)

#endif
