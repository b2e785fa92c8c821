/* The same program as C++: the headers and AQ_ARGS must serve both. */
#include "client.c"
