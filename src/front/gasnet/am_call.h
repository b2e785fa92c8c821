/* Calling handlers with the arguments of a message. */
#ifndef AQGI_AM_CALL_H
#define AQGI_AM_CALL_H

#include <aqueduct/am.h>

/*
 * The function to register with Aqueduct for a handler that takes these categories (AQ_AM_ bits; 0:
 * any) and this number of arguments (AQ_AM_ANY_ARGS: any). Its context is a gex_AM_Entry_t.
 */
aq_am_fn *aqgi_caller(unsigned categories, unsigned nargs);

#endif
