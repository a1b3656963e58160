"""Bounded sizes, squares, crops of JPEGs that are decoded only in part, and reduced JPEGs against Pillow
and torchvision: equal bytes.

Prints TAP. Environment: BUILD; FF_SHARED_DATA (default ../shared/data next to the repository)."""
from oracle import Image, compare, photographs, tap

import odd_files


def main():
    sized = list(odd_files.odd_sizes(Image))
    for max_side, resize in ((40, None), (1, None), (300, None), (64, 30), (61, 60)):
        # Resize(max_size) refuses a short side of 0, which becomes 1 here.
        good = [(name, data) for name, data in sized
                if not resize or min(map(int, name.split("x"))) * max_side >= max(map(int, name.split("x")))]
        compare("odd sizes, sides up to %s, resize %s" % (max_side, resize), good, max_side=max_side, resize=resize,
                dtype="u8")
    for resize, crop, max_side in ((None, None, None), (32, None, None), (50, 31, None), (None, 7, None), (None, None, 33)):
        compare("odd sizes, padded to squares, resize %s, crop %s, sides up to %s" % (resize, crop, max_side), sized,
                square=True, resize=resize, crop=crop, max_side=max_side, dtype="u8")
    parts = list(odd_files.sized_jpegs(Image))
    for resize, crop in ((256, 100), (32, 20), ((20, 30), (9, 8)), (None, 5), (None, (40, 3))):
        compare("odd JPEGs, resize %s, crop %s" % (resize, crop), parts, resize=resize, crop=crop, dtype="u8")
    compare("odd JPEGs padded to squares", parts, square=True, resize=40, crop=10, dtype="u8")
    for resize in (1, 3, 10, 40):
        compare("odd JPEGs, reduced, resize %d" % resize, parts, resize=resize, fast=True, dtype="u8")

    photos = photographs()
    if not photos:
        tap.skip("photographs", "imagenet-sample-400.tar is not in FF_SHARED_DATA")
        return
    some = photos[::10]
    compare("photographs, resize 64, crop 56, reduced", some, resize=64, crop=56, fast=True, dtype="u8")
    compare("photographs, sides up to 300", some, max_side=300, dtype="u8")
    compare("photographs padded to squares, resize 100", some, square=True, resize=100, dtype="u8")
    for crop in (16, (200, 31), (9, 300)):
        compare("photographs, crop %s" % (crop,), photos[1::4], crop=crop, dtype="u8")


main()
tap.finish()
