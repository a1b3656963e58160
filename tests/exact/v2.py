"""torchvision.transforms.v2's functions of u8 images: its own where it is installed (from 0.16 on, as Debian 13's), else
the few lines of 0.29's functional/_color.py that older versions compute with another rounding."""
import math

import torch
import torchvision
from torchvision.transforms import InterpolationMode

try:
    from torchvision.transforms.v2 import AugMix, functional

    NAME = "torchvision's transforms.v2"
except ImportError:
    from torchvision.transforms import AugMix, functional as v1  # noqa: F401

    NAME = "torchvision's functional and v2's lines"

    class functional:  # noqa: N801
        posterize, solarize, invert, equalize = v1.posterize, v1.solarize, v1.invert, v1.equalize
        adjust_brightness, affine, rotate = v1.adjust_brightness, v1.affine, v1.rotate

        @staticmethod
        def grey(image):
            r, g, b = image.unbind(dim=-3)
            return r.mul(0.2989).add_(g, alpha=0.587).add_(b, alpha=0.114).unsqueeze(dim=-3).floor_()

        @staticmethod
        def blend(image, other, ratio):
            return image.mul(ratio).add_(other, alpha=1.0 - ratio).clamp_(0, 255).to(image.dtype)

        @staticmethod
        def rgb_to_grayscale(image, num_output_channels=1):
            return image if image.shape[-3] == 1 else functional.grey(image).to(image.dtype).expand(image.shape)

        @staticmethod
        def adjust_saturation(image, ratio):
            return image if image.shape[-3] == 1 else functional.blend(image, functional.grey(image), ratio)

        @staticmethod
        def adjust_contrast(image, ratio):
            grey = functional.grey(image) if image.shape[-3] == 3 else image.to(torch.float32)
            return functional.blend(image, torch.mean(grey, dim=(-3, -2, -1), keepdim=True), ratio)

        @staticmethod
        def adjust_sharpness(image, ratio):
            channels, height, width = image.shape
            if height <= 2 or width <= 2:
                return image
            kernel = torch.full((3, 3), 1.0 / 13.0)
            kernel[1, 1] = 5.0 / 13.0
            output = image.to(torch.float32)
            blurred = torch.nn.functional.conv2d(output[None], kernel.expand(channels, 1, 3, 3), groups=channels)[0].round_()
            view = output[..., 1:-1, 1:-1]
            view.add_(blurred.sub_(view), alpha=1.0 - ratio)
            return output.clamp_(0, 255).to(image.dtype)

        @staticmethod
        def gaussian_blur(image, size, sigma):
            limit = (size - 1) / (2.0 * math.sqrt(2.0))
            line = torch.softmax(torch.linspace(-limit, limit, steps=size).div(sigma).pow(2).neg(), dim=0)
            kernel = (line.unsqueeze(-1) * line).expand(image.shape[0], 1, size, size)
            padded = torch.nn.functional.pad(image.to(torch.float32)[None], [size // 2] * 4, mode="reflect")
            return torch.nn.functional.conv2d(padded, kernel, groups=image.shape[0])[0].round_().to(image.dtype)

        @staticmethod
        def autocontrast(image):
            values = image.to(torch.float32)
            low, high = values.amin(dim=(-2, -1), keepdim=True), values.amax(dim=(-2, -1), keepdim=True)
            same = high == low
            scale = high.sub_(low).mul_(1.0 / 255)
            low[same], scale[same] = 0.0, 1.0
            return values.sub_(low).div_(scale).clamp_(0, 255).to(image.dtype)


def blur(image, size, sigma):
    """As the image's channel among three: torch sums small kernels over one channel without fused multiply-adds."""
    three = image.expand(3, *image.shape[1:]).contiguous()
    return functional.gaussian_blur(three, size, sigma)[:image.shape[0]]


# Of each name of tests/programs/exact_change.c: a function of an image and a number.
CHANGE = {
    "posterize": lambda image, number: functional.posterize(image, int(number)),
    "solarize": lambda image, number: functional.solarize(image, number),
    "invert": lambda image, number: functional.invert(image),
    "brightness": lambda image, number: functional.adjust_brightness(image, number),
    "equalize": lambda image, number: functional.equalize(image),
    "autocontrast": lambda image, number: functional.autocontrast(image),
    "contrast": lambda image, number: functional.adjust_contrast(image, number),
    "color": lambda image, number: functional.adjust_saturation(image, number),
    "grayscale": lambda image, number: functional.rgb_to_grayscale(image, num_output_channels=image.shape[-3]),
    "sharpness": lambda image, number: functional.adjust_sharpness(image, number),
    "blur": lambda image, number: blur(image, *number),
}


def degrees(tangent):
    return math.degrees(math.atan(tangent))


# Likewise, with an interpolation; affine's numbers are five.
AFFINE = {
    "rotate": lambda image, number, how: functional.rotate(image, number, interpolation=how),
    "shear_x": lambda image, number, how: functional.affine(image, 0.0, [0, 0], 1.0, [degrees(number), 0.0], interpolation=how,
                                                            center=[0, 0]),
    "shear_y": lambda image, number, how: functional.affine(image, 0.0, [0, 0], 1.0, [0.0, degrees(number)], interpolation=how,
                                                            center=[0, 0]),
    "affine": lambda image, number, how: functional.affine(image, number[0], [number[1], number[2]], number[3], [number[4], 0.0],
                                                           interpolation=how),
}
for word, made in AFFINE.items():
    CHANGE[word] = lambda image, number, made=made: made(image, number, InterpolationMode.NEAREST)
    CHANGE[word + "_bilinear"] = lambda image, number, made=made: made(image, number, InterpolationMode.BILINEAR)

VERSIONS = "torch %s, torchvision %s: %s" % (torch.__version__, torchvision.__version__, NAME)
