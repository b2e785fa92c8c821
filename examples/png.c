/* A PNG writer for pictures with a palette. The data is not compressed, so no library is needed:
 * each row is a "stored" deflate block. */
#include "png.h"
#include <stdint.h>
#include <stdio.h>

/* A file being written, and the CRC of the current chunk. */
struct png {
    FILE *file;
    uint32_t crc;
};

static void put_bytes(struct png *png, const void *data, size_t len)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < len; i++) {
        png->crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            png->crc = png->crc >> 1 ^ (png->crc & 1 ? 0xedb88320u : 0);
    }
    fwrite(data, 1, len, png->file); /* errors are detected when the file is closed */
}

static void put_u32(struct png *png, uint32_t value)
{
    unsigned char big_endian[] = {(unsigned char)(value >> 24), (unsigned char)(value >> 16),
                                  (unsigned char)(value >> 8), (unsigned char)value};
    put_bytes(png, big_endian, 4);
}

static void chunk_begin(struct png *png, const char *type, size_t len)
{
    put_u32(png, (uint32_t)len);
    png->crc = UINT32_MAX;
    put_bytes(png, type, 4);
}

static void chunk_end(struct png *png)
{
    put_u32(png, ~png->crc);
}

static void put_header(struct png *png, size_t width, size_t height)
{
    static const unsigned char indexed[] = {8, 3, 0, 0, 0}; /* 8 bits, palette, no interlace */
    fwrite("\x89PNG\r\n\x1a\n", 1, 8, png->file);
    chunk_begin(png, "IHDR", 13);
    put_u32(png, (uint32_t)width);
    put_u32(png, (uint32_t)height);
    put_bytes(png, indexed, sizeof indexed);
    chunk_end(png);
}

/* Adler-32, the checksum of the uncompressed data. */
static uint32_t adler(uint32_t sum, const unsigned char *data, size_t len)
{
    uint32_t a = sum & 0xffff, b = sum >> 16;
    for (size_t i = 0; i < len; i++) {
        a = (a + data[i]) % 65521;
        b = (b + a) % 65521;
    }
    return b << 16 | a;
}

static void put_row(struct png *png, const unsigned char *row, size_t width, int last)
{
    unsigned len = (unsigned)width + 1; /* the row's filter type (0: none) and its pixels */
    unsigned char head[] = {(unsigned char)last,        (unsigned char)len,
                            (unsigned char)(len >> 8),  (unsigned char)~len,
                            (unsigned char)(~len >> 8), 0};
    put_bytes(png, head, sizeof head);
    put_bytes(png, row, width);
}

int png_write(const char *path, const unsigned char *pixels, size_t width, size_t height,
              const unsigned char palette[768])
{
    struct png png = {.file = fopen(path, "wb")};
    if (png.file == NULL) return -1;
    put_header(&png, width, height);
    chunk_begin(&png, "PLTE", 768);
    put_bytes(&png, palette, 768);
    chunk_end(&png);

    uint32_t sum = 1;
    chunk_begin(&png, "IDAT", 2 + height * (width + 6) + 4);
    put_bytes(&png, "\x78\x01", 2); /* zlib header */
    for (size_t y = 0; y < height; y++) {
        const unsigned char *row = pixels + y * width;
        put_row(&png, row, width, y + 1 == height);
        sum = adler(adler(sum, (const unsigned char[]){0}, 1), row, width);
    }
    put_u32(&png, sum);
    chunk_end(&png);
    chunk_begin(&png, "IEND", 0);
    chunk_end(&png);
    int failed = ferror(png.file);
    return fclose(png.file) != 0 || failed ? -1 : 0;
}
