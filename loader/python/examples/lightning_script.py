"""Lightning: the trainer takes the loader as any iterable of batches.

    python lightning_script.py --data packed --epochs 10

On several GPUs Lightning starts the processes and each loader finds its rank, so Lightning must not insert its own sampler
(use_distributed_sampler=False). The loaders are made in train_dataloader() and val_dataloader(), when the ranks are known.
"""
import argparse

import lightning
import torch
import torchvision
from torch import nn

import ffload


class Data(lightning.LightningDataModule):
    def __init__(self, path, batch, augment):
        super().__init__()
        self.path, self.batch, self.augment = path, batch, augment

    def device(self):
        return str(self.trainer.strategy.root_device)

    def train_dataloader(self):
        return ffload.Loader(self.path + "/train", self.batch, augment=self.augment, drop_last=True, device=self.device())

    def val_dataloader(self):
        return ffload.Loader(self.path + "/val", self.batch, shuffle=False, device=self.device())


class Classifier(lightning.LightningModule):
    def __init__(self, model, classes, lr):
        super().__init__()
        self.model, self.lr = torchvision.models.get_model(model, num_classes=classes), lr

    def training_step(self, batch, _):
        images, labels = batch
        loss = nn.functional.cross_entropy(self.model(images), labels)
        self.log("loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, _):
        images, labels = batch
        right = (self.model(images).argmax(1) == labels).float().mean()
        self.log("accuracy", right, prog_bar=True, batch_size=len(labels), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), self.lr, momentum=0.9, nesterov=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="packed", help="a packed set with train/ and val/")
    parser.add_argument("--augment", default="crop=4,flip")
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.05)
    args = parser.parse_args()
    with ffload.Dataset(args.data + "/train") as dataset:
        classes = len(dataset.classes)
    trainer = lightning.Trainer(max_epochs=args.epochs, use_distributed_sampler=False, logger=False, enable_checkpointing=False)
    trainer.fit(Classifier(args.model, classes, args.lr), Data(args.data, args.batch, args.augment))
    print(f"accuracy {trainer.callback_metrics['accuracy'].item():.4f}")


if __name__ == "__main__":
    main()
