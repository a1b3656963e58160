"""How much each phase does: on a GPU (FULL), and in a rehearsal without one (TINY)."""

FULL = {
    # first: small enough for a CPU's plain loops in seconds
    "first_nets": [("cifar-speed", ["--recipe", "cifar-speed", "--batch", "8", "--samples", "80"]),
                   ("resnet18", ["--net", "resnet18", "--batch", "8", "--samples", "80", "--side", "16"]),
                   ("resnet50", ["--net", "resnet50", "--batch", "8", "--samples", "80", "--side", "16"])],
    # probe
    "library": ["--net", "smallnet", "--batch", "64", "--samples", "640", "--warm-up", "3"],
    "same_bits": [("cifar-speed", ["--recipe", "cifar-speed", "--batch", "500", "--samples", "4000"]), ("resnet18", ["--net", "resnet18", "--batch", "128", "--samples", "2048"])],
    "same_steps": 30,
    # Small enough for a CPU's plain loops. ResNet-18 for 3 steps: in the 7th a ReLU's input is so near to 0 that oneDNN's and the plain loops' losses
    # are 1e-4 apart from there on, and in f16 in the 4th.
    "cpu_nets": [("smallnet", ["--net", "smallnet", "--batch", "64", "--samples", "640"], 20), ("resnet18", ["--net", "resnet18", "--batch", "8", "--samples", "80", "--side", "16"], 3)],
    "ranks": ["--model", "vgg11", "--stem", "cifar", "--batch", "64", "--precision", "f32"], "ranks_count": 640, "ranks_side": 32,
    # 1,000 steps, 11 buckets of gradients
    "many": ["--model", "resnet18", "--stem", "cifar", "--batch", "64", "--precision", "f16"], "many_epochs": "100",
    "tests": 99, "trials": 6,
    # data
    "pack": [], "made_count": 10000, "large_count": 1024, "large_side": 224,
    # tune: name, model, batch, seconds for choosing engines
    "tune": [("cifar-speed", ["--recipe", "cifar-speed"], 2000, 40), ("resnet18", ["--model", "resnet18", "--precision", "f16"], 512, 60),
             ("resnet50", ["--model", "resnet50", "--precision", "f16"], 256, 90)],
    "tune_epochs": 3, "gather": [],
    "ops": [["--recipe", "cifar-speed"], ["--net", "resnet18", "--batch", "512", "--side", "32", "--precision", "f16"],
            ["--net", "resnet50", "--batch", "256", "--side", "224", "--precision", "f16"]],
    "op_times": [],
    # cifar
    "recipe": "cifar-speed", "first": 10, "rounds": 50, "speed": [], "patience": 120,
    # steps
    "recipes": [["--recipe", "cifar-speed", "--batch", "2000"]], "recipe_steps": 25, "serve": [],
    "steps": [], "usual": ["--net", "vgg16_bn", "--workers", "14", "--epochs", "2", "--limit", "150"], "usual_seconds": 60, "usual_least": 30, "ops_seconds": 60,
}

TINY = {  # smallnet in place of cifar-speed: simulated Muon takes minutes
    "library": ["--net", "smallnet", "--batch", "4", "--samples", "32", "--side", "8", "--warm-up", "1"],
    "same_bits": [("smallnet", ["--net", "smallnet", "--batch", "4", "--samples", "32", "--side", "8"])],
    "first_nets": [("smallnet", ["--net", "smallnet", "--batch", "8", "--samples", "64", "--side", "16"])],
    "same_steps": 3, "cpu_nets": [("smallnet", ["--net", "smallnet", "--batch", "8", "--samples", "64", "--side", "16"], 3)],
    "ranks": ["--model", "smallnet", "--batch", "8", "--sync-bn"], "ranks_count": 16, "ranks_side": 8, "many": ["--model", "smallnet", "--batch", "8"], "many_epochs": "2",
    "tests": 99, "trials": 1,
    "pack": [], "made_count": 32, "large_count": 8, "large_side": 40,
    "tune": [("cifar-speed", ["--recipe", "smallnet"], 8, 2), ("resnet50", ["--model", "smallnet", "--precision", "f16"], 4, 2)],
    "tune_epochs": 2, "gather": ["--gib", "0.004", "--rows", "512", "--rounds", "1", "--small", "64"],
    "ops": [["--recipe", "smallnet", "--batch", "4"], ["--net", "smallnet", "--batch", "4", "--side", "40"]],
    "op_times": [],
    "recipe": "smallnet", "first": 2, "rounds": 2, "speed": ["--epochs", "1", "--batch", "8"], "patience": 20,
    "recipes": [["--recipe", "smallnet", "--batch", "4"]], "recipe_steps": 1, "serve": ["--samples", "8", "--warm-up", "1"],
    "steps": ["--case", "resnet18:2:8", "--variant", "f32:autocast:default", "--variant", "f32:pure:default", "--rounds", "2", "--steps", "1",
              "--peer-warm-up", "1", "--peer-device", "cpu", "--least", "1"],
    "usual": ["--net", "vgg16_bn", "--workers", "0", "--epochs", "1", "--limit", "1", "--batch", "4", "--device", "cpu"], "usual_seconds": 60, "usual_least": 1, "ops_seconds": 60,
}
