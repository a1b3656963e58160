"""A stand-in for the package: the example scripts then read class folders of images through PyTorch's DataLoader and torchvision's
transforms. Only what the scripts use. Environment: FF_MEAN, FF_STD, three numbers each."""
import os

import torch
import torchvision
from torch import distributed
from torchvision import transforms

LAST = [transforms.ToTensor(), transforms.Normalize(*([float(word) for word in os.environ[name].split()] for name in ("FF_MEAN", "FF_STD")))]
AUGMENT = {"crop=4": transforms.RandomCrop(32, 4), "flip": transforms.RandomHorizontalFlip()}


class Dataset(torchvision.datasets.ImageFolder):
    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


class Loader:
    def __init__(self, data, batch, augment=None, shuffle=None, drop_last=False, last_batch=None, device="cpu", seed=0, **unused):
        del unused
        self.path, self.batch, self.drop_last, self.device, self.padded = getattr(data, "root", data), batch, drop_last, device, last_batch == "pad"
        steps = [AUGMENT[name] for name in augment.split(",")] if augment else []
        self.set = torchvision.datasets.ImageFolder(self.path, transforms.Compose(steps + LAST))
        self.shuffle = bool(augment) if shuffle is None else shuffle
        self.seed, self.epoch, self.sampler, self.batch_sampler = seed, 0, self, None

    def world(self):
        return distributed.get_world_size() if distributed.is_initialized() else 1

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return len(self.set) // self.batch if self.drop_last else -(-len(self.set) // self.batch)

    def __iter__(self):
        world = self.world()
        if len(self.set) % world:
            raise ValueError("the ranks' shares would differ")
        rank = distributed.get_rank() if world > 1 else 0
        sampler = torch.utils.data.DistributedSampler(self.set, world, rank, self.shuffle, self.seed)
        sampler.set_epoch(self.epoch)
        self.epoch += 1
        for images, labels in torch.utils.data.DataLoader(self.set, self.batch // world, sampler=sampler, drop_last=self.drop_last, num_workers=1):
            images, labels = images.to(self.device, memory_format=torch.channels_last), labels.to(self.device)
            yield (images, labels, torch.ones(len(labels), device=self.device)) if self.padded else (images, labels)

    def stats(self):
        return {"wait_seconds": 0}

    def state_dict(self):
        return {}
