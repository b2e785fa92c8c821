/* Included by cci.h; needed only by programs that include it themselves. */
#ifndef CCI_PUBLIC_CONFIG_H
#define CCI_PUBLIC_CONFIG_H

#if defined(__cplusplus)
#define BEGIN_C_DECLS extern "C" {
#define END_C_DECLS   }
#else
#define BEGIN_C_DECLS
#define END_C_DECLS
#endif
#define CCI_DECLSPEC __attribute__((visibility("default")))

#endif
