/* cci.h includes it; programs that include it, too, find nothing else here. */
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
