/* Write a picture with a palette as a PNG file, without any library. */
#ifndef EXAMPLES_PNG_H
#define EXAMPLES_PNG_H

#include <stddef.h>

#define PNG_MAX_WIDTH 65534u /* a row is one stored block */

/* `pixels` are width x height indices into `palette`, 256 RGB triples, row by row. Returns 0, or -1
 * with errno set. */
int png_write(const char *path, const unsigned char *pixels, size_t width, size_t height,
              const unsigned char palette[768]);

#endif
