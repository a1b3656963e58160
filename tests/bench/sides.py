"""The loaders that python_loader.py compares, each in a separate process: sides.py JSON, an object with

  side     ffload | torchvision | files | ffcv | streaming
  data     ffload: a packed split; torchvision: a folder of images.npy [N,H,W,3] u8 and labels.npy; files: a folder of class folders; ffcv,
           streaming: its own set
  augment  crop: random crops after a border of 4, and flips; views: two of these of each sample; rrc: random resized crops of 224, and flips;
           none: u8 images as stored
  dtype    f32: normalized; u8: as stored
  batch, workers
  order    ffload: as its Loader's, default random; ffcv: RANDOM (default), QUASI_RANDOM or SEQUENTIAL
  cached   ffcv: whether its set is mapped (os_cache), the default, or read by its own threads, for sets larger than memory
  classes  a file of [C,H,W,3] u8: the image of each label, with which the first batch is compared

and, to write the set of a peer, write: the folder of arrays. For each line of standard input, a number of seconds, it prints
samples a second of batches in random order, of endless epochs, after the batches that may have been made before."""
import json
import sys
import time

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.247, 0.2435, 0.2616)


def ffload_batches(options):
    import torch  # noqa: F401  batches are its tensors
    import ffload
    augment = {"crop": "crop=4,flip", "views": "crop=4,flip", "rrc": "rrc=224,flip", "none": None}[options["augment"]]
    return ffload.Loader(options["data"], options["batch"], augment=augment, dtype=options["dtype"], workers=options["workers"], epochs=0, last_batch="drop",
                         layout=options.get("layout"), order=options.get("order", "random"), views=2 if options["augment"] == "views" else None)


class Arrays:
    """Images and labels of a folder, each passed through a transform of torchvision."""

    def __init__(self, folder, transform=None):
        import numpy
        self.images = numpy.load(folder + "/images.npy", mmap_mode="r")
        self.labels = numpy.load(folder + "/labels.npy")
        self.transform = transform

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        image, label = self.images[index], int(self.labels[index])
        return (self.transform(image) if self.transform else image), label


def usual_transforms(augment, dtype="f32"):
    """The usual script: crops of 32 x 32 on Pillow's images, which torchvision's CIFAR10 returns, and resized crops on u8 tensors,
    which is faster, by the transforms v2 where torchvision has those of tensors of u8."""
    import torch
    from PIL import Image
    from torchvision import transforms
    torch.set_num_threads(1)
    if augment == "none":
        return lambda image: torch.from_numpy(image.copy())
    if augment == "views":
        one = usual_transforms("crop")
        return lambda image: (one(image), one(image))
    normalize = transforms.Normalize(MEAN, STD)
    if augment == "rrc":
        try:
            from torchvision.transforms import v2 as kind
            floats = [kind.ToDtype(torch.float32, scale=True), kind.Normalize(MEAN, STD)]
        except ImportError:
            kind, floats = transforms, [transforms.ConvertImageDtype(torch.float32), normalize]
        return transforms.Compose([
            lambda image: torch.from_numpy(image.copy()).permute(2, 0, 1), kind.RandomResizedCrop(224, antialias=True),
            kind.RandomHorizontalFlip(), *(floats if dtype == "f32" else [])])
    return transforms.Compose([
        Image.fromarray, lambda image: transforms.RandomCrop(image.size[0], padding=4)(image), transforms.RandomHorizontalFlip(),
        transforms.ToTensor(), normalize])


def endless(loader):
    while True:
        yield from loader


def data_loader(data, options, shuffle):
    import torch
    workers = options["workers"]
    return endless(torch.utils.data.DataLoader(data, options["batch"], shuffle=shuffle, drop_last=True, num_workers=workers,
                                               persistent_workers=workers > 0))


def files_batches(options):
    """The usual script of photographs: files in folders, decoded by Pillow."""
    import torch
    from torchvision import datasets, transforms
    torch.set_num_threads(1)
    usual = transforms.PILToTensor() if options["augment"] == "none" else transforms.Compose([
        transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor(), transforms.Normalize(MEAN, STD)])
    return data_loader(datasets.ImageFolder(options["data"], usual), options, True)


def channels_first(batches, options):
    """[N,H,W,3] as [N,3,H,W] without a copy, for images as stored."""
    return ((batch[0].permute(0, 3, 1, 2), *batch[1:]) for batch in batches) if options["augment"] == "none" else batches


def torchvision_batches(options):
    return channels_first(data_loader(Arrays(options["data"], usual_transforms(options["augment"], options["dtype"])), options, True), options)


def streaming_batches(options):
    from streaming import StreamingDataset
    transform = usual_transforms(options["augment"])

    class Images(StreamingDataset):
        def __getitem__(self, index):
            sample = super().__getitem__(index)
            return transform(sample["image"]), sample["label"]
    return channels_first(data_loader(Images(local=options["data"], shuffle=True, batch_size=options["batch"]), options, False), options)


def streaming_write(folder, out):
    from streaming import MDSWriter
    data = Arrays(folder)
    shape = ",".join(map(str, data.images.shape[1:]))
    with MDSWriter(out=out, columns={"image": "ndarray:uint8:" + shape, "label": "int"}) as writer:
        for image, label in (data[i] for i in range(len(data))):
            writer.write({"image": image, "label": label})


def ffcv_batches(options):
    import numpy
    from ffcv.fields.decoders import IntDecoder, RandomResizedCropRGBImageDecoder, SimpleRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, RandomTranslate, Squeeze, ToTensor, ToTorchImage
    if options["augment"] == "rrc":
        image = [RandomResizedCropRGBImageDecoder((224, 224)), RandomHorizontalFlip()]
    else:
        image = [SimpleRGBImageDecoder(), *([RandomHorizontalFlip(), RandomTranslate(padding=4)] if options["augment"] == "crop" else [])]
    if options["dtype"] == "f32":
        image.append(NormalizeImage(255 * numpy.array(MEAN), 255 * numpy.array(STD), numpy.float32))
    pipelines = {"image": [*image, ToTensor(), ToTorchImage()], "label": [IntDecoder(), ToTensor(), Squeeze()]}
    return endless(Loader(options["data"], options["batch"], num_workers=options["workers"], drop_last=True, pipelines=pipelines,
                          order=OrderOption[options.get("order", "RANDOM")], os_cache=options.get("cached", True)))


def ffcv_write(folder, out):
    from ffcv.fields import IntField, RGBImageField
    from ffcv.writer import DatasetWriter
    DatasetWriter(out, {"image": RGBImageField(write_mode="raw"), "label": IntField()}, num_workers=-1).from_indexed_dataset(Arrays(folder))


def compare(batch, classes):
    import numpy
    images, labels = (numpy.asarray(part) for part in batch[:2])
    if not (images.transpose(0, 2, 3, 1) == numpy.load(classes, mmap_mode="r")[labels]).all():
        sys.exit("the images are not those of their labels")


def main():
    options = json.loads(sys.argv[1])
    if "write" in options:
        globals()[options["side"] + "_write"](options["write"], options["data"])
        return
    batches = iter(globals()[options["side"] + "_batches"](options))
    if "classes" in options:
        compare(next(batches), options["classes"])
    for line in sys.stdin:
        for _ in range(options["ahead"]):
            next(batches)
        seconds, samples, began = float(line), 0, time.perf_counter()
        while True:
            samples += len(next(batches)[1])  # labels: images may be views
            took = time.perf_counter() - began
            if took >= seconds:
                break
        print(samples / took, flush=True)


if __name__ == "__main__":
    sys.path.pop(0) # modules of this folder have the same names as other modules
    main()
