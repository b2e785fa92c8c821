/*
 * Included by the compiler before each source of a program that is many (aq_many_programs): its
 * main() gets the name AQT_MAIN, in C++ without mangling. A macro, since the sources are programs.
 */
#ifndef AQT_MANY_MAIN_H
#define AQT_MANY_MAIN_H

#define AQT_TEXT_OF(name) #name
#define AQT_TEXT(name)    AQT_TEXT_OF(name)

#define main(...)                                                                                  \
    AQT_MAIN(__VA_ARGS__) __asm__(AQT_TEXT(AQT_MAIN));                                             \
    int AQT_MAIN(__VA_ARGS__)

#endif
