"""WebP, GIF, BMP and PPM against Pillow: equal pixels of odd files, whole, cut and damaged.

Prints TAP. Environment: BUILD; FF_SHARED_DATA (default ../shared/data beside the repository)."""
import io

from oracle import Image, agree, damage, finish, flips, photographs, report

import odd_small


def cuts(data, step=1):
    return [data[:n] for n in list(range(0, min(len(data), 120))) + list(range(120, len(data), step))]


def damaged(name, files, step=1, flipped=150, start=2, **strictness):
    """Each file cut at many places and with flipped bits, with and without leave to be cut off."""
    for truncated in (False, True):
        cut = [part for _, data in files for part in cuts(data, step)]
        damage("%s cut off, allowed %d" % (name, truncated), cut, truncated=truncated, **strictness)
        changed = [part for i, (_, data) in enumerate(files) for part in flips(data, start, flipped, i)]
        damage("%s with flipped bits, allowed %d" % (name, truncated), changed, truncated=truncated, **strictness)


def some(files, *parts):
    return [(name, data) for name, data in files if any(part in name for part in parts)]


def reencoded(photos):
    """Some of the photographs in every kind."""
    for name, data in photos:
        image = Image.open(io.BytesIO(data)).convert("RGB")
        for kind, options in (("WEBP", {"quality": 80}), ("WEBP", {"lossless": True, "method": 0}), ("BMP", {}),
                              ("PPM", {}), ("GIF", {})):
            out = io.BytesIO()
            image.save(out, kind, **options)
            yield "%s %s %s" % (name, kind, options), out.getvalue()


def main():
    bmps, ppms = list(odd_small.bmps()), list(odd_small.ppms())
    gifs, webps = list(odd_small.gifs()), list(odd_small.webps(Image))
    agree("bmp", bmps, refused=15)
    agree("ppm", ppms, refused=2)
    agree("gif", gifs, modes=("rgb", "gray"))
    # Grey for Pillow, until it is asked for RGB.
    agree("gif", [file for file in gifs if file[0] != "gif of own greys"], modes=("native",))
    agree("webp", webps)
    agree("webp, turned upright", list(odd_small.webps_turned(Image)), exif=True, modes=("rgb", "gray"))
    damaged("bmp", some(bmps, "4 bits, header 40, 8x4", "16 bits, header 40, 8x4", "lengths 0, 1, 8x4", "lengths 1, 0, 8x4", "masks f800 of 16 bits, header 124, 8x4"))
    # Pillow repeats a plain file's last number where the data ends with it: taken where it is allowed.
    damaged("ppm", some(ppms, "2x3 of 255", "2x3 of 1000", "P1 8x4", "P4 8x4"),
            allowed=lambda sentence: sentence.startswith("truncated PPM"))
    damaged("gif", some(gifs, "gif 8x4 bits=4", "(3, 2, 10, 5), transparent 5, palettes 4 0"))
    damaged("webp", some(webps, "8x4", "webp animated"), step=7, flipped=60)
    photos = photographs()
    if photos:
        agree("photographs in other kinds", list(reencoded(photos[::50])), modes=("rgb",))
    else:
        report(True, "photographs in other kinds # SKIP imagenet-sample-400.tar is not in FF_SHARED_DATA")
    finish()


main()
