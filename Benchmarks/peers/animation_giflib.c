// Goes through all frames of an animation by giflib, as a program in C would: milliseconds of the processor for each, and
// the peak of memory in MB. Draws each frame to RGBA and copies the canvas, as one who keeps frames must; no disposal.
//
// animation_giflib FILE

#include <gif_lib.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static double processor(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

static int fail(const char *text) {
    fprintf(stderr, "%s\n", text);
    return 1;
}

int main(int count, char **arguments) {
    int error, frames = 0;
    double start = processor();
    GifFileType *file = count > 1 ? DGifOpenFileName(arguments[1], &error) : NULL;
    if (!file) return fail("usage: animation_giflib FILE");
    size_t width = (size_t)file->SWidth, height = (size_t)file->SHeight;
    uint32_t *canvas = calloc(width * height, 4), *copy = malloc(width * height * 4);
    uint8_t *line = malloc(65536);
    int transparent = -1;
    GifRecordType record = UNDEFINED_RECORD_TYPE;
    while (DGifGetRecordType(file, &record) == GIF_OK && record != TERMINATE_RECORD_TYPE) {
        if (record == EXTENSION_RECORD_TYPE) {
            GifByteType *block;
            GraphicsControlBlock control;
            int code;
            DGifGetExtension(file, &code, &block);
            if (code == GRAPHICS_EXT_FUNC_CODE && DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK)
                transparent = control.TransparentColor;
            while (block) DGifGetExtensionNext(file, &block);
            continue;
        }
        if (DGifGetImageHeader(file) != GIF_OK || file->Image.Interlace) return fail("not the benchmark's animation");
        const ColorMapObject *map = file->Image.ColorMap ? file->Image.ColorMap : file->SColorMap;
        uint32_t colors[256] = {0};
        for (int i = 0; i < map->ColorCount; i++) {
            GifColorType color = map->Colors[i];
            colors[i] = color.Red | color.Green << 8 | (uint32_t)color.Blue << 16 | 0xFF000000;
        }
        for (int y = 0; y < file->Image.Height; y++) {
            if (DGifGetLine(file, line, file->Image.Width) != GIF_OK) return fail("not a whole frame");
            uint32_t *row = canvas + (size_t)(file->Image.Top + y) * width + file->Image.Left;
            for (int x = 0; x < file->Image.Width; x++)
                if (line[x] != transparent) row[x] = colors[line[x]];
        }
        memcpy(copy, canvas, width * height * 4);
        frames++;
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    if (frames == 0 || copy[0] == 1) return fail("there are no frames");
    printf("%f %f\n", (processor() - start) / frames, usage.ru_maxrss / 1024.0);
    return 0;
}
