"""Decode, resize, crop, ToTensor and Normalize against Pillow and torchvision: equal bytes.

Prints TAP. Environment: BUILD; FF_SHARED_DATA (default ../shared/data next to the repository)."""
from oracle import VERSION, Image, PIL, agree, compare, damage, flips, photographs, run, torch, torchvision, tap

import odd_files


def main():
    print("# torch %s, torchvision %s, Pillow %s" % (torch.__version__, torchvision.__version__, PIL.__version__))
    odd = list(odd_files.pngs()) + list(odd_files.jpegs(Image))
    for mode in ("rgb", "gray"):
        compare("odd files, mode %s, u8" % mode, odd, mode=mode, dtype="u8", layout="hwc")
    for dtype in ("f32", "f16", "bf16"):
        for layout in ("chw", "hwc"):
            compare("odd files, %s %s normalized" % (dtype, layout), odd[::3], dtype=dtype, layout=layout)
    compare("odd files, gray f32", odd[1::3], mode="gray")
    compare("odd files, ToTensor only", odd[2::3], normalize=False)
    files = dict(odd_files.turned_files(Image))
    # Before Pillow 13 the last of two orientations of a record counts; of these, the first is 6.
    twice = [name for name in files if "EXIF with twice" in name]
    first, want = (run([files[name] for name in names], mode="rgb", dtype="u8", layout="hwc", exif=True)
                   for names in (twice, ["jpeg, EXIF with orientation 6"] * len(twice)))
    tap.ok(len(twice) == 2 and first == want and first[0][1] == (5, 3, 3), "the first of two orientations counts", [str(first)])
    turned = [(name, data) for name, data in files.items() if VERSION >= (13, 0) or name not in twice]
    compare("EXIF orientations, u8", turned, dtype="u8", exif=True)
    compare("EXIF orientations, gray", turned, mode="gray", dtype="u8", exif=True)
    agree("EXIF orientations of PNG", list(odd_files.turned_pngs(Image)), exif=True, modes=("rgb", "gray"))
    compare("EXIF orientations, ignored", turned, dtype="u8")
    compare("EXIF orientations, resize and crop, f32", turned[::5], resize=20, crop=17, exif=True)

    sized = list(odd_files.odd_sizes(Image))
    for interpolation in ("bilinear", "bicubic"):
        for resize, crop in ((256, 224), (32, 32), (17, None), ((20, 300), None), ((64, 64), (70, 51)), (7, 5)):
            compare("odd sizes, %s, resize %s, crop %s" % (interpolation, resize, crop), sized, resize=resize,
                    crop=crop, interpolation=interpolation, dtype="u8")
        compare("odd sizes gray, %s" % interpolation, sized, mode="gray", resize=48, crop=(48, 40), dtype="u8",
                interpolation=interpolation)
    for crop in (1, 50, 51, (33, 64), (300, 3)):
        compare("odd sizes, crop %s without resize" % (crop,), sized, crop=crop, dtype="u8")

    strict = lambda sentence: sentence.startswith(("broken PNG", "truncated PNG"))
    for color in odd_files.DEPTHS:
        data = odd_files.png(9, 7, 8, color, interlaced=color % 4 == 0, idat_bytes=60)
        damage("png of colour type %d cut at every byte" % color, [data[:n] for n in range(len(data))], strict)
        damage("png of colour type %d with flipped bits" % color, list(flips(data, 8, 200, color)), strict)
        # Pillow also fails over a chunk after the pixels whose header is cut off or wrong.
        damage("png of colour type %d cut, allowed" % color, [data[:n] for n in range(len(data))], truncated=True,
               lenient=20)
        damage("png of colour type %d with flipped bits, allowed" % color, list(flips(data, 8, 300, color)),
               strict, 5, truncated=True, lenient=20)

    photos = photographs()
    if not photos:
        tap.skip("photographs", "imagenet-sample-400.tar is not in FF_SHARED_DATA")
    else:
        compare("photographs, resize 256, crop 224, f32", photos, resize=256, crop=224)
        some = photos[::10]
        for dtype in ("f16", "bf16"):
            compare("photographs, resize 256, crop 224, %s" % dtype, some, resize=256, crop=224, dtype=dtype)
        compare("photographs, bicubic 232, crop 224, f16 hwc", some, resize=232, crop=224, dtype="f16", layout="hwc",
                interpolation="bicubic")
        compare("photographs, gray, resize 64x64", some, mode="gray", resize=(64, 64), dtype="u8")
        compare("photographs, as they are, u8", some, dtype="u8", layout="hwc")
    tap.finish()


main()
