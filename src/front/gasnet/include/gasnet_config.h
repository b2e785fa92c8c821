/*
 * The release that these headers implement. Build systems parse this file as text: each name has
 * exactly one line, "#define NAME INTEGER".
 */
#ifndef AQG_GASNET_CONFIG_H
#define AQG_GASNET_CONFIG_H

#define GASNET_RELEASE_VERSION_MAJOR 2025
#define GASNET_RELEASE_VERSION_MINOR 8
#define GASNET_RELEASE_VERSION_PATCH 0

#define GEX_SPEC_VERSION_MAJOR 0
#define GEX_SPEC_VERSION_MINOR 19

#endif
